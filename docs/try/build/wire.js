// The WebSocket: it connects again by itself, and sends a view only when the last one was answered.
const WAIT = [250, 500, 1000, 2000], SLOW = 400; // milliseconds

export function connect({ opened, received, status }) {
  let socket, tries = 0, number = 0, waiting = null, next = null, sent = 0, oldest = 0, slow = null;

  function dial() {
    const token = new URLSearchParams(location.search).get("token");
    socket = new WebSocket(`ws://${location.host}/talk${token ? `?token=${encodeURIComponent(token)}` : ""}`);
    socket.onopen = () => { tries = 0; waiting = next = null; opened(); };
    socket.onmessage = (event) => {
      const message = JSON.parse(event.data);
      if (message.id <= oldest && (message.type === "picture" || message.type === "oracle")) return; // of another run
      if (message.id === waiting && !message.searched) {
        waiting = null;
        clearTimeout(slow);
        message.since = sent;
      }
      received(message);
      if (waiting === null && next) look(...next);
    };
    socket.onclose = () => {
      status(tries < 3 ? "connecting …" : "no connection; is the studio still running, and was it opened with its own link?", true);
      setTimeout(dial, WAIT[Math.min(tries++, WAIT.length - 1)]);
    };
  }

  function send(message) {
    if (socket.readyState !== WebSocket.OPEN) return null;
    const id = ++number;
    socket.send(JSON.stringify({ id, ...message }));
    return id;
  }

  // Of several views, the latest counts.
  function look(message, since = performance.now()) {
    next = null;
    if (waiting !== null) { next = [message, since]; return; }
    sent = since;
    waiting = send(message);
    clearTimeout(slow);
    slow = setTimeout(() => status("computing …", true), SLOW);
  }

  // Another run was chosen: pictures that are on their way are not of it.
  function forget() { oldest = number; waiting = next = null; }

  dial();
  return { send, look, forget };
}

export const unpack = (text) => new Float32Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);

export function pack(values) {
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  let text = "";
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return btoa(text);
}
