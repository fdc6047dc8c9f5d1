// The first page: health, throughput, latency and lag at a glance, the busiest topics, the latest events.

import { bytes, clock, count, counted, fill, h, scrolling, table, teach } from "./dom.js";
import { ask, follow, state } from "./state.js";
import { isInternal, link, repeat, topicRates } from "./common.js";
import { most, spark, sum } from "./spark.js";

const EVERY_MS = 3000;
const ROWS = 8;
const EVENTS = 10;
const LEADER = 0, REPLICAS = 2, ISR = 3;

export function overviewPage(main) {
  const health = h("div"), stats = h("div", { class: "stats" }), topics = h("div"), groups = h("div"), line = h("ol", { class: "timeline" });
  let series = {};
  const rated = topicRates();
  let rows = [];
  fill(main, h("h1", {}, "Overview"), health, stats,
    h("div", { class: "columns even" },
      h("section", {}, h("div", { class: "head" }, h("h2", {}, "Busiest topics"), h("a", { href: link("topics") }, "All topics")), scrolling("busiest topics", topics)),
      h("section", {}, h("div", { class: "head" }, h("h2", {}, "Groups that lag"), h("a", { href: link("groups") }, "All groups")), scrolling("groups that lag", groups)),
    ),
    h("section", {}, h("div", { class: "head" }, h("h2", {}, "Latest events"), h("a", { href: link("cluster") }, "All events")), line));

  function drawHealth() {
    let behind = 0, leaderless = 0;
    for (const placed of state.topics.values()) {
      for (const one of placed) {
        if (!one) continue;
        if (one[ISR].length < one[REPLICAS].length) behind += 1;
        if (one[LEADER] < 0) leaderless += 1;
      }
    }
    const nodes = state.nodes.filter((node) => node.status !== "running");
    const troubles = [
      state.problem && [state.problem, "bad"],
      leaderless && [`${counted(leaderless, "partition")} without a leader`, "bad"],
      state.controller < 0 && ["no controller", "bad"],
      ...nodes.map((node) => [`${node.name} is ${node.status}`, node.status === "paused" ? "late" : "bad"]),
      behind && [`${counted(behind, "partition")} under-replicated`, "late"],
    ].filter(Boolean);
    const worst = troubles.some(([, kind]) => kind === "bad") ? "bad" : troubles.length ? "late" : "good";
    const brokers = Object.keys(state.brokers).length;
    fill(health, h("a", { class: `health ${worst}`, href: link("cluster") },
      h("b", {}, { good: "Healthy", late: "Degraded", bad: "In trouble" }[worst]),
      h("span", {}, troubles.length ? troubles.slice(0, 4).map(([text]) => text).join(" · ") : "every partition has a leader and all of its replicas in sync"),
      h("span", {}, `${counted(brokers, "broker")} · ${counted(state.topics.size, "topic")} · controller ${state.controller < 0 ? "none" : state.controller}`)));
  }

  const named = (start) => Object.entries(series).filter(([name]) => name.startsWith(start));

  function stat(title, points, shown, place, note = "") {
    const now = points.at(-1)?.[1];
    const text = now === undefined ? "–" : shown(now);
    return h("a", { class: "stat", href: link(...place) }, h("span", { class: "title" }, title), h("b", {}, text),
      points.length > 1 ? spark(points, `${title} in the last 15 minutes; now ${text}`) : h("span", { class: "soft" }, state.metrics ? "measuring …" : note));
  }

  function drawStats() {
    const isMeasured = named("bytes in/s").length > 0;
    const rate = rows.filter((row) => row.rate !== undefined && !isInternal(row.name)).reduce((all, row) => all + row.rate, 0);
    const records = isMeasured ? sum(named("records in/s")) : rows.some((row) => row.rate !== undefined) ? [[0, rate]] : [];
    const none = "needs the metrics ports";
    fill(stats,
      stat("Records in", records, (value) => `${count(value, value < 10 ? 1 : 0)} /s`, ["plots"], "by the ends of logs"),
      stat("Bytes in", sum(named("bytes in/s")), (value) => `${bytes(value)}/s`, ["plots"], none),
      stat("Bytes out", sum(named("bytes out/s")), (value) => `${bytes(value)}/s`, ["plots"], none),
      stat("Produce p99", most(named("Produce p99 · ")), (value) => `${count(value, 1)} ms`, ["plots"], none),
      stat("Lag of groups", sum(named("lag · ")), (value) => count(value), ["groups"], none),
      stat("Memory of brokers", sum(named("memory · ")), (value) => bytes(value), ["cluster"], none));
  }

  function drawTopics() {
    const found = rows.filter((row) => !isInternal(row.name)).sort((one, other) => (other.rate ?? 0) - (one.rate ?? 0) || other.records - one.records).slice(0, ROWS);
    fill(topics, found.length ? table("Busiest topics", [
      ["Topic", (row) => h("a", { href: link("topics", row.name) }, row.name)],
      ["Records/s", (row) => (row.rate === undefined ? "–" : count(row.rate, 1)), "number"],
      ["Records", (row) => count(row.records), "number"],
      ["On disk", (row) => bytes(row.bytes), "number"],
    ], found) : teach("No topics yet", "A topic is a named log of records. Create one and write to it:", `echo hello | pybroker produce greetings --bootstrap-server ${state.facts.bootstrap}`));
  }

  function drawGroups() {
    const lags = named("lag · ").map(([name, points]) => ({ group: name.slice("lag · ".length), points, lag: points.at(-1)[1] })).sort((one, other) => other.lag - one.lag).slice(0, ROWS);
    fill(groups, lags.length ? table("Groups that lag", [
      ["Group", (row) => h("a", { href: link("groups", row.group) }, row.group)],
      ["Lag", (row) => count(row.lag), "number"],
      ["Last 15 minutes", (row) => spark(row.points, `lag of ${row.group}, now ${count(row.lag)}`), "plain"],
    ], lags) : teach("No group lags", "A group of consumers shows here once it has committed offsets:", `pybroker consume greetings --group readers --bootstrap-server ${state.facts.bootstrap}`));
  }

  function drawLine() {
    const found = [...state.events].sort((one, other) => other[1] - one[1] || other[0] - one[0]).slice(0, EVENTS);
    fill(line, found.map(([, at, what, text]) => h("li", {}, clock(at), h("span", { class: "kind soft" }, what), h("span", {}, text))),
      found.length ? null : h("li", { class: "soft" }, "Elections, ISR changes and rebalances show here as they happen."));
  }

  drawHealth();
  drawStats();
  drawLine();
  const ends = [
    follow((kinds) => {
      if (kinds.has("all") || kinds.has("cluster") || kinds.has("nodes")) drawHealth();
      if (kinds.has("all") || kinds.has("events")) drawLine();
    }),
    repeat(async () => {
      series = await ask("series");
      drawStats();
      drawGroups();
    }, EVERY_MS),
    repeat(async () => {
      rows = rated(await ask("topics"));
      drawTopics();
    }, EVERY_MS),
  ];
  return () => ends.forEach((end) => end());
}
