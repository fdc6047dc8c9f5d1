// Elements out of plain values. Text is only ever put in as text: nothing that a cluster says is
// read as HTML anywhere in the console.

export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value") made.value = value;
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  add(made, children);
  return made;
}

export const svg = (tag, attributes, ...children) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.filter((one) => one !== null));
  return made;
};

export function add(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : shown(String(child)));
  }
}

export function fill(parent, ...children) {
  parent.replaceChildren();
  add(parent, children);
  return parent;
}

// Control characters, and those that turn the direction of writing, are shown as what they are.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
const SHOWN_MAX = 20000;

export function shown(text) {
  return plain(text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)} … (${text.length} characters)` : text);
}

export function plain(text) {
  return text.replace(HIDDEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

const UNITS = ["B", "kB", "MB", "GB", "TB"];

export function bytes(size) {
  if (size === null || size === undefined || size < 0) return "–";
  let unit = 0;
  while (size >= 999.5 && unit < UNITS.length - 1) { size /= 1000; unit += 1; }
  return `${unit && size < 99.95 ? size.toFixed(1) : Math.round(size)} ${UNITS[unit]}`;
}

export function count(value, digits = 0) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

/** "1 topic", "2 topics". */
export function counted(value, thing) {
  return `${count(value)} ${thing}${value === 1 ? "" : "s"}`;
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds / 3600) % 24} h`;
}

export function clock(ms) {
  const at = new Date(ms);
  return h("time", { datetime: at.toISOString() }, at.toLocaleTimeString("en-GB"));
}

export function stamp(ms) {
  return ms < 0 ? "–" : new Date(ms).toISOString().replace("T", " ").replace("Z", "");
}

export function facts(pairs) {
  return h("dl", { class: "facts" },
    Object.entries(pairs).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value ?? "–"))));
}

// How each table is sorted, by its caption; kept while the console is open.
const sorts = new Map();

const SIZES = { kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 };
const NUMBER = /^(-?[\d,.]+)\s*([kMGT]B)?/;

// The key of a cell to sort by: a number where it begins with one.
function keyOf([, cell, kind, key], row) {
  const found = key ? key(row) : cell(row);
  if (typeof found === "number") return found;
  const text = found instanceof Node ? found.textContent : String(found ?? "");
  const number = kind === "number" ? text.match(NUMBER) : null;
  if (number) return Number(number[1].replaceAll(",", "")) * (SIZES[number[2]] ?? 1);
  return kind === "number" ? -Infinity : text.toLowerCase();
}

// The rows as their table is sorted: to be called before a page of them is cut out.
export function inSort(caption, columns, rows) {
  const { title, isDown } = sorts.get(caption) ?? {};
  const column = columns.find(([one]) => one === title);
  if (!column) return rows;
  const keyed = rows.map((row) => [keyOf(column, row), row]);
  keyed.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0) * (isDown ? -1 : 1));
  return keyed.map(([, row]) => row);
}

// A table of rows: columns are [title, function of a row, "number" | "long" | "plain" | undefined, key
// to sort by]; a plain one is not sorted by. `redraw`: of a page that shows a part of the rows.
export function table(caption, columns, rows, nothing = "nothing", redraw = null) {
  const { title: chosen, isDown } = sorts.get(caption) ?? {};
  const made = h("table", { class: !rows.length && nothing instanceof Node ? "empty" : null }, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, columns.map((column) => head(column)))),
    h("tbody", {}, inSort(caption, columns, rows).map((row) => h("tr", {}, columns.map(([, cell, kind]) => h("td", { class: kind }, cell(row)))))));
  if (!rows.length) made.tBodies[0].append(h("tr", {}, h("td", { colspan: columns.length, class: "nothing" }, nothing)));
  return made;

  function head([title, , kind]) {
    const isSorted = title === chosen;
    const cell = h("th", { scope: "col", class: kind === "number" ? "number" : null, "aria-sort": isSorted ? (isDown ? "descending" : "ascending") : null });
    if (kind === "plain" || rows.length < 2) return fill(cell, title);
    const name = `${caption}/${title}`, isHeld = document.activeElement?.dataset?.sort === name;
    const button = h("button", { type: "button", class: "sort", "data-sort": name, onclick: sort }, title);
    // A table is drawn anew every few seconds: the focus stays.
    if (isHeld) queueMicrotask(() => button.focus());
    return fill(cell, button);

    function sort() {
      sorts.set(caption, { title, isDown: isSorted ? !isDown : kind === "number" });
      if (redraw) redraw();
      else made.replaceWith(table(caption, columns, rows, nothing));
    }
  }
}

// In the place of a page that has nothing to show yet: why, and the first step.
export function teach(title, text, command = "") {
  return h("div", { class: "teach" }, h("p", { class: "title" }, title), h("p", {}, text),
    command ? h("p", {}, h("code", {}, command), " ", h("button", { type: "button", onclick: () => copy(command) }, "Copy the command")) : null);
}

// Around what may be larger than its place; can be scrolled by keys.
export function scrolling(name, ...children) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, children);
}

export function tell(text, isBad = false) {
  const line = h("p", { class: isBad ? "bad" : null }, text);
  document.getElementById("told").append(line);
  setTimeout(() => line.remove(), isBad ? 12000 : 6000);
}

// For copying and saving what a table shows.
export function tableTools(name, find) {
  const lines = () => [...(find()?.rows ?? [])].map((row) => [...row.cells].map((cell) => cell.innerText.replace(/\s+/g, " ").trim()));
  return h("span", { class: "tools" },
    h("button", { type: "button", onclick: () => copy(lines().map((row) => row.join("\t")).join("\n")) }, "Copy"),
    h("button", { type: "button", onclick: () => save(`${name}.csv`, lines().map((row) => row.map(quoted).join(",")).join("\n"), "text/csv") }, "Save CSV"));
}

// For saving a drawing.
export function drawingTools(name, find) {
  return h("button", { type: "button", "aria-label": `save ${name}`, onclick: () => save(`${name}.svg`, find().outerHTML, "image/svg+xml") }, "Save SVG");
}

const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    tell("Copied.");
  } catch (error) {
    tell(`The browser does not let us copy: ${error.message}`, true);
  }
}

export function save(name, content, type) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
