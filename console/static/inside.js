// The inside of one broker: a request's way, what waits, files, look-ups, replication, ZooKeeper.

import { bytes, count, drawingTools, facts, fill, h, scrolling, stamp, table, tableTools } from "./dom.js";
import { ask, follow, state } from "./state.js";
import { doing, link, repeat } from "./common.js";
import { drawReplicas, drawWay } from "./drawings.js";

const EVERY_MS = 1000;
const VIEWS = {
  way: ["A request's way", requestsWay],
  waiting: ["What waits", whatWaits],
  files: ["Files", files],
  lookup: ["Look-up", lookUp],
  replication: ["Replication", replication],
  zookeeper: ["ZooKeeper", zookeeper],
};

// The address: #/inside/VIEW/BROKER/TOPIC/PARTITION, or a path of ZooKeeper in place of the topic.
export function insidePage(main, [given, broker, ...rest]) {
  const view = VIEWS[given] ? given : "way";
  const brokers = Object.keys(state.brokers).sort((a, b) => a - b);
  const chosen = brokers.includes(broker) ? broker : brokers[0] ?? "";
  const places = h("div");
  const to = (name, number) => link("inside", name, number, ...(["files", "lookup", "replication"].includes(name) ? rest : []));
  fill(main, h("h1", {}, "Inside"),
    h("section", {},
      h("ul", { class: "choices" }, Object.entries(VIEWS).map(([name, [title]]) => h("li", {}, h("a", { href: to(name, chosen), "aria-current": name === view ? "page" : null }, title)))),
      h("div", { class: "bar" }, h("label", {}, "Broker", h("select", { onchange: (event) => { location.hash = link("inside", view, event.target.value, ...rest); } },
        brokers.map((number) => h("option", { value: number, selected: number === chosen }, number)))))),
    places);
  return VIEWS[view][1](places, chosen, rest);
}

function said(text) {
  return h("p", { class: "soft" }, text);
}

// What `draw` cannot do is said in its place, not as a message again and again.
function kept(place, draw, everyMs = EVERY_MS) {
  return repeat(async () => {
    try {
      await draw();
    } catch (error) {
      fill(place, h("p", { role: "status" }, error.message));
    }
  }, everyMs);
}

function requestsWay(main, broker) {
  let wanted = "Produce", names = "";
  const drawing = h("div"), picked = h("select", { onchange: () => { wanted = picked.value; draw(); } });
  fill(main, h("section", {}, h("h2", {}, "The way of a request through this broker"),
    said("A connection is accepted and given to a processor, which reads its requests into one channel. A handler does the work, mostly on the log. A request that cannot be answered yet waits in a purgatory. The answer goes back through the processor that owns the connection. Times are p50 / p99 in ms."),
    h("div", { class: "bar" }, h("label", {}, "Times of", picked)), drawing, drawingTools("way", () => drawing.querySelector("svg"))));
  function draw() {
    const told = state.metrics?.brokers?.[broker];
    if (!told) {
      fill(drawing, said("Nothing is measured: the console needs the metrics ports of a local cluster (pybroker start --console, or --metrics-port)."));
      return;
    }
    const apis = Object.keys(told.stages).sort();
    if (apis.join() !== names) {
      names = apis.join();
      fill(picked, apis.map((api) => h("option", { value: api, selected: api === wanted }, api)));
    }
    fill(drawing, drawWay(told, picked.value));
  }
  draw();
  return follow((kinds) => { if (kinds.has("metrics")) draw(); });
}

function whatWaits(main, broker) {
  const place = h("div");
  fill(main, h("section", {}, h("h2", {}, "Requests that cannot be answered yet"),
    said("A produce with acks=all waits until the high watermark has passed its records; a fetch until there are as many bytes as it asked for; a rebalance until its members have come. Each kind has a purgatory of its own."),
    scrolling("what waits", place), tableTools("waiting", () => place.querySelector("table"))));
  return kept(place, async () => {
    const kinds = await ask("inside", { view: "waiting", broker });
    const rows = kinds.flatMap((kind) => kind.oldest.map((one) => ({ kind: kind.kind, ...one })));
    fill(place, facts(Object.fromEntries(kinds.map((kind) => [kind.kind, count(kind.count)]))),
      table("The oldest of each kind", [["Kind", (row) => row.kind], ["Who", (row) => row.client_id ?? "–"], ["From", (row) => row.host], ["Waits, ms", (row) => count(row.waited_ms), "number"],
        ["Until, ms", (row) => count(row.left_ms), "number"], ["For", (row) => row.for, "long"]], rows, "nobody waits"));
  });
}

