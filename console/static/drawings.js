// Drawings of the inside: a request's way through a broker, and the replicas of a partition.

import { count, counted, h, svg } from "./dom.js";

const BOX_WIDTH = 150, BOX_HEIGHT = 64;

function box(x, y, title, lines, isQueue = false) {
  return svg("g", {}, svg("rect", { x, y, width: BOX_WIDTH, height: BOX_HEIGHT, rx: isQueue ? 28 : 6, class: isQueue ? "queue" : "stage" }),
    svg("text", { x: x + BOX_WIDTH / 2, y: y + 20, "text-anchor": "middle", class: "title" }, title),
    ...lines.map((line, index) => svg("text", { x: x + BOX_WIDTH / 2, y: y + 38 + 15 * index, "text-anchor": "middle" }, line)));
}

function arrow(points) {
  return svg("polyline", { points: points.map((one) => one.join(",")).join(" "), class: "arrow", fill: "none", "marker-end": "url(#head)" });
}

// `told`: gauges, purgatory sizes and times of stages of one broker; `api`: whose times.
export function drawWay(told, api) {
  const times = told.stages[api] ?? {};
  const time = (name) => (times[name] ? `${count(times[name].p50, 2)} / ${count(times[name].p99, 2)} ms` : "–");
  const waiting = Object.values(told.purgatory).reduce((sum, one) => sum + one, 0);
  const idle = told.gauges.idle;
  const label = `${api}: request queue ${time("requestqueue")}, local ${time("local")}, purgatory ${time("remote")}, response queue ${time("responsequeue")}, send ${time("responsesend")}`;
  const x = [10, 200, 390, 580, 770], top = 30, low = 150;
  const middle = (row) => row + BOX_HEIGHT / 2;
  return svg("svg", { viewBox: "0 0 930 250", class: "way", role: "img", "aria-label": label },
    svg("defs", {}, svg("marker", { id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0 L8 4 L0 8 z", class: "tip" }))),
    box(x[0], top, "Acceptor", [counted(told.gauges.connections, "connection")]),
    arrow([[x[0] + BOX_WIDTH, middle(top)], [x[1], middle(top)]]),
    box(x[1], top, "Processors", [idle === undefined ? "" : `${count(idle * 100)} % idle`]),
    arrow([[x[1] + BOX_WIDTH, middle(top)], [x[2], middle(top)]]),
    box(x[2], top, "Request channel", [`${count(told.gauges["request queue"])} in it`, time("requestqueue")], true),
    arrow([[x[2] + BOX_WIDTH, middle(top)], [x[3], middle(top)]]),
    box(x[3], top, "Handlers", [api, time("local")]),
    arrow([[x[3] + BOX_WIDTH, middle(top)], [x[4], middle(top)]]),
    box(x[4], top, "Log", ["replica manager", "partition, segment"]),
    arrow([[x[3] + BOX_WIDTH / 2 + 20, top + BOX_HEIGHT], [x[3] + BOX_WIDTH / 2 + 20, low]]),
    box(x[3], low, "Purgatories", [`${count(waiting)} wait`, time("remote")], true),
    arrow([[x[3], middle(low)], [x[2] + BOX_WIDTH, middle(low)]]),
    arrow([[x[3] + 30, top + BOX_HEIGHT], [x[3] + 30, 122], [x[2] + BOX_WIDTH / 2, 122], [x[2] + BOX_WIDTH / 2, low]]),
    box(x[2], low, "Response queue", [`${count(told.gauges["response queue"])} in it`, time("responsequeue")], true),
    arrow([[x[2], middle(low)], [x[1] + BOX_WIDTH / 2, middle(low)], [x[1] + BOX_WIDTH / 2, top + BOX_HEIGHT]]),
    svg("text", { x: x[1] + BOX_WIDTH / 2 - 8, y: low - 22, "text-anchor": "end" }, `send ${time("responsesend")}`),
    svg("text", { x: x[0], y: 240 }, `in all: ${time("total")}`));
}

const WIDTH = 900, LEFT = 150, RIGHT = 20, ROW = 44;

// A bar a replica, from its log start to its log end, and the high watermark across all.
export function drawReplicas(found) {
  const told = found.replicas.filter((one) => one.told);
  if (!told.length) return h("p", { class: "soft" }, "Only brokers of pybroker on this machine show their replicas.");
  const ends = told.map((one) => one.told.log_end_offset);
  const most = Math.max(...ends), least = Math.min(...told.map((one) => one.told.log_start_offset));
  // The end of the logs is what moves: of long logs only that is drawn.
  const first = Math.max(least, Math.min(...ends, ...told.map((one) => one.told.high_watermark)) - Math.max(20, (most - Math.min(...ends)) * 2));
  const x = (offset) => LEFT + ((WIDTH - LEFT - RIGHT) * (Math.max(offset, first) - first)) / Math.max(most - first, 1);
  const leader = told.find((one) => one.told.is_leader)?.told;
  const height = ROW * found.replicas.length + 40;
  const words = told.map((one) => `broker ${one.broker} ends at ${one.told.log_end_offset}`).join(", ");
  const drawn = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "replicas", role: "img", "aria-label": `${words}${leader ? `; high watermark ${leader.high_watermark}` : ""}` });
  found.replicas.forEach((one, index) => {
    const y = 10 + ROW * index;
    const inSync = found.isr.includes(one.broker);
    const role = one.broker === found.leader ? "leader" : inSync ? "in sync" : "behind";
    drawn.append(svg("text", { x: 5, y: y + 14, class: "title" }, `broker ${one.broker}`), svg("text", { x: 5, y: y + 29 }, role));
    const known = leader?.followers.find((follower) => follower.broker === one.broker);
    const end = one.told?.log_end_offset ?? known?.log_end_offset;
    if (end === undefined) {
      drawn.append(svg("text", { x: LEFT, y: y + 20 }, "tells nothing"));
      return;
    }
    const kind = one.broker === found.leader ? "leads" : inSync ? "follows" : "lags";
    drawn.append(svg("rect", { x: LEFT, y, width: Math.max(x(end) - LEFT, 1), height: ROW - 14, class: one.told ? kind : `${kind} known` }),
      svg("text", { x: LEFT + 8, y: y + 20, class: one.told ? "title on" : "title" }, `LEO ${count(end)}${one.told ? "" : ", as the leader knows it: this broker shows nothing itself"}`));
  });
  if (leader) {
    const at = x(leader.high_watermark), bottom = height - 28;
    drawn.append(svg("line", { x1: at, x2: at, y1: 2, y2: bottom, class: "watermark" }), svg("text", { x: at, y: bottom + 18, "text-anchor": at > WIDTH / 2 ? "end" : "start", class: "title" }, `high watermark ${count(leader.high_watermark)}`));
  }
  drawn.append(svg("text", { x: 5, y: height - 10 }, `from ${count(first)}`));
  return drawn;
}
