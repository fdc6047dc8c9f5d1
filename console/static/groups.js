// Groups of consumers: members, what each has, lag and how it goes, and where they go on.

import { copy, count, counted, facts, fill, h, scrolling, table, tableTools, teach } from "./dom.js";
import { ask, order, state } from "./state.js";
import { sharePage } from "./share.js";
import { doing, link, repeat } from "./common.js";
import { quoted, topicChoice } from "./topics.js";

const TREND = 60;
const PLACES = 60; // partitions of a member
const KINDS = { classic: "classic", consumer: "consumer (KIP-848)", share: "share (queue)", streams: "streams" };

export function groupsPage(main, [name, kind]) {
  if (name && kind === "share") return sharePage(main, name);
  return name ? oneGroup(main, name) : allGroups(main);
}

function allGroups(main) {
  const filter = h("input", { type: "search", oninput: () => draw() });
  const place = h("div");
  let rows = [], isRead = false;
  fill(main, h("h1", {}, "Groups"), h("section", {}, h("div", { class: "bar" }, h("label", {}, "Groups that have", filter)), scrolling("groups", place), tableTools("groups", () => place.querySelector("table"))));
  const nothing = () => (!isRead ? "reading …" : filter.value ? "no group is like that" : teach("No groups yet", "Consumers with the same group share the partitions of their topics, and continue where the group has committed. Start one:", `pybroker consume TOPIC --group readers --bootstrap-server ${state.facts.bootstrap}`));

  function draw() {
    if (place.contains(document.activeElement) && place.querySelector(".teach") && !rows.length) return;
    const held = document.activeElement?.dataset?.group;
    fill(place, table("Groups of the cluster", [
      ["Group", (row) => h("a", { href: row.type === "share" ? link("groups", row.group, "share") : link("groups", row.group), "data-group": row.group }, row.group)],
      ["State", (row) => h("span", { class: `badge ${row.state === "Stable" ? "good" : "late"}` }, row.state)],
      ["Type", (row) => KINDS[row.type] ?? (row.type || "–")], ["Protocol", (row) => row.protocol || "–"], ["Coordinator", (row) => `broker ${row.coordinator}`],
    ], rows.filter((row) => row.group.includes(filter.value)), nothing()));
    if (held) place.querySelector(`[data-group="${CSS.escape(held)}"]`)?.focus();
  }
  return repeat(async () => { rows = await ask("groups"); isRead = true; draw(); });
}