// Which partition is meant; `done` is called with it. Returns the form.
function choosing(view, broker, [topic, partition], ...more) {
  const names = [...state.topics.keys()].sort();
  const name = h("input", { value: topic ?? "", list: "topic-names", required: true });
  const index = h("input", { type: "number", min: 0, value: partition ?? "0", required: true });
  return h("form", { class: "bar", onsubmit: (event) => { event.preventDefault(); location.hash = link("inside", view, broker, name.value, index.value); } },
    h("label", {}, "Topic", name), h("datalist", { id: "topic-names" }, names.slice(0, 1000).map((one) => h("option", { value: one }))),
    h("label", {}, "Partition", index), h("button", {}, "Show"), more);
}

function files(main, broker, [topic, partition]) {
  const place = h("div");
  fill(main, h("section", {}, h("h2", {}, "The files of a partition"),
    said("A log is a row of segments, each named after its first offset: the records (.log), where every few kilobytes of them begin (.index), which offset a time is at (.timeindex), and aborted transactions (.txnindex). Only the last one is written to."),
    choosing("files", broker, [topic, partition]), place, topic ? tableTools("segments", () => place.querySelector("table")) : null));
  if (!topic) return null;
  return kept(place, async () => {
    const found = await ask("inside", { view: "files", broker, topic, partition });
    fill(place, facts({ Directory: found.directory, Segments: count(found.segment_count), Size: bytes(found.bytes) }),
      facts(Object.fromEntries(Object.entries(found.offsets).map(([name, value]) => [name, count(value)]))),
      facts(Object.fromEntries(Object.entries(found.rules).map(([name, value]) => [name, String(value)]))),
      found.cleaner ? h("p", {}, "Cleaner: ", found.cleaner.text, found.cleaner.end_offset === undefined ? "" : `; clean up to ${found.cleaner.first_dirty_offset}, could go to ${found.cleaner.end_offset}`) : null,
      scrolling("segments", table("Segments, the newest first", [["First offset", (row) => row.base_offset, "number"], ["Next", (row) => row.next_offset, "number"], ["Size", (row) => bytes(row.bytes), "number"],
        ["Latest record", (row) => stamp(row.largest_timestamp)], ["Files", (row) => row.files.map((file) => h("div", {}, file.name, " ", h("span", { class: "soft" }, file.entries === null ? bytes(file.bytes) : `${count(file.entries)} entries`)))],
        ["Next", (row) => row.next]], [...found.segments].reverse())));
  }, 3 * EVERY_MS);
}

function lookUp(main, broker, [topic, partition]) {
  const place = h("div", { role: "status" });
  const offset = h("input", { type: "number", min: 0, value: 0 }), time = h("input", { placeholder: "ms since 1970", inputmode: "numeric" });
  const look = (by) => doing(async () => {
    const steps = await ask("inside", { view: "look-up", broker, topic, partition, ...by });
    fill(place, h("ol", { class: "steps" }, steps.map((step) => h("li", {}, h("h3", {}, step.title), h("p", {}, step.text), step.rows.length ? stepTable(step) : null))));
  });
  fill(main, h("section", {}, h("h2", {}, "How an offset is found"),
    said("The steps of a fetch before it reads: the segment by its name, the nearest entry of the index by halving, then batch after batch."),
    choosing("lookup", broker, [topic, partition]),
    topic ? h("form", { class: "bar", onsubmit: (event) => { event.preventDefault(); look({ offset: offset.value }); } }, h("label", {}, "Offset", offset), h("button", {}, "Look up the offset")) : null,
    topic ? h("form", { class: "bar", onsubmit: (event) => { event.preventDefault(); look({ timestamp: time.value }); } }, h("label", {}, "Time", time), h("button", {}, "Look up the time")) : null, place));
  return null;
}

