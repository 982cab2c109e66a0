// The exported policy in the browser: painted costs → cost weights → values and a walk.
import * as ort from "./ort/ort.wasm.min.mjs";
import { drawMap, drawMarks, drawScale, drawWalks, fit, heatImage, range } from "./draw.js";
import { hand, listen } from "./paint.js";
import { can, state, undo } from "./state.js";

const $ = (id) => document.getElementById(id), POINTS = 3, DIRECTIONS = [[0, -1], [0, 1], [-1, 0], [1, 0]];
const dark = matchMedia("(prefers-color-scheme: dark)");
let map, session, image = null, walk = null, running = false, again = false;

function tensor(values, shape) { return new ort.Tensor("float32", Float32Array.from(values), shape); }

// The fit of the cost weights is linear in the costs: one row of `fit` for each cell.
function weights() {
  const w = new Float32Array(map.features);
  state.costs[0].values.forEach((cost, cell) => { if (cost) for (let i = 0; i < w.length; i++) w[i] += cost * map.fit[cell * w.length + i]; });
  return w;
}

async function values(points, w_c) {
  const found = await session.run({ observation: tensor(points.map((x) => x / map.scale), [points.length / 2, 2]), w_c: tensor(w_c, [1, w_c.length]), lam: tensor([map.lam], [1]) });
  return { action: found.action.data, score: Array.from(found.Q.data, (q, i) => q - map.lam * found.K.data[i]) };
}

function free([x, y]) {
  const column = Math.floor(x), row = Math.floor(y);
  return column >= 0 && row >= 0 && column < map.width && row < map.height && !map.walls[row * map.width + column];
}

// Steps of the mean length; a move into a wall or off the map is undone.
async function follow(w_c) {
  let at = map.starts[0].map((x) => x + 0.5), cost = 0;
  const points = [...at];
  for (let step = 0; step < map.most_steps; step++) {
    const [dx, dy] = DIRECTIONS[Number((await values(at, w_c)).action[0])], next = [at[0] + map.step * dx, at[1] + map.step * dy];
    if (free(next)) at = next;
    points.push(...at);
    cost += state.costs[0].values[Math.floor(at[1]) * map.width + Math.floor(at[0])];
    if (Math.floor(at[0]) === map.goal[0] && Math.floor(at[1]) === map.goal[1]) return { points, cost, goal: true };
  }
  return { points, cost, goal: false };
}

async function compute() {
  if (running) { again = true; return; }
  running = true;
  do {
    again = false;
    const began = performance.now(), w_c = weights(), points = [];
    for (let y = 0; y < map.height * POINTS; y++) for (let x = 0; x < map.width * POINTS; x++) points.push((x + 0.5) / POINTS, (y + 0.5) / POINTS);
    const { score } = await values(points, w_c), best = new Float32Array(points.length / 2);
    best.forEach((_, i) => { best[i] = free(points.slice(2 * i, 2 * i + 2)) ? Math.max(...score.slice(4 * i, 4 * i + 4)) : NaN; });
    image = heatImage(best, map.width * POINTS, map.height * POINTS);
    $("scale-text").textContent = `Q − λK: ${range(best).map((x) => x.toPrecision(3)).join(" to ")}`;
    walk = await follow(w_c);
    walk.safe = walk.goal && walk.cost <= state.budgets[0];
    $("now-share").textContent = `${walk.goal ? "goal reached" : "goal not reached"}, cost ${Number(walk.cost.toPrecision(4))} of ${state.budgets[0]}`;
    $("now-share").className = `chip ${walk.safe ? "good" : "bad"}`;
    $("status").textContent = `${(performance.now() - began).toFixed(0)} ms`; $("status").classList.remove("busy");
    draw();
  } while (again);
  running = false;
}

function draw() {
  $("map").parentElement.style.maxWidth = innerWidth >= 992 ? `${(Math.max(360, innerHeight - 260) * map.width) / map.height}px` : "";
  const c = fit($("map"), map);
  drawMap(c, map, state.costs, image, dark.matches);
  if (walk) drawWalks(c, [walk], null);
  drawMarks(c, map);
}

function changed() { $("undo").disabled = !can().undo; draw(); compute(); }
function asTrained() { state.costs = [{ name: map.cost, values: Float32Array.from(map.costs) }]; changed(); }
function showLam() { map.lam = map.trained_lam * 10 ** ((Number($("lam").value) - 50) / 25) * (Number($("lam").value) > 0); $("lam-out").textContent = Number(map.lam.toPrecision(3)); }

async function start() {
  map = await (await fetch("policy.json")).json();
  map.fit = new Float32Array(await (await fetch("fit.bin")).arrayBuffer());
  ort.env.wasm.numThreads = 1; ort.env.wasm.wasmPaths = new URL("./ort/", location.href).href; ort.env.logLevel = "error";
  session = await ort.InferenceSession.create("policy.onnx");
  state.budgets = [map.budget]; $("budget").value = map.budget; $("budget-out").textContent = map.budget;
  hand.cell = [Math.floor(map.width / 2), Math.floor(map.height / 2)];
  showLam(); drawScale($("scale-bar")); asTrained();
  for (const b of $("tools").children) b.onclick = () => { hand.tool = b.dataset.tool; for (const one of $("tools").children) one.setAttribute("aria-pressed", one === b); };
  $("undo").onclick = () => { if (undo()) changed(); };
  $("clear").onclick = () => { state.costs[0].values.fill(0); changed(); };
  $("reset").onclick = asTrained;
  $("lam").oninput = () => { showLam(); compute(); };
  $("budget").oninput = (e) => { state.budgets = [Number(e.target.value)]; $("budget-out").textContent = e.target.value; compute(); };
  listen($("map"), () => map, changed, (speak) => { if (speak) $("spoken").textContent = `row ${hand.cell[1] + 1}, column ${hand.cell[0] + 1}`; draw(); });
  addEventListener("resize", draw);
  window.tried = { walk: () => walk, state, map, busy: () => running }; // for tests
}
start().catch((error) => { $("error").textContent = `The page could not start: ${error.message}. Serve its folder by HTTP, for example with python -m http.server.`; $("error").hidden = false; });
