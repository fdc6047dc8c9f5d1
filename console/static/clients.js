// Clients: who is connected with which software, and the latencies and errors that they push (KIP-714).

import { count, facts, fill, h, inSort, scrolling, table, tableTools, teach } from "./dom.js";
import { ask } from "./state.js";
import { repeat } from "./common.js";

const ROWS = 200;
const CAPTION = "Clients by id, software and address";

const COLUMNS = [
  ["Client id", (row) => row.client_id || h("span", { class: "soft" }, "none")],
  ["Software", (row) => (row.software === "unknown" ? h("span", { class: "soft" }, "unknown") : row.software)],
  ["Version", (row) => (row.version === "unknown" ? "–" : row.version)],
  ["Host", (row) => row.host],
  ["Login", (row) => row.principal],
  ["Connections", (row) => row.connections, "number"],
  ["Brokers", (row) => row.brokers.join(", ")],
  ["Idle, s", (row) => count(row.idle_ms / 1000, 1), "number", (row) => row.idle_ms],
];

export function clientsPage(main) {
  const summary = h("div"), place = h("div"), pushed = h("div"), values = h("section", { hidden: true });
  const filter = h("input", { type: "search", placeholder: "id, software or host", oninput: () => draw() });
  const where = h("span", { role: "status" });
  let told = null, chosen = null;
  fill(main, h("h1", {}, "Clients"), summary,
    h("section", {}, h("h2", {}, "Connected"), h("div", { class: "bar" }, h("label", {}, "Clients that have", filter), where),
      scrolling("clients", place), tableTools("clients", () => place.querySelector("table"))),
    h("section", {}, h("h2", {}, "Metrics that clients push"), scrolling("pushed metrics", pushed), tableTools("client-metrics", () => pushed.querySelector("table"))),
    values);

  const has = (row, text) => [row.client_id, row.software, row.version, row.host, row.principal].some((one) => String(one ?? "").toLowerCase().includes(text));

  function draw() {
    if (!told) return;
    const text = filter.value.toLowerCase();
    const found = told.clients.filter((row) => has(row, text));
    const versions = new Set(told.clients.filter((row) => row.software !== "unknown").map((row) => `${row.software} ${row.version}`));
    fill(summary, facts({ Clients: count(told.clients.length), Connections: count(told.connections), Software: [...versions].sort().join(", ") || "–", "Push metrics": count(told.pushed.length) }));
    fill(place, table(CAPTION, COLUMNS, inSort(CAPTION, COLUMNS, found).slice(0, ROWS), told.problem ? teach("Who is connected is not known", told.problem) : "no client is like that", draw));
    fill(where, found.length > ROWS ? `${count(ROWS)} of ${count(found.length)} shown` : `${count(found.length)} clients`);
    if (!(pushed.contains(document.activeElement) && !told.pushed.length)) fill(pushed, table("Client instances with metrics", [
      ["Client id", (row) => row.client_id],
      ["Software", (row) => `${row.software} ${row.version}`],
      ["Host", (row) => row.host],
      ["Latency, ms", (row) => count(row.latency_ms, 1), "number"],
      ["Errors", (row) => (row.failures ? h("span", { class: "late" }, count(row.failures)) : count(row.failures)), "number"],
      ["Pushes", (row) => count(row.pushes), "number"],
      ["Failed pushes", (row) => count(row.errors), "number"],
      ["Values", (row) => h("button", { type: "button", "data-instance": row.instance, "aria-pressed": String(row.instance === chosen), "aria-label": `values of ${row.instance}`, onclick: () => choose(row.instance) }, "show"), "plain"],
    ], told.pushed.filter((row) => has(row, text)), teach("No client pushes metrics", "Clients of Kafka 3.7 and later push the metrics that a subscription asks for (KIP-714): the config of a client-metrics resource, which Kafka's tools set.", "kafka-client-metrics.sh --bootstrap-server HOST:PORT --alter --generate-name --metrics '*' --interval 10000")));
    drawValues();
  }

  function choose(instance) {
    chosen = chosen === instance ? null : instance;
    draw();
    pushed.querySelector(`[data-instance="${CSS.escape(instance)}"]`)?.focus();
  }

  function drawValues() {
    const row = told.pushed.find((one) => one.instance === chosen);
    values.hidden = !row;
    if (!row) { fill(values); return; }
    fill(values, h("h2", {}, `Metrics of ${row.client_id || "a client"}`), h("p", { class: "soft" }, `Client instance ${row.instance}, to broker ${row.broker}`),
      scrolling("values", table("Values as the client pushed them last", [["Metric", ([metric]) => metric, "long"], ["Attributes", ([, attributes]) => attributes || "–", "long"], ["Value", ([, , value]) => count(value, 3), "number", ([, , value]) => value]], row.values, "no values")));
  }

  return repeat(async () => {
    told = await ask("clients");
    draw();
  });
}
