// What all modules share: elements, words, and what is known of the run.
export const app = {
  map: null, // the run: its map, or the parameters of its costs
  picture: null, // the last answer of the server to a view
  certificate: null,
  playing: null, // the moving hazard, while it moves
  answers: {}, // what to do with a message, by its type
  wire: null,
  refresh() {}, look() {}, draw() {}, open() {},
};

export const $ = (id) => document.getElementById(id);
export function say(text) { $("spoken").textContent = text; }
export function fail(text) { $("error").textContent = text; $("error").hidden = false; }
export function status(text, busy = false) { $("status").textContent = text; $("status").classList.toggle("busy", busy); }

// Names go into the page as text, never as HTML.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

export function fill(select, names, chosen) {
  select.replaceChildren(...names.map(([value, text]) => make("option", { value, selected: String(value) === String(chosen) }, text)));
}

export const short = (x) => (Math.abs(x) >= 100 ? x.toFixed(0) : Math.abs(x) >= 1 ? x.toFixed(2) : Number(x.toPrecision(3)).toString());
export const percent = (x) => `${(100 * x).toFixed(x > 0.99 && x < 1 ? 1 : 0)} %`;
export const dark = matchMedia("(prefers-color-scheme: dark)"), calm = matchMedia("(prefers-reduced-motion: reduce)");
