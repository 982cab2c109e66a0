// Drawing the map. The values come from the server; here they only get colours.
import { unpack } from "./wire.js";

const CIVIDIS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"].map(rgb);
export const COLORS = ["#e8590c", "#0072b2", "#cc79a7", "#e69f00", "#009e73", "#56b4e9", "#8c510a", "#7a7a7a"];
export const SAFE = "#0b57d0", UNSAFE = "#d0004b", ORACLE = "#6a1b9a";
const DIRECTIONS = [[0, -1], [0, 1], [-1, 0], [1, 0]];

const WALL = [47, 58, 70];

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
    data.data.set(known ? [...shade(high > low ? (v - low) / (high - low) : 0), 255] : [...WALL, 255], 4 * i); // not transparent: smoothing would draw a bright edge
  });
  context.putImageData(data, 0, 0);
  return image;
}

export function drawScale(canvas) {
  const c = canvas.getContext("2d");
  for (let x = 0; x < canvas.width; x++) { c.fillStyle = `rgb(${shade(x / (canvas.width - 1)).join(",")})`; c.fillRect(x, 0, 1, canvas.height); }
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
  c.fillStyle = dark ? "#1d2833" : "#f4f6f9";
  c.fillRect(0, 0, map.width, map.height);
  if (image) { c.imageSmoothingEnabled = true; c.imageSmoothingQuality = "high"; c.drawImage(image, 0, 0, map.width, map.height); }
  else drawGrid(c, map, dark);
  costs.forEach((cost, j) => drawCost(c, map, cost, j));
  c.fillStyle = dark ? "#04070b" : "#2f3a46";
  map.walls.forEach((wall, i) => wall && c.fillRect((i % map.width) - 0.01, Math.floor(i / map.width) - 0.01, 1.02, 1.02));
}

export function drawMarks(c, map) {
  for (const [x, y] of map.starts) mark(c, "S", x, y, "#fff", "#14202e");
  mark(c, "G", ...map.goal, "#14202e", "#fff");
}

function drawGrid(c, map, dark) {
  c.strokeStyle = dark ? "#ffffff12" : "#14202e12"; c.lineWidth = 0.03; c.beginPath();
  for (let x = 1; x < map.width; x++) { c.moveTo(x, 0); c.lineTo(x, map.height); }
  for (let y = 1; y < map.height; y++) { c.moveTo(0, y); c.lineTo(map.width, y); }
  c.stroke();
}

function mark(c, letter, x, y, fill, ink) {
  c.fillStyle = fill; c.strokeStyle = ink; c.lineWidth = 0.09;
  c.beginPath(); c.arc(x + 0.5, y + 0.5, 0.44, 0, 7); c.fill(); c.stroke();
  c.fillStyle = ink; c.font = "bold 0.58px system-ui, sans-serif"; c.textAlign = "center"; c.textBaseline = "middle";
  c.fillText(letter, x + 0.5, y + 0.54);
}

// Stripes as well as colour, so that costs can be told apart without colours: each has its own slope and distance.
const patterns = {};
function stripes(c, j) {
  if (!patterns[j]) {
    const side = 8 + 4 * Math.floor(j / 2), tile = new OffscreenCanvas(side, side), t = tile.getContext("2d");
    t.strokeStyle = "#000000a0"; t.lineWidth = 1.6; t.beginPath();
    for (const shift of [-side, 0, side]) { if (j % 2) { t.moveTo(shift, 0); t.lineTo(shift + side, side); } else { t.moveTo(shift, side); t.lineTo(shift + side, 0); } }
    t.stroke();
    patterns[j] = c.createPattern(tile, "repeat");
  }
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  patterns[j].setTransform(c.getTransform().inverse().scale(ratio));
  return patterns[j];
}

