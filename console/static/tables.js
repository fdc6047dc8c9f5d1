// Tables of topics, of Iceberg and Delta: how far each is, its snapshots, and the records that it refused.

import { bytes, copy, count, facts, fill, h, scrolling, span, stamp, table, tableTools, teach } from "./dom.js";
import { ask, state } from "./state.js";
import { link, repeat } from "./common.js";
import { quoted } from "./topics.js";

const EVERY_MS = 2000;
const PLACES = 12; // partitions whose offsets are shown in a snapshot's row
const STATES = { current: "good", behind: "late", missing: "late", silent: "bad", failed: "bad" };

export function tablesPage(main, [topic]) {
  return topic ? oneTable(main, topic) : allTables(main);
}

// A hint with a button that has the focus is not drawn anew.
const isHeld = (place) => place.contains(document.activeElement) && place.querySelector(".teach");
const badge = (name) => h("span", { class: `badge ${STATES[name] ?? ""}` }, name);
const age = (ms) => (ms === null || ms === undefined ? "–" : span(ms / 1000));
const toTopic = (topic) => h("a", { href: link("tables", topic) }, topic);

function allTables(main) {
  const place = h("div");
  fill(main, h("h1", {}, "Tables"), h("section", {}, scrolling("tables", place), tableTools("tables", () => place.querySelector("table"))));
  return repeat(async () => {
    const rows = await ask("tables");
    if (isHeld(place) && !rows.length) return;
    fill(place, table("Tables of topics", [
      ["Topic", (row) => toTopic(row.topic)], ["Format", (row) => row.format], ["State", (row) => badge(row.state)],
      ["Lag", (row) => h("span", { class: row.lag ? "late" : "good" }, count(row.lag)), "number"],
      ["Oldest waits", (row) => age(row.lag_ms), "number", (row) => row.lag_ms ?? -1],
      ["Rows", (row) => count(row.rows), "number"], ["Files", (row) => count(row.files), "number"], ["Size", (row) => bytes(row.bytes), "number"],
      ["Refused", (row) => h("span", { class: row.dead_letters ? "late" : null }, count(row.dead_letters)), "number"],
      ["Last commit (UTC)", (row) => stamp(row.committed_ms ?? -1)],
    ], rows, teach("No tables yet", "A topic with pybroker.table is a table of Iceberg or Delta as well: Spark, DuckDB, Polars and pandas read it, each record once. Make one, and write to it:",
      `pybroker topics create flights --config pybroker.table=iceberg --bootstrap-server ${state.facts.bootstrap}`)));
  }, EVERY_MS);
}

function oneTable(main, topic) {
  const summary = h("div"), partitions = h("div"), snapshots = h("div"), refused = h("div");
  const rest = h("div", { hidden: true });
  fill(main, h("h1", {}, `Table of ${topic}`), summary,
    h("p", {}, h("a", { href: link("topics", topic) }, "The topic"), " · ", h("a", { href: link("tables") }, "All tables"), " · ",
      h("button", { type: "button", onclick: () => copy(`pybroker tables describe ${quoted(topic)} --bootstrap-server ${state.facts.bootstrap}`) }, "Copy as a command")), rest);
  fill(rest,
    h("section", {}, h("h2", {}, "Partitions"), scrolling("partitions", partitions), tableTools(`${topic}-table`, () => partitions.querySelector("table"))),
    h("section", {}, h("h2", {}, "Snapshots"), h("p", { class: "soft" }, "Each commit has rows and, for each partition, the first offset that it lacks."),
      scrolling("snapshots", snapshots), tableTools(`${topic}-snapshots`, () => snapshots.querySelector("table"))),
    h("section", {}, h("h2", {}, "Refused records"), scrolling("refused records", refused), tableTools(`${topic}-refused`, () => refused.querySelector("table"))));

  return repeat(async () => {
    const { table: one, letters } = await ask("table", { name: topic });
    rest.hidden = !one;
    if (!one) {
      const make = teach("This topic has no table", "With this config it is a table as well, from its first record on:", `pybroker topics alter ${quoted(topic)} --set pybroker.table=iceberg --bootstrap-server ${state.facts.bootstrap}`);
      if (!isHeld(summary)) fill(summary, make);
      return;
    }
    fill(summary, facts({ State: badge(one.state), Lag: count(one.lag), "Oldest waits": age(one.lag_ms), "Target lag": age(one.target_lag_ms), Rows: count(one.rows), Files: count(one.files), Size: bytes(one.bytes),
      "Last commit (UTC)": stamp(one.committed_ms ?? -1), Format: one.format, Table: one.name, Warehouse: one.warehouse, Writer: one.writer < 0 ? "no broker leads partition 0" : `a process of broker ${one.writer}` }),
      one.error ? h("p", { class: "bad" }, one.error) : null, one.advice ? h("p", {}, `What to do: ${one.advice}`) : null);
    fill(partitions, table(`Partitions in the table of ${topic}`, [
      ["Partition", (part) => part.partition, "number"], ["In the table, before", (part) => count(part.offset), "number"], ["End", (part) => count(part.end), "number"],
      ["Lag", (part) => h("span", { class: part.lag ? "late" : "good" }, count(part.lag)), "number"],
    ], one.partitions));
    fill(snapshots, table(`Newest snapshots of the table of ${topic}`, [
      [one.format === "delta" ? "Version" : "Snapshot", (row) => row.name], ["Committed (UTC)", (row) => stamp(row.committed_ms ?? -1)], ["Operation", (row) => row.operation],
      ["Rows", (row) => count(row.rows), "number"], ["Files", (row) => count(row.files), "number"],
      ["Offsets", (row) => offsets(row.offsets), "plain"],
    ], one.snapshots, "The writer has not committed yet."));
    if (isHeld(refused) && !letters.length) return;
    fill(refused, one.dead_letters ? h("p", {}, `Records that did not fit the schema: ${count(one.dead_letters)}`, one.dead_letter_topic ? [", in ", h("a", { href: link("messages", one.dead_letter_topic) }, one.dead_letter_topic)] : null, ".") : null,
      table(`Newest records that the table of ${topic} refused`, [
        ["Partition", (row) => row.partition, "number"], ["Offset", (row) => row.offset, "number"], ["Refused (UTC)", (row) => stamp(row.timestamp)],
        ["Why", (row) => row.reason, "long"], ["Value", (row) => row.value ?? "–", "long"],
      ], letters, one.is_raw || one.dead_letter_topic ? teach("Nothing was refused", one.is_raw ? "A table of raw columns takes every record." : "Records that do not fit the table's schema would be here, with the reason.")
        : teach("Refused records have no place", "Without a dead-letter topic the table stops before the first record that does not fit. Name one:", `pybroker topics alter ${quoted(topic)} --set pybroker.table.dead.letter.topic=TOPIC --bootstrap-server ${state.facts.bootstrap}`)));
  }, EVERY_MS);
}

function offsets(of) {
  const all = Object.entries(of);
  return all.slice(0, PLACES).map(([part, offset]) => `${part}: ${count(offset)}`).join(" · ") + (all.length > PLACES ? " …" : "") || "–";
}
