// The studio: state → server → picture.
import { $, app, calm, dark, fail, fill, make, say, short, status } from "./app.js";
import { askCurves } from "./curves.js";
import { COLORS, drawArrows, drawCursor, drawMap, drawMarks, drawOracle, drawPath, drawScale, drawWalks, fit, heatImage, paths, range } from "./draw.js";
import { showOther } from "./films.js";
import { costsNow, follow, halt, hazardCell, showHazard } from "./hazard.js";
import { hand, listen } from "./paint.js";
import { safeRate, showCertificate, showCosts, showLams, showRungs, showShares } from "./panel.js";
import { can, forget, fromFragment, KEPT, redo, remember, state, toFragment, undo, view } from "./state.js";
import { connect, unpack } from "./wire.js";
import "./share.js";
import "./tour.js";

const LAYERS = { none: "Map", q: "Q", k: "K", score: "Q − λK", occupancy: "Visits", leverage: "Known region" };
let image = null, walks = { now: [], before: [] }, ways = [], asked = null, keep = null, shownRun = null, rungs = [], saving = null;

app.wire = connect({ opened: () => app.open(), received: (message) => app.answers[message.type]?.(message), status });
window.studio = { state, picture: () => app.picture, times: [] }; // for tests and benchmarks

app.open = async () => {
  if (!app.map) {
    status("loading the agent …", true);
    try { if (location.hash.length > 1) keep = await fromFragment(location.hash.slice(1)); } catch { fail("the link is damaged; the studio starts with the trained agent"); }
    if (keep) for (const name of ["run", "seed", "task"]) state[name] = keep[name] ?? state[name];
  }
  const { run, seed, task } = state;
  app.wire.send({ type: "open", view: { run, seed, task, policy: keep?.policy ?? state.policy } });
};

Object.assign(app.answers, {
  hello(message) {
    const { map } = { map: message }, about = JSON.stringify([map.run, map.seed, state.task, map.trained]);
    const again = shownRun === about;
    app.map = map; shownRun = about; state.run = map.run;
    if (!again) start();
    if (map.adapted && !app.certificate) app.certificate = { ...map.adapted, subject: JSON.stringify(map.adapted.subject) };
    document.body.dataset.kind = map.kind;
    fill($("run"), map.runs.map((run) => [run, run]), map.run);
    fill($("task"), map.tasks.map((task, i) => [i, task]), state.task);
    fill($("seed"), map.seeds.map((seed) => [seed, seed]), map.seed);
    fill($("against"), [["", "the trained policy"], ...map.runs.filter((run) => run !== map.run).map((run) => [run, run])], state.against ?? "");
    $("against-label").hidden = map.runs.length < 2; $("task-label").hidden = map.tasks.length < 2; $("seed-label").hidden = map.seeds.length < 2;
    if (map.kind === "other") showOther(map);
    else fill($("shape"), [["", "insert …"], ...map.shapes.map((name) => [name, name])], "");
    if (!map.trained || map.kind === "other") $("curves-box").open = true;
    status(!map.trained ? "this run is still training" : map.kind === "map" && !app.picture ? "first picture: compiling …" : "", map.trained && map.kind === "map" && !app.picture);
    askCurves(); app.refresh();
  },
  picture(message) {
    const first = !app.picture;
    app.picture = message;
    walks = { now: paths(message.now), before: paths(message.before) };
    if (first) adaptable();
    colour(); showShares(message, state.against === null ? "Before" : "Compared", state.costs.map((c) => c.name), state.budgets);
    showLams(state, message, ownLam); showHazard(); follow(message); app.draw();
    if (message.since) {
      const ms = performance.now() - message.since; // from the stroke to its picture
      window.studio.times.push(ms); if (window.studio.times.length > 1000) window.studio.times.shift();
      status(`${ms.toFixed(0)} ms`);
    } else if (!app.playing) status("λ was searched for these costs");
  },
  oracle(message) {
    ways = message.paths.map(unpack);
    $("oracle-text").textContent = `(${(100 * message.safe).toFixed(0)} % safe; it knows the map)`; app.draw();
  },
  progress(message) { $("progress").hidden = false; $("progress").firstElementChild.value = message.share; $("progress-text").textContent = `${message.what} …`; },
  rung(message) { rungs.push(message); showRungs(rungs); say(`level ${message.level}: safe share ${safeRate(message).value.toFixed(3)}`); },
  adapted(message) {
    busy(false);
    if (message.stopped) $("policy-line").textContent = message.policy ? "Stopped; the best level so far is kept." : "Stopped; nothing was changed.";
    if (!message.policy) return;
    state.policy = message.policy;
    if (state.lam === "own") { state.lam = "auto"; $("lam-mode").value = "auto"; }
    app.certificate = { ...message, ...asked };
    showPolicy(); app.refresh();
    if (app.map.kind === "other") $("film").click();
  },
  error(message) {
    const about = message.text;
    if (state.against !== null && /trained on|was trained:|not trained on a map/.test(about)) { state.against = null; $("against").value = ""; app.refresh(); }
    if (about.includes("no longer on the server")) { state.policy = null; app.certificate = null; showPolicy(); app.refresh(); }
    if (about.startsWith("unknown run") && state.run) { Object.assign(state, { run: "", seed: null, task: 0, policy: null }); shownRun = null; app.open(); }
    busy(false); status(""); $("film").disabled = !app.map?.trained; fail(about);
  },
});

