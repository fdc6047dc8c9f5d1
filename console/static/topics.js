// All topics, and one of them: partitions, configs, and what can be done to it.

import { bytes, copy, count, counted, facts, fill, h, inSort, scrolling, table, tableTools, teach, tell } from "./dom.js";
import { ask, follow, order, state } from "./state.js";
import { doing, isInternal, link, pages, repeat, topicRates } from "./common.js";

const ROWS = 150;
const EVERY_MS = 2000;
const CONFIGS_MS = 2500;
const LAGS_MS = 5000;
const LAGS = 50; // partitions

export function topicsPage(main, [name]) {
  return name ? oneTopic(main, name) : allTopics(main);
}

function field(label, input) {
  return h("label", {}, label, input);
}

const CAPTION = "Topics of the cluster";
const COLUMNS = [
  ["Topic", (row) => h("a", { href: link("topics", row.name), "data-topic": row.name }, row.name)],
  ["Partitions", (row) => count(row.partitions), "number"],
  ["Replicas", (row) => row.replicas, "number"],
  ["Under-replicated", (row) => h("span", { class: row.behind ? "late" : null }, row.behind), "number"],
  ["Records", (row) => count(row.records), "number"],
  ["Records/s", (row) => (row.rate === undefined ? "–" : count(row.rate, 1)), "number"],
  ["On disk", (row) => bytes(row.bytes), "number"],
  ["Actions", (row) => h("a", { href: link("messages", row.name), "aria-label": `messages of ${row.name}` }, "messages"), "plain"],
];

function allTopics(main) {
  const filter = h("input", { type: "search", placeholder: "part of a name", oninput: () => { page = 0; draw(); } });
  const place = h("div"), inner = h("div"), fold = h("details", { class: "card" }, h("summary", {}, "Internal topics"), scrolling("internal topics", inner));
  const where = h("span", { role: "status" });
  const rated = topicRates();
  let rows = [], page = 0, isRead = false;
  const pager = [h("button", { type: "button", onclick: () => { page -= 1; draw(); } }, "Previous"), h("button", { type: "button", onclick: () => { page += 1; draw(); } }, "Next")];
  fill(main, h("h1", {}, "Topics"),
    state.facts.may_write ? creation() : null,
    h("section", {}, h("div", { class: "bar" }, field("Topics that have", filter), pager, where),
      scrolling("topics", place), tableTools("topics", () => place.querySelector("table"))), fold);

  function draw() {
    const text = filter.value.toLowerCase();
    const all = rows.filter((row) => row.name.toLowerCase().includes(text));
    const found = inSort(CAPTION, COLUMNS, all.filter((row) => !isInternal(row.name)));
    const internal = all.filter((row) => isInternal(row.name));
    page = Math.max(0, Math.min(page, Math.ceil(found.length / ROWS) - 1));
    const held = document.activeElement?.dataset?.topic;
    const nothing = !isRead ? "reading …" : text ? "no topic is like that" : teach("No topics yet", "A topic is a named log of records. Create one above, or write to one that is not there yet:", `echo hello | pybroker produce greetings --bootstrap-server ${state.facts.bootstrap}`);
    if (!(place.contains(document.activeElement) && place.querySelector(".teach"))) fill(place, table(CAPTION, COLUMNS, found.slice(page * ROWS, (page + 1) * ROWS), nothing, draw));
    fill(inner, table("Topics of Kafka itself", COLUMNS, internal, "there are none"));
    fill(fold.querySelector("summary"), `Internal topics (${count(internal.length)})`);
    if (held) main.querySelector(`[data-topic="${CSS.escape(held)}"]`)?.focus();
    fill(where, counted(found.length, "topic"));
    pages(pager, page, found.length, ROWS);
  }

  return repeat(async () => {
    rows = rated(await ask("topics"));
    isRead = true;
    draw();
  });
}

function creation() {
  const name = h("input", { required: true, maxlength: 249 });
  const partitions = h("input", { type: "number", min: 1, placeholder: "default" });
  const replicas = h("input", { type: "number", min: 1, placeholder: "default" });
  const compact = h("input", { type: "checkbox" });
  const whole = (input) => (input.value ? Number(input.value) : -1);
  return h("details", { class: "card" }, h("summary", {}, "Create a topic"),
    h("form", { onsubmit: async (event) => {
      event.preventDefault();
      const configs = compact.checked ? { "cleanup.policy": "compact" } : {};
      await doing(() => order("topics/order", { do: "create", name: name.value, partitions: whole(partitions), replication_factor: whole(replicas), configs }));
    } }, field("Name", name), field("Partitions", partitions), field("Replicas", replicas), h("label", { class: "inline" }, compact, "compacted"), h("button", {}, "Create")));
}

