// Line charts: training curves of a run, also while it trains, and the safe share of a moving hazard.
import { $, app, dark, make, short } from "./app.js";
import { state } from "./state.js";

const EVERY = 2000; // milliseconds between two looks at a run that trains
const COLOURS = ["#0b57d0", "#e8590c", "#6a1b9a"], LIGHT = ["#8ab8ff", "#ffb27d", "#d7a6ff"];

// lines: [{ steps, values, name, dashed }]; limits: [low, high] or null; budget: a horizontal line or null
export function chart(canvas, lines, limits, budget = null) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2), width = canvas.clientWidth || 300, height = canvas.clientHeight || 110;
  [canvas.width, canvas.height] = [width * ratio, height * ratio];
  const c = canvas.getContext("2d"), ink = dark.matches ? "#a8b6c6" : "#526174", left = 44, right = 6, top = 6, bottom = 18;
  c.scale(ratio, ratio);
  const all = lines.flatMap((l) => l.values), last = Math.max(...lines.flatMap((l) => l.steps), 1);
  let [low, high] = limits ?? [Math.min(...all, budget ?? Infinity), Math.max(...all, budget ?? -Infinity)];
  if (!(high > low)) high = low + 1;
  const x = (s) => left + (s / last) * (width - left - right), y = (v) => height - bottom - ((v - low) / (high - low)) * (height - top - bottom);
  c.font = "11px system-ui, sans-serif"; c.fillStyle = ink; c.strokeStyle = dark.matches ? "#33414f" : "#cfd8e3"; c.textAlign = "right"; c.textBaseline = "middle";
  for (const v of [low, (low + high) / 2, high]) { c.fillText(short(v), left - 5, y(v)); c.beginPath(); c.moveTo(left, y(v)); c.lineTo(width - right, y(v)); c.stroke(); }
  c.textBaseline = "bottom"; c.fillText(`${last.toLocaleString("en")}`, width - right, height - 1); c.textAlign = "left"; c.fillText("0", left, height - 1);
  if (budget !== null) { c.strokeStyle = dark.matches ? "#ff9db3" : "#b00038"; c.setLineDash([5, 4]); c.beginPath(); c.moveTo(left, y(budget)); c.lineTo(width - right, y(budget)); c.stroke(); }
  lines.forEach((l, n) => {
    c.strokeStyle = (dark.matches ? LIGHT : COLOURS)[n % 3]; c.lineWidth = n ? 1.3 : 2.2; c.lineJoin = "round"; c.setLineDash(l.dashed ? [6, 4] : []);
    c.beginPath(); l.values.forEach((v, i) => c.lineTo(x(l.steps[i]), y(v))); c.stroke();
  });
}

let shown = null, timer = null;
export function askCurves() {
  clearTimeout(timer);
  if (!$("curves-box").open || !app.map) return;
  app.wire.send({ type: "curves", view: { run: state.run, task: state.task, seed: state.seed, against: state.against } });
}

app.answers.curves = (message) => {
  const still = !message.ended && message.planned, other = message.against?.charts ?? [];
  $("curves-text").textContent = message.planned ? `step ${message.step.toLocaleString("en")} of ${message.planned.toLocaleString("en")}${still ? ", training" : ""}` : "";
  if (!message.charts.length) $("curves").replaceChildren(make("p", { class: "hint" }, message.planned ? "The training has not finished its first chunk of steps yet." : "This folder holds no training curves."));
  else {
    const charts = message.charts.map((one) => {
      const lines = [...one.lines, ...other.filter((o) => o.title === one.title).map((o) => ({ ...o.lines[0], name: state.against, dashed: true }))];
      const words = lines.map((l) => `${l.name} ${l.values.length ? short(l.values.at(-1)) : "–"}`).join("; ");
      const canvas = make("canvas", { class: "chart", role: "img", "aria-label": `${one.title}: ${words}` });
      return { box: make("div", {}, make("h3", {}, one.title), canvas, make("p", { class: "hint" }, words)), draw: () => chart(canvas, lines, one.share ? [0, 1] : null, one.budget) };
    });
    $("curves").replaceChildren(...charts.map((one) => one.box));
    shown = () => charts.forEach((one) => one.draw());
    shown();
  }
  if (still) timer = setTimeout(askCurves, EVERY);
  if (message.ended && app.map && !app.map.trained) app.open(); // its policy can be shown now
};

$("curves-box").addEventListener("toggle", askCurves);
addEventListener("resize", () => shown?.());
