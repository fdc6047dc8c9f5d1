// Records: read from some place on, filtered, followed as they come, and written.

import { bytes, copy, count, counted, fill, h, plain, save, scrolling, stamp, teach } from "./dom.js";
import { ask, askText, fileAddress, order, state } from "./state.js";
import { doing, isInternal, link, repeat } from "./common.js";
import { quoted, topicChoice } from "./topics.js";

const CHOICES = 60; // topics by name
const KEPT = 1000;
const PAGE = 50000; // characters
const STATES = { open: "late", committed: "good", aborted: "bad" };
const label = (title, input) => h("label", {}, title, input);
const TAIL_MS = 700;

export function messagesPage(main, [name]) {
  const [topic, endChoice] = topicChoice(name, (event) => { location.hash = link("messages", event.target.value); });
  if (!name) {
    const names = [...state.topics.keys()].filter((one) => !isInternal(one)).sort();
    fill(main, h("h1", {}, "Messages"), h("section", {}, h("div", { class: "bar" }, topic), names.length ? [h("p", { class: "soft" }, "Choose a topic to read its records:"),
      h("ul", { class: "choices" }, names.slice(0, CHOICES).map((one) => h("li", {}, h("a", { href: link("messages", one) }, one))))]
      : teach("No topics yet", "Records are in topics. Write the first one:", `echo hello | pybroker produce greetings --bootstrap-server ${state.facts.bootstrap}`)));
    return endChoice;
  }
  const partition = h("input", { type: "number", min: 0, placeholder: "all" });
  const from = h("select", {}, ["end", "beginning", "offset", "time"].map((one) => h("option", {}, one)));
  const at = h("input", { placeholder: "offset, or time" });
  const limit = h("input", { type: "number", min: 1, max: 500, value: 50 });
  const text = h("input", { type: "search" });
  const where = h("input", { type: "search", placeholder: "value.user == 'ada' and offset > 5", size: 34 });
  const markers = h("input", { type: "checkbox", checked: true });
  const tail = h("input", { type: "checkbox", onchange: () => (tail.checked ? begin() : stop()) });
  const list = h("div"), status = h("p", { role: "status", class: "soft" });
  const more = h("button", { type: "button", disabled: true, onclick: () => read(true) }, "Load more");
  const halt = h("button", { type: "button", hidden: true, onclick: () => { searches += 1; told("stopped"); halt.hidden = progress.hidden = true; } }, "Stop");
  const progress = h("progress", { hidden: true, "aria-label": "records looked at" });
  let records = [], positions = null, before = null, scanned = 0, searches = 0, stop = () => {};
  fill(main, h("h1", {}, `Messages of ${name}`),
    h("section", {},
      h("form", { onsubmit: (event) => { event.preventDefault(); tail.checked = false; stop(); read(false); } },
        topic, label("Partition", partition), label("From", from), label("At", at), label("At most", limit), label("That have the text", text), label("Where", where),
        h("button", {}, "Read"), h("label", { class: "inline" }, tail, "follow what comes"), h("label", { class: "inline" }, markers, "ends of transactions"),
        h("button", { type: "button", onclick: () => copy(command()) }, "Copy as a command"),
        h("button", { type: "button", onclick: () => save(`${name}.json`, JSON.stringify(records, null, 1), "application/json") }, "Save JSON")),
      h("div", { class: "search" }, status, halt, progress), list, more),
    state.facts.may_write ? production(name) : null);

  function place() {
    if (from.value !== "time" || /^\d+$/.test(at.value)) return at.value;
    const ms = Date.parse(at.value);
    if (Number.isNaN(ms)) throw new Error("a time is ms since 1970, or 2026-11-23T04:00:00");
    return String(ms);
  }

  const wanted = () => ({ topic: name, partition: partition.value, limit: limit.value, text: text.value, where: where.value, markers: markers.checked ? "1" : "" });
  const told = (more) => {
    progress.value = Math.min(scanned, progress.max);
    fill(status, `${counted(records.length, "record")} shown, ${count(scanned)} looked at${more ? `; ${more}` : ""}`);
  };

  // Requests follow one another until enough records are found, nothing is left, or the reader stops them: each ends after some seconds.
  async function read(isMore) {
    const mine = ++searches, isSearch = Boolean(text.value || where.value);
    await doing(async () => {
      const found = await ask("messages", { ...wanted(), from: isMore ? "positions" : from.value, at: isMore ? JSON.stringify(positions) : place() });
      if (mine !== searches) return;
      scanned = (isMore ? scanned : 0) + found.scanned;
      const first = isMore ? records.length : 0, backwards = !isMore && from.value === "end";
      take(found, isMore);
      before = found.before;
      const missing = () => Number(limit.value) - (records.length - first);
      const enough = () => missing() <= 0 || records.length >= KEPT;
      const isLeft = () => (backwards ? before !== null : !more.disabled);
      if (isLeft() && !enough()) await measure();
      while (isLeft() && !enough() && mine === searches) {
        halt.hidden = progress.hidden = false;
        told("looking for more");
        const next = await ask("messages", backwards ? { ...wanted(), from: "before", at: JSON.stringify(before.at), window: before.window }
          : { ...wanted(), limit: missing(), from: "positions", at: JSON.stringify(positions) });
        if (mine !== searches) return;
        scanned += next.scanned;
        if (backwards) { before = next.before; earlier(next); } else take(next, true);
      }
      halt.hidden = progress.hidden = true;
      told(backwards && isSearch ? (before === null ? "this is the beginning" : "there may be earlier ones") : more.disabled ? "this is the end" : "");
    });
    if (mine === searches) halt.hidden = progress.hidden = true;
  }

  // How many records a search may have to look at, for its progress.
  async function measure() {
    const { partitions } = await ask("topic", { name });
    const mine = partitions.filter((part) => partition.value === "" || part.partition === Number(partition.value));
    progress.max = Math.max(mine.reduce((all, part) => all + Math.max(0, (part.high_watermark ?? 0) - (part.start ?? 0)), 0), 1);
  }

  function earlier(found) {
    records = [...found.records.sort(inOrder(positions)), ...records].slice(-Number(limit.value));
    draw();
  }

  const inOrder = (places) => (one, other) => (Object.keys(places).length === 1 ? one.offset - other.offset : 0) || one.timestamp - other.timestamp || one.partition - other.partition || one.offset - other.offset;

  function take(found, isMore) {
    positions = found.positions;
    more.disabled = found.is_all;
    if (isMore && !found.records.length) return;
    records = [...(isMore ? records : []), ...found.records.sort(inOrder(positions))].slice(-KEPT);
    told(found.is_all ? "this is the end" : "");
    draw();
  }

  function draw() {
    fill(list, scrolling("messages", h("table", {}, h("caption", {}, "Records; open one to see all of it"),
      h("thead", {}, h("tr", {}, ["Partition", "Offset", "Time (UTC)", "Key", "Value", "Actions"].map((title, index) => h("th", { scope: "col", class: index < 3 ? "number" : null }, title)))),
      h("tbody", {}, records.map(row).reverse()))));
  }

  function row(one) {
    const place = [h("td", { class: "number" }, one.partition), h("td", { class: "number" }, one.offset), h("td", { class: "number" }, stamp(one.timestamp))];
    if (one.is_marker) return h("tr", { class: "marker" }, place, h("td", { colspan: 3 }, h("span", { class: `badge ${STATES[one.state]}` }, `marker: ${one.state}`), ` the transaction of producer ${one.producer}`));
    const about = one.state ? h("span", { class: `badge ${STATES[one.state]}`, title: `of producer ${one.producer}` }, one.state) : null;
    const made = h("tr", {}, place,
      h("td", { class: "long" }, brief(one.key, 60)), h("td", { class: "long" }, about, " ", one.value === null ? h("span", { class: "badge late" }, "tombstone") : brief(one.value, 160)),
      h("td", {}, h("button", { type: "button", "aria-expanded": "false", "aria-label": `record ${one.partition}-${one.offset}`, onclick: toggle }, "open")));
    function toggle(event) {
      const isOpen = event.target.getAttribute("aria-expanded") === "true";
      event.target.setAttribute("aria-expanded", String(!isOpen));
      if (isOpen) made.nextSibling.remove();
      else made.after(h("tr", {}, h("td", { colspan: 6 }, details(name, one))));
    }
    return made;
  }

  function command() {
    const start = { end: "-o -" + limit.value, beginning: "-o beginning", offset: `-o ${at.value}`, time: `-o @${at.value}` }[from.value];
    return `pybroker consume ${quoted(name)} ${start}${partition.value ? ` -p ${partition.value}` : ""} --until end --bootstrap-server ${state.facts.bootstrap}`;
  }

  function begin() {
    stop();
    stop = repeat(async () => {
      if (positions === null) await read(false);
      else await read(true);
    }, TAIL_MS);
  }

  read(false);
  return () => { endChoice(); stop(); };
}

