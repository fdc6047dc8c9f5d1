// The cluster: its nodes, the grid of partitions and brokers, and what has happened.

import { bytes, clock, count, counted, facts, fill, h, scrolling, span, table, tableTools, tell } from "./dom.js";
import { follow, order, state } from "./state.js";
import { isInternal, pages } from "./common.js";

const ROWS = 120;
const EVENTS = 100;
const LEADER = 0, REPLICAS = 2, ISR = 3, OFFLINE = 4;
const PLACES = { leader: ["L", "leader"], sync: ["●", "in sync"], behind: ["◐", "behind"], offline: ["✕", "offline"], none: ["", "no replica"] };

export function clusterPage(main) {
  const summary = h("div");
  const nodes = h("div");
  const ensembleTable = h("div"), ensembleSaid = h("p", { role: "status" });
  const ensemble = h("section", { hidden: true });
  const grid = h("div");
  const line = h("ol", { class: "timeline" });
  const filter = h("input", { type: "search", oninput: () => { page = 0; drawGrid(); } });
  const internal = h("input", { type: "checkbox", onchange: () => { page = 0; drawGrid(); } });
  const troubled = h("input", { type: "checkbox", onchange: () => { page = 0; drawGrid(); } });
  const kind = h("select", { onchange: () => { back = 0; drawLine(); } }, h("option", { value: "" }, "all"));
  const when = h("span", { role: "status" });
  const older = h("button", { type: "button", onclick: () => look(1) }, "Older"), newer = h("button", { type: "button", onclick: () => look(-1) }, "Newer");
  let back = 0; // pages of the timeline behind the newest one
  const where = h("span", { role: "status" });
  const pager = [h("button", { type: "button", onclick: () => turn(-1) }, "Previous"), h("button", { type: "button", onclick: () => turn(1) }, "Next")];
  let page = 0;
  let before = new Map();
  fill(main,
    h("h1", {}, "Cluster"), summary,
    h("section", {}, h("h2", {}, "Nodes"), scrolling("nodes", nodes), tableTools("nodes", () => nodes.querySelector("table"))),
    ensemble,
    h("div", { class: "columns" },
      h("section", {}, h("h2", {}, "Partitions and brokers"),
        h("p", {}, Object.entries(PLACES).filter(([name]) => name !== "none").map(([, [sign, word]]) => h("span", { class: "key" }, h("b", { "aria-hidden": "true" }, sign), word))),
        h("div", { class: "bar" }, h("label", {}, "Topics that have", filter), h("label", { class: "inline" }, troubled, "only those in trouble"), h("label", { class: "inline" }, internal, "internal topics, too"), pager, where),
        scrolling("partitions and brokers", grid), tableTools("partitions", () => grid.querySelector("table"))),
      h("section", {}, h("h2", {}, "Timeline"),
        h("div", { class: "bar" }, h("label", {}, "Kind", kind), older, newer, when),
        scrolling("timeline", line))));

  function drawSummary() {
    let partitions = 0, behind = 0, leaderless = 0;
    for (const placed of state.topics.values()) {
      for (const one of placed) {
        if (!one) continue;
        partitions += 1;
        if (one[ISR].length < one[REPLICAS].length) behind += 1;
        if (one[LEADER] < 0) leaderless += 1;
      }
    }
    fill(summary, facts({
      "Cluster id": state.cluster_id, "Controller": state.controller < 0 ? "none" : `broker ${state.controller}`, "Controller's epoch": state.controller_epoch,
      "Brokers": Object.keys(state.brokers).length, "Topics": count(state.topics.size), "Partitions": count(partitions),
      "Under-replicated": h("span", { class: behind ? "late" : "good" }, count(behind)),
      "Without leader": h("span", { class: leaderless ? "bad" : "good" }, count(leaderless)),
      "Bootstrap": state.facts.bootstrap,
    }));
  }

  function nodeRows() {
    if (state.nodes.length) return state.nodes;
    return Object.entries(state.brokers).map(([id, [host, port, rack]]) => ({ name: `broker ${id}`, id: Number(id), kind: "broker", status: "running", host, port, rack }));
  }

  function role(node) {
    if (node.kind !== "broker") {
      if (node.status !== "running") return "";
      if (!node.zookeeper?.mode) return h("span", { class: "badge bad" }, "no leader");
      return node.zookeeper.mode === "leader" ? h("span", { class: "badge good" }, "leader") : node.zookeeper.mode;
    }
    if (!(node.id in state.brokers)) return h("span", { class: "badge bad" }, "absent");
    return node.id === state.controller ? h("span", { class: "badge good" }, "controller") : "broker";
  }

  function drawNodes() {
    const held = document.activeElement?.dataset?.order;
    const columns = [
      ["Node", (node) => node.name],
      ["Status", (node) => h("span", { class: `badge ${node.status === "running" ? "good" : node.status === "paused" ? "late" : "bad"}` }, node.status)],
      ["Role", role],
      ["Address", (node) => `${node.host}:${node.port}`],
      ["Memory", (node) => bytes(node.memory), "number"],
      ["CPU", (node) => (node.cpu === null || node.cpu === undefined ? "–" : `${Math.round(100 * node.cpu)} %`), "number"],
      ["Disk", (node) => bytes(node.disk), "number"],
      ["Up", (node) => span(node.uptime), "number", (node) => node.uptime ?? -1],
    ];
    if (state.facts.is_local && state.facts.may_write) columns.push(["Actions", buttons, "plain"]);
    fill(nodes, table("Processes of the cluster", columns, nodeRows(), "no node is known"));
    if (held) nodes.querySelector(`[data-order="${CSS.escape(held)}"]`)?.focus();
    drawEnsemble();
  }

  function drawEnsemble() {
    const members = state.nodes.filter((node) => node.kind === "zookeeper");
    ensemble.hidden = members.length < 2;
    if (ensemble.hidden) return;
    if (!ensemble.childElementCount) fill(ensemble, h("h2", {}, "Ensemble of ZooKeepers"), ensembleSaid, scrolling("ensemble", ensembleTable), tableTools("ensemble", () => ensembleTable.querySelector("table")));
    const serving = members.filter((node) => node.zookeeper.mode);
    const epoch = Math.max(0, ...serving.map((node) => node.zookeeper.epoch));
    const newest = Math.max(0, ...serving.filter((node) => node.zookeeper.epoch === epoch).map((node) => node.zookeeper.counter));
    const of = (node, name) => (node.zookeeper.mode ? count(node.zookeeper[name]) : "–");
    const behind = (node) => (!node.zookeeper.mode ? "–" : node.zookeeper.epoch < epoch ? "an epoch" : count(newest - node.zookeeper.counter));
    fill(ensembleTable, table("Members of the ensemble", [
      ["Member", (node) => node.name], ["Role", role], ["Epoch", (node) => of(node, "epoch"), "number"],
      ["Last transaction", (node) => of(node, "counter"), "number"], ["Behind", behind, "number"],
      ["Clients", (node) => of(node, "clients"), "number"], ["Znodes", (node) => of(node, "znodes"), "number"],
    ], members, "no member is known"));
    const quorum = Math.floor(members.length / 2) + 1;
    fill(ensembleSaid, serving.length >= quorum ? `${serving.length} of ${members.length} members serve; ${serving.length - quorum} more may be lost.`
      : `${serving.length} of ${members.length} members serve, and ${quorum} are needed: no topic, leader or in-sync replica can change.`);
  }

  function buttons(node) {
    const name = node.kind === "broker" ? String(node.id) : node.name;
    const alive = node.status === "running" || node.status === "paused";
    const usable = { kill: alive, pause: node.status === "running", resume: node.status === "paused", restart: true };
    return Object.entries(usable).map(([command, can]) => [h("button", {
      type: "button", disabled: !can, class: command === "kill" ? "danger" : null, "data-order": `${command} ${name}`,
      "aria-label": `${command} ${node.name}`, onclick: () => command_(command, name),
    }, command), " "]);
  }

  async function command_(command, node) {
    try { tell((await order("nodes/command", { command, node })).done); } catch (error) { tell(error.message, true); }
  }

  function placeOf(one, broker) {
    if (!one || !one[REPLICAS].includes(broker)) return "none";
    if (one[LEADER] === broker) return "leader";
    if (one[OFFLINE].includes(broker) || !(broker in state.brokers)) return "offline";
    return one[ISR].includes(broker) ? "sync" : "behind";
  }

  function isTroubled(one) {
    return one && (one[LEADER] < 0 || one[ISR].length < one[REPLICAS].length);
  }

  function turn(step) {
    page += step;
    drawGrid();
  }

  function drawGrid() {
    const brokers = new Set(Object.keys(state.brokers).map(Number));
    for (const node of state.nodes) if (node.kind === "broker") brokers.add(node.id);
    const text = filter.value.toLowerCase();
    // Internal topics are folded away unless they are asked for, or in trouble.
    const isWanted = (topic) => topic.toLowerCase().includes(text) && (internal.checked || troubled.checked || text || !isInternal(topic));
    const found = [];
    for (const [topic, placed] of [...state.topics].sort(([one], [other]) => (one < other ? -1 : 1))) {
      placed.forEach((one, number) => {
        if (one) for (const replica of one[REPLICAS]) brokers.add(replica);
        if (isWanted(topic) && (!troubled.checked || isTroubled(one))) found.push([topic, number, one]);
      });
    }
    const columns = [...brokers].sort((one, other) => one - other);
    page = Math.max(0, Math.min(page, Math.ceil(found.length / ROWS) - 1));
    const rows = found.slice(page * ROWS, (page + 1) * ROWS);
    const now = new Map();
    const body = rows.map(([topic, number, one]) => h("tr", {},
      h("th", { scope: "row", class: "long" }, `${topic}-${number}`),
      columns.map((broker) => {
        const place = placeOf(one, broker);
        const cell = `${topic}-${number}@${broker}`;
        now.set(cell, place);
        const [sign, word] = PLACES[place];
        const isNews = before.has(cell) && before.get(cell) !== place;
        return h("td", { class: `place ${place}${isNews ? " flash" : ""}`, title: word, "data-cell": cell }, h("span", { "aria-hidden": "true" }, sign), h("span", { class: "sr" }, word));
      }),
      h("td", { class: "number" }, one ? one[1] : "–")));
    before = now;
    fill(grid, h("table", { class: "grid" }, h("caption", {}, "Replicas and leaders by broker"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Partition"), columns.map((broker) => h("th", { scope: "col" }, `broker ${broker}`)), h("th", { scope: "col", class: "number" }, "Epoch"))),
      h("tbody", {}, body)));
    fill(grid.appendChild(h("div")), found.length ? null : state.topics.size ? h("p", { class: "nothing" }, "No partition is like that.") : null);
    fill(where, found.length > ROWS ? `${page * ROWS + 1} to ${Math.min((page + 1) * ROWS, found.length)} of ${count(found.length)}` : counted(found.length, "partition"));
    pages(pager, page, found.length, ROWS);
  }

  function look(step) {
    back += step;
    drawLine();
  }

  function drawLine() {
    const known = [...new Set(state.events.map((event) => event[2]))].sort();
    const chosen = kind.value;
    if (kind.options.length !== known.length + 1) {
      fill(kind, ["", ...known].map((one) => h("option", { value: one }, one || "all")));
      kind.value = chosen;
    }
    const BAD = { shrink: "late", offline: "bad", node: "late", broker: "late", leader: "late", session: "late", rebalance: "late" };
    // By their times: lines of logs are read later than they were written.
    const found = state.events.filter((event) => !chosen || event[2] === chosen).sort((one, other) => other[1] - one[1] || other[0] - one[0]);
    back = Math.max(0, Math.min(back, Math.ceil(found.length / EVENTS) - 1));
    const rows = found.slice(back * EVENTS, (back + 1) * EVENTS);
    pages([newer, older], back, found.length, EVENTS);
    fill(when, `${count(found.length)} events${back ? `, from the ${count(back * EVENTS + 1)}th on` : ""}`);
    fill(line, rows.map(([, at, what, text]) => h("li", {}, clock(at), h("span", { class: `kind ${BAD[what] ?? "soft"}` }, what), h("span", {}, text))),
      rows.length ? null : h("li", { class: "soft" }, "Elections, ISR changes, rebalances and brokers that come and go show here as they happen."));
  }

  function draw(kinds) {
    if (!state.isThere) return;
    if (kinds.has("all") || kinds.has("cluster")) { drawSummary(); drawGrid(); }
    if (kinds.has("all") || kinds.has("cluster") || kinds.has("nodes")) drawNodes();
    if (kinds.has("all") || kinds.has("events")) drawLine();
  }
  draw(new Set(["all"]));
  return follow(draw);
}
