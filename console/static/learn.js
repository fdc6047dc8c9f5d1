// The course: a chapter's text with its blocks and questions, and beside it the living page that the
// text is about. What the cluster or a reader has said is only ever text.

import { copy, fill, h } from "./dom.js";
import { ask, follow, order, state } from "./state.js";
import { doing, link } from "./common.js";
import { topicsPage } from "./topics.js";
import { clusterPage } from "./cluster.js";
import { groupsPage } from "./groups.js";
import { insidePage } from "./inside.js";
import { messagesPage } from "./messages.js";
import { transactionsPage } from "./transactions.js";

const BESIDE = { cluster: clusterPage, topics: topicsPage, messages: messagesPage, groups: groupsPage, inside: insidePage, transactions: transactionsPage };

const say = (body) => doing(() => order("learn/order", body));

// The address: #/learn, or #/learn/NUMBER.
export function learnPage(main, [number]) {
  const place = h("div"), beside = h("div", { class: "beside" });
  let watched = "", end = () => {}, drawn = "";
  fill(main, number ? h("div", { class: "columns study" }, place, beside) : place);

  // Anew after each step: what it shows may have come with the step.
  function watch(where, step) {
    if (`${where} ${step}` === watched) return;
    watched = `${where} ${step}`;
    end();
    const [name, ...rest] = where.split("/");
    const living = h("div");
    fill(beside, where ? [h("p", {}, h("a", { href: `#/${where}` }, "Beside the text: the living cluster. Open it as a page.")), living] : null);
    end = BESIDE[name]?.(living, rest) ?? (() => {});
  }

  function draw() {
    const course = state.course;
    if (!course) return;
    // Only what is new is drawn: what a reader types stays.
    const now = JSON.stringify([course.open, course.doing, course.problem, course.chapters]);
    if (now === drawn) return;
    drawn = now;
    if (!number) fill(place, chapters(course));
    else if (course.open?.number !== Number(number)) fill(place, beginning(course, number));
    else {
      fill(place, lesson(course));
      watch(course.open.parts.at(-1).watch, course.open.step);
      if (!course.doing) place.querySelector("[data-present] button, [data-present] input")?.focus({ preventScroll: true });
      place.querySelector("[data-present]")?.scrollIntoView({ block: "nearest" });
    }
  }

  ask("learn").then((found) => { state.course = found; draw(); });
  const unfollow = follow((kinds) => { if (kinds.has("course")) draw(); });
  return () => { unfollow(); end(); };
}

function chapters(course) {
  return [h("h1", {}, "Learn Kafka"), h("section", {},
    h("p", {}, "Each chapter takes about five minutes, on this living cluster. Commands run for you, something breaks, and the cluster itself answers the questions."),
    h("ol", {}, course.chapters.map((one) => h("li", {}, h("a", { href: link("learn", one.number) }, one.title), " ", h("span", { class: one.passed === one.steps ? "badge good" : "soft" }, stateOf(one))))))];
}

const stateOf = (one) => (one.passed === one.steps ? "done" : one.passed ? `${one.passed} of ${one.steps} steps` : "not begun");

function beginning(course, number) {
  const one = course.chapters.find((each) => each.number === Number(number));
  if (!one) return h("p", {}, "There is no such chapter. ", h("a", { href: "#/learn" }, "All chapters"));
  return [h("h1", {}, one.title), h("section", {}, h("p", {}, one.passed ? `You have done ${one.passed} of ${one.steps} steps; what they did is done again first.` : "The chapter begins on clean ground: topics of an earlier run are deleted, and all nodes run."),
    h("div", { class: "bar" }, h("button", { type: "button", disabled: Boolean(course.doing), onclick: () => say({ do: "open", chapter: number }) }, one.passed ? "Go on" : "Begin"), working(course)))];
}

function working(course) {
  return h("span", { role: "status", class: course.problem ? "bad" : "soft" }, course.doing ? `${course.doing} …` : course.problem);
}

function lesson(course) {
  const open = course.open;
  const next = course.chapters.find((one) => one.number > open.number);
  return h("section", { class: "lesson" },
    h("p", { class: "soft" }, h("a", { href: "#/learn" }, "All chapters"), ` · ${open.step} of ${open.steps} steps `,
      h("progress", { max: open.steps, value: open.step, "aria-label": "steps done" })),
    h("h1", {}, open.title),
    open.parts.map((part) => PARTS[part.kind](part, part.step === open.step ? course : null)),
    open.step === open.steps ? h("div", { class: "bar" },
      next ? h("a", { href: link("learn", next.number) }, `Next: ${next.title}`) : "This was the last chapter.",
      h("button", { type: "button", disabled: Boolean(course.doing), onclick: () => say({ do: "restart", chapter: String(open.number) }) }, "Begin anew"), working(course)) : null);
}

// `course` is given for the present step alone.
const PARTS = {
  text: (part) => part.blocks.map(block),
  run: (part, course) => h("div", { class: part.does_break ? "breaks" : null, "data-present": course ? true : null },
    h("pre", { tabindex: "0", "aria-label": `code of step ${part.step + 1}` }, part.code),
    h("div", { class: "bar" },
      course ? h("button", { type: "button", disabled: Boolean(course.doing), class: part.does_break ? "danger" : null, onclick: () => say({ do: "run", step: part.step }) }, part.does_break ? "Break it" : "Run it") : null,
      course ? h("button", { type: "button", disabled: Boolean(course.doing), onclick: () => say({ do: "skip", step: part.step }) }, "I have run it") : null,
      h("button", { type: "button", onclick: () => copy(part.code) }, "Copy"), course ? working(course) : null),
    part.output === null ? null : h("pre", { class: "output", tabindex: "0", role: "log", "aria-label": `output of step ${part.step + 1}` }, part.output),
    part.is_well ? null : h("p", { class: "bad" }, "It ended with an error; the step is not passed.")),
  ask: (part, course) => h("div", { class: "question", "data-present": course ? true : null, "data-tries": part.tries }, h("p", {}, part.spans.map(span)),
    course ? question(part, course) : h("p", {}, part.is_right ? h("span", { class: "badge good" }, "right") : h("span", { class: "badge" }, "shown"), " ", part.given, part.says ? h("span", { class: "soft" }, ` The cluster says ${part.says}.`) : null)),
};

function question(part, course) {
  const input = h("input", { "aria-label": "Your answer", autocomplete: "off", disabled: Boolean(course.doing) });
  return [h("form", { class: "bar", onsubmit: (event) => { event.preventDefault(); if (input.value.trim()) say({ do: "answer", step: part.step, text: input.value }); } },
    input, h("button", { disabled: Boolean(course.doing) }, "Answer"),
    h("button", { type: "button", disabled: Boolean(course.doing), onclick: () => say({ do: "show", step: part.step }) }, "Show the cluster's"), working(course)),
  part.tries && !course.doing ? h("p", { class: "late", role: "status" }, `The cluster does not say ${part.given}. `, part.hint.map(span)) : null];
}

const SPANS = { text: (words) => words, code: (words) => h("code", {}, words), strong: (words) => h("strong", {}, words), em: (words) => h("em", {}, words), link: (words) => words };
const span = ([kind, words]) => SPANS[kind](words);

const BLOCKS = {
  heading: (one) => h("h2", {}, one.spans.map(span)),
  paragraph: (one) => h("p", {}, one.spans.map(span)),
  list: (one) => h(one.is_numbered ? "ol" : "ul", {}, one.items.map((item) => h("li", {}, item.map(span)))),
  code: (one) => h("pre", { tabindex: "0" }, one.text),
};
const block = (one) => BLOCKS[one.kind](one);
