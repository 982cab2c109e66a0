// The exported policy in the browser: painted costs → cost weights → values and a walk.
import * as ort from "./ort/ort.wasm.min.mjs";
import { drawMap, drawMarks, drawScale, drawWalks, fit, heatImage, range } from "./draw.js";
import { hand, listen } from "./paint.js";
import { can, state, undo } from "./state.js";

const $ = (id) => document.getElementById(id), POINTS = 3, WALKS = 10, DIRECTIONS = [[0, -1], [0, 1], [-1, 0], [1, 0]];
const dark = matchMedia("(prefers-color-scheme: dark)");
let map, session, image = null, walks = [], running = false, again = false;

function tensor(values, shape) { return new ort.Tensor("float32", Float32Array.from(values), shape); }

// The trained costs have weights of their own. The fit to other costs is linear in them: one row of `fit` for each cell.
function weights() {
  if (state.costs[0].values.every((cost, cell) => cost === map.costs[cell])) return Float32Array.from(map.trained_weights);
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

// Normal random numbers, the same ones for each picture.
function normals(seed) {
  const even = () => { seed = (seed + 0x6d2b79f5) | 0; let t = Math.imul(seed ^ (seed >>> 15), 1 | seed); t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t; return ((t ^ (t >>> 14)) >>> 0) / 4294967296; };
  return () => Math.sqrt(-2 * Math.log(1 - even())) * Math.cos(2 * Math.PI * even());
}

// Walks side by side. Step lengths are normal and clipped; a move into a wall or off the map is undone.
async function follow(w_c) {
  const walks = Array.from({ length: WALKS }, (_, n) => ({ at: map.starts[n % map.starts.length].map((x) => x + 0.5), points: [], cost: 0, goal: false, normal: normals(n) }));
  for (const walk of walks) walk.points.push(...walk.at);
  for (let step = 0; step < map.most_steps; step++) {
    const going = walks.filter((walk) => !walk.goal);
    if (!going.length) break;
    const { action } = await values(going.flatMap((walk) => walk.at), w_c);
    going.forEach((walk, n) => {
      const noise = Math.max(-map.step_clip, Math.min(map.step_clip, walk.normal())), length = map.step_mean + map.step_std * noise;
      const next = walk.at.map((x, i) => x + length * DIRECTIONS[Number(action[n])][i]);
      if (free(next)) walk.at = next;
      walk.points.push(...walk.at);
      const [column, row] = walk.at.map(Math.floor);
      walk.cost += state.costs[0].values[row * map.width + column];
      walk.goal = column === map.goal[0] && row === map.goal[1];
    });
  }
  for (const walk of walks) walk.safe = walk.goal && walk.cost <= state.budgets[0];
  return walks;
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
    walks = await follow(w_c);
    const safe = walks.filter((walk) => walk.safe).length, cost = walks.reduce((sum, walk) => sum + walk.cost, 0) / WALKS;
    $("now-share").textContent = `${safe} of ${WALKS} walks safe, mean cost ${Number(cost.toPrecision(3))} of ${state.budgets[0]}`;
    $("now-share").className = `chip ${safe >= 0.9 * WALKS ? "good" : "bad"}`;
    $("status").textContent = `${(performance.now() - began).toFixed(0)} ms`; $("status").classList.remove("busy");
    draw();
  } while (again);
  running = false;
}

function draw() {
  $("map").parentElement.style.maxWidth = innerWidth >= 992 ? `${(Math.max(360, innerHeight - 260) * map.width) / map.height}px` : "";
  const c = fit($("map"), map);
  drawMap(c, map, state.costs, image, dark.matches);
  drawWalks(c, walks, null);
  drawMarks(c, map);
}

function changed() { $("undo").disabled = !can().undo; draw(); compute(); }
function asTrained() { state.costs = [{ name: map.cost, values: map.costs.slice() }]; changed(); }
function showLam() { map.lam = map.trained_lam * 10 ** ((Number($("lam").value) - 50) / 25) * (Number($("lam").value) > 0); $("lam-out").textContent = Number(map.lam.toPrecision(3)); }

async function start() {
  map = await (await fetch("policy.json")).json();
  map.costs = Float32Array.from(map.costs);
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
  window.tried = { walks: () => walks, state, map, busy: () => running }; // for tests
}
start().catch((error) => { $("error").textContent = `The page could not start: ${error.message}. Serve its folder by HTTP, for example with python -m http.server.`; $("error").hidden = false; });
