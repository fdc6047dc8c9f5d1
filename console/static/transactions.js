// Transactions: their ids, what each has open; who writes to a partition, and what hangs there.

import { copy, count, facts, fill, h, scrolling, span, stamp, table, tableTools } from "./dom.js";
import { ask, order, state } from "./state.js";
import { doing, link, repeat } from "./common.js";
import { quoted, topicChoice } from "./topics.js";

const OPEN = new Set(["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"]);
const badge = (name) => h("span", { class: `badge ${OPEN.has(name) ? "late" : "good"}` }, name);
const place = (one) => h("a", { href: link("topics", one.topic) }, `${one.topic}-${one.partition}`);
const offset = (one) => (one === null ? "–" : count(one));

export function transactionsPage(main, [name]) {
  return name ? oneTransaction(main, name) : allTransactions(main);
}

function allTransactions(main) {
  const filter = h("input", { type: "search", oninput: () => draw() });
  const onlyOpen = h("input", { type: "checkbox", onchange: () => draw() });
  const list = h("div"), status = h("p", { role: "status", class: "soft" });
  const [hanging, endHanging] = hangingSection();
  const [producers, endProducers] = producersSection();
  let found = { rows: [], count: 0, errors: [] };
  fill(main, h("h1", {}, "Transactions"),
    h("section", {}, h("h2", {}, "Transactional ids"), h("div", { class: "bar" }, h("label", {}, "Ids that have", filter), h("label", { class: "inline" }, onlyOpen, "only open ones")),
      scrolling("transactional ids", list), status, tableTools("transactions", () => list.querySelector("table"))),
    hanging, producers);

  function draw() {
    const held = document.activeElement?.dataset?.transaction;
    const rows = found.rows.filter((row) => row.transactional_id.includes(filter.value) && (!onlyOpen.checked || OPEN.has(row.state)));
    fill(list, table("Transactional ids and their states", [
      ["Id", (row) => h("a", { href: link("transactions", row.transactional_id), "data-transaction": row.transactional_id }, row.transactional_id)], ["State", (row) => badge(row.state)],
      ["Producer", (row) => row.producer_id, "number"], ["Coordinator", (row) => `broker ${row.coordinator}`],
    ], rows, "there are no transactions"));
    fill(status, found.count > found.rows.length ? `the first ${count(found.rows.length)} of ${count(found.count)}; ` : null, found.errors.join("; "));
    if (held) list.querySelector(`[data-transaction="${CSS.escape(held)}"]`)?.focus();
  }
  const end = repeat(async () => { found = await ask("transactions"); draw(); });
  return () => [end, endHanging, endProducers].forEach((one) => one());
}

function hangingSection() {
  const [topic, end] = topicChoice("", () => {}, false);
  const minutes = h("input", { type: "number", min: 0, value: 15, required: true });
  const found = h("div", { role: "status" });
  async function look() {
    const rows = await doing(() => ask("hanging", { topic: topic.querySelector("input").value, minutes: minutes.value }));
    if (!rows) return;
    const columns = [["Partition", place], ["First offset", (one) => count(one.open_since_offset), "number"], ["Producer", (one) => one.producer_id, "number"], ["Epoch", (one) => one.epoch, "number"], ["Last written (UTC)", (one) => stamp(one.last_ms)]];
    if (state.facts.may_write) columns.push(["Actions", (one) => h("button", { type: "button", class: "danger", "aria-label": `abort ${one.topic}-${one.partition} from ${one.open_since_offset}`, onclick: () => abort(one) }, "abort"), "plain"]);
    fill(found, scrolling("hanging transactions", table("Open in a partition, while no coordinator knows of it", columns, rows, "no transaction is hanging")), tableTools("hanging", () => found.querySelector("table")));
  }
  async function abort(one) {
    if (await doing(() => order("transactions/order", { do: "abort", topic: one.topic, partition: one.partition, first_offset: one.open_since_offset }))) look();
  }
  return [h("section", {}, h("h2", {}, "Hanging transactions"), h("p", { class: "soft" }, "Readers of committed records wait for these for ever."),
    h("form", { onsubmit: (event) => { event.preventDefault(); look(); } }, topic, h("label", {}, "Minutes without a write", minutes), h("button", {}, "Look for them")), found), end];
}

function producersSection() {
  const [topic, end] = topicChoice("", () => {});
  const partition = h("input", { type: "number", min: 0, value: 0, required: true });
  const found = h("div", { role: "status" });
  let stop = () => {};
  function look() {
    const wanted = { topic: topic.querySelector("input").value, partition: partition.value };
    stop();
    stop = repeat(async () => {
      const rows = await ask("producers", wanted);
      fill(found, table(`Producers with an id that wrote to ${wanted.topic}-${wanted.partition}`, [
        ["Producer", (one) => one.producer_id, "number"], ["Epoch", (one) => one.epoch, "number"], ["Last sequence", (one) => one.last_sequence, "number"], ["Last written (UTC)", (one) => stamp(one.last_ms)],
        ["Open from offset", (one) => h("span", { class: one.open_since_offset === null ? "soft" : "late" }, offset(one.open_since_offset)), "number"], ["Coordinator's epoch", (one) => one.coordinator_epoch, "number"],
      ], rows, "nobody has"));
    });
  }
  return [h("section", {}, h("h2", {}, "Active producers of a partition"),
    h("form", { onsubmit: (event) => { event.preventDefault(); look(); } }, topic, h("label", {}, "Partition", partition), h("button", {}, "Show")), scrolling("producers", found), tableTools("producers", () => found.querySelector("table"))), () => { stop(); end(); }];
}

function oneTransaction(main, name) {
  const summary = h("div"), partitions = h("div");
  fill(main, h("h1", {}, `Transactional id ${name}`), summary,
    h("p", {}, h("a", { href: link("transactions") }, "All transactions"), " · ", h("button", { type: "button", onclick: () => copy(`pybroker transactions describe ${quoted(name)} --bootstrap-server ${state.facts.bootstrap}`) }, "Copy as a command")),
    h("section", {}, h("h2", {}, "Open in"), scrolling("partitions", partitions), tableTools(`${name}-partitions`, () => partitions.querySelector("table"))),
    state.facts.may_write ? h("section", {}, h("h2", {}, "Change"), h("p", { class: "soft" }, "The producer with this id is fenced, and its open transaction is aborted."),
      h("button", { type: "button", class: "danger", onclick: () => doing(() => order("transactions/order", { do: "fence", id: name })) }, "Shut out and abort")) : null);
  return repeat(async () => {
    const one = await ask("transaction", { name });
    fill(summary, facts({ State: badge(one.state), Producer: one.producer_id, Epoch: one.epoch, "Open for": one.open_ms === null ? "–" : span(one.open_ms / 1000), "May be open for": span(one.timeout_ms / 1000) }));
    fill(partitions, table("Partitions of the open transaction", [["Topic", ([topic]) => h("a", { href: link("topics", topic) }, topic)], ["Partition", ([, partition]) => partition, "number"]], one.partitions, "nothing is open"));
  });
}
