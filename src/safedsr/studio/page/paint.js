// Tools on the map: pointer, touch and keyboard.
import { remember, state } from "./state.js";

const DRAGGED = ["line", "box", "disc", "diamond"]; // drawn between two corners
export const hand = { tool: "brush", size: 1, value: 1, cell: [2, 2], keyboard: false };

function put(values, map, x, y, value) {
  const wide = map.width * map.raster, high = map.height * map.raster;
  if (x < 0 || y < 0 || x >= wide || y >= high || map.walls[Math.floor(y / map.raster) * map.width + Math.floor(x / map.raster)]) return;
  values[y * wide + x] = value;
}

export function stamp(values, map, [x, y], size, value) {
  for (let row = y - size; row <= y + size; row++) for (let column = x - size; column <= x + size; column++) put(values, map, column, row, value);
}

function along([x, y], [u, v], visit) {
  const steps = Math.max(Math.abs(u - x), Math.abs(v - y), 1);
  for (let i = 0; i <= steps; i++) visit([Math.round(x + ((u - x) * i) / steps), Math.round(y + ((v - y) * i) / steps)]);
}

// A shape that fills the rectangle between two corners.
function shape(values, map, [x, y], [u, v], tool, value) {
  const middle = [(x + u) / 2, (y + v) / 2], half = [Math.abs(u - x) / 2 + 0.5, Math.abs(v - y) / 2 + 0.5];
  for (let row = Math.min(y, v); row <= Math.max(y, v); row++)
    for (let column = Math.min(x, u); column <= Math.max(x, u); column++) {
      const [a, b] = [Math.abs(column - middle[0]) / half[0], Math.abs(row - middle[1]) / half[1]];
      if (tool === "box" || (tool === "disc" ? a * a + b * b <= 1 : a + b <= 1)) put(values, map, column, row, value);
    }
}

export function listen(canvas, getMap, changed, moved) {
  let last = null, corner = null, base = null, anchored = false;
  const cellOf = (event) => {
    const map = getMap(), box = canvas.getBoundingClientRect();
    const inside = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
    return [inside((event.clientX - box.left) / box.width, map.width * map.raster), inside((event.clientY - box.top) / box.height, map.height * map.raster)];
  };
  const values = () => state.costs[state.active].values;
  function drag(from, to) {
    const map = getMap(), value = hand.tool === "eraser" ? 0 : hand.value;
    if (hand.tool === "hazard") along(from, to, (cell) => { const end = state.path.at(-1); if (!end || end[0] !== cell[0] || end[1] !== cell[1]) state.path.push(cell); });
    else if (!DRAGGED.includes(hand.tool)) along(from, to, (cell) => stamp(values(), map, cell, hand.size, value));
    else {
      values().set(base);
      if (hand.tool === "line") along(corner, to, (cell) => stamp(values(), map, cell, 0, value)); else shape(values(), map, corner, to, hand.tool, value);
    }
  }
  function begin(cell, fresh) {
    corner = cell;
    if (hand.tool !== "hazard") { remember(); base = values().slice(); return; }
    if (fresh) state.path = [];
    state.hazard = { size: hand.size, value: hand.value };
  }
  canvas.addEventListener("pointerdown", (event) => {
    if (!getMap() || event.button) return;
    canvas.setPointerCapture(event.pointerId);
    hand.keyboard = false;
    last = hand.cell = cellOf(event);
    begin(last, true); drag(last, last); changed();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!getMap()) return;
    const cell = cellOf(event);
    if (cell[0] === hand.cell[0] && cell[1] === hand.cell[1]) return;
    hand.cell = cell;
    if (last) { drag(last, cell); last = cell; changed(); } else moved();
  });
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { last = null; });
  canvas.addEventListener("keydown", (event) => {
    const map = getMap(), move = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    if (!map || event.ctrlKey || event.metaKey) return;
    hand.keyboard = true;
    if (move) {
      event.preventDefault();
      const inside = (x, count) => Math.max(0, Math.min(count - 1, x));
      hand.cell = [inside(hand.cell[0] + move[0], map.width * map.raster), inside(hand.cell[1] + move[1], map.height * map.raster)];
      moved(true);
    } else if (event.key === " " || event.key === "Enter") {
      event.preventDefault();
      const far = anchored && DRAGGED.includes(hand.tool); // the second corner of a shape
      if (!far) begin(hand.cell, false);
      drag(hand.tool === "hazard" ? state.path.at(-1) ?? hand.cell : hand.cell, hand.cell);
      anchored = !far;
      changed(); moved(true);
    }
  });
}
