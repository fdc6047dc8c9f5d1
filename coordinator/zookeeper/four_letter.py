"""Four-letter words: a monitoring request of four bytes, answered in text.

Mirrors `org.apache.zookeeper.server.command`: ruok, srvr, stat, mntr, conf, isro. ZooKeeper serves
only srvr unless a whitelist says more; these are all harmless reads, so all of them are on.

Left out: commands that change something (kill, stmk, srst) or need the JVM (envi, dirs, gtmk).
"""

from collections.abc import Sequence
from typing import NamedTuple

from coordinator.zookeeper.machine import ZooKeeperMachine

VERSION = "3.9.3-pybroker"
COMMANDS = frozenset({b"ruok", b"srvr", b"stat", b"mntr", b"conf", b"isro"})


class ServerInfo(NamedTuple):
    """What the shell knows and the machine does not."""

    client_port: int
    data_dir: str
    tick_ms: int
    max_connections_per_host: int
    frames_received: int
    frames_sent: int
    frames_waiting: int
    latency_ms: tuple[float, float, float]
    clients: Sequence[str]


def answer(command: bytes, machine: ZooKeeperMachine, info: ServerInfo) -> bytes:
    if command == b"ruok":
        return b"imok"
    if command == b"isro":
        return b"rw"
    if command == b"conf":
        return _conf(machine, info)
    if command == b"mntr":
        return _mntr(machine, info)
    lines = [f"Zookeeper version: {VERSION}"]
    if command == b"stat":
        lines += ["Clients:", *(f" {client}" for client in info.clients), ""]
    low, average, high = info.latency_ms
    lines += [
        f"Latency min/avg/max: {low:.0f}/{average:.4f}/{high:.0f}",
        f"Received: {info.frames_received}",
        f"Sent: {info.frames_sent}",
        f"Connections: {len(info.clients)}",
        f"Outstanding: {info.frames_waiting}",
        f"Zxid: {machine.tree.last_zxid:#x}",
        "Mode: standalone",
        f"Node count: {machine.tree.node_count}",
    ]
    return _text(lines)


def _conf(machine: ZooKeeperMachine, info: ServerInfo) -> bytes:
    shortest_ms, longest_ms = machine.sessions.limits_ms
    return _text(
        [
            f"clientPort={info.client_port}",
            f"dataDir={info.data_dir}",
            f"dataLogDir={info.data_dir}",
            f"tickTime={info.tick_ms}",
            f"maxClientCnxns={info.max_connections_per_host}",
            f"minSessionTimeout={shortest_ms}",
            f"maxSessionTimeout={longest_ms}",
            "serverId=0",
        ]
    )


def _mntr(machine: ZooKeeperMachine, info: ServerInfo) -> bytes:
    tree, watches = machine.tree, machine.watches
    low, average, high = info.latency_ms
    values: dict[str, object] = {
        "version": VERSION,
        "server_state": "standalone",
        "znode_count": tree.node_count,
        "watch_count": watches.data.watch_count + watches.children.watch_count,
        "ephemerals_count": sum(len(paths) for paths in tree.ephemerals.values()),
        "approximate_data_size": tree.data_size,
        "num_alive_connections": len(info.clients),
        "global_sessions": len(machine.sessions.sessions),
        "outstanding_requests": info.frames_waiting,
        "packets_received": info.frames_received,
        "packets_sent": info.frames_sent,
        "min_latency": f"{low:.0f}",
        "avg_latency": f"{average:.4f}",
        "max_latency": f"{high:.0f}",
    }
    return _text([f"zk_{name}\t{value}" for name, value in values.items()])


def _text(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()