app.setCosts = (costs, budgets = null) => {
  const { width, height, raster } = app.map, size = width * height * raster ** 2;
  state.costs = costs.map((c) => ({ name: c.name, values: typeof c.values === "string" ? unpack(c.values) : c.values }));
  if (!state.costs.length) state.costs = [{ name: "cost", values: new Float32Array(size) }];
  state.budgets = state.costs.map((_, j) => budgets?.[j] ?? state.budgets[j] ?? 5);
  state.lams = state.costs.map((_, j) => state.lams[j] ?? 1);
  state.active = Math.min(state.active, state.costs.length - 1);
};

function start() {
  const { map } = app;
  forget(); halt(); app.wire.forget();
  for (const name of ["shares", "now-share", "before-share"]) $(name).replaceChildren();
  Object.assign(state, { policy: null, path: [], args: {}, costs: [] });
  app.certificate = app.picture = image = null; walks = { now: [], before: [] }; ways = []; rungs = [];
  if (map.kind === "map") app.setCosts(map.costs, map.budgets); else state.budgets = [...map.budgets];
  if (keep) restore(keep);
  keep = null;
  if (map.kind === "map") hand.cell = [Math.floor((map.width * map.raster) / 2), Math.floor((map.height * map.raster) / 2)];
  $("lam-mode").value = state.lam; $("epsilon").value = state.epsilon; $("epsilon-out").textContent = state.epsilon;
  for (const name of ["arrows", "walks", "beside", "oracle"]) $(name).checked = state[name];
  showPolicy(); showCertificate(null); pressed();
}

// What the address says; a damaged one is left out.
function restore(kept) {
  try {
    for (const name of KEPT) if (name in kept && typeof kept[name] === typeof state[name]) state[name] = kept[name];
    for (const name of ["policy", "against"]) state[name] = kept[name] ?? null;
    if (app.map.kind !== "map") return;
    const size = app.map.width * app.map.height * app.map.raster ** 2;
    app.setCosts(kept.costs.map(({ name, cells }) => {
      const values = new Float32Array(size);
      for (let i = 0; i < cells.length; i += 2) if (cells[i] < size) values[cells[i]] = cells[i + 1];
      return { name: String(name), values };
    }));
  } catch { fail("the link is damaged; the studio starts with the trained agent"); app.setCosts(app.map.costs, app.map.budgets); }
}

app.refresh = () => {
  if (app.map.kind === "map") showCosts(state, actions);
  $("undo").disabled = !can().undo; $("redo").disabled = !can().redo;
  showHazard(); app.look(); app.draw();
};

app.look = () => {
  const { map, certificate } = app;
  ways = []; // of other costs; the oracle plans again
  if (map.kind === "map" && map.trained) app.wire.look({ type: "look", view: view(costsNow()), follow: Boolean(app.playing) });
  if (certificate) showCertificate(certificate, certificate.names, app.playing || subject() !== certificate.subject);
  clearTimeout(saving);
  saving = setTimeout(async () => history.replaceState(null, "", `#${await toFragment()}`), 300);
};

