"""The ZooKeeper machine with clients in one process: no sockets, no clock, no disk."""

from collections.abc import Iterator
from struct import Struct
from typing import Any

from pybroker_kafka.protocol.zookeeper import jute
from pybroker_kafka.protocol.zookeeper.constants import NOTIFICATION_XID, OPEN_ACL, Op
from pybroker_kafka.protocol.zookeeper.jute import (
    ConnectRequest,
    ConnectResponse,
    CreateRequest,
    Id,
    MultiHeader,
    PathWatchRequest,
    WatcherEvent,
)
from pybroker_kafka.zookeeper.access import OPEN_ACCESS, Access
from pybroker_kafka.zookeeper.client_connection import Connection
from pybroker_kafka.zookeeper.passwords import passwords_of
from pybroker_kafka.zookeeper.sessions import SessionTable
from pybroker_kafka.zookeeper.tree import DataTree, Node
from pybroker_kafka.zookeeper.zookeeper_server import ZooKeeperMachine
from tests.support.raw_zookeeper import Event, Reply

START_MS = 1_700_000_000_000
TICK_MS = 100
SECRET = b"0123456789abcdef"

_REPLY = Struct(">iqi")
_REQUEST = Struct(">ii")


def walk(tree: DataTree) -> Iterator[tuple[str, Node]]:
    """All nodes that can be reached from the root, parents first."""
    pending = ["/"]
    while pending:
        path = pending.pop()
        node = tree.nodes[path]
        yield path, node
        prefix = "/" if path == "/" else path + "/"
        pending += [prefix + name for name in node.children or ()]


class World:
    """A machine, its time, and what it has logged."""

    def __init__(
        self,
        tree: DataTree | None = None,
        sessions: dict[int, int] | None = None,
        *,
        container_check_ms: int = 1000,
        admitted: Id | None = None,
        access: Access = OPEN_ACCESS,
    ) -> None:
        self.now_ms = START_MS
        table = SessionTable(TICK_MS, passwords_of(SECRET, None), START_MS)
        for session_id, timeout_ms in (sessions or {}).items():
            table.add(session_id, timeout_ms, START_MS)
        self.machine = ZooKeeperMachine(
            tree or DataTree(),
            table,
            container_check_ms=container_check_ms,
            admitted=admitted,
            access=access,
        )
        self.records: list[bytes] = []

    def client(self, **options: Any) -> "MachineClient":
        return MachineClient(self, **options)

    def advance(self, ms: int) -> None:
        """Let time pass, calling `tick` at each deadline as the runtime would."""
        end_ms = self.now_ms + ms
        while True:
            deadline_ms = self.machine.next_deadline_ms()
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, deadline_ms)
            self.machine.tick(self.now_ms)
            self.settle()
        self.now_ms = end_ms

    def settle(self) -> None:
        effects = self.machine.take_effects()
        self.records += effects.records
        for connection, frame in effects.frames:
            client = connection.token
            assert isinstance(client, MachineClient)
            client.deliver(frame)


class MachineClient:
    """One connection. `log` holds replies and events in the order in which they arrived."""

    def __init__(
        self,
        world: World,
        *,
        timeout_ms: int = 1000,
        session_id: int = 0,
        password: bytes = bytes(16),
        host: str = "127.0.0.1",
    ) -> None:
        self.world = world
        self.log: list[Reply | Event] = []
        self.is_closed = False
        self._xid = 0
        self._raw: list[bytes] = []
        self._is_connected = False
        self.connection: Connection = world.machine.connected(self, host)
        request = ConnectRequest(0, 0, timeout_ms, session_id, password)
        world.machine.receive(self.connection, jute.encode(request) + b"\0", world.now_ms)
        world.settle()
        self.response = jute.decode(ConnectResponse, self._raw.pop(0)[4:])
        self._is_connected = True

    @property
    def session_id(self) -> int:
        return self.response.session_id

    def deliver(self, frame: bytes | None) -> None:
        if frame is None:
            self.is_closed = True
        elif not self._is_connected:
            self._raw.append(frame)
        else:
            xid, zxid, error = _REPLY.unpack_from(frame, 4)
            reply = Reply(xid, zxid, error, frame[4 + _REPLY.size :])
            if reply.xid == NOTIFICATION_XID:
                event = jute.decode(WatcherEvent, reply.body)
                self.log.append(Event(reply.zxid, *event))
            else:
                self.log.append(reply)

    def call(self, op: int, *records: object) -> Reply:
        self._xid += 1
        frame = _REQUEST.pack(self._xid, op) + b"".join(jute.encode(one) for one in records)
        self.world.machine.receive(self.connection, frame, self.world.now_ms)
        self.world.settle()
        reply = self.log[-1]
        assert isinstance(reply, Reply)
        return reply

    def create(
        self, path: str, data: bytes | None = b"", flags: int = 0, op: int = Op.CREATE
    ) -> Reply:
        return self.call(op, CreateRequest(path, data, list(OPEN_ACL), flags))

    def children(self, path: str, *, watch: bool = False) -> list[str]:
        reply = self.call(Op.GET_CHILDREN, PathWatchRequest(path, watch))
        assert reply.error == 0
        return sorted(jute.decode(jute.PathsResponse, reply.body).paths)

    def multi(self, *parts: tuple[int, object]) -> list[int]:
        """The error of each part."""
        records: list[object] = []
        for op, part in parts:
            records += [MultiHeader(op, False, -1), part]
        reply = self.call(Op.MULTI, *records, MultiHeader(-1, True, -1))
        codes = []
        header, position = jute.decode_from(MultiHeader, reply.body, 0)
        while not header.done:
            codes.append(header.error)
            if header.type == Op.ERROR:
                position += 4
            elif header.type == Op.SET_DATA:
                position += 68
            elif header.type == Op.CREATE:
                _, position = jute.decode_from(jute.PathResponse, reply.body, position)
            header, position = jute.decode_from(MultiHeader, reply.body, position)
        return codes

    def events(self) -> list[tuple[int, str]]:
        return [(one.type, one.path) for one in self.log if isinstance(one, Event)]

    def drop(self) -> None:
        """The connection goes, the session stays."""
        self.world.machine.disconnected(self.connection)
