// What the console knows at this moment: one stream of events keeps it up to date for all pages.

import { fill, shown } from "./dom.js";

export const state = { facts: {}, topics: new Map(), events: [], brokers: {}, nodes: [], controller: -1, isThere: false };

const listeners = new Set();
const EVENTS_KEPT = 1000;
const FRAME_MS = 30;
let isDue = false;

// `listener` is called with the kinds that are new, at most once a frame; returns what ends that.
export function follow(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// Nothing is drawn anew under a pressed pointer: a button that is replaced between press and release
// is not clicked. A release outside of the window is not told, so it is waited for only so long.
const PRESSED_MAX_MS = 1000;
let pressed = null, release = () => {};

async function released() {
  while (pressed) await pressed;
}

addEventListener("pointerdown", () => {
  release();
  pressed = new Promise((resolve) => { release = () => { pressed = null; release = () => {}; resolve(); }; });
  setTimeout(release, PRESSED_MAX_MS);
}, true);
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, () => setTimeout(() => release()), true);

const kinds = new Set();
function say(kind) {
  kinds.add(kind);
  if (isDue) return;
  isDue = true;
  // Not requestAnimationFrame: a page in the background is to be up to date, too.
  setTimeout(async () => {
    await released();
    isDue = false;
    const now = new Set(kinds);
    kinds.clear();
    for (const listener of [...listeners]) listener(now);
  }, kind === "all" ? 0 : FRAME_MS);
}

function takeSummary(message) {
  for (const name of ["cluster_id", "controller", "controller_epoch", "brokers", "nodes", "problem"]) state[name] = message[name];
  const line = document.getElementById("problem");
  line.hidden = !message.problem;
  fill(line, message.problem);
}

const TAKE = {
  all(message) {
    state.facts = message.facts;
    state.topics = new Map(Object.entries(message.topics));
    state.events = message.events;
    state.isThere = true;
    takeSummary(message);
  },
  cluster(message) {
    for (const [name, placed] of Object.entries(message.topics)) {
      if (placed === null) state.topics.delete(name);
      else state.topics.set(name, placed);
    }
    takeSummary(message);
  },
  nodes(message) { state.nodes = message.nodes; },
  events(message) { state.events = [...state.events, ...message.events].slice(-EVENTS_KEPT); },
  metrics(message) { state.metrics = message; },
  course(message) { state.course = message; },
};

export function listen() {
  const connection = document.getElementById("connection");
  const source = new EventSource("events");
  source.onopen = () => fill(connection, "live");
  source.onerror = () => fill(connection, "not connected; trying again");
  source.onmessage = (event) => {
    const message = JSON.parse(event.data);
    TAKE[message.kind]?.(message);
    say(message.kind);
  };
}

const address = (path, parameters) => `api/${path}?${new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value !== undefined))}`;

export async function ask(path, parameters = {}) {
  const found = await answered(await fetch(address(path, parameters)));
  await released();
  return found;
}

// Of what may be large: its text, or a file of it.
export async function askText(path, parameters) {
  const response = await fetch(address(path, parameters));
  return response.ok ? response.text() : answered(response);
}

export const fileAddress = (path, parameters) => address(path, { ...parameters, raw: "1" });

export async function order(path, body) {
  return answered(await fetch(`api/${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }));
}

async function answered(response) {
  const text = await response.text();
  let found;
  try { found = JSON.parse(text); } catch { found = { error: text.trim() || response.statusText }; }
  if (!response.ok) throw new Error(shown(found.error ?? response.statusText));
  return found;
}