// What a certificate is about.
function subject(lams = state.lam === "own" ? state.lams : null) {
  const { costs, budgets, epsilon, args } = view();
  return JSON.stringify([costs, budgets, epsilon, lams, ...(Object.keys(args).length ? [args] : [])]);
}

const actions = {
  choose(j) { state.active = j; if (app.picture) { colour(); app.draw(); } },
  rename(j, name) {
    name = name.trim();
    if (!name || name.includes(",") || state.costs.some((c, i) => i !== j && c.name === name)) fail("give each cost a name of its own, without commas"); else { remember(); state.costs[j].name = name; }
    app.refresh();
  },
  budget(j, value) { state.budgets[j] = value; app.look(); },
  remove(j) { remember(); for (const list of [state.costs, state.budgets, state.lams]) list.splice(j, 1); state.active = 0; app.refresh(); },
};

function ownLam(j, value) {
  const { picture } = app;
  if (state.lam !== "own") state.lams = state.costs.map((_, i) => (picture ? picture.lam[i] / picture.unit[i] : 1));
  state.lam = "own"; $("lam-mode").value = "own"; state.lams[j] = value; app.look();
}

function colour() {
  const { map, picture } = app, name = state.layer, n = name === "occupancy" || name === "leverage" ? 1 : picture.subcells;
  const text = name === "k" ? picture.layers.k?.[state.active] : picture.layers[name];
  image = null; $("scale").hidden = name === "none"; $("scale-text").textContent = text ? "" : "this layer is not known for this agent";
  if (!text) return;
  const values = unpack(text), [low, high] = range(values);
  image = heatImage(values, map.width * n, map.height * n);
  $("scale-text").textContent = `${LAYERS[name]}: ${short(low)} to ${short(high)}`;
}

app.draw = (time = null) => {
  const { map, picture } = app;
  if (map?.kind !== "map") return;
  const costs = costsNow(), others = state.against === null;
  arrange();
  let c = fit($("map"), map);
  drawMap(c, map, costs, image, dark.matches);
  if (state.arrows && picture) drawArrows(c, map, picture.actions);
  if (state.oracle) drawOracle(c, ways);
  if (state.walks) drawWalks(c, walks.now, time);
  drawMarks(c, map);
  if (state.path.length) drawPath(c, state.path, state.hazard.size, hazardCell(), map.raster);
  if (hand.keyboard && document.activeElement === $("map")) drawCursor(c, hand.cell, ["brush", "eraser", "hazard"].includes(hand.tool) ? hand.size : 0, map.raster);
  $("before-figure").hidden = !state.beside;
  if (state.beside) { c = fit($("before"), map); drawMap(c, map, costs, null, dark.matches); drawWalks(c, walks.before, time); drawMarks(c, map); }
  $("now-text").textContent = !map.trained ? "no policy yet" : state.policy ? "the adapted policy" : "cost weights fitted to the painted costs";
  $("before-title").textContent = others ? "Before" : "Compared"; $("before-text").textContent = others ? "as trained" : state.against;
  $("oracle-legend").hidden = !state.oracle;
};

// The map fits on the screen, if that is not too small.
function arrange() {
  const { map } = app, high = Math.max(360, innerHeight - 330);
  $("maps").style.maxWidth = innerWidth >= 992 ? `${(high * map.width) / map.height}px` : "";
}

let frame = 0;
function animate(now) {
  if (!calm.matches && !document.hidden && now - frame > 60) { frame = now; app.draw(now / 60); }
  requestAnimationFrame(animate);
}
requestAnimationFrame(animate);

function adaptable() { const why = app.picture?.adaptable; for (const b of document.querySelectorAll("[data-level]")) { b.disabled = Boolean(why); b.title = why ?? ""; } }
function busy(on) { $("progress").hidden = !on; if (on) for (const b of document.querySelectorAll("[data-level]")) b.disabled = true; else adaptable(); }
function showPolicy() {
  $("policy-line").textContent = state.policy ? "The adapted policy is shown. If the costs change, its cost weights follow." : "Each level starts from the trained policy and ends with a certificate.";
  $("back").hidden = !state.policy; $("save").disabled = !state.policy;
}
function pressed() {
  for (const b of $("tools").children) b.setAttribute("aria-pressed", b.dataset.tool === hand.tool);
  for (const b of $("layers").children) b.setAttribute("aria-pressed", b.dataset.layer === state.layer);
}

