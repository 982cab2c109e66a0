// Controls and results on the right.
import { $, make, percent, short } from "./app.js";
import { COLORS } from "./draw.js";

// λ in its unit on a slider of 0 to 100: 0, then from 0.005 to 50 on a logarithmic scale.
const LEAST = 0.005, DECADES = 4;
export const lamOf = (place) => (place <= 0 ? 0 : LEAST * 10 ** ((DECADES * (place - 1)) / 99));
export const placeOf = (lam) => (lam < LEAST ? 0 : Math.max(1, Math.min(100, 1 + (99 * Math.log10(lam / LEAST)) / DECADES)));

export const GOOD = 0.9;
export const judged = (share) => (share >= GOOD ? "good" : "bad");

export function showShares(picture, first, names, budgets) {
  const one = (title, found) => {
    const costs = found.cost.map((cost, j) => `${names[j]} ${short(cost)} of ${short(budgets[j])}`).join(", ");
    return make("div", { class: "share" }, title, make("b", { class: judged(found.safe) }, percent(found.safe)),
      make("meter", { min: 0, max: 1, low: GOOD, optimum: 1, value: found.safe, "aria-label": `safe share ${title}` }),
      make("small", {}, `safe, of ${found.episodes} episodes of up to ${found.most_steps} steps`), make("small", {}, `goal ${percent(found.goal)}, ${found.steps.toFixed(0)} steps`), make("small", {}, `mean cost: ${costs || "none"}`));
  };
  $("shares").replaceChildren(one(first, picture.before), one("Now", picture.now));
  for (const name of ["now", "before"]) {
    $(`${name}-share`).textContent = `${percent(picture[name].safe)} safe`;
    $(`${name}-share`).className = `chip ${judged(picture[name].safe)}`;
  }
}

export function showCosts(state, { choose, rename, budget, remove }) {
  $("costs").replaceChildren(...state.costs.map((cost, j) => {
    const out = make("output", {}, short(state.budgets[j]));
    const row = make("div", { class: "row" },
      make("input", { type: "radio", name: "active", "aria-label": `Paint ${cost.name}`, checked: j === state.active, onchange: () => choose(j) }),
      make("input", { type: "text", value: cost.name, maxlength: 40, "aria-label": "Name of the cost", onchange: (e) => rename(j, e.target.value) }),
      state.costs.length > 1 ? make("button", { "aria-label": `Remove ${cost.name}`, onclick: () => remove(j) }, "Remove") : "");
    const slider = make("input", { type: "range", min: 0, max: Math.max(20, 2 * state.budgets[j]), step: 0.5, value: state.budgets[j], "data-budget": j, oninput: (e) => { out.textContent = e.target.value; budget(j, Number(e.target.value)); } });
    const box = make("div", { class: "cost" }, row, make("label", {}, "budget of an episode ", out, slider));
    box.style.setProperty("--c", COLORS[j]);
    return box;
  }));
}

export function showLams(state, picture, changed) {
  const own = state.lam === "own", kept = document.activeElement?.dataset?.lam;
  $("lams").replaceChildren(...state.costs.map((cost, j) => {
    const lam = picture?.lam[j], unit = picture?.unit[j];
    if (lam === undefined) return "";
    const out = make("output", {}, short(lam)), place = placeOf(own ? state.lams[j] ?? 0 : lam / unit);
    return make("label", {}, `λ of ${cost.name}: `, out,
      make("input", { type: "range", min: 0, max: 100, step: 1, value: place, "data-lam": j, oninput: (e) => { out.textContent = short(lamOf(Number(e.target.value)) * unit); changed(j, lamOf(Number(e.target.value))); } }));
  }));
  if (kept !== undefined) document.querySelector(`[data-lam="${kept}"]`)?.focus();
}

// Bounds are rounded to the unfavourable side.
const atLeast = (x) => (Math.floor(1e4 * x) / 1e4).toFixed(4), atMost = (x) => (Math.ceil(1e4 * x) / 1e4).toFixed(4);
export const safeRate = (found) => found.safe_goal_rate ?? found.safe_episode_rate; // without a goal, episodes within the budget count

function rows(c, names) {
  const bound = (b, sign) => `${b.value.toFixed(4)} (${sign} ${(sign === "≥" ? atLeast : atMost)(b.bound)})`;
  return [
    [c.goal_rate ? "reaches the goal within the budget" : "stays within the budget", bound(safeRate(c), "≥")], ...(c.goal_rate ? [["reaches the goal", bound(c.goal_rate, "≥")]] : []),
    ["over a budget", bound(c.violation, "≤")], ...c.cost.map((m, j) => [`mean cost, ${names[j]} (budget ${short(c.budgets[j])})`, `${m.value.toFixed(2)} (≤ ${m.bound.toFixed(2)})`]),
    ["steps of an episode", c.length.toFixed(1)], ["λ", c.lam.map(short).join(", ")], ["simulated episodes", String(c.episodes)],
  ];
}

export function showRungs(rungs) {
  for (const out of document.querySelectorAll("[data-result]")) {
    const rung = rungs.find((r) => r.level === out.dataset.result);
    out.textContent = rung ? `${percent(safeRate(rung).value)} safe` : "";
    out.className = rung ? (rung.passed ? "good" : "bad") : "";
  }
}

export function showCertificate(found, names, stale = false) {
  showRungs(found?.rungs ?? []);
  if (!found) return $("certificate").replaceChildren();
  const verdict = found.passed ? "The certificate passes" : "The certificate fails", goal = found.goal_rate ? "reach the goal within the budget" : "stay within the budget";
  const levels = found.rungs.map((r) => `${r.level} ${safeRate(r).value.toFixed(3)} in ${r.seconds.toFixed(1)} s`).join("; ");
  $("certificate").replaceChildren(
    stale ? make("p", { class: "bad" }, "The costs, the budgets, λ or ε have changed since: this certificate does not hold for what is shown now. Adapt again.") : "",
    make("p", {}, make("b", { class: found.passed ? "good" : "bad" }, verdict),
      `: at level “${found.level}”, at least ${atLeast(safeRate(found).bound)} of all episodes ${goal} (required: ${found.require}).`),
    make("details", {}, make("summary", {}, "Numbers and assumptions"),
      make("table", {}, make("tbody", {}, ...rows(found, names).map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value))))),
      make("p", { class: "hint" }, `In brackets: one-sided ${(100 * found.confidence).toFixed(0)} % confidence bounds. ε = ${found.epsilon}.`),
      make("p", { class: "hint" }, `Safe share after each level: ${levels}.`)),
    make("p", { class: "hint" }, `Assumed: ${found.assumes}.`),
    ...found.remarks.map((text) => make("p", { class: "hint" }, `Warning: ${text}`)));
}
