// The studio: state → server → picture.
import { COLORS, drawArrows, drawCursor, drawMap, drawPath, drawWalks, fit, heatImage, paths, range } from "./draw.js";
import { hand, listen, stamp, TOOLS } from "./paint.js";
import { $, fill, lamOf, make, short, showCertificate, showCosts, showLams, showShares } from "./panel.js";
import { can, forget, fromFragment, redo, remember, state, toFragment, undo, view } from "./state.js";
import { connect, unpack } from "./wire.js";

const LAYERS = { none: "Map", q: "Q", k: "K", score: "Q − λK", occupancy: "Occupancy", leverage: "Known region" };
const calm = matchMedia("(prefers-reduced-motion: reduce)"), dark = matchMedia("(prefers-color-scheme: dark)");
let map = null, picture = null, image = null, walks = { now: [], before: [] }, certificate = null, asked = null;
let playing = null, shownCosts = null, keep = null, waitingFor = {};

const wire = connect({ opened: open, received, status: (text) => { $("status").textContent = text; } });
window.studio = { state, picture: () => picture, times: [] }; // for tests and benchmarks

async function open() {
  $("status").textContent = map ? "" : "loading the agent …";
  if (!map && location.hash.length > 1) {
    try { keep = await fromFragment(location.hash.slice(1)); } catch { fail("the link is damaged; the studio starts with the trained agent"); }
    if (keep) for (const name of ["run", "seed", "task"]) state[name] = keep[name];
  }
  wire.send({ type: "open", view: { run: state.run, seed: state.seed, task: state.task, policy: keep?.policy ?? state.policy } });
}

const answers = {
  hello(message) {
    const again = map !== null && !message.fresh && shownCosts === message.map + message.algorithm + state.run;
    map = message;
    shownCosts = map.map + map.algorithm + state.run;
    if (!again) start();
    if (map.adapted && !certificate) certificate = { ...map.adapted, names: map.adapted.names, subject: JSON.stringify(map.adapted.subject) };
    fill($("run"), map.runs.map((run, i) => [i, run]), state.run);
    fill($("task"), map.tasks.map((task, i) => [i, task]), state.task);
    fill($("seed"), map.seeds.map((seed) => [seed, seed]), map.seed);
    fill($("against"), [["", "the trained policy"], ...map.runs.map((run, i) => [i, run])], state.against ?? "");
    $("against-label").hidden = map.runs.length < 2;
    $("task-label").hidden = map.tasks.length < 2; $("seed-label").hidden = map.seeds.length < 2;
    for (const button of document.querySelectorAll("[data-level]")) { button.disabled = Boolean(map.adaptable); button.title = map.adaptable ?? ""; }
    $("status").textContent = "first picture: compiling …";
    refresh();
  },
  picture(message) {
    picture = message;
    walks = { now: paths(message.now), before: paths(message.before) };
    colour(); showShares(message, state.against === null ? "Before" : "Compared", state.costs.map((c) => c.name), state.budgets); showLams(state, message, ownLam); draw();
    if (message.since) {
      const ms = performance.now() - message.since; // from the stroke to its picture
      window.studio.times.push(ms); if (window.studio.times.length > 1000) window.studio.times.shift();
      $("status").textContent = `${ms.toFixed(0)} ms`;
    } else $("status").textContent = "λ was searched for these costs";
    if (playing) $("play-text").textContent = `safe share now: ${(100 * message.now.safe).toFixed(0)} %`;
  },
  progress(message) { $("progress").hidden = false; $("progress").firstElementChild.value = message.share; $("progress-text").textContent = `${message.what} …`; },
  rung(message) { say(`level ${message.level}: safe share ${message.safe_goal_rate.value.toFixed(3)}`); },
  adapted(message) {
    busy(false);
    if (message.stopped) $("policy-line").textContent = message.policy ? "Stopped; the best level so far is kept." : "Stopped; nothing was changed.";
    if (!message.policy) return;
    state.policy = message.policy;
    if (state.lam === "own") { state.lam = "auto"; $("lam-mode").value = "auto"; }
    certificate = { ...message, names: asked.names, subject: asked.subject };
    showPolicy(); refresh();
  },
  exported(message) {
    const what = waitingFor[message.id] ?? "text";
    $("text").value = message.text;
    if (what === "text") $("kept").textContent = "The map is in the text field; save it as map.txt.";
    else copyText(message[what], what === "command" ? "The command is copied; it reads the map from map.txt." : "The Python code is copied; it reads the map from map.txt.");
  },
  imported(message) {
    remember(); setCosts(message.costs);
    $("kept").textContent = "The costs of the text are on the map."; refresh();
  },
  saved(message) { $("kept").textContent = `Saved: ${message.folder}`; },
  error(message) {
    if (message.text.includes("on which the agent was trained") || message.text.includes("the agent was trained on")) if (state.against !== null) { state.against = null; $("against").value = ""; refresh(); }
    if (message.text.includes("no longer on the server")) { state.policy = null; certificate = null; showPolicy(); refresh(); }
    busy(false); fail(message.text);
  },
};