export function drawCost(c, map, cost, j) {
  const n = map.raster, side = 1 / n, wide = map.width * n, values = cost.values, top = range(values)[1];
  if (!top) return;
  const edge = new Path2D(), area = new Path2D();
  c.save();
  c.fillStyle = COLORS[j];
  values.forEach((v, i) => {
    if (!v) return;
    const column = i % wide, x = column * side, y = Math.floor(i / wide) * side;
    c.globalAlpha = 0.45 + 0.4 * (v / top);
    c.fillRect(x, y, side * 1.01, side * 1.01);
    area.rect(x, y, side, side);
    if (column === 0 || !values[i - 1]) { edge.moveTo(x, y); edge.lineTo(x, y + side); }
    if (column === wide - 1 || !values[i + 1]) { edge.moveTo(x + side, y); edge.lineTo(x + side, y + side); }
    if (i < wide || !values[i - wide]) { edge.moveTo(x, y); edge.lineTo(x + side, y); }
    if (i + wide >= values.length || !values[i + wide]) { edge.moveTo(x, y + side); edge.lineTo(x + side, y + side); }
  });
  c.globalAlpha = 0.5; c.fillStyle = stripes(c, j); c.fill(area);
  c.globalAlpha = 1; c.strokeStyle = COLORS[j]; c.lineWidth = 0.1; c.lineCap = "round"; c.stroke(edge);
  c.restore();
}

export function drawArrows(c, map, actions) {
  c.lineCap = "round";
  for (const [width, colour] of [[0.17, "#000000b0"], [0.08, "#fff"]]) {
    c.lineWidth = width; c.strokeStyle = colour; c.beginPath();
    actions.forEach((action, i) => {
      if (action < 0) return;
      const [dx, dy] = DIRECTIONS[action], x = (i % map.width) + 0.5, y = Math.floor(i / map.width) + 0.5;
      c.moveTo(x - 0.25 * dx, y - 0.25 * dy); c.lineTo(x + 0.25 * dx, y + 0.25 * dy);
      c.lineTo(x + 0.06 * dx - 0.17 * dy, y + 0.06 * dy - 0.17 * dx); c.moveTo(x + 0.25 * dx, y + 0.25 * dy);
      c.lineTo(x + 0.06 * dx + 0.17 * dy, y + 0.06 * dy + 0.17 * dx);
    });
    c.stroke();
  }
}

export const paths = (episodes) => episodes.paths.map((p) => ({ ...p, points: unpack(p.points) }));

function line(c, points) {
  c.beginPath();
  for (let i = 0; i < points.length; i += 2) c.lineTo(points[i], points[i + 1]);
  c.stroke();
}

// Safe walks are solid, others dashed; `time` in steps moves a dot along each.
export function drawWalks(c, walks, time) {
  c.lineJoin = c.lineCap = "round";
  for (const cased of [true, false])
    for (const walk of walks) {
      c.lineWidth = cased ? 0.2 : 0.11; c.strokeStyle = cased ? "#fff" : walk.safe ? SAFE : UNSAFE; c.globalAlpha = cased ? 0.5 : 0.85;
      c.setLineDash(walk.safe || cased ? [] : [0.3, 0.25]);
      line(c, walk.points);
    }
  c.setLineDash([]); c.globalAlpha = 1;
  if (time === null) return;
  walks.forEach((walk, n) => {
    const at = 2 * Math.min(Math.floor((time + 5 * n) % (walk.points.length / 2 + 12)), walk.points.length / 2 - 1);
    c.fillStyle = walk.safe ? SAFE : UNSAFE; c.strokeStyle = "#fff"; c.lineWidth = 0.08;
    c.beginPath(); c.arc(walk.points[at], walk.points[at + 1], 0.27, 0, 7); c.fill(); c.stroke();
  });
}

export function drawOracle(c, ways) {
  c.lineCap = "round"; c.setLineDash([0.01, 0.32]);
  for (const [width, colour] of [[0.26, "#fff"], [0.17, ORACLE]]) { c.lineWidth = width; c.strokeStyle = colour; for (const way of ways) line(c, way); }
  c.setLineDash([]);
}

export function drawCursor(c, cell, size, raster) {
  const side = (2 * size + 1) / raster;
  for (const [width, colour] of [[0.12, "#fff"], [0.06, "#000"]]) {
    c.lineWidth = width; c.strokeStyle = colour;
    c.strokeRect((cell[0] - size) / raster, (cell[1] - size) / raster, side, side);
  }
}

export function drawPath(c, path, size, at, raster) {
  if (!path.length) return;
  c.setLineDash([0.02, 0.3]); c.lineCap = "round";
  for (const [width, colour] of [[0.24, "#fff"], [0.14, "#14202e"]]) {
    c.lineWidth = width; c.strokeStyle = colour; c.beginPath();
    for (const [x, y] of path) c.lineTo((x + 0.5) / raster, (y + 0.5) / raster);
    c.stroke();
  }
  c.setLineDash([]);
  drawCursor(c, at, size, raster);
}
