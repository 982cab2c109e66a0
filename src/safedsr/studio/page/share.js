// Map as text, link, command, Python code, adapted policy as a folder.
import { $, app, status } from "./app.js";
import { remember, state, toFragment, view } from "./state.js";

let wanted = {}; // what an export is for, by the number of its request

async function copyText(text, done) {
  try { await navigator.clipboard.writeText(text); $("kept").textContent = done; } catch { $("text").value = text; $("kept").textContent = "Copy it from the text field."; }
}
const where = () => ({ run: state.run, seed: state.seed, task: state.task });

app.answers.exported = (message) => {
  const what = wanted[message.id] ?? "text";
  $("text").value = message.text;
  if (what === "text") $("kept").textContent = "The map is in the text field; save it as map.txt.";
  else copyText(message[what], what === "command" ? "The command is copied; it reads the map from map.txt." : "The Python code is copied; it reads the map from map.txt.");
};
app.answers.saved = (message) => { $("kept").textContent = `Saved: ${message.folder}`; app.open(); };
app.answers.imported = (message) => {
  const { costs } = message;
  remember();
  if (wanted[message.id] === "shape") app.setCosts(state.costs.map((c, j) => (j === state.active ? { name: c.name, values: costs[0].values } : c)));
  else { app.setCosts(costs); $("kept").textContent = "The costs of the text are on the map."; }
  app.refresh();
};
$("export").onclick = () => app.wire.send({ type: "export", view: view() });
for (const name of ["command", "python"]) $(name).onclick = () => { wanted = { [app.wire.send({ type: "export", view: view() })]: name }; };
$("import").onclick = () => app.wire.send({ type: "import", text: $("text").value, view: where() });
$("shape").onchange = (e) => { if (e.target.value) wanted = { [app.wire.send({ type: "shape", text: e.target.value, view: where() })]: "shape" }; e.target.value = ""; };
$("link").onclick = async () => { history.replaceState(null, "", `#${await toFragment()}`); copyText(location.href, "The link is copied."); };
$("save-form").onsubmit = (e) => { e.preventDefault(); $("kept").textContent = "saving …"; status("saving …", true); app.wire.send({ type: "save", text: $("save-name").value, view: view() }); };