function received(message) {
  answers[message.type]?.(message);
}

function setCosts(costs, budgets = null) {
  state.costs = costs.map((c) => ({ name: c.name, values: typeof c.values === "string" ? unpack(c.values) : c.values }));
  if (!state.costs.length) state.costs = [{ name: "cost", values: new Float32Array(map.width * map.height * map.raster ** 2) }];
  state.budgets = state.costs.map((_, j) => budgets?.[j] ?? state.budgets[j] ?? 5);
  state.lams = state.costs.map((_, j) => state.lams[j] ?? 1);
  state.active = Math.min(state.active, state.costs.length - 1);
}

function start() {
  forget(); setCosts(map.costs, map.budgets); state.policy = null; certificate = null; state.path = [];
  const size = map.width * map.height * map.raster ** 2;
  if (keep && keep.costs) {
    const costs = keep.costs.map((c) => { const values = new Float32Array(size); for (let i = 0; i < c.cells.length; i += 2) if (c.cells[i] < size) values[c.cells[i]] = c.cells[i + 1]; return { name: String(c.name), values }; });
    for (const name of ["policy", "budgets", "lam", "lams", "epsilon", "against", "layer", "arrows", "walks", "beside", "path"]) if (name in keep) state[name] = keep[name];
    setCosts(costs);
  }
  keep = null;
  hand.cell = [Math.floor((map.width * map.raster) / 2), Math.floor((map.height * map.raster) / 2)];
  $("lam-mode").value = state.lam; $("epsilon").value = state.epsilon; $("epsilon-out").textContent = state.epsilon;
  for (const name of ["arrows", "walks", "beside"]) $(name).checked = state[name];
  showPolicy(); showCertificate(null); pressed();
}

let saving = null;
function refresh() {
  showCosts(state, actions);
  $("undo").disabled = !can().undo; $("redo").disabled = !can().redo;
  $("play").disabled = !state.path.length;
  look(); draw();
}

function look() {
  const costs = playing ? hazardCosts() : state.costs;
  wire.look({ type: "look", view: view(costs), follow: Boolean(playing) });
  if (certificate) showCertificate(certificate, certificate.names, playing || subject() !== certificate.subject);
  clearTimeout(saving);
  saving = setTimeout(async () => history.replaceState(null, "", `#${await toFragment()}`), 300);
}

// What a certificate is about.
function subject() {
  const { costs, budgets, epsilon, lam, lams } = view();
  return JSON.stringify([costs, budgets, epsilon, lam === "own" ? lams : null]);
}

const actions = {
  choose(j) { state.active = j; },
  rename(j, name) {
    name = name.trim();
    if (!name || name.includes(",") || state.costs.some((c, i) => i !== j && c.name === name)) { fail("give each cost a name of its own, without commas"); } else { remember(); state.costs[j].name = name; }
    refresh();
  },
  budget(j, value) { state.budgets[j] = value; look(); },
  remove(j) { remember(); for (const list of [state.costs, state.budgets, state.lams]) list.splice(j, 1); state.active = 0; refresh(); },
};

function ownLam(j, value) {
  if (state.lam !== "own") state.lams = state.costs.map((_, i) => (picture ? picture.lam[i] / picture.unit[i] : 1));
  state.lam = "own"; $("lam-mode").value = "own"; state.lams[j] = value; look();
}

function colour() {
  const name = state.layer, n = name === "occupancy" || name === "leverage" ? 1 : picture.subcells;
  const text = name === "k" ? picture.layers.k?.[state.active] : picture.layers[name];
  image = null; $("scale").textContent = name === "none" ? "" : text ? "" : "this layer is not known for this agent";
  if (!text) return;
  const values = unpack(text), [low, high] = range(values);
  image = heatImage(values, map.width * n, map.height * n);
  $("scale").textContent = `${LAYERS[name]}: dark ${short(low)} … bright ${short(high)}`;
}