function brief(content, length) {
  if (content === null) return h("span", { class: "badge late" }, "none");
  if (content.text === null) return h("span", {}, h("span", { class: "soft" }, "hex "), content.hex.slice(0, length));
  return content.text.length > length ? `${content.text.slice(0, length)} …` : content.text;
}

function details(topic, one) {
  return h("div", {}, ["key", "value"].map((part) => h("div", {}, h("h3", {}, part), content(one[part], { topic, partition: one.partition, offset: one.offset, part }))),
    h("h3", {}, "headers"), one.headers.length ? h("ul", {}, one.headers.map(([name, value]) => h("li", {}, h("b", {}, name), " = ", brief(value, 2000)))) : h("p", { class: "soft" }, "none"));
}

// `where`: of which record, and which part of it.
function content(found, where) {
  if (found === null) return h("p", {}, where.part === "value" ? "none: a tombstone, which deletes the key where a topic is compacted" : "none");
  const views = { hex: () => h("pre", {}, found.hex) };
  if (found.text !== null) {
    views.text = () => h("pre", {}, found.text);
    try {
      const tree = JSON.parse(found.text);
      if (tree !== null && typeof tree === "object") views.JSON = () => branch(tree, 0);
    } catch { /* it is not JSON */ }
  }
  const place = h("div");
  const names = ["JSON", "text", "hex"].filter((one) => one in views);
  fill(place, views[names[0]]());
  const facts = [bytes(found.size), found.schema === undefined ? null : ` by schema ${found.schema}`, found.is_cut ? "; its beginning is shown" : null];
  return h("div", {}, h("div", { class: "bar" }, names.map((one) => h("button", { type: "button", onclick: () => fill(place, views[one]()) }, one)),
    found.is_cut && found.text !== null ? h("button", { type: "button", onclick: () => doing(async () => { fill(place, pages(await askText("content", where))); }) }, "load all") : null,
    h("a", { href: fileAddress("content", where), download: "" }, "download"), h("span", { class: "soft" }, facts)),
  found.problem ? h("p", { class: "late" }, found.problem) : null, place);
}

