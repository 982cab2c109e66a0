// Environments that are no maps: parameters of the costs as fields, and an episode as frames.
import { $, app, fail, make, short, status } from "./app.js";
import { state, view } from "./state.js";

let film = null, timer = null;

export function showOther(map) {
  $("other-title").textContent = `${map.algorithm} in ${map.map}`;
  const named = Object.keys(map.args).length;
  $("other-text").textContent = named ? "Change the parameters of the costs, then film an episode: the cost weights are fitted to them." : "The costs of this environment have no parameters; the budgets can change.";
  const given = { ...map.args, ...state.args };
  state.args = given;
  const field = (label, value, set) => make("label", {}, label, " ", make("input", { value, inputmode: "decimal", size: 10, onchange: (e) => {
    const numbers = e.target.value.split(/[\s,;]+/).filter(Boolean).map(Number);
    if (!numbers.length || numbers.some((x) => !Number.isFinite(x))) { e.target.value = value; return fail(`${label}: give a number, or several with spaces between them`); }
    set(numbers.length > 1 ? numbers : numbers[0]); app.look();
  } }));
  $("args").replaceChildren(
    ...Object.entries(given).map(([name, value]) => field(name, [value].flat().map((x) => Number(x.toPrecision(6))).join(" "), (x) => { state.args[name] = Array.isArray(map.args[name]) ? [x].flat() : x; })),
    ...map.names.map((name, j) => field(`budget of ${name}`, state.budgets[j], (x) => { state.budgets[j] = [x].flat()[0]; })));
  $("film").disabled = !map.trained;
}

function show(frame) {
  for (const name of ["now", "before"]) {
    const one = film[name], at = Math.min(frame, one.frames.length - 1), costs = one.costs[at].map((c, j) => `${app.map.names[j]} ${short(c)} of ${short(state.budgets[j])}`);
    $(`film-${name}`).src = `data:image/jpeg;base64,${one.frames[at]}`;
    $(`film-${name}-text`).textContent = `step ${one.steps[at]}, return ${short(one.returns[at])}, ${costs.join(", ")}${at === one.frames.length - 1 ? (one.safe ? ": safe" : ": not safe") : ""}`;
  }
  $("film-frame").value = frame;
}

function play(on) {
  clearInterval(timer); timer = null;
  $("film-play").textContent = on ? "Pause" : "Play";
  if (!on) return;
  timer = setInterval(() => { const next = Number($("film-frame").value) + 1; if (next > Number($("film-frame").max)) play(false); else show(next); }, 60);
}

app.answers.film = (message) => {
  film = message; status("");
  $("films").hidden = $("film-label").hidden = false; $("film-play").disabled = false; $("film").disabled = false;
  $("film-frame").max = Math.max(film.now.frames.length, film.before.frames.length) - 1;
  for (const b of document.querySelectorAll("[data-level]")) { b.disabled = Boolean(message.adaptable); b.title = message.adaptable ?? ""; }
  show(0); play(true);
};
$("film").onclick = () => { $("film").disabled = true; status("running an episode …", true); app.wire.send({ type: "film", view: view([]) }); };
$("film-play").onclick = () => { if (!timer && Number($("film-frame").value) >= Number($("film-frame").max)) show(0); play(!timer); };
$("film-frame").oninput = (e) => { play(false); show(Number(e.target.value)); };