function oneTopic(main, name) {
  const partitions = h("div"), configs = h("div"), summary = h("div"), lags = h("div"), tier = h("div"), written = h("div");
  const filter = h("input", { type: "search", oninput: () => drawConfigs() });
  let found = [];
  const mayWrite = state.facts.may_write;
  fill(main, h("h1", {}, name), summary,
    h("p", {}, h("a", { href: link("messages", name) }, "Messages"), " · ", h("a", { href: link("topics") }, "All topics"), " · ",
      h("button", { type: "button", onclick: () => copy(`pybroker topics describe ${quoted(name)} --bootstrap-server ${state.facts.bootstrap}`) }, "Copy as a command")),
    h("section", {}, h("h2", {}, "Partitions"), scrolling("partitions", partitions), tableTools(name, () => partitions.querySelector("table"))), tier, written,
    h("section", {}, h("h2", {}, "Groups that read it"), scrolling("groups", lags), tableTools(`${name}-groups`, () => lags.querySelector("table"))),
    h("section", {}, h("h2", {}, "Configs"), h("div", { class: "bar" }, field("Configs that have", filter)), scrolling("configs", configs), tableTools(`${name}-configs`, () => configs.querySelector("table"))),
    mayWrite ? changes(name) : null);

  async function drawPartitions() {
    const one = await ask("topic", { name });
    const records = one.partitions.reduce((sum, part) => sum + Math.max(0, (part.high_watermark ?? 0) - (part.start ?? 0)), 0);
    fill(summary, facts({ Partitions: one.partitions.length, Records: count(records), "On disk": bytes(one.partitions.reduce((sum, part) => sum + Object.values(part.bytes).reduce((a, b) => a + b, 0), 0)) }));
    fill(partitions, table(`Partitions of ${name}`, [
      ["Partition", (part) => part.partition, "number"],
      ["Leader", (part) => (part.leader < 0 ? h("span", { class: "badge bad" }, "none") : part.leader), "number"],
      ["Epoch", (part) => part.epoch, "number"],
      ["Replicas", (part) => part.replicas.join(", ")],
      ["In sync", (part) => h("span", { class: part.isr.length < part.replicas.length ? "late" : "good" }, part.isr.join(", "))],
      ["Log start", (part) => count(part.start), "number"],
      ["Last stable", (part) => count(part.last_stable), "number"],
      ["High watermark", (part) => count(part.high_watermark), "number"],
      ["End of each replica", (part) => Object.entries(part.ends ?? {}).map(([broker, end]) => `${broker}: ${count(end)}`).join(" · ") || "–", "plain"],
      ["On disk", (part) => Object.entries(part.bytes).map(([broker, size]) => `${broker}: ${bytes(size)}`).join(" · "), "plain"],
    ], one.partitions));
  }

  async function drawTier() {
    const one = await ask("tier", { name });
    if (!one.partitions.length) return;
    const moving = (segments, size) => (segments ? `${count(segments)} (${bytes(size)})` : "–");
    fill(tier, h("section", {}, h("h2", {}, "Remote tier"),
      h("p", {}, `It costs ${one.a_month} a month, and ${one.once} once for ${count(one.writes)} writes, at $${one.prices.gb_month} a GB and month and $${one.prices.thousand_writes} for 1,000 writes.`),
      scrolling("tier", table(`The remote tier of ${name}`, [
        ["Partition", (part) => part.partition, "number"],
        ["Offsets in the tier", (part) => (part.first === null ? "–" : `${count(part.first)} to ${count(part.last)}`), "plain"],
        ["Segments", (part) => count(part.segments), "number"],
        ["In the tier", (part) => bytes(part.bytes), "number"],
        ["Local from", (part) => count(part.local_first), "number"],
        ["Being copied", (part) => moving(part.copying, part.copying_bytes)],
        ["Being deleted", (part) => moving(part.deleting, part.deleting_bytes)],
      ], one.partitions))));
  }

  async function drawTable() {
    const { table: one } = await ask("table", { name });
    if (!one) { fill(written); return; }
    if (written.contains(document.activeElement)) return;
    fill(written, h("section", {}, h("h2", {}, "Table"), h("p", {}, `A table of ${one.format}, ${one.state}: ${one.lag === 0 ? "all records are in it" : `${count(one.lag)} records are not in it yet`}. `,
      h("a", { href: link("tables", name) }, "Snapshots, files and refused records"))));
  }

  async function drawLags() {
    const rows = await ask("lags", { name });
    fill(lags, table("Groups with committed offsets, and how far they are behind", [
      ["Group", (row) => h("a", { href: link("groups", row.group) }, row.group)], ["State", (row) => h("span", { class: `badge ${row.state === "Stable" ? "good" : "late"}` }, row.state)],
      ["Lag", (row) => h("span", { class: row.lag ? "late" : "good" }, count(row.lag)), "number"],
      ["By partition", (row) => Object.entries(row.lags).slice(0, LAGS).map(([part, lag]) => `${part}: ${count(lag)}`).join(" · ") + (Object.keys(row.lags).length > LAGS ? " …" : "")],
    ], rows, "No group has committed offsets of this topic."));
  }

  function drawConfigs() {
    const shown = found.filter((one) => one.name.includes(filter.value));
    const columns = [["Config", (one) => h("span", { title: one.about }, one.name)], ["Value", (one) => (one.secret ? "(secret)" : one.value ?? "–"), "long"],
      ["Source", (one) => h("span", { class: one.source === "topic" ? "badge late" : "soft" }, one.source)]];
    if (mayWrite) columns.push(["Actions", (one) => (one.fixed ? "" : [h("button", { type: "button", "aria-label": `edit ${one.name}`, onclick: (event) => edit(one, event.target.closest("tr")) }, "edit"),
      one.source === "topic" ? [" ", h("button", { type: "button", "aria-label": `${one.name} back to its default`, onclick: () => set(one.name, null) }, "default")] : null]), "plain"]);
    fill(configs, table(`Configs of ${name}`, columns, shown));
  }

  function edit(one, row) {
    const input = h("input", { value: one.value ?? "", "aria-label": one.name });
    fill(row.cells[1], h("form", { onsubmit: (event) => { event.preventDefault(); set(one.name, input.value); } }, input, h("button", {}, "Set")));
    input.focus();
  }

  async function set(key, value) {
    if (await doing(() => order("topics/order", { do: "config", name, key, value }))) drawConfigs();
  }

  async function readConfigs() {
    found = await ask("configs", { name });
    if (!configs.querySelector("form")) drawConfigs();
  }
  const ends = [repeat(drawPartitions), repeat(readConfigs, CONFIGS_MS), repeat(drawLags, LAGS_MS), repeat(drawTier, LAGS_MS), repeat(drawTable, LAGS_MS)];
  return () => ends.forEach((end) => end());
}