// A long text a page at a time: laid out as a whole it would hold the browser up.
function pages(text) {
  const most = Math.max(0, Math.ceil(text.length / PAGE) - 1);
  const pre = h("pre"), where = h("span", { role: "status", class: "soft" });
  let page = 0;
  const turn = (step) => {
    page = Math.max(0, Math.min(most, page + step));
    pre.textContent = plain(text.slice(page * PAGE, (page + 1) * PAGE));
    fill(where, `part ${page + 1} of ${most + 1}`);
  };
  turn(0);
  return h("div", {}, h("div", { class: "bar" }, h("button", { type: "button", onclick: () => turn(-1) }, "Earlier part"), h("button", { type: "button", onclick: () => turn(1) }, "Later part"),
    h("button", { type: "button", onclick: () => copy(text) }, "Copy all"), where), pre);
}

const BRANCHES = 500, DEEP = 40;

function branch(value, depth) {
  if (value === null || typeof value !== "object") return h("span", {}, JSON.stringify(value));
  if (depth > DEEP) return h("span", { class: "soft" }, "…");
  const entries = Object.entries(value);
  return h("ul", { class: "tree" }, entries.slice(0, BRANCHES).map(([name, inner]) => {
    if (inner !== null && typeof inner === "object") return h("li", {}, h("details", { open: depth < 2 }, h("summary", {}, name), branch(inner, depth + 1)));
    return h("li", {}, h("b", {}, name), ": ", JSON.stringify(inner));
  }), entries.length > BRANCHES ? h("li", { class: "soft" }, `… ${count(entries.length - BRANCHES)} more`) : null);
}

function production(name) {
  const key = h("input"), noKey = h("input", { type: "checkbox", checked: true }), value = h("textarea", { rows: 4 }), tombstone = h("input", { type: "checkbox" });
  const headers = h("input", { placeholder: 'a JSON object: {"trace": "1"}' }), partition = h("input", { type: "number", min: 0, placeholder: "by key" });
  const schemas = Object.fromEntries(["key", "value"].map((part) => [part, h("input", { type: "number", min: 0, placeholder: "none" })]));
  const schemaOf = (part) => (schemas[part].value ? Number(schemas[part].value) : null);
  return h("section", {}, h("h2", {}, "Write a record"), h("form", { onsubmit: async (event) => {
    event.preventDefault();
    await doing(() => {
      let given = {};
      if (headers.value) { try { given = JSON.parse(headers.value); } catch { throw new Error("the headers are not JSON"); } }
      return order("messages/produce", { topic: name, key: noKey.checked ? null : key.value, value: tombstone.checked ? null : value.value, headers: given, key_schema: schemaOf("key"), value_schema: schemaOf("value"), partition: partition.value ? Number(partition.value) : null });
    });
  } }, h("label", {}, "Key", key), h("label", { class: "inline" }, noKey, "no key"), h("label", {}, "Headers", headers), h("label", {}, "Partition", partition),
    state.facts.has_registry ? [h("label", {}, "Schema of the key", schemas.key), h("label", {}, "Schema of the value", schemas.value)] : null, h("label", { class: "wide" }, "Value", value), h("label", { class: "inline" }, tombstone, "none (a tombstone)"), h("button", {}, "Write"),
    h("button", { type: "button", onclick: () => copy(`printf %s ${quoted(value.value)} | pybroker produce ${quoted(name)} --bootstrap-server ${state.facts.bootstrap}`) }, "Copy the command")));
}
