// Charts of series over time: lines with a filled ground, a legend, and the values under the pointer.

import { clock, fill, h, svg } from "./dom.js";

const WIDTH = 600, HEIGHT = 170, LEFT = 58, RIGHT = 6, BOTTOM = 20, TOP = 8;
// Of a middle lightness: each can be told from a light ground and from a dark one.
const COLORS = ["#2f7ed8", "#d9772b", "#2a9d6f", "#c2477f", "#7f63d6", "#8a8f2a"];
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "1 4"];
const FILL = "0.12";
const SPAN_LEAST_MS = 60 * 1000;

const colorOf = (index) => COLORS[index % COLORS.length];
const dashOf = (index) => DASHES[Math.floor(index / COLORS.length) % DASHES.length];

// The place of the pointer, as a share of the width of whichever chart it is over: all charts show it.
const pointer = { share: null, listeners: new Set() };

function point(share) {
  pointer.share = share;
  for (const listener of pointer.listeners) listener();
}

// The smallest of 1, 2, 2.5, 5 times a power of ten that is not below `most`.
function roundUp(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= most * 0.999);
}

const SPANS = [[60, "s", 1000], [Infinity, "min", 60000]];

function ago(ms) {
  const [, unit, size] = SPANS.find(([most, , one]) => ms / one <= most);
  return `−${Math.round(ms / size)} ${unit}`;
}

// A chart to draw again and again: `draw(series, range)` takes [[name, [[ms, value]]]].
export function chart(title, unit) {
  const place = h("div", { class: "chart" });
  let series = [], spanMs = 1, now = 0;
  pointer.listeners.add(tellValues);
  const values = h("div", { class: "values", hidden: true });
  let line = null;

  const x = (at) => LEFT + ((WIDTH - LEFT - RIGHT) * (at - now + spanMs)) / spanMs;

  function draw(given, range) {
    now = Date.now();
    // A console that has just begun shows its short past over the whole width.
    const oldest = Math.min(...given.flatMap(([, points]) => points.slice(0, 1).map(([at]) => at)), now);
    const span = Math.min(range, Math.max(now - oldest, SPAN_LEAST_MS));
    spanMs = span;
    series = given.map(([name, points]) => [name.split(" · ").at(-1), points.filter(([at]) => at >= now - span - 3000)]).filter(([, points]) => points.length);
    if (!series.length) return;
    const top = roundUp(Math.max(...series.flatMap(([, points]) => points.map(([, value]) => value)), 1));
    const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top);
    const latest = series.map(([name, points]) => `${name}: ${unit(points.at(-1)[1], 2)}`);
    const drawn = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plot", role: "img", "aria-label": `${title}; now ${latest.join(", ")}`, xmlns: "http://www.w3.org/2000/svg" });
    for (const share of [0, 0.5, 1]) {
      drawn.append(svg("line", { class: "axis", stroke: "#999", x1: LEFT, x2: WIDTH - RIGHT, y1: y(share * top), y2: y(share * top) }),
        svg("text", { x: LEFT - 6, y: y(share * top) + 4, "text-anchor": "end" }, unit(share * top, 2)));
    }
    for (const [share, anchor] of [[0, "start"], [1 / 3, "middle"], [2 / 3, "middle"], [1, "end"]]) {
      drawn.append(svg("text", { x: LEFT + (WIDTH - LEFT - RIGHT) * share, y: HEIGHT - 5, "text-anchor": anchor }, share === 1 ? "now" : ago(span * (1 - share))));
    }
    series.forEach(([, points], index) => {
      const places = points.map(([at, value]) => `${Math.max(LEFT, x(at)).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
      const [first, last] = [Math.max(LEFT, x(points[0][0])), x(points.at(-1)[0])];
      drawn.append(svg("polygon", { points: `${first.toFixed(1)},${y(0)} ${places} ${last.toFixed(1)},${y(0)}`, fill: colorOf(index), "fill-opacity": FILL }),
        svg("polyline", { points: places, fill: "none", stroke: colorOf(index), "stroke-width": "1.8", "stroke-linejoin": "round", "stroke-dasharray": dashOf(index) }));
    });
    line = svg("line", { class: "pointer", x1: 0, x2: 0, y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
    drawn.append(line);
    drawn.addEventListener("pointermove", (event) => {
      const box = drawn.getBoundingClientRect();
      const share = (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT);
      point(share >= 0 && share <= 1 ? share : null);
    });
    drawn.addEventListener("pointerleave", () => point(null));
    fill(place, drawn, legend(), values);
    tellValues();
  }

  const key = (index) => svg("svg", { class: "swatch", viewBox: "0 0 14 4", width: 14, height: 4, "aria-hidden": "true" }, svg("line", { x1: 0, x2: 14, y1: 2, y2: 2, stroke: colorOf(index), "stroke-width": 3, "stroke-dasharray": dashOf(index) }));

  function legend() {
    return h("ul", { class: "legend" }, series.map(([name, points], index) => h("li", {}, key(index), h("span", {}, name), h("b", {}, unit(points.at(-1)[1], 2)))));
  }

  function tellValues() {
    const isOver = pointer.share !== null && line !== null && place.isConnected;
    values.hidden = !isOver;
    line?.setAttribute("visibility", isOver ? "visible" : "hidden");
    if (!isOver) return;
    const at = now - spanMs * (1 - pointer.share);
    for (const end of ["x1", "x2"]) line.setAttribute(end, x(at));
    const found = series.map(([name, points], index) => [name, nearest(points, at), index]).filter(([, one]) => Math.abs(one[0] - at) < spanMs / 10);
    fill(values, clock(at), found.map(([name, [, value], index]) => h("span", {}, key(index), name, " ", h("b", {}, unit(value, 2)))));
    values.classList.toggle("left", pointer.share > 0.5);
  }

  return { place, draw, end: () => pointer.listeners.delete(tellValues) };
}

function nearest(points, at) {
  let best = points[0];
  for (const one of points) if (Math.abs(one[0] - at) < Math.abs(best[0] - at)) best = one;
  return best;
}
