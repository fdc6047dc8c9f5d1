// Plots of the last 15 minutes, and what each broker's stages hold and take at this moment.

import { bytes, clock, copy, count, fill, h, save, scrolling, table, tableTools } from "./dom.js";
import { svg } from "./drawings.js";
import { ask, follow, state } from "./state.js";
import { repeat } from "./topics.js";

const WIDTH = 600, HEIGHT = 180, LEFT = 62, BOTTOM = 20, TOP = 8;
const SPAN_MS = 15 * 60 * 1000;
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "1 4"];
const EVERY_MS = 3000;

const PLOTS = [
  ["Bytes in a second", "bytes in/s", bytes], ["Bytes out a second", "bytes out/s", bytes], ["Records in a second", "records in/s", count],
  ["Requests a second", "requests/s", count], ["Half of the requests take, ms", "p50", count], ["99 of 100 take, ms", "p99", count],
  ["Under-replicated partitions", "under-replicated", count], ["Lag of groups, records", "lag", count], ["Memory", "memory", bytes],
];
const BY_API = ["p50", "p99"];

export function plotsPage(main) {
  const places = new Map(PLOTS.map(([title]) => [title, h("div")]));
  const stages = h("div"), waiting = h("div");
  const apis = h("select", { onchange: () => draw() });
  let shown = {}, names = "";
  fill(main, h("h1", {}, "Plots"), h("p", { class: "soft" }, "The last 15 minutes, from the brokers' metrics ports; kept while the console runs."),
    h("div", { class: "bar" }, h("label", {}, "Times of", apis)),
    h("div", { class: "tiles" }, PLOTS.map(([title, name]) => h("section", {}, h("h2", {}, title), places.get(title),
      h("button", { type: "button", "aria-label": `copy ${title}`, onclick: () => copy(lines(name)) }, "Copy"), " ",
      h("button", { type: "button", "aria-label": `save ${title}`, onclick: () => save(`${name}.svg`, places.get(title).querySelector("svg").outerHTML, "image/svg+xml") }, "Save SVG")))),
    h("section", {}, h("h2", {}, "A request's way: time in each stage, in ms"), scrolling("stages", stages), tableTools("stages", () => stages.querySelector("table"))),
    h("section", {}, h("h2", {}, "What waits"), scrolling("what waits", waiting), tableTools("what-waits", () => waiting.querySelector("table"))));

  const seriesOf = (name) => Object.entries(shown).filter(([one]) => one.startsWith(`${BY_API.includes(name) ? `${apis.value} ` : ""}${name} · `));
  const lines = (name) => seriesOf(name).flatMap(([one, points]) => points.map(([at, value]) => `${one}\t${new Date(at).toISOString()}\t${value}`)).join("\n");

  function drawStages(kinds) {
    if (!kinds.has("metrics")) return;
    const brokers = Object.entries(state.metrics.brokers);
    const names = ["requestqueue", "local", "remote", "throttle", "responsequeue", "responsesend", "total"];
    const titles = ["Request queue", "Local", "Purgatory", "Throttled", "Response queue", "Send", "Total"];
    const rows = brokers.flatMap(([broker, one]) => Object.entries(one.stages).sort().map(([api, times]) => ({ broker, api, times })));
    const time = (row, name) => { const found = row.times[name]; return found ? `${count(found.p50, 2)} / ${count(found.p99, 2)}` : "–"; };
    fill(stages, table("50th and 99th percentile", [["Broker", (row) => row.broker, "number"], ["Request", (row) => row.api], ...names.map((name, index) => [titles[index], (row) => time(row, name), "number"])], rows));
    const kindsOf = [...new Set(brokers.flatMap(([, one]) => Object.keys(one.purgatory)))].sort();
    fill(waiting, table("Requests in queues and purgatories at this moment", [["Broker", ([broker]) => broker, "number"], ["Request queue", ([, one]) => count(one.gauges["request queue"]), "number"],
      ...kindsOf.map((kind) => [`Purgatory: ${kind}`, ([, one]) => count(one.purgatory[kind]), "number"]), ["Response queue", ([, one]) => count(one.gauges["response queue"]), "number"]], brokers));
  }

  function draw() {
    const known = [...new Set(Object.keys(shown).map((one) => one.match(/^(\w+) p99 · /)?.[1]).filter(Boolean))].sort();
    if (known.join() !== names) {
      const wanted = apis.value || "Produce";
      names = known.join();
      fill(apis, known.map((one) => h("option", { value: one, selected: one === wanted }, one)));
    }
    for (const [title, name, unit] of PLOTS) {
      const found = seriesOf(name).sort(([one], [other]) => (one < other ? -1 : 1));
      const nothing = name === "lag" ? "No group has committed offsets, or nothing is measured." : "Nothing is measured: the console needs the metrics ports of a local cluster (pybroker start --console, or --metrics-port).";
      fill(places.get(title), found.length ? plot(title, found, unit) : h("p", { class: "soft" }, nothing));
    }
  }

  const ends = [follow(drawStages), repeat(async () => { shown = await ask("series"); draw(); }, EVERY_MS)];
  return () => ends.forEach((end) => end());
}

function plot(title, series, unit) {
  const now = Date.now();
  const most = Math.max(...series.flatMap(([, points]) => points.map(([, value]) => value)), 1e-9);
  const x = (at) => LEFT + ((WIDTH - LEFT) * (at - now + SPAN_MS)) / SPAN_MS;
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / most);
  const latest = series.map(([name, points]) => `${name.split(" · ")[1]}: ${unit(points.at(-1)[1], 2)}`);
  const drawn = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plot", role: "img", "aria-label": `${title}; now ${latest.join(", ")}`, xmlns: "http://www.w3.org/2000/svg" });
  for (const share of [0, 0.5, 1]) {
    drawn.append(svg("line", { class: "axis", stroke: "#999", x1: LEFT, x2: WIDTH, y1: y(share * most), y2: y(share * most) }),
      svg("text", { x: LEFT - 5, y: y(share * most) + 4, "text-anchor": "end" }, unit(share * most, 2)));
  }
  for (const minutes of [15, 10, 5]) drawn.append(svg("text", { x: x(now - minutes * 60000), y: HEIGHT - 5 }, `−${minutes} min`));
  series.forEach(([, points], index) => {
    const line = points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    drawn.append(svg("polyline", { points: line, fill: "none", stroke: `hsl(${(index * 137 + 210) % 360} 65% 45%)`, "stroke-width": "1.6", "stroke-dasharray": DASHES[index % DASHES.length] }));
  });
  return h("div", {}, drawn, h("p", { class: "soft" }, latest.join(" · "), " at ", clock(now)));
}
