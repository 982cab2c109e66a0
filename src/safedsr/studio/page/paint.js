// Tools on the map: pointer, touch and keyboard.
import { remember, state } from "./state.js";

export const TOOLS = { brush: "Brush", eraser: "Eraser", box: "Rectangle", hazard: "Hazard path" };
export const hand = { tool: "brush", size: 1, value: 1, cell: [2, 2], keyboard: false };

export function stamp(values, map, [x, y], size, value) {
  const wide = map.width * map.raster, high = map.height * map.raster;
  for (let row = Math.max(0, y - size); row <= Math.min(high - 1, y + size); row++)
    for (let column = Math.max(0, x - size); column <= Math.min(wide - 1, x + size); column++)
      if (!map.walls[Math.floor(row / map.raster) * map.width + Math.floor(column / map.raster)]) values[row * wide + column] = value;
}

function line([x, y], [u, v], visit) {
  const steps = Math.max(Math.abs(u - x), Math.abs(v - y), 1);
  for (let i = 0; i <= steps; i++) visit([Math.round(x + ((u - x) * i) / steps), Math.round(y + ((v - y) * i) / steps)]);
}

export function listen(canvas, getMap, changed, moved) {
  let last = null, corner = null, base = null;
  const cellOf = (event) => {
    const map = getMap(), box = canvas.getBoundingClientRect();
    const inside = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
    return [inside((event.clientX - box.left) / box.width, map.width * map.raster), inside((event.clientY - box.top) / box.height, map.height * map.raster)];
  };
  const cost = () => state.costs[state.active];
  function put(from, to) {
    const map = getMap();
    if (hand.tool === "hazard") return line(from, to, (cell) => { const end = state.path.at(-1); if (!end || end[0] !== cell[0] || end[1] !== cell[1]) state.path.push(cell); });
    if (!cost()) return;
    const value = hand.tool === "eraser" ? 0 : hand.value;
    if (hand.tool === "box") {
      cost().values.set(base);
      const [a, b] = [corner, to];
      for (let y = Math.min(a[1], b[1]); y <= Math.max(a[1], b[1]); y++)
        for (let x = Math.min(a[0], b[0]); x <= Math.max(a[0], b[0]); x++) stamp(cost().values, map, [x, y], 0, value);
    } else line(from, to, (cell) => stamp(cost().values, map, cell, hand.size, value));
  }
  canvas.addEventListener("pointerdown", (event) => {
    if (!getMap() || event.button) return;
    canvas.setPointerCapture(event.pointerId);
    hand.keyboard = false;
    last = corner = cellOf(event);
    if (hand.tool === "hazard") state.path = []; else { remember(); base = cost()?.values.slice(); }
    put(last, last); changed();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!getMap()) return;
    hand.cell = cellOf(event);
    if (last) { put(last, hand.cell); last = hand.cell; changed(); } else moved();
  });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { last = null; });
  canvas.addEventListener("keydown", (event) => {
    const map = getMap(), move = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    if (!map) return;
    hand.keyboard = true;
    if (move) {
      event.preventDefault();
      hand.cell = [Math.max(0, Math.min(map.width * map.raster - 1, hand.cell[0] + move[0])), Math.max(0, Math.min(map.height * map.raster - 1, hand.cell[1] + move[1]))];
      moved(true);
    } else if (event.key === " " || event.key === "Enter") {
      event.preventDefault();
      if (hand.tool !== "hazard") { remember(); base = cost()?.values.slice(); corner = hand.cell; }
      put(hand.cell, hand.cell); changed(); moved(true);
    }
  });
}
