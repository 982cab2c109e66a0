// What the page shows, with undo and redo, and as the fragment of its address.
import { pack } from "./wire.js";

export const state = {
  run: "", seed: null, task: 0, policy: null, costs: [], budgets: [], lam: "auto", lams: [], epsilon: 0, against: null, args: {},
  active: 0, layer: "score", arrows: false, walks: true, beside: true, oracle: false, path: [], hazard: { size: 1, value: 1 },
};
export const KEPT = ["policy", "budgets", "lam", "lams", "epsilon", "against", "args", "layer", "arrows", "walks", "beside", "oracle", "path", "hazard"];

const past = [], future = [], MOST = 200;
const copy = () => ({ costs: state.costs.map((c) => ({ name: c.name, values: c.values.slice() })), budgets: [...state.budgets], lams: [...state.lams] });

export function remember() { past.push(copy()); if (past.length > MOST) past.shift(); future.length = 0; }
export function forget() { past.length = future.length = 0; }
function swap(from, to) {
  if (!from.length) return false;
  to.push(copy());
  Object.assign(state, from.pop());
  state.active = Math.min(state.active, state.costs.length - 1);
  return true;
}
export const undo = () => swap(past, future), redo = () => swap(future, past);
export const can = () => ({ undo: past.length > 0, redo: future.length > 0 });

export function view(costs = state.costs) {
  const { run, seed, task, policy, budgets, lam, lams, epsilon, against, layer, oracle, args } = state;
  return {
    run, seed, task, policy, budgets, lam, lams: lam === "own" ? lams : [], epsilon, against, oracle, args, leverage: layer === "leverage",
    costs: costs.map((c) => ({ name: c.name, values: pack(c.values) })),
  };
}

async function through(stream, bytes) {
  const writer = stream.writable.getWriter();
  writer.write(bytes).catch(() => {}); writer.close().catch(() => {}); // damaged bytes are reported by the reader
  return new Uint8Array(await new Response(stream.readable).arrayBuffer());
}

export async function toFragment() {
  const sparse = state.costs.map((c) => ({ name: c.name, cells: [...c.values].flatMap((v, i) => (v ? [i, v] : [])) }));
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify({ ...state, costs: sparse })));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export async function fromFragment(text) {
  const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(await through(new DecompressionStream("deflate-raw"), bytes)));
}
