// Drawing on canvases. The values come from the server; here they only get colours.
import { unpack } from "./wire.js";

const CIVIDIS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"].map(rgb);
export const COLORS = ["#d55e00", "#0072b2", "#cc79a7", "#e69f00", "#009e73", "#56b4e9", "#8c510a", "#7a7a7a"];
const DIRECTIONS = [[0, -1], [0, 1], [-1, 0], [1, 0]];

function rgb(hex) { return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)); }

function shade(share) {
  const at = Math.max(0, Math.min(1, share)) * (CIVIDIS.length - 1), low = Math.min(Math.floor(at), CIVIDIS.length - 2);
  return CIVIDIS[low].map((c, i) => c + (CIVIDIS[low + 1][i] - c) * (at - low));
}

export function range(values) {
  let low = Infinity, high = -Infinity;
  for (const v of values) if (Number.isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); }
  return low <= high ? [low, high] : [0, 0];
}

export function heatImage(values, width, height) {
  const image = new OffscreenCanvas(width, height), context = image.getContext("2d"), data = context.createImageData(width, height);
  const [low, high] = range(values);
  values.forEach((v, i) => {
    const known = Number.isFinite(v);
    data.data.set(known ? [...shade(high > low ? (v - low) / (high - low) : 0), 255] : [0, 0, 0, 0], 4 * i);
  });
  context.putImageData(data, 0, 0);
  return image;
}

export function fit(canvas, map) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2), width = canvas.clientWidth || 600;
  const size = [Math.round(width * ratio), Math.round((width * map.height * ratio) / map.width)];
  canvas.style.aspectRatio = `${map.width} / ${map.height}`;
  if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
  const context = canvas.getContext("2d");
  context.setTransform(size[0] / map.width, 0, 0, size[1] / map.height, 0, 0);
  return context;
}

export function drawMap(c, map, costs, image, dark) {
  c.clearRect(0, 0, map.width, map.height);
  c.fillStyle = dark ? "#26313c" : "#eef1f4";
  c.fillRect(0, 0, map.width, map.height);
  if (image) { c.imageSmoothingEnabled = false; c.drawImage(image, 0, 0, map.width, map.height); }
  costs.forEach((cost, j) => drawCost(c, map, cost, j));
  c.fillStyle = dark ? "#000" : "#3a4148";
  map.walls.forEach((wall, i) => wall && c.fillRect(i % map.width, Math.floor(i / map.width), 1.01, 1.01));
  for (const [x, y] of map.starts) mark(c, "S", x, y, "#fff", "#16202b");
  mark(c, "G", ...map.goal, "#16202b", "#ffffff");
}

function mark(c, letter, x, y, fill, ink) {
  c.fillStyle = fill; c.strokeStyle = ink; c.lineWidth = 0.08;
  c.beginPath(); c.arc(x + 0.5, y + 0.5, 0.42, 0, 7); c.fill(); c.stroke();
  c.fillStyle = ink; c.font = "bold 0.6px system-ui"; c.textAlign = "center"; c.textBaseline = "middle";
  c.fillText(letter, x + 0.5, y + 0.54);
}

// Stripes as well as colour, so that a cost can be told from the heat map without colour; each cost has its own slope.
function drawCost(c, map, cost, j) {
  const n = map.raster, side = 1 / n, top = range(cost.values)[1];
  c.save();
  c.strokeStyle = COLORS[j]; c.fillStyle = COLORS[j];
  cost.values.forEach((v, i) => {
    if (!v) return;
    const x = (i % (map.width * n)) * side, y = Math.floor(i / (map.width * n)) * side;
    c.globalAlpha = 0.35 + 0.45 * (v / top);
    c.fillRect(x, y, side, side);
    c.globalAlpha = 1; c.lineWidth = 0.07; c.strokeStyle = j % 2 ? "#ffffff" : "#000000";
    c.globalAlpha = 0.55;
    c.beginPath();
    if (j % 2) { c.moveTo(x, y); c.lineTo(x + side, y + side); } else { c.moveTo(x, y + side); c.lineTo(x + side, y); }
    c.stroke();
  });
  c.restore();
}

export function drawArrows(c, map, actions) {
  c.strokeStyle = "#fff"; c.lineCap = "round";
  for (const [width, colour] of [[0.2, "#000"], [0.1, "#fff"]]) {
    c.lineWidth = width; c.strokeStyle = colour;
    actions.forEach((action, i) => {
      if (action < 0) return;
      const [dx, dy] = DIRECTIONS[action], x = (i % map.width) + 0.5, y = Math.floor(i / map.width) + 0.5;
      c.beginPath();
      c.moveTo(x - 0.25 * dx, y - 0.25 * dy); c.lineTo(x + 0.25 * dx, y + 0.25 * dy);
      c.lineTo(x + 0.05 * dx - 0.17 * dy, y + 0.05 * dy - 0.17 * dx); c.moveTo(x + 0.25 * dx, y + 0.25 * dy);
      c.lineTo(x + 0.05 * dx + 0.17 * dy, y + 0.05 * dy + 0.17 * dx);
      c.stroke();
    });
  }
}

export const paths = (episodes) => episodes.paths.map((p) => ({ ...p, points: unpack(p.points) }));

// Safe walks are solid, others dashed; `time` in steps moves a dot along each.
export function drawWalks(c, walks, time) {
  c.lineJoin = "round";
  walks.forEach((walk, n) => {
    for (const [width, colour] of [[0.16, "#fff"], [0.09, walk.safe ? "#0b3d91" : "#c3002f"]]) {
      c.lineWidth = width; c.strokeStyle = colour; c.globalAlpha = 0.75;
      c.setLineDash(walk.safe ? [] : [0.35, 0.2]);
      c.beginPath();
      for (let i = 0; i < walk.points.length; i += 2) c.lineTo(walk.points[i], walk.points[i + 1]);
      c.stroke();
    }
    c.setLineDash([]); c.globalAlpha = 1;
    if (time === null) return;
    const at = 2 * Math.min(Math.floor((time + 5 * n) % (walk.points.length / 2 + 12)), walk.points.length / 2 - 1);
    c.fillStyle = walk.safe ? "#0b3d91" : "#c3002f"; c.strokeStyle = "#fff"; c.lineWidth = 0.06;
    c.beginPath(); c.arc(walk.points[at], walk.points[at + 1], 0.24, 0, 7); c.fill(); c.stroke();
  });
}

export function drawCursor(c, cell, size, raster) {
  const side = (2 * size + 1) / raster;
  c.lineWidth = 0.08; c.strokeStyle = "#fff"; c.strokeRect((cell[0] - size) / raster, (cell[1] - size) / raster, side, side);
  c.lineWidth = 0.04; c.strokeStyle = "#000"; c.strokeRect((cell[0] - size) / raster, (cell[1] - size) / raster, side, side);
}

export function drawPath(c, path, raster) {
  if (!path.length) return;
  c.lineWidth = 0.12; c.strokeStyle = "#000"; c.setLineDash([0.1, 0.25]); c.beginPath();
  for (const [x, y] of path) c.lineTo((x + 0.5) / raster, (y + 0.5) / raster);
  c.stroke(); c.setLineDash([]);
}
