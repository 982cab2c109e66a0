// Controls and results. Names go into the page as text, never as HTML.
import { COLORS } from "./draw.js";

export const $ = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

export const short = (x) => (Math.abs(x) >= 100 ? x.toFixed(0) : Math.abs(x) >= 1 ? x.toFixed(2) : Number(x.toPrecision(3)).toString());
const percent = (x) => `${(100 * x).toFixed(x > 0.99 && x < 1 ? 1 : 0)} %`;

// λ in its unit on a slider of 0 to 100: 0, then from 0.005 to 50 on a logarithmic scale.
const LEAST = 0.005, DECADES = 4;
export const lamOf = (place) => (place <= 0 ? 0 : LEAST * 10 ** ((DECADES * (place - 1)) / 99));
export const placeOf = (lam) => (lam < LEAST ? 0 : Math.max(1, Math.min(100, 1 + (99 * Math.log10(lam / LEAST)) / DECADES)));

export function fill(select, names, chosen) {
  select.replaceChildren(...names.map(([value, text]) => make("option", { value, selected: String(value) === String(chosen) }, text)));
}

export function showShares(picture, first, names, budgets) {
  const one = (title, found) => {
    const costs = found.cost.map((cost, j) => `${names[j]} ${short(cost)} of ${short(budgets[j])}`).join(", ");
    return make("div", { class: "share" }, title, make("b", { class: found.safe >= 0.9 ? "good" : "bad" }, percent(found.safe)),
      make("small", {}, `safe, of ${found.episodes} episodes of up to ${found.most_steps} steps`), make("small", {}, `goal ${percent(found.goal)}, ${found.steps.toFixed(0)} steps`), make("small", {}, `mean cost: ${costs || "none"}`));
  };
  $("shares").replaceChildren(one(first, picture.before), one("Now", picture.now));
}

export function showCosts(state, { choose, rename, budget, remove }) {
  $("costs").replaceChildren(...state.costs.map((cost, j) => {
    const out = make("output", {}, short(state.budgets[j]));
    const row = make("div", { class: "row" },
      make("input", { type: "radio", name: "active", "aria-label": `Paint ${cost.name}`, checked: j === state.active, onchange: () => choose(j) }),
      make("input", { type: "text", value: cost.name, maxlength: 40, "aria-label": "Name of the cost", onchange: (e) => rename(j, e.target.value) }),
      make("button", { "aria-label": `Remove ${cost.name}`, disabled: state.costs.length < 2, onclick: () => remove(j) }, "Remove"));
    const slider = make("input", { type: "range", min: 0, max: Math.max(20, 2 * state.budgets[j]), step: 0.5, value: state.budgets[j], "data-budget": j, oninput: (e) => { out.textContent = e.target.value; budget(j, Number(e.target.value)); } });
    const box = make("div", { class: "cost" }, row, make("label", {}, "budget of an episode ", out, slider));
    box.style.setProperty("--c", COLORS[j]);
    return box;
  }));
}

export function showLams(state, picture, changed) {
  const own = state.lam === "own";
  const kept = document.activeElement?.dataset?.lam;
  $("lams").replaceChildren(...state.costs.map((cost, j) => {
    const lam = picture?.lam[j], unit = picture?.unit[j];
    if (lam === undefined) return "";
    const out = make("output", {}, short(lam));
    const place = placeOf(own ? state.lams[j] ?? 0 : lam / unit);
    return make("label", {}, `λ of ${cost.name}: `, out,
      make("input", { type: "range", min: 0, max: 100, step: 1, value: place, "data-lam": j, oninput: (e) => { out.textContent = short(lamOf(Number(e.target.value)) * unit); changed(j, lamOf(Number(e.target.value))); } }));
  }));
  if (kept !== undefined) document.querySelector(`[data-lam="${kept}"]`)?.focus();
}

// Bounds are rounded to the unfavourable side.
const atLeast = (x) => (Math.floor(1e4 * x) / 1e4).toFixed(4), atMost = (x) => (Math.ceil(1e4 * x) / 1e4).toFixed(4);

function rows(c, names) {
  const bound = (b, sign) => `${b.value.toFixed(4)} (${sign} ${(sign === "≥" ? atLeast : atMost)(b.bound)})`;
  return [
    ["reaches the goal within the budget", bound(c.safe_goal_rate, "≥")], ["reaches the goal", bound(c.goal_rate, "≥")],
    ["over a budget", bound(c.violation, "≤")], ...c.cost.map((m, j) => [`mean cost, ${names[j]} (budget ${short(c.budgets[j])})`, `${m.value.toFixed(2)} (≤ ${m.bound.toFixed(2)})`]),
    ["steps of an episode", c.length.toFixed(1)], ["λ", c.lam.map(short).join(", ")], ["simulated episodes", String(c.episodes)],
  ];
}

export function showCertificate(found, names, stale = false) {
  if (!found) return $("certificate").replaceChildren();
  const verdict = found.passed ? "The certificate passes" : "The certificate fails";
  const levels = found.rungs.map((r) => `${r.level} ${r.safe_goal_rate.value.toFixed(3)} in ${r.seconds.toFixed(1)} s`).join("; ");
  $("certificate").replaceChildren(
    stale ? make("p", { class: "bad" }, "The costs, the budgets, λ or ε have changed since: this certificate does not hold for what is shown now. Adapt again.") : "",
    make("p", {}, make("b", { class: found.passed ? "good" : "bad" }, verdict),
      `: at level “${found.level}”, at least ${atLeast(found.safe_goal_rate.bound)} of all episodes reach the goal within the budget (required: ${found.require}).`),
    make("table", {}, make("tbody", {}, ...rows(found, names).map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value))))),
    make("p", { class: "hint" }, `In brackets: one-sided ${(100 * found.confidence).toFixed(0)} % confidence bounds. ε = ${found.epsilon}. Assumed: ${found.assumes}.`),
    make("p", { class: "hint" }, `Safe share after each level: ${levels}.`),
    ...found.remarks.map((text) => make("p", { class: "hint" }, `Warning: ${text}`)));
}
