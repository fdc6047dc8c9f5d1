// What pages have in common: what is asked again and again, orders, links, rates.

import { tell } from "./dom.js";

const EVERY_MS = 2000;

// Calls `draw` now and every few seconds until the page is left; returns what ends that. What fails
// again and again is told once.
export function repeat(draw, everyMs = EVERY_MS) {
  let timer, isOver = false, told = "";
  const turn = async () => {
    try {
      await draw();
      told = "";
    } catch (error) {
      if (error.message !== told) tell(error.message, true);
      told = error.message;
    }
    if (!isOver) timer = setTimeout(turn, everyMs);
  };
  turn();
  return () => { isOver = true; clearTimeout(timer); };
}

export async function doing(work) {
  try {
    const found = await work();
    if (found?.done) tell(found.done);
    return found;
  } catch (error) {
    tell(error.message, true);
    return null;
  }
}

// Buttons to the pages before and after this one; hidden where all rows fit on one page.
export function pages([previous, next], page, count, size) {
  previous.disabled = page === 0;
  next.disabled = (page + 1) * size >= count;
  previous.hidden = next.hidden = count <= size;
}

export const link = (...places) => `#/${places.map(encodeURIComponent).join("/")}`;

// Of Kafka itself: offsets of groups, transactions, share groups.
export const isInternal = (name) => name.startsWith("__");

// Adds to the rows of topics the records a second since the call before.
export function topicRates() {
  let before = new Map();
  return (rows) => {
    const now = performance.now();
    for (const row of rows) {
      const [end, at] = before.get(row.name) ?? [];
      if (end !== undefined) row.rate = Math.max(0, (1000 * (row.end - end)) / (now - at));
    }
    before = new Map(rows.map((row) => [row.name, [row.end, now]]));
    return rows;
  };
}