function draw(time = null) {
  if (!map) return;
  const costs = playing ? hazardCosts() : state.costs;
  arrange();
  let c = fit($("map"), map);
  drawMap(c, map, costs, image, dark.matches);
  if (state.arrows && picture) drawArrows(c, map, picture.actions);
  if (state.walks) drawWalks(c, walks.now, time);
  drawPath(c, state.path, map.raster);
  if (hand.keyboard && document.activeElement === $("map")) drawCursor(c, hand.cell, hand.tool === "box" ? 0 : hand.size, map.raster);
  $("before-figure").hidden = !state.beside;
  if (state.beside) { c = fit($("before"), map); drawMap(c, map, costs, null, dark.matches); drawWalks(c, walks.before, time); }
  $("now-text").textContent = state.policy ? "Now: the adapted policy" : "Now: cost weights fitted to the painted costs";
  $("before-text").textContent = state.against === null ? "Before: the policy as it was trained" : `For comparison: ${map.runs[state.against]}`;
}

// Both maps fit on the screen, side by side if they are not wide.
function arrange() {
  const square = map.width < 1.6 * map.height && state.beside, rows = state.beside && !square ? 2 : 1;
  $("maps").classList.toggle("square", square);
  const wide = ((innerHeight - 170 - 40 * rows) / rows) * (map.width / map.height) * (square ? 2 : 1);
  $("maps").style.maxWidth = innerWidth >= 960 ? `${Math.max(480, wide)}px` : "";
}

let frame = 0;
function animate(now) {
  if (!calm.matches && !document.hidden && now - frame > 60) { frame = now; draw(now / 60); }
  requestAnimationFrame(animate);
}
requestAnimationFrame(animate);

function say(text) { $("spoken").textContent = text; }
function fail(text) { $("error").textContent = text; $("error").hidden = false; }
function busy(on) { $("stop").hidden = !on; $("progress").hidden = !on; for (const b of document.querySelectorAll("[data-level]")) b.disabled = on || Boolean(map?.adaptable); }
function showPolicy() {
  $("policy-line").textContent = state.policy ? "The adapted policy is shown. If you paint more, its cost weights follow." : "The trained policy is shown, with cost weights fitted to what you paint.";
  $("back").hidden = !state.policy; $("save").disabled = !state.policy;
}
async function copyText(text, done) {
  try { await navigator.clipboard.writeText(text); $("kept").textContent = done; } catch { $("text").value = text; $("kept").textContent = "Copy it from the text field."; }
}
function pressed() {
  for (const b of $("tools").children) b.setAttribute("aria-pressed", b.dataset.tool === hand.tool);
  for (const b of $("layers").children) b.setAttribute("aria-checked", b.dataset.layer === state.layer);
}

// Controls
for (const [name, text] of Object.entries(TOOLS)) $("tools").append(make("button", { "data-tool": name, onclick: () => { hand.tool = name; pressed(); } }, text));
for (const [name, text] of Object.entries(LAYERS)) $("layers").append(make("button", { role: "radio", "data-layer": name, onclick: () => { state.layer = name; pressed(); if (picture) colour(); refresh(); } }, text));
for (const name of ["arrows", "walks", "beside"]) $(name).onchange = (e) => { state[name] = e.target.checked; refresh(); };
for (const name of ["run", "task", "seed"]) $(name).onchange = (e) => {
  state[name] = Number(e.target.value); if (name === "run") { state.seed = null; state.task = 0; }
  state.policy = null; state.against = null; certificate = null; if (playing) $("play").click();
  shownCosts = null; picture = null; image = null; walks = { now: [], before: [] }; open();
};
$("against").onchange = (e) => { state.against = e.target.value === "" ? null : Number(e.target.value); refresh(); };
$("brush").onchange = (e) => { hand.size = Number(e.target.value); };
$("value").onchange = (e) => { const v = Number(e.target.value); if (v > 0 && v <= 100) hand.value = v; else { e.target.value = hand.value; fail("a painted cost is above 0 and at most 100"); } };
$("undo").onclick = () => { if (undo()) refresh(); };
$("redo").onclick = () => { if (redo()) refresh(); };
$("clear").onclick = () => { remember(); state.costs[state.active].values.fill(0); refresh(); };
$("reset").onclick = () => { remember(); setCosts(map.costs, map.budgets); refresh(); };
$("add-cost").onclick = () => {
  if (state.costs.length >= COLORS.length) return fail(`at most ${COLORS.length} costs`);
  remember(); let n = state.costs.length + 1; while (state.costs.some((c) => c.name === `cost ${n}`)) n++;
  state.costs.push({ name: `cost ${n}`, values: new Float32Array(state.costs[0].values.length) });
  state.budgets.push(5); state.lams.push(1); state.active = state.costs.length - 1; refresh();
};
$("lam-mode").onchange = (e) => { if (e.target.value === "own") ownLam(0, picture ? picture.lam[0] / picture.unit[0] : 1); else { state.lam = e.target.value; } refresh(); };
$("epsilon").oninput = (e) => { state.epsilon = Number(e.target.value); $("epsilon-out").textContent = e.target.value; look(); };
for (const b of document.querySelectorAll("[data-level]")) b.onclick = () => { busy(true); asked = { names: state.costs.map((c) => c.name), subject: JSON.stringify([view().costs, [...state.budgets], state.epsilon, null]) }; wire.send({ type: "adapt", level: b.dataset.level, view: { ...view(), policy: null } }); };
$("stop").onclick = () => { $("progress-text").textContent = "stopping …"; wire.send({ type: "stop" }); };
$("back").onclick = () => { state.policy = null; certificate = null; showPolicy(); showCertificate(null); refresh(); };
$("export").onclick = () => wire.send({ type: "export", view: view() });
for (const name of ["command", "python"]) $(name).onclick = () => { waitingFor = { [wire.send({ type: "export", view: view() })]: name }; };
$("import").onclick = () => wire.send({ type: "import", text: $("text").value, view: { run: state.run, seed: state.seed, task: state.task } });
$("link").onclick = async () => { history.replaceState(null, "", `#${await toFragment()}`); copyText(location.href, "The link is copied."); };
$("save-form").onsubmit = (e) => { e.preventDefault(); $("kept").textContent = "saving …"; wire.send({ type: "save", text: $("save-name").value, view: view() }); };

