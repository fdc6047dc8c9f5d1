// A share group (a queue, KIP-932): its members, and the records in flight with locks and deliveries.

import { copy, count, facts, fill, h, scrolling, table, tableTools, teach } from "./dom.js";
import { ask, state } from "./state.js";
import { link, repeat } from "./common.js";
import { quoted } from "./topics.js";

const EVERY_MS = 1000;
const STATES = { acquired: "late", available: "", acknowledged: "good", archived: "bad", archiving: "bad" };

export function sharePage(main, name) {
  const summary = h("div"), members = h("div"), partitions = h("div"), flight = h("div");
  fill(main, h("h1", {}, `Share group ${name}`), summary,
    h("p", {}, h("a", { href: link("groups") }, "All groups"), " · ", h("button", { type: "button", onclick: () => copy(`pybroker groups describe ${quoted(name)} --bootstrap-server ${state.facts.bootstrap}`) }, "Copy as a command")),
    h("section", {}, h("h2", {}, "Records in flight"), h("p", { class: "soft" }, "A member locks the records that it has acquired. It accepts, releases or rejects them; when a lock ends first, they are delivered again, and archived after too many deliveries."),
      scrolling("records in flight", flight), tableTools(`${name}-in-flight`, () => flight.querySelector("table"))),
    h("section", {}, h("h2", {}, "Share partitions"), scrolling("share partitions", partitions), tableTools(`${name}-partitions`, () => partitions.querySelector("table"))),
    h("section", {}, h("h2", {}, "Members"), scrolling("members", members), tableTools(`${name}-members`, () => members.querySelector("table"))));

  return repeat(async () => {
    const one = await ask("share", { name });
    const clients = new Map(one.members.map((member) => [member.member, member.client || member.member]));
    const runs = one.partitions.flatMap((part) => part.runs.map((run) => ({ ...run, topic: part.topic, partition: part.partition, most: part.max_deliveries })));
    const sum = (kind) => one.partitions.reduce((all, part) => all + (part.counts[kind] ?? 0), 0);
    const left = one.partitions.reduce((all, part) => all + part.run_count - part.runs.length, 0);
    fill(summary, facts({ State: h("span", { class: `badge ${one.state === "Stable" ? "good" : "late"}` }, one.state), Type: "share (queue)", Assignor: one.assignor || "–", Epoch: one.epoch, "Target's epoch": one.target_epoch, Members: one.members.length,
      Acquired: count(sum("acquired")), "To be delivered again": count(sum("available")), "Locks that ended": count(one.partitions.reduce((all, part) => all + part.lock_timeouts, 0)) }));
    fill(flight, table("Records in flight", [
      ["Topic", (run) => h("a", { href: link("messages", run.topic) }, run.topic)], ["Partition", (run) => run.partition, "number"],
      ["Offsets", (run) => (run.first === run.last ? count(run.first) : `${count(run.first)} – ${count(run.last)}`), "number", (run) => run.first],
      ["Records", (run) => count(run.last - run.first + 1), "number"],
      ["State", (run) => h("span", { class: `badge ${STATES[run.state] ?? ""}` }, run.is_stored ? run.state : `${run.state}, being stored`)],
      ["Deliveries", (run) => h("span", { class: run.deliveries >= run.most ? "bad" : run.deliveries > 1 ? "late" : null }, `${run.deliveries} of ${run.most}`), "number", (run) => run.deliveries],
      ["Lock ends in", (run) => (run.lock_ms === null ? "–" : `${count(run.lock_ms / 1000, 1)} s`), "number", (run) => run.lock_ms ?? -1],
      ["Member", (run) => clients.get(run.member) ?? (run.member || "–")],
    ], runs, one.problem ? teach("Records in flight are not known", one.problem) : teach("Nothing is in flight", "A record shows here from its delivery to a member until the group is done with it.")),
    left ? h("p", { class: "soft" }, `${count(left)} more ranges are not shown`) : null);
    fill(partitions, table("Share partitions by their leaders", [
      ["Topic", (part) => h("a", { href: link("topics", part.topic) }, part.topic)], ["Partition", (part) => part.partition, "number"], ["Leader", (part) => part.broker, "number"],
      ["Start", (part) => count(part.start), "number"], ["End", (part) => count(part.end), "number"],
      ["Acquired", (part) => count(part.counts.acquired ?? 0), "number"], ["Available", (part) => count(part.counts.available ?? 0), "number"],
      ["Done with", (part) => count((part.counts.acknowledged ?? 0) + (part.counts.archived ?? 0)), "number"],
      ["Locks that ended", (part) => count(part.lock_timeouts), "number"], ["State", (part) => part.phase],
    ], one.partitions, "No member has fetched yet."));
    fill(members, table("Members", [["Client", (member) => member.client], ["Id", (member) => member.member, "long"], ["Host", (member) => member.host], ["Epoch", (member) => member.epoch, "number"],
      ["Partitions", (member) => h("span", { class: "places" }, member.partitions.map((place) => h("span", { class: "badge" }, place)))]], one.members, "no members"));
  }, EVERY_MS);
}
