// Small plots without axes, and the series in them.

import { svg } from "./dom.js";

// The sum of several series, whose points have the same times.
export function sum(series) {
  const sums = new Map();
  for (const [, points] of series) for (const [at, value] of points) sums.set(at, (sums.get(at) ?? 0) + value);
  return [...sums].sort(([one], [other]) => one - other);
}

export function most(series) {
  const found = new Map();
  for (const [, points] of series) for (const [at, value] of points) found.set(at, Math.max(found.get(at) ?? 0, value));
  return [...found].sort(([one], [other]) => one - other);
}

// A small plot without axes; `points` are [ms, value].
export function spark(points, label) {
  const width = 160, height = 36;
  const [first, last] = [points[0]?.[0] ?? 0, points.at(-1)?.[0] ?? 1];
  const top = Math.max(...points.map(([, value]) => value), 1e-9);
  const places = points.map(([at, value]) => `${((width * (at - first)) / Math.max(last - first, 1)).toFixed(1)},${(height - 2 - ((height - 4) * value) / top).toFixed(1)}`).join(" ");
  return svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    points.length > 1 ? svg("polygon", { points: `0,${height} ${places} ${width},${height}`, class: "ground" }) : null,
    points.length > 1 ? svg("polyline", { points: places, fill: "none", class: "line" }) : null);
}
