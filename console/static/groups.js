// Groups of consumers: members, what each has, lag and how it goes, and where they go on.

import { copy, count, facts, fill, h, scrolling, table, tableTools } from "./dom.js";
import { ask, order, state } from "./state.js";
import { doing, link, quoted, repeat, topicChoice } from "./topics.js";

const TREND = 60;

export function groupsPage(main, [name]) {
  return name ? oneGroup(main, name) : allGroups(main);
}

function allGroups(main) {
  const filter = h("input", { type: "search", oninput: () => draw() });
  const place = h("div");
  let rows = [];
  fill(main, h("h1", {}, "Groups"), h("section", {}, h("div", { class: "bar" }, h("label", {}, "Groups that have", filter)), scrolling("groups", place), tableTools("groups", () => place.querySelector("table"))));
  function draw() {
    const held = document.activeElement?.dataset?.group;
    fill(place, table("Groups of the cluster", [
      ["Group", (row) => h("a", { href: link("groups", row.group), "data-group": row.group }, row.group)],
      ["State", (row) => h("span", { class: `badge ${row.state === "Stable" ? "good" : "late"}` }, row.state)],
      ["Kind", (row) => row.protocol], ["Coordinator", (row) => `broker ${row.coordinator}`],
    ], rows.filter((row) => row.group.includes(filter.value)), "there are no groups"));
    if (held) place.querySelector(`[data-group="${CSS.escape(held)}"]`)?.focus();
  }
  return repeat(async () => { rows = await ask("groups"); draw(); });
}

function oneGroup(main, name) {
  const summary = h("div"), members = h("div"), partitions = h("div");
  const states = [], trends = new Map();
  const history = h("ol", { class: "timeline" });
  const [topic, endChoice] = topicChoice("", () => {}, false);
  fill(main, h("h1", {}, `Group ${name}`), summary,
    h("p", {}, h("a", { href: link("groups") }, "All groups"), " · ", h("button", { type: "button", onclick: () => copy(`pybroker groups describe ${quoted(name)} --bootstrap-server ${state.facts.bootstrap}`) }, "Copy as a command")),
    h("section", {}, h("h2", {}, "Partitions"), scrolling("partitions", partitions), tableTools(name, () => partitions.querySelector("table"))),
    h("section", {}, h("h2", {}, "Members"), scrolling("members", members), tableTools(`${name}-members`, () => members.querySelector("table"))),
    h("section", {}, h("h2", {}, "States since this page was opened"), history),
    state.facts.may_write ? reset(name, topic) : null);

  const end = repeat(async () => {
    const one = await ask("group", { name });
    if (states.at(-1)?.state !== one.state) {
      states.push({ state: one.state, at: new Date() });
      fill(history, states.slice(-50).map((entry) => h("li", {}, h("time", {}, entry.at.toLocaleTimeString("en-GB")), h("span", {}, entry.state))));
    }
    const known = one.partitions.filter((part) => part.lag !== null);
    fill(summary, facts({ State: h("span", { class: `badge ${one.state === "Stable" ? "good" : "late"}` }, one.state), Assignor: one.assignor || "–", ...(one.epoch < 0 ? {} : { Epoch: one.epoch, "Target of epoch": one.target_epoch }), Members: one.members.length, Lag: count(known.reduce((sum, part) => sum + part.lag, 0)) }));
    fill(members, table("Members and their partitions", [["Client", (one) => one.client], ["Id", (one) => one.member, "long"], ["Static id", (one) => one.instance ?? "–"], ["Host", (one) => one.host], ["Partitions", (one) => one.partitions.join(", "), "long"], ...(one.epoch < 0 ? [] : [["Epoch", (member) => member.epoch], ["To come", (member) => member["to come"].join(", ") || "–", "long"], ["To go", (member) => member["to go"].join(", ") || "–", "long"]])], one.members, "no members"));
    fill(partitions, table("Where the group stands", [
      ["Topic", (part) => h("a", { href: link("topics", part.topic) }, part.topic)], ["Partition", (part) => part.partition, "number"],
      ["Committed", (part) => count(part.offset), "number"], ["End", (part) => count(part.end), "number"],
      ["Lag", (part) => h("span", { class: part.lag ? "late" : "good" }, count(part.lag)), "number"], ["Trend", (part) => trend(part)], ["Member", (part) => part.client ?? "–"],
    ], one.partitions, "nothing is committed"));
  });

  function trend(part) {
    const key = `${part.topic}-${part.partition}`;
    const points = [...(trends.get(key) ?? []), part.lag ?? 0].slice(-TREND);
    trends.set(key, points);
    const most = Math.max(...points, 1);
    const way = points.at(-1) - points[0];
    const line = points.map((lag, index) => `${(index * 100) / TREND},${19 - (18 * lag) / most}`).join(" ");
    const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [attribute, value] of Object.entries({ viewBox: "0 0 100 20", width: "100", height: "20", role: "img", "aria-label": way > 0 ? "it grows" : way < 0 ? "it shrinks" : "it stays" })) made.setAttribute(attribute, value);
    const drawn = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    for (const [attribute, value] of Object.entries({ points: line, fill: "none", stroke: "currentColor" })) drawn.setAttribute(attribute, value);
    made.append(drawn);
    return made;
  }
  return () => { endChoice(); end(); };
}

function reset(name, topic) {
  const to = h("select", {}, ["earliest", "latest", "offset", "time"].map((one) => h("option", {}, one)));
  const at = h("input", { placeholder: "offset, or time" });
  const plan = h("div", { role: "status" });
  function asked(execute) {
    const body = { do: "reset", group: name, to: to.value, topic: topic.querySelector("input").value, execute };
    if (to.value === "offset" || to.value === "time") {
      body.at = /^-?\d+$/.test(at.value) ? Number(at.value) : Date.parse(at.value);
      if (Number.isNaN(body.at)) throw new Error("At is an offset, or a time: ms since 1970, or 2026-11-23T04:00:00");
    }
    return body;
  }
  async function show(execute) {
    const found = await doing(() => order("groups/order", asked(execute)));
    if (!found) return;
    fill(plan, table(execute ? "Done" : "Planned changes", [["Topic", (row) => row.topic], ["Partition", (row) => row.partition, "number"], ["Now", (row) => count(row.before), "number"], ["Then", (row) => count(row.after), "number"]], found.plan, "the group has no offsets: name a topic"), tableTools(`${name}-plan`, () => plan.querySelector("table")),
      execute ? null : h("button", { type: "button", class: "danger", onclick: () => show(true) }, "Do it"));
  }
  return h("section", {}, h("h2", {}, "Go on elsewhere"), h("p", { class: "soft" }, "Only a group without members can be put elsewhere."),
    h("form", { onsubmit: (event) => { event.preventDefault(); show(false); } }, topic, h("label", {}, "To", to), h("label", {}, "At", at), h("button", {}, "Preview")), plan,
    h("button", { type: "button", class: "danger", onclick: async () => { if (await doing(() => order("groups/order", { do: "delete", group: name }))) location.hash = "#/groups"; } }, "Delete the group"));
}