function stepTable(step) {
  const made = table(step.title, step.columns.map((name, index) => [name, (row) => row[index], "number"]), step.rows);
  if (step.chosen !== null) made.tBodies[0].rows[step.chosen].classList.add("chosen");
  return [scrolling(step.title, made), tableTools(step.title, () => made)];
}

function replication(main, broker, [topic, partition]) {
  const place = h("div");
  fill(main, h("section", {}, h("h2", {}, "Replication of a partition"),
    said("Each replica's log ends somewhere (LEO). The followers' fetches show the leader their log ends; the high watermark is the offset that all in-sync replicas have reached: consumers may read up to it."),
    choosing("replication", broker, [topic, partition]), place,
    topic ? [drawingTools("replicas", () => place.querySelector("svg")), " ", tableTools("followers", () => place.querySelector("table"))] : null));
  if (!topic) return null;
  return kept(place, async () => {
    const found = await ask("replicas", { topic, partition });
    const leader = found.replicas.find((one) => one.told?.is_leader)?.told;
    fill(place, facts({ Leader: found.leader, "Leader epoch": found.epoch, "In sync": found.isr.join(", "), "High watermark": leader ? count(leader.high_watermark) : "–" }),
      drawReplicas(found),
      leader ? table("The followers, as their leader knows them", [["Broker", (row) => row.broker, "number"], ["Log end", (row) => count(row.log_end_offset), "number"], ["Behind", (row) => count(leader.log_end_offset - row.log_end_offset), "number"],
        ["Had everything, ms ago", (row) => count(row.behind_ms), "number"], ["Fetched, ms ago", (row) => count(row.fetched_ms), "number"]], leader.followers, "it has none") : null);
  }, EVERY_MS / 2);
}

function zookeeper(main, broker, rest) {
  const path = `/${rest.join("/")}`;
  const place = h("div"), words = h("pre", { tabindex: "0" });
  const members = state.nodes.filter((node) => node.kind === "zookeeper").map((node) => node.name);
  const member = h("select", {}, members.map((name) => h("option", { value: name }, name)));
  const asked = (name) => (members.length ? { word: name, node: member.value } : { word: name });
  const word = (name, title) => h("button", { type: "button", onclick: () => doing(async () => { fill(words, (await ask("zookeeper", asked(name))).text); }) }, title);
  fill(main, h("section", {}, h("h2", {}, "ZooKeeper's tree"),
    said("The shared state of the cluster: the live brokers (znodes that vanish with their session), the controller, topics, leaders and ISRs, configs."),
    place),
  h("section", {}, h("h2", {}, "Sessions and watches"), h("div", { class: "bar" }, members.length > 1 ? h("label", {}, "Member", member) : null, word("dump", "Sessions and ephemeral znodes"), word("wchp", "Watches by path"), word("cons", "Connections"), word("srvr", "Server"), word("mntr", "Monitoring")), words));
  return kept(place, async () => {
    const found = await ask("inside", { view: "znode", broker, path });
    const steps = path === "/" ? [] : rest;
    const to = (parts) => link("inside", "zookeeper", broker, ...parts);
    fill(place, h("p", {}, h("a", { href: to([]) }, "/"), steps.map((name, index) => [index ? "/" : " ", h("a", { href: to(steps.slice(0, index + 1)) }, name)])),
      facts({ Version: found.version, "Children's version": found.children_version, Created: stamp(found.created_ms), "By transaction": found.created_by, ...(found.session ? { "Goes with session": found.session } : {}) }),
      found.bytes ? h("pre", { tabindex: "0" }, pretty(found.data)) : said("no data"),
      scrolling("children", h("ul", { class: "tree" }, found.children.map((name) => h("li", {}, h("a", { href: to([...steps, name]) }, name))))),
      found.child_count > found.children.length ? said(`${count(found.child_count - found.children.length)} more`) : null);
  }, 2 * EVERY_MS);
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
