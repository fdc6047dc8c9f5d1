// Plots of the last 15 minutes, and what each broker's stages hold and take at this moment.

import { chart } from "./chart.js";
import { bytes, copy, count, fill, h, save, scrolling, table, tableTools, teach } from "./dom.js";
import { ask, follow, state } from "./state.js";
import { repeat } from "./common.js";

const MINUTE_MS = 60 * 1000;
const RANGES = [1, 5, 15]; // minutes
const EVERY_MS = 3000;

const PLOTS = [
  ["Bytes in per second", "bytes in/s", bytes], ["Bytes out per second", "bytes out/s", bytes], ["Records in per second", "records in/s", count],
  ["Requests per second", "requests/s", count], ["p50 latency, ms", "p50", count], ["p99 latency, ms", "p99", count],
  ["Under-replicated partitions", "under-replicated", count], ["Lag of groups, records", "lag", count], ["Memory", "memory", bytes],
];
const BY_API = ["p50", "p99"];

export function plotsPage(main) {
  const charts = new Map(PLOTS.map(([title, name, unit]) => [name, chart(title, unit)]));
  const places = new Map(PLOTS.map(([, name]) => [name, h("div")]));
  const stages = h("div"), waiting = h("div");
  const apis = h("select", { onchange: () => draw() });
  let shown = {}, names = "", range = RANGES.at(-1);
  const ranges = h("fieldset", { class: "segments" }, h("legend", {}, "Range"), RANGES.map((minutes) => h("label", {}, h("input", { type: "radio", name: "range", checked: minutes === range, onchange: () => { range = minutes; draw(); } }), h("span", {}, `${minutes} min`))));
  fill(main, h("h1", {}, "Metrics"), h("p", { class: "soft" }, "The last 15 minutes, from the brokers' metrics ports; kept while the console runs."),
    h("div", { class: "bar" }, ranges, h("label", {}, "Latency of", apis)),
    h("div", { class: "tiles" }, PLOTS.map(([title, name]) => h("section", {}, h("div", { class: "head" }, h("h2", {}, title),
      h("span", { class: "tools" }, h("button", { type: "button", "aria-label": `copy ${title}`, onclick: () => copy(lines(name)) }, "Copy"),
        h("button", { type: "button", "aria-label": `save ${title}`, onclick: () => save(`${name}.svg`, places.get(name).querySelector("svg").outerHTML, "image/svg+xml") }, "Save SVG"))), places.get(name)))),
    h("section", {}, h("h2", {}, "Latency of each stage of a request, ms"), scrolling("stages", stages), tableTools("stages", () => stages.querySelector("table"))),
    h("section", {}, h("h2", {}, "Queues and purgatories"), scrolling("queues and purgatories", waiting), tableTools("what-waits", () => waiting.querySelector("table"))));

  const seriesOf = (name) => Object.entries(shown).filter(([one]) => one.startsWith(`${BY_API.includes(name) ? `${apis.value} ` : ""}${name} · `));
  const lines = (name) => seriesOf(name).flatMap(([one, points]) => points.map(([at, value]) => `${one}\t${new Date(at).toISOString()}\t${value}`)).join("\n");

  function drawStages() {
    const brokers = Object.entries(state.metrics?.brokers ?? {});
    const names = ["requestqueue", "local", "remote", "throttle", "responsequeue", "responsesend", "total"];
    const titles = ["Request queue", "Local", "Purgatory", "Throttled", "Response queue", "Send", "Total"];
    const rows = brokers.flatMap(([broker, one]) => Object.entries(one.stages).sort().map(([api, times]) => ({ broker, api, times })));
    const time = (row, name) => { const found = row.times[name]; return found ? `${count(found.p50, 2)} / ${count(found.p99, 2)}` : "–"; };
    const p99 = (row, name) => row.times[name]?.p99 ?? -1;
    fill(stages, table("p50 / p99, sorted by p99", [["Broker", (row) => row.broker, "number"], ["Request", (row) => row.api], ...names.map((name, index) => [titles[index], (row) => time(row, name), "number", (row) => p99(row, name)])], rows, "Nothing is measured yet."));
    const kindsOf = [...new Set(brokers.flatMap(([, one]) => Object.keys(one.purgatory)))].sort();
    fill(waiting, table("Requests that wait at this moment", [["Broker", ([broker]) => broker, "number"], ["Request queue", ([, one]) => count(one.gauges["request queue"]), "number"],
      ...kindsOf.map((kind) => [`Purgatory: ${kind}`, ([, one]) => count(one.purgatory[kind]), "number"]), ["Response queue", ([, one]) => count(one.gauges["response queue"]), "number"]], brokers, "Nothing is measured yet."));
  }

  function draw() {
    const known = [...new Set(Object.keys(shown).map((one) => one.match(/^(\w+) p99 · /)?.[1]).filter(Boolean))].sort();
    if (known.join() !== names) {
      const wanted = apis.value || "Produce";
      names = known.join();
      fill(apis, known.map((one) => h("option", { value: one, selected: one === wanted }, one)));
    }
    for (const [, name] of PLOTS) {
      const found = seriesOf(name).sort(([one], [other]) => (one < other ? -1 : 1));
      const place = places.get(name), { place: drawn, draw: redraw } = charts.get(name);
      if (found.length) {
        redraw(found, range * MINUTE_MS);
        if (drawn.parentNode !== place) fill(place, drawn);
      } else {
        fill(place, name === "lag" ? teach("No lag to show", "A group shows here once it has committed offsets.")
          : state.metrics ? h("p", { class: "nothing" }, "measuring …") : teach("Nothing is measured", "The console reads the metrics ports of brokers.", "pybroker start --console"));
      }
    }
  }

  drawStages();
  const ends = [follow((kinds) => { if (kinds.has("metrics")) drawStages(); }), repeat(async () => { shown = await ask("series"); draw(); }, EVERY_MS),
    ...[...charts.values()].map((one) => one.end)];
  return () => ends.forEach((end) => end());
}