export const quoted = (text) => (/^[\w.:/@-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function changes(name) {
  const total = h("input", { type: "number", min: 1, required: true });
  const partition = h("input", { type: "number", min: 0, value: 0, required: true });
  const before = h("input", { type: "number", min: -1, required: true, title: "-1: all of them" });
  const again = h("input", { required: true, placeholder: name });
  const form = (title, fields, work) => h("form", { onsubmit: (event) => { event.preventDefault(); work(); } }, fields, h("button", { class: title.startsWith("Delete") ? "danger" : null }, title));
  return h("section", {}, h("h2", {}, "Change"),
    form("Add partitions", field("Partitions in all", total), () => doing(() => order("topics/order", { do: "partitions", name, total: Number(total.value) }))),
    form("Delete records", [field("Partition", partition), field("Before offset", before)], () => doing(() => order("topics/order", { do: "delete-records", name, partition: Number(partition.value), before: Number(before.value) }))),
    form("Delete the topic", field("Its name, to be sure", again), async () => {
      if (again.value !== name) { tell("That is not its name.", true); return; }
      if (await doing(() => order("topics/order", { do: "delete", name }))) location.hash = "#/topics";
    }));
}

let lists = 0;

// A choice among the topics that there are.
export function topicChoice(chosen, onchange, required = true) {
  lists += 1;
  const id = `topics-${lists}`;
  const list = h("datalist", { id });
  const draw = () => fill(list, [...state.topics.keys()].sort().slice(0, 2000).map((name) => h("option", { value: name })));
  draw();
  const end = follow((kinds) => { if (kinds.has("all") || kinds.has("cluster")) draw(); });
  return [h("label", {}, "Topic", h("input", { list: id, value: chosen ?? "", onchange, required }), list), end];
}
