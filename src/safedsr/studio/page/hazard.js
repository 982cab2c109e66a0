// A hazard that moves along a path, there and back: the cost weights follow, and M learns from memory in the background.
import { $, app, percent } from "./app.js";
import { chart } from "./curves.js";
import { stamp } from "./paint.js";
import { state } from "./state.js";

const EVERY = 700, MOST = 120; // milliseconds between two moves; moves on the chart

export function hazardCell() {
  const n = state.path.length, at = (app.playing?.step ?? 0) % Math.max(1, 2 * n - 2);
  return state.path[at < n ? at : 2 * n - 2 - at];
}

export function costsNow() {
  if (!app.playing) return state.costs;
  const costs = state.costs.map((c) => ({ name: c.name, values: c.values.slice() }));
  stamp(costs[state.active].values, app.map, hazardCell(), state.hazard.size, state.hazard.value);
  return costs;
}

export function halt() {
  if (!app.playing) return;
  clearInterval(app.playing.timer); app.playing = null; $("play").textContent = "Play";
}

export function showHazard() {
  $("play").disabled = !state.path.length || !app.picture; $("forget").disabled = !state.path.length;
}

export function follow(picture) {
  const { playing } = app;
  if (!playing) return;
  if (playing.drawn !== playing.step) { playing.drawn = playing.step; playing.shares.push([picture.now.safe, picture.before.safe]); if (playing.shares.length > MOST) playing.shares.shift(); }
  else playing.shares[playing.shares.length - 1] = [picture.now.safe, picture.before.safe];
  const steps = playing.shares.map((_, i) => i + 1), mean = playing.shares.reduce((sum, s) => sum + s[0], 0) / steps.length;
  $("hazard-chart").hidden = false;
  chart($("hazard-chart"), [{ steps, values: playing.shares.map((s) => s[0]) }, { steps, values: playing.shares.map((s) => s[1]), dashed: true }], [0, 1]);
  $("play-text").textContent = `Safe now ${percent(picture.now.safe)}, without refitting ${percent(picture.before.safe)} (dashed). Mean of ${steps.length} moves: ${percent(mean)}. M: ${picture.updates} updates from memory.`;
}

$("play").onclick = () => {
  if (app.playing) { halt(); app.refresh(); return; }
  app.playing = { step: 0, drawn: -1, shares: [] };
  $("play").textContent = "Stop the hazard";
  app.playing.timer = setInterval(() => { app.playing.step++; app.look(); app.draw(); }, EVERY);
  app.look();
};
$("forget").onclick = () => { halt(); state.path = []; $("hazard-chart").hidden = true; $("play-text").textContent = ""; app.refresh(); };