function oneGroup(main, name) {
  const summary = h("div"), members = h("div"), converging = h("div"), partitions = h("div");
  const states = [], trends = new Map();
  const history = h("ol", { class: "timeline" });
  const [topic, endChoice] = topicChoice("", () => {}, false);
  fill(main, h("h1", {}, `Group ${name}`), summary,
    h("p", {}, h("a", { href: link("groups") }, "All groups"), " · ", h("button", { type: "button", onclick: () => copy(`pybroker groups describe ${quoted(name)} --bootstrap-server ${state.facts.bootstrap}`) }, "Copy as a command")),
    h("section", {}, h("h2", {}, "Partitions"), scrolling("partitions", partitions), tableTools(name, () => partitions.querySelector("table"))),
    h("section", {}, h("h2", {}, "Members"), converging, scrolling("members", members), tableTools(`${name}-members`, () => members.querySelector("table"))),
    h("section", {}, h("h2", {}, "States since this page was opened"), history),
    state.facts.may_write ? reset(name, topic) : null);

  const end = repeat(async () => {
    const one = await ask("group", { name });
    if (states.at(-1)?.state !== one.state) {
      states.push({ state: one.state, at: new Date() });
      fill(history, states.slice(-50).map((entry) => h("li", {}, h("time", {}, entry.at.toLocaleTimeString("en-GB")), h("span", {}, entry.state))));
    }
    const known = one.partitions.filter((part) => part.lag !== null);
    fill(summary, facts({ State: h("span", { class: `badge ${one.state === "Stable" ? "good" : "late"}` }, one.state), Assignor: one.assignor || "–", ...(one.epoch < 0 ? {} : { Epoch: one.epoch, "Target's epoch": one.target_epoch }), Members: one.members.length, Lag: count(known.reduce((sum, part) => sum + part.lag, 0)) }));
    fill(converging, one.type === "consumer" && one.members.length ? convergence(one) : null);
    fill(members, table("Members and their partitions", [["Client", (member) => member.client], ["Id", (member) => member.member, "long"], ["Static id", (member) => member.instance ?? "–"], ["Host", (member) => member.host],
      ...(one.epoch < 0 ? [] : [["Epoch", (member) => h("span", { class: member.epoch < one.target_epoch ? "late" : "good" }, member.epoch), "number"]]),
      ["Partitions", (member) => places(member), "wide"]], one.members, "no members"));
    fill(partitions, table("Where the group stands", [
      ["Topic", (part) => h("a", { href: link("topics", part.topic) }, part.topic)], ["Partition", (part) => part.partition, "number"],
      ["Committed", (part) => count(part.offset), "number"], ["End", (part) => count(part.end), "number"],
      ["Lag", (part) => h("span", { class: part.lag ? "late" : "good" }, count(part.lag)), "number"], ["Trend", (part) => trend(part)], ["Member", (part) => part.client ?? "–"],
    ], one.partitions, "nothing is committed"));
  });

  // Current assignment beside the target: how far the members are on their way (KIP-848).
  function convergence(one) {
    const toCome = one.members.reduce((all, member) => all + (member["to come"]?.length ?? 0), 0);
    const toGo = one.members.reduce((all, member) => all + (member["to go"]?.length ?? 0), 0);
    const owned = one.members.reduce((all, member) => all + member.partitions.length, 0) - toGo;
    const late = one.members.filter((member) => member.epoch < one.target_epoch).length;
    const isDone = !toCome && !toGo && !late && one.epoch === one.target_epoch;
    const said = isDone ? "Every member has its target assignment." : [
      one.epoch !== one.target_epoch && `the target of epoch ${one.epoch} is not computed yet`,
      `${counted(toCome, "partition")} to be assigned`, `${count(toGo)} to be revoked`, late && `${counted(late, "member")} at an older epoch`].filter(Boolean).join(", ");
    return h("div", { class: "converging" },
      h("p", {}, h("span", { class: `badge ${isDone ? "good" : "late"}` }, isDone ? "converged" : "converging"), " ", said),
      h("progress", { max: Math.max(owned + toCome + toGo, 1), value: isDone ? Math.max(owned, 1) : owned, "aria-label": "partitions as in the target assignment" }),
      h("p", { class: "places" }, h("span", { class: "badge" }, "assigned"), h("span", { class: "badge to-come" }, "target: to be assigned"), h("span", { class: "badge to-go" }, "to be revoked")));
  }

  function places(member) {
    const toGo = new Set(member["to go"] ?? []);
    const all = [...member.partitions.map((name) => [name, toGo.has(name) ? "to-go" : ""]), ...(member["to come"] ?? []).map((name) => [name, "to-come"])];
    const said = { "to-go": " (to be revoked)", "to-come": " (to be assigned)", "": "" };
    return all.length ? h("span", { class: "places" }, all.slice(0, PLACES).map(([name, kind]) => h("span", { class: `badge ${kind}` }, name, kind ? h("span", { class: "sr" }, said[kind]) : null)), all.length > PLACES ? `and ${count(all.length - PLACES)} more` : null) : "–";
  }

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
    fill(plan, scrolling("plan", table(execute ? "Done" : "Planned changes", [["Topic", (row) => row.topic], ["Partition", (row) => row.partition, "number"], ["Now", (row) => count(row.before), "number"], ["Then", (row) => count(row.after), "number"]], found.plan, "the group has no offsets: name a topic")), tableTools(`${name}-plan`, () => plan.querySelector("table")),
      execute ? null : h("button", { type: "button", class: "danger", onclick: () => show(true) }, "Reset"));
  }
  return h("section", {}, h("h2", {}, "Reset offsets"), h("p", { class: "soft" }, "Only the offsets of a group without members can be reset."),
    h("form", { onsubmit: (event) => { event.preventDefault(); show(false); } }, topic, h("label", {}, "To", to), h("label", {}, "At", at), h("button", {}, "Preview")), plan,
    h("button", { type: "button", class: "danger", onclick: async () => { if (await doing(() => order("groups/order", { do: "delete", group: name }))) location.hash = "#/groups"; } }, "Delete the group"));
}
