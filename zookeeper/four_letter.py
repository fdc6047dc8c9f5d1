"""Four-letter words: a monitoring request of four bytes, answered in text.

Mirrors `org.apache.zookeeper.server.command` of 3.9, word by word in its format. ZooKeeper serves
only srvr unless a whitelist has more. Here every word that reads is served:

    conf cons dirs dump envi isro mntr ruok srvr stat wchc wchp wchs

and the rest is refused with ZooKeeper's text for a word that is not in the whitelist: crst and srst
(any client could wipe all numbers), gtmk and stmk (the JVM server's trace mask), hash (a history of
digests of the tree, which only an ensemble compares). 3.9 has no others: lsnp, obsr, sysp and the
like are commands of its AdminServer.

A closed server (see `zookeeper_server`) serves only ruok and isro, to any client; a closed member
serves srvr, too, which ZooKeeper serves by default: by it the cluster finds the leader.

Leaves out: the values of a JVM in envi (java.*, os.memory.*), and the counters of `ServerMetrics`
in mntr, which has all values of `dumpMonitorValues`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from .client_connection import Connection
from .connection_stats import ConnectionStats, ServerStats
from .zookeeper_server import ZooKeeperMachine

VERSION = "3.9.3-pybroker"
REFUSED = frozenset({b"crst", b"srst", b"gtmk", b"stmk", b"hash"})
OF_IDLE = frozenset({b"ruok", b"isro", b"conf", b"envi"})
NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"
READ_ONLY = "read-only"
OF_CLOSED = frozenset({b"ruok", b"isro"})
OF_CLOSED_MEMBER = OF_CLOSED | {b"srvr"}
_64_BITS = 0xFFFF_FFFF_FFFF_FFFF


class ClientInfo(NamedTuple):
    """A connection as the runtime knows it."""

    host: str
    port: int
    connection: Connection | None
    stats: ConnectionStats
    is_asking: bool
    sessionless_deadline_ms: int


class EnsembleInfo(NamedTuple):
    """Facts of a member of an ensemble."""

    my_id: int
    mode: str
    """`leader`, `follower`, `observer` or, without a leader, READ_ONLY; empty while no client is
    served."""
    followers: int
    synced_followers: int
    observers: int
    init_limit: int
    sync_limit: int
    servers: Sequence[str]
    """The lines `server.N=...` of zoo.cfg."""


class ServerInfo(NamedTuple):
    """Facts that the runtime knows and the state machine does not."""

    client_port: int
    secure_client_port: int
    """Of both: -1 if there is none."""
    listen_backlog: int
    data_dir: str
    data_dir_bytes: int
    log_dir: str
    log_dir_bytes: int
    tick_ms: int
    max_connections_per_host: int
    uptime_ms: int
    open_files: int
    max_open_files: int
    environment: Mapping[str, str]
    date_text: Callable[[int], str]  # of ms since the epoch, as Java prints a Date
    stats: ServerStats
    clients: Sequence[ClientInfo]
    ensemble: EnsembleInfo | None = None

    @property
    def mode(self) -> str:
        return "standalone" if self.ensemble is None else self.ensemble.mode


def answer(word: bytes, machine: ZooKeeperMachine, info: ServerInfo) -> bytes:
    allowed = OF_CLOSED if info.ensemble is None else OF_CLOSED_MEMBER
    if word in REFUSED or (machine.is_closed and word not in allowed):
        return f"{word.decode()} is not executed because it is not in the whitelist.\n".encode()
    is_idle = info.ensemble is not None and not info.ensemble.mode
    if is_idle and word not in OF_IDLE:
        return NOT_SERVING.encode()
    return _ANSWERS[word](machine, info).encode()


# The server


def _ruok(_machine: ZooKeeperMachine, _info: ServerInfo) -> str:
    return "imok"


def _isro(_machine: ZooKeeperMachine, info: ServerInfo) -> str:
    if info.mode == READ_ONLY:
        return "ro"
    return "rw" if info.mode else "null"


def _conf(machine: ZooKeeperMachine, info: ServerInfo) -> str:
    shortest_ms, longest_ms = machine.sessions.limits_ms
    return _lines(
        f"clientPort={info.client_port}",
        f"secureClientPort={info.secure_client_port}",
        f"dataDir={info.data_dir}",
        f"dataDirSize={info.data_dir_bytes}",
        f"dataLogDir={info.log_dir}",
        f"dataLogSize={info.log_dir_bytes}",
        f"tickTime={info.tick_ms}",
        f"maxClientCnxns={info.max_connections_per_host}",
        f"minSessionTimeout={shortest_ms}",
        f"maxSessionTimeout={longest_ms}",
        f"clientPortListenBacklog={info.listen_backlog}",
        *_conf_of_ensemble(info),
    )


def _conf_of_ensemble(info: ServerInfo) -> list[str]:
    ensemble = info.ensemble
    if ensemble is None:
        return ["serverId=0"]
    return [
        f"serverId={ensemble.my_id}",
        f"initLimit={ensemble.init_limit}",
        f"syncLimit={ensemble.sync_limit}",
        "electionAlg=3",
        "peerType=0",
        "membership: ",
        *ensemble.servers,
        "version=0",
    ]


def _dirs(_machine: ZooKeeperMachine, info: ServerInfo) -> str:
    return _lines(f"datadir_size: {info.data_dir_bytes}", f"logdir_size: {info.log_dir_bytes}")


def _envi(_machine: ZooKeeperMachine, info: ServerInfo) -> str:
    values = {"zookeeper.version": VERSION, **info.environment}
    return _lines("Environment:", *(f"{name}={value}" for name, value in values.items()))


def _srvr(machine: ZooKeeperMachine, info: ServerInfo) -> str:
    return _lines(*_version(info), *_summary(machine, info))


def _stat(machine: ZooKeeperMachine, info: ServerInfo) -> str:
    clients = [_client_line(client) + ")" for client in info.clients]
    return _lines(*_version(info), "Clients:", *clients, "", *_summary(machine, info))


def _version(info: ServerInfo) -> list[str]:
    lines = [f"Zookeeper version: {VERSION}"]
    if info.mode == READ_ONLY:
        lines.append("READ-ONLY mode; serving only read-only clients")
    return lines


def _summary(machine: ZooKeeperMachine, info: ServerInfo) -> list[str]:
    stats = info.stats
    latency = stats.latency
    return [
        f"Latency min/avg/max: {latency.low_ms}/{_mean(latency.mean_ms)}/{latency.high_ms}",
        f"Received: {stats.received}",
        f"Sent: {stats.sent}",
        f"Connections: {len(info.clients)}",
        f"Outstanding: {_outstanding(info)}",
        f"Zxid: {machine.tree.last_zxid:#x}",
        f"Mode: {info.mode}",
        f"Node count: {machine.tree.node_count}",
    ]


def _mntr(machine: ZooKeeperMachine, info: ServerInfo) -> str:
    tree, watches, stats = machine.tree, machine.watches, info.stats
    last, smallest, largest = stats.response_bytes or (-1, -1, -1)
    values: dict[str, object] = {
        "version": VERSION,
        "server_state": info.mode,
        "ephemerals_count": sum(len(paths) for paths in tree.ephemerals.values()),
        "num_alive_connections": len(info.clients),
        "avg_latency": _mean(stats.latency.mean_ms),
        "outstanding_requests": _outstanding(info),
        "znode_count": tree.node_count,
        "global_sessions": len(machine.sessions.sessions),
        "non_mtls_remote_conn_count": 0,
        "last_client_response_size": last,
        "packets_sent": stats.sent,
        "packets_received": stats.received,
        "max_client_response_size": largest,
        "connection_drop_probability": 0.0,
        "watch_count": watches.data.watch_count + watches.children.watch_count,
        "auth_failed_count": machine.refused_logins,
        "min_latency": stats.latency.low_ms,
        "max_file_descriptor_count": info.max_open_files,
        "approximate_data_size": tree.data_size,
        "open_file_descriptor_count": info.open_files,
        "local_sessions": 0,
        "uptime": info.uptime_ms,
        "max_latency": stats.latency.high_ms,
        "outstanding_tls_handshake": 0,
        "min_client_response_size": smallest,
        "non_mtls_local_conn_count": 0,
    }
    ensemble = info.ensemble
    if ensemble is not None:
        values["quorum_size"] = len(ensemble.servers)
        if ensemble.mode == "leader":
            values["learners"] = ensemble.followers + ensemble.observers
            values["synced_followers"] = ensemble.synced_followers
            values["synced_non_voting_followers"] = 0
            values["synced_observers"] = ensemble.observers
    return _lines(*(f"zk_{name}\t{value}" for name, value in values.items()))


# Connections and sessions


def _cons(machine: ZooKeeperMachine, info: ServerInfo) -> str:
    return _lines(*(_full_client_line(machine, client) for client in info.clients), "")


def _client_line(client: ClientInfo) -> str:
    """The line of a client up to its closing bracket. [1]: its requests are read; [0]: it is about
    to be closed."""
    stats = client.stats
    return (
        f" /{client.host}:{client.port}[{0 if client.is_asking else 1}]"
        f"(queued={stats.queued},recved={stats.received},sent={stats.sent}"
    )


def _full_client_line(machine: ZooKeeperMachine, client: ClientInfo) -> str:
    line = _client_line(client)
    session_id = _session_id(client.connection)
    session = machine.sessions.sessions.get(session_id)
    if session is None:
        return line + ")"
    stats = client.stats
    cxid = f",lcxid={_hex(stats.last_cxid)}" if stats.last_cxid >= 0 else ""
    return (
        f"{line},sid={_hex(session_id)},lop={stats.last_operation},est={stats.established_ms}"
        f",to={session.timeout_ms}{cxid},lzxid={_hex(stats.last_zxid)}"
        f",lresp={stats.last_response_ms},llat={stats.last_latency_ms}"
        f",minlat={stats.latency.low_ms},avglat={int(stats.latency.mean_ms)}"
        f",maxlat={stats.latency.high_ms})"
    )


def _dump(machine: ZooKeeperMachine, info: ServerInfo) -> str:
    sessions: dict[int, list[str]] = defaultdict(list)
    for session in machine.sessions.sessions.values():
        sessions[session.deadline_ms].append(_hex(session.session_id))
    connections: dict[int, list[str]] = defaultdict(list)
    for client in info.clients:
        session_id = _session_id(client.connection)
        owner = machine.sessions.sessions.get(session_id)
        deadline_ms = owner.deadline_ms if owner else client.sessionless_deadline_ms
        connections[deadline_ms].append(
            f"ip: /{client.host}:{client.port} sessionId: {_hex(session_id)}"
        )
    ephemerals = machine.tree.ephemerals
    owned = [
        line
        for session_id, paths in ephemerals.items()
        for line in (f"{_hex(session_id)}:", *(f"\t{path}" for path in sorted(paths)))
    ]
    return _lines(
        "SessionTracker dump:",
        *_expiry_sets("Session", sessions, info.date_text),
        "ephemeral nodes dump:",
        f"Sessions with Ephemerals ({len(ephemerals)}):",
        *owned,
        "Connections dump:",
        *_expiry_sets("Connections", connections, info.date_text),
    )


def _expiry_sets(
    what: str, by_deadline: Mapping[int, list[str]], date_text: Callable[[int], str]
) -> list[str]:
    count = sum(len(members) for members in by_deadline.values())
    lines = [f"{what} Sets ({len(by_deadline)})/({count}):"]
    for deadline_ms in sorted(by_deadline):
        members = by_deadline[deadline_ms]
        lines.append(f"{len(members)} expire at {date_text(deadline_ms)}:")
        lines += [f"\t{member}" for member in members]
    return lines


# Watches: ZooKeeper reports the data watches only


def _wchs(machine: ZooKeeperMachine, _info: ServerInfo) -> str:
    table = machine.watches.data
    return _lines(
        f"{table.watcher_count} connections watching {table.path_count} paths",
        f"Total watches:{table.watch_count}",
    )


def _wchc(machine: ZooKeeperMachine, _info: ServerInfo) -> str:
    return _groups(
        (_hex(_session_id(watcher)), sorted(paths))
        for watcher, paths in machine.watches.data.by_watcher()
    )


def _wchp(machine: ZooKeeperMachine, _info: ServerInfo) -> str:
    return _groups(
        (path, [_hex(_session_id(watcher)) for watcher in watchers])
        for path, watchers in machine.watches.data.by_path()
    )


def _groups(groups: Iterable[tuple[str, list[str]]]) -> str:
    lines = [line for head, members in groups for line in (head, *(f"\t{m}" for m in members))]
    return _lines(*lines, "")


# Text


def _session_id(watcher: object) -> int:
    return watcher.session_id if isinstance(watcher, Connection) else 0


def _outstanding(info: ServerInfo) -> int:
    return sum(client.stats.queued for client in info.clients)


def _mean(value_ms: float) -> float:
    return round(value_ms, 4)


def _hex(number: int) -> str:
    return f"{number & _64_BITS:#x}"


def _lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"


_ANSWERS: Mapping[bytes, Callable[[ZooKeeperMachine, ServerInfo], str]] = {
    b"conf": _conf,
    b"cons": _cons,
    b"dirs": _dirs,
    b"dump": _dump,
    b"envi": _envi,
    b"isro": _isro,
    b"mntr": _mntr,
    b"ruok": _ruok,
    b"srvr": _srvr,
    b"stat": _stat,
    b"wchc": _wchc,
    b"wchp": _wchp,
    b"wchs": _wchs,
}
WORDS = frozenset(_ANSWERS) | REFUSED
