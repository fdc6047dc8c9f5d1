"""How a broker joins the cluster: top-level znodes, cluster id, broker id, registration.

Job: the ZooKeeper part of the start-up sequence, as flows that `ZooKeeperClient.run` drives, and
the hand-over from a session that a predecessor left behind.

The broker epoch is the czxid of /brokers/ids/<id>. Apache Kafka fails with NodeExists when a
broker is started again before the session of its predecessor has expired, which was killed, or
stopped while it did not reach ZooKeeper. We keep the session's id and password (mode 0600) in the
log directory; `close_sessions_of_predecessors` re-attaches to that session and closes it, so that
its registration vanishes at once. It must be called only while the log directory's lock is held:
the lock proves that the predecessor is dead. The file names its ensemble by the cluster id, which
stays when the ensemble moves to other addresses.

Mirrors KafkaServer.startup, KafkaZkClient.registerBroker and getOrCreateClusterId.
"""

import base64
import binascii
import json
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import (
    Create,
    Delete,
    Exists,
    Flow,
    GetChildren,
    GetData,
    Multi,
    SetData,
    ZkResult,
    expect,
    run_one,
)
from ...replication.controller import znodes
from ...replication.controller.znodes import BrokerRegistration
from ...replication.inter_broker import NEWEST
from .zookeeper import NO_SESSION, ZooKeeper
from .zookeeper_client import ZooKeeperUnavailable, open_zookeeper
from .zookeeper_security import NO_SECURITY, ZooKeeperSecurity

logger = logging.getLogger("pybroker.broker.zk.registration")

SESSION_FILE = ".zookeeper-session"
REATTACH_TIMEOUT_MS = 5_000
CLUSTER_ID_BYTES = 16


class RegistrationError(Exception):
    """The broker cannot join: the text has the obstacle and the remedy."""


def ensure_top_level_paths() -> Flow[None]:
    """Create the persistent nodes that Kafka expects, parents first, in one round trip."""
    prefixes = {
        "/".join(parts[:depth])
        for parts in (path.split("/") for path in znodes.PERSISTENT_PATHS)
        for depth in range(2, len(parts) + 1)
    }
    paths = sorted(prefixes, key=lambda path: (path.count("/"), path))
    results = yield [Create(path) for path in paths]
    for path, result in zip(paths, results, strict=True):
        expect(result, path, ZkCode.NODE_EXISTS)


def get_or_create_cluster_id(random_bytes: bytes) -> Flow[str]:
    """The id that the first broker has written; `random_bytes` make one if we are the first."""
    assert len(random_bytes) == CLUSTER_ID_BYTES
    while True:
        found = yield from run_one(GetData(znodes.CLUSTER_ID))
        if expect(found, znodes.CLUSTER_ID, ZkCode.NO_NODE).ok:
            return znodes.decode_cluster_id(found.data)
        cluster_id = base64.urlsafe_b64encode(random_bytes).decode().rstrip("=")
        parent = znodes.CLUSTER_ID.rpartition("/")[0]
        _, created = yield [
            Create(parent),
            Create(znodes.CLUSTER_ID, znodes.encode_cluster_id(cluster_id)),
        ]
        if expect(created, znodes.CLUSTER_ID, ZkCode.NODE_EXISTS).ok:
            return cluster_id


def generate_broker_id(reserved_max_id: int) -> Flow[int]:
    """An id above reserved.broker.max.id: each write to the sequence node gives the next one."""
    while True:
        result = yield from run_one(SetData(znodes.BROKER_SEQUENCE, b""))
        if expect(result, znodes.BROKER_SEQUENCE, ZkCode.NO_NODE).ok:
            return reserved_max_id + result.version
        yield [Create("/brokers"), Create(znodes.BROKER_SEQUENCE)]


def read_brokers() -> Flow[list[BrokerRegistration]]:
    """All registered brokers with their epochs, by id."""
    children = yield from run_one(GetChildren(znodes.BROKER_IDS))
    expect(children, znodes.BROKER_IDS)
    ids = sorted(int(name) for name in children.children if name.isdecimal())
    results = yield [GetData(znodes.broker_path(broker_id)) for broker_id in ids]
    return [
        znodes.decode_broker(broker_id, result.data, result.stat.czxid)
        for broker_id, result in zip(ids, results, strict=True)
        if result.ok and result.stat is not None
    ]