// A hazard that moves along the path, there and back.
function hazardCosts() {
  const costs = state.costs.map((c) => ({ name: c.name, values: c.values.slice() })), n = state.path.length, at = playing.step % Math.max(1, 2 * n - 2);
  stamp(costs[state.active].values, map, state.path[at < n ? at : 2 * n - 2 - at], hand.size, hand.value);
  return costs;
}
$("play").onclick = () => {
  if (playing) { clearInterval(playing.timer); playing = null; $("play").textContent = "Play"; $("play-text").textContent = ""; refresh(); return; }
  playing = { step: 0 }; $("play").textContent = "Stop the hazard";
  playing.timer = setInterval(() => { playing.step++; look(); draw(); }, 700);
  look();
};
$("forget").onclick = () => { if (playing) $("play").click(); state.path = []; refresh(); };

document.addEventListener("keydown", (event) => {
  const typing = ["INPUT", "TEXTAREA", "SELECT"].includes(event.target.tagName) && event.target.type !== "range" && event.target.type !== "checkbox";
  if (typing) return;
  const key = event.key.toLowerCase(), control = event.ctrlKey || event.metaKey;
  if (control && key === "z") { event.preventDefault(); $(event.shiftKey ? "redo" : "undo").click(); }
  else if (control && key === "y") { event.preventDefault(); $("redo").click(); }
  else if (!control && (key === "b" || key === "e")) { hand.tool = key === "b" ? "brush" : "eraser"; pressed(); say(TOOLS[hand.tool]); }
});
listen($("map"), () => map, refresh, (speak) => {
  if (speak) { const values = state.costs[state.active]?.values, [x, y] = hand.cell; say(`row ${y + 1}, column ${x + 1}, cost ${short(values?.[y * map.width * map.raster + x] ?? 0)}`); }
  if (calm.matches || hand.keyboard) draw();
});
for (const name of ["pointerdown", "keydown"]) addEventListener(name, () => { $("error").hidden = true; }, true); // errors stay until one acts
addEventListener("resize", () => draw());

// The tour
const TOUR = ["1 of 3. Paint on the map: drag over the way of the agent. The walks and the heat map follow, because the cost weights are fitted anew at each stroke.",
  "2 of 3. Press “Adapt automatically”: cost weights, then λ, then M from the replay memory, until the certificate passes.",
  "3 of 3. Read the certificate: its numbers are bounds from simulated episodes, and it says what is assumed. Then paint something else."];
let stop = 0;
function tour(at) { stop = at; $("tour").hidden = at >= TOUR.length; $("tour-text").textContent = TOUR[at] ?? ""; $("tour-next").hidden = at === TOUR.length - 1; if (at >= TOUR.length) try { localStorage.setItem("safedsr-tour", "seen"); } catch { /* private mode */ } }
$("tour-next").onclick = () => tour(stop + 1); $("tour-end").onclick = () => tour(TOUR.length); $("start-tour").onclick = () => { tour(0); $("tour-next").focus(); };
let seen = false; try { seen = localStorage.getItem("safedsr-tour"); } catch { /* private mode */ }
if (!seen) tour(0);
