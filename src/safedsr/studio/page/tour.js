// Three steps for the first visit.
import { $ } from "./app.js";

const STEPS = [
  "Paint on the map: drag over the way of the agent. The walks and the heat map follow, because the cost weights are fitted anew at each stroke.",
  "Press “Adapt automatically”: cost weights, then λ, then M from the replay memory, until the certificate passes.",
  "Read the certificate: its numbers are bounds from simulated episodes, and it says what is assumed. Then paint something else.",
];
let at = 0;

function show(step) {
  at = step;
  $("tour").hidden = at >= STEPS.length;
  $("tour-number").textContent = `${at + 1} of ${STEPS.length}`; $("tour-text").textContent = STEPS[at] ?? "";
  $("tour-next").hidden = at === STEPS.length - 1;
  if (at >= STEPS.length) try { localStorage.setItem("safedsr-tour", "seen"); } catch { /* private mode */ }
}
$("tour-next").onclick = () => show(at + 1);
$("tour-end").onclick = () => show(STEPS.length);
$("start-tour").onclick = () => { show(0); $("tour-next").focus(); };
let seen = false;
try { seen = localStorage.getItem("safedsr-tour"); } catch { /* private mode */ }
if (!seen) show(0);