def register_broker(
    registration: BrokerRegistration,
    wall_ms: int,
    session_id: int,
    previous_session_ids: Sequence[int] = (),
    node_version: int = NEWEST.broker_node,
) -> Flow[int]:
    """Register and return the broker epoch. `previous_session_ids` were this process's own."""
    path = znodes.broker_path(registration.broker_id)
    others = yield from read_brokers()
    _check_endpoints(registration, others)
    data = znodes.encode_broker(registration, wall_ms, version=node_version)
    while True:
        create = Multi((Create(path, ephemeral=True), SetData(path, data, 0)))
        created = yield from run_one(create)
        if created.ok:
            return _czxid(created.results[1])
        expect(created, path, ZkCode.NODE_EXISTS)
        existing = yield from run_one(GetData(path))
        if not expect(existing, path, ZkCode.NO_NODE).ok or existing.stat is None:
            continue
        owner = existing.stat.ephemeral_owner
        if owner == session_id:
            # Our own first attempt: its answer was lost with a connection.
            expect((yield from run_one(SetData(path, data))), path)
            return existing.stat.czxid
        if owner not in previous_session_ids:
            raise RegistrationError(
                f"broker id {registration.broker_id} is already registered in ZooKeeper. Either "
                "another broker with this id is running, or its session has not expired yet: "
                "use another broker.id, or wait for zookeeper.session.timeout.ms and start again"
            )
        expect((yield from run_one(Delete(path))), path, ZkCode.NO_NODE)


async def register_in_session(
    zookeeper: ZooKeeper,
    registration: Callable[[int], Flow[int]],
    remember: Callable[[tuple[int, bytes]], None],
) -> int:
    """Run `registration` of the live session's id; return the broker epoch.

    `remember` gets the session first: if the process is killed, its successor must be able to
    close the session. If another session takes its place meanwhile, both run again for that one.
    """

    async def register() -> int:
        while True:
            session = zookeeper.session
            if session == NO_SESSION:
                await zookeeper.execute_one(Exists("/"))  # answered in the next session
                continue
            remember(session)
            broker_epoch = await zookeeper.run(registration(session[0]))
            if zookeeper.session == session:
                return broker_epoch

    return await zookeeper.over_sessions(register)


def _check_endpoints(
    registration: BrokerRegistration, others: Sequence[BrokerRegistration]
) -> None:
    wanted = {(endpoint.host, endpoint.port) for endpoint in registration.endpoints}
    for other in others:
        if other.broker_id == registration.broker_id:
            continue
        for endpoint in other.endpoints:
            if (endpoint.host, endpoint.port) in wanted:
                raise RegistrationError(
                    f"{endpoint.host}:{endpoint.port} is already advertised by broker "
                    f"{other.broker_id}: change advertised.listeners of one of the two"
                )


def _czxid(result: ZkResult) -> int:
    assert result.stat is not None, "setData answers with a stat"
    return result.stat.czxid


# The session file


def save_session(log_dir: Path, cluster_id: str, session: tuple[int, bytes]) -> None:
    """Remember the session for a successor; readable by the owner only."""
    path = log_dir / SESSION_FILE
    temporary = path.with_name(SESSION_FILE + ".tmp")
    session_id, password = session
    text = json.dumps({"cluster_id": cluster_id, "id": session_id, "password": password.hex()})
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(descriptor, 0o600)
        file.write(text)
    os.replace(temporary, path)


def save_sessions(log_dirs: Iterable[Path], cluster_id: str, session: tuple[int, bytes]) -> None:
    """Save in each log directory: any of them may be the only one left at the next start."""
    for log_dir in log_dirs:
        try:
            save_session(log_dir, cluster_id, session)
        except OSError as error:
            logger.warning("the ZooKeeper session is not remembered in %s: %s", log_dir, error)


def load_session(log_dir: Path, cluster_id: str | None = None) -> tuple[int, bytes] | None:
    """The session that a predecessor left in this cluster (None: in whichever), if it did."""
    try:
        saved = json.loads((log_dir / SESSION_FILE).read_text())
        if cluster_id is not None and saved["cluster_id"] != cluster_id:
            return None
        return int(saved["id"]), binascii.unhexlify(saved["password"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("ignoring %s in %s: %r", SESSION_FILE, log_dir, error)
        return None


def remembered_sessions(log_dirs: Iterable[Path], cluster_id: str) -> list[tuple[int, bytes]]:
    """The sessions in this cluster that predecessors left in these directories."""
    found = [load_session(log_dir, cluster_id) for log_dir in log_dirs]
    return list(dict.fromkeys(session for session in found if session is not None))


async def close_sessions_of_predecessors(
    sessions: Iterable[tuple[int, bytes]],
    connect: str,
    *,
    session_timeout_ms: int = 18_000,
    security: ZooKeeperSecurity = NO_SECURITY,
) -> bool:
    """Close sessions that predecessors left open; True if one was still alive.

    Call it only while holding the locks of the log directories that remember them.
    """
    closed = False
    for session in sessions:
        try:
            async with open_zookeeper(
                connect,
                session_timeout_ms=session_timeout_ms,
                connection_timeout_ms=REATTACH_TIMEOUT_MS,
                session=session,
                security=security,
            ) as client:
                is_alive = client.session[0] == session[0]
        except ZooKeeperUnavailable as error:
            logger.warning(
                "could not re-attach to the ZooKeeper session of the last run: %s", error
            )
            continue
        if is_alive:
            logger.info("closed the ZooKeeper session 0x%x that the last run left open", session[0])
            closed = True
    return closed