// Controls
for (const b of $("tools").children) b.onclick = () => { hand.tool = b.dataset.tool; pressed(); };
for (const [name, text] of Object.entries(LAYERS)) $("layers").append(make("button", { "data-layer": name, onclick: () => { state.layer = name; pressed(); if (app.picture) colour(); app.refresh(); } }, text));
for (const name of ["arrows", "walks", "beside", "oracle"]) $(name).onchange = (e) => { state[name] = e.target.checked; ways = []; app.refresh(); };
for (const name of ["run", "task", "seed"]) $(name).onchange = (e) => {
  state[name] = name === "run" ? e.target.value : Number(e.target.value); if (name === "run") Object.assign(state, { seed: null, task: 0 });
  state.policy = null; state.against = null; status("loading the agent …", true); app.open();
};
$("against").onchange = (e) => { state.against = e.target.value || null; askCurves(); app.refresh(); };
$("brush").onchange = (e) => { hand.size = Number(e.target.value); };
$("value").onchange = (e) => { const v = Number(e.target.value); if (v > 0 && v <= 100) hand.value = v; else { e.target.value = hand.value; fail("a painted cost is above 0 and at most 100"); } };
$("undo").onclick = () => { if (undo()) app.refresh(); };
$("redo").onclick = () => { if (redo()) app.refresh(); };
$("clear").onclick = () => { remember(); state.costs[state.active].values.fill(0); app.refresh(); };
$("reset").onclick = () => { remember(); app.setCosts(app.map.costs, app.map.budgets); app.refresh(); };
$("add-cost").onclick = () => {
  if (state.costs.length >= COLORS.length) return fail(`at most ${COLORS.length} costs`);
  remember(); let n = state.costs.length + 1; while (state.costs.some((c) => c.name === `cost ${n}`)) n++;
  state.costs.push({ name: `cost ${n}`, values: new Float32Array(state.costs[0].values.length) });
  state.budgets.push(5); state.lams.push(1); state.active = state.costs.length - 1; app.refresh();
};
$("lam-mode").onchange = (e) => { if (e.target.value === "own") ownLam(0, app.picture ? app.picture.lam[0] / app.picture.unit[0] : 1); else state.lam = e.target.value; app.refresh(); };
$("epsilon").oninput = (e) => { state.epsilon = Number(e.target.value); $("epsilon-out").textContent = e.target.value; app.look(); };
for (const b of document.querySelectorAll("[data-level]")) b.onclick = () => {
  halt(); busy(true); rungs = []; showRungs(rungs);
  asked = { names: app.map.kind === "map" ? state.costs.map((c) => c.name) : app.map.names, subject: subject(null) };
  app.wire.send({ type: "adapt", level: b.dataset.level, view: { ...view(), policy: null } });
};
$("stop").onclick = () => { $("progress-text").textContent = "stopping …"; app.wire.send({ type: "stop" }); };
$("back").onclick = () => { state.policy = null; app.certificate = null; showPolicy(); showCertificate(null); app.refresh(); };

document.addEventListener("keydown", (event) => {
  const typing = ["INPUT", "TEXTAREA", "SELECT"].includes(event.target.tagName) && event.target.type !== "range" && event.target.type !== "checkbox";
  if (typing) return;
  const key = event.key.toLowerCase(), control = event.ctrlKey || event.metaKey;
  if (control && key === "z") { event.preventDefault(); $(event.shiftKey ? "redo" : "undo").click(); }
  else if (control && key === "y") { event.preventDefault(); $("redo").click(); }
  else if (!control && (key === "b" || key === "e")) { hand.tool = key === "b" ? "brush" : "eraser"; pressed(); say(hand.tool); }
});
listen($("map"), () => app.map, app.refresh, (speak) => {
  const { map } = app;
  if (speak) { const values = state.costs[state.active]?.values, [x, y] = hand.cell; say(`row ${y + 1}, column ${x + 1}, cost ${short(values?.[y * map.width * map.raster + x] ?? 0)}`); }
  if (calm.matches || hand.keyboard) app.draw();
});
for (const name of ["pointerdown", "keydown"]) addEventListener(name, () => { $("error").hidden = true; }, true); // errors stay until one acts
addEventListener("resize", () => app.draw());
dark.addEventListener("change", () => app.draw());
drawScale($("scale-bar"));
