"""The embedded ZooKeeper's machine on the simulated network, and what kazoo does for a broker.

`ZooKeeperServer` is the runtime around the real `ZooKeeperMachine`: frames in and out, ticks.
`ZooKeeperSession` is a client with the promises of `broker.zk.zookeeper`: operations are sent again
after a lost connection until their outcome is known, all watches fire once after a reconnect, an
expired session fails what waits, is told, and another one is opened. `SimulatedZooKeeper` is that
interface for a broker's tasks.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Any

import trio

from pybroker_kafka.broker.zk.zookeeper import (
    NO_SESSION,
    SessionEvent,
    WatchCallback,
    WatchKind,
    ZooKeeper,
)
from pybroker_kafka.protocol.zookeeper import jute
from pybroker_kafka.protocol.zookeeper.constants import (
    NOTIFICATION_XID,
    OPEN_ACL,
    EventType,
    Op,
    ZkCode,
)
from pybroker_kafka.protocol.zookeeper.jute import (
    CheckVersionRequest,
    ConnectRequest,
    ConnectResponse,
    CreateRequest,
    DeleteRequest,
    GetDataResponse,
    MultiHeader,
    PathResponse,
    PathsResponse,
    PathWatchRequest,
    SetDataRequest,
    Stat,
    StatResponse,
    WatcherEvent,
)
from pybroker_kafka.protocol.zookeeper.operations import (
    Check,
    Create,
    Delete,
    Exists,
    Flow,
    GetChildren,
    GetData,
    Multi,
    SessionExpired,
    SetData,
    ZkOperation,
    ZkResult,
    ZkStat,
)
from pybroker_kafka.zookeeper.passwords import passwords_of
from pybroker_kafka.zookeeper.sessions import SessionTable
from pybroker_kafka.zookeeper.tree import DataTree
from pybroker_kafka.zookeeper.zookeeper_server import ZooKeeperMachine
from tests.simulation.kernel import START_MS, Kernel, Process
from tests.simulation.network import Network

NAME = "zookeeper"
TICK_MS = 200
SECRET = b"0123456789abcdef"
RECONNECT_MS = 100
_REPLY = Struct(">iqi")
_REQUEST = Struct(">ii")
_EPHEMERAL = 1
_BEGIN = object()
_SEQUENTIAL = 2


class Link:
    """One connection of a client; frames stay in order in each direction."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.connection: Any = None  # the machine's
        self.is_open = True
        self.is_broken = False  # frames were lost: the client will notice
        self.to_server_ms = 0
        self.to_client_ms = 0


class ZooKeeperServer:
    def __init__(self, kernel: Kernel, network: Network) -> None:
        self.kernel = kernel
        self.network = network
        self.process = Process(NAME)
        table = SessionTable(TICK_MS, passwords_of(SECRET, None), START_MS)
        self.machine = ZooKeeperMachine(DataTree(), table)
        self._tick()

    def _tick(self) -> None:
        self.machine.tick(self.kernel.now_ms)
        self._settle()
        self.kernel.after(TICK_MS, self.process, self._tick)

    def receive(self, link: Link, frame: bytes, is_first: bool) -> None:
        link.client.check_link(link)
        if not link.is_open or link.is_broken:
            return
        if is_first:
            link.connection = self.machine.connected(link, "127.0.0.1")
        self.machine.receive(link.connection, frame, self.kernel.now_ms)
        self._settle()

    def dropped(self, link: Link) -> None:
        if link.connection is not None:
            self.machine.disconnected(link.connection)

    def heartbeat(self, link: Link) -> None:
        """A ping; it keeps the session alive."""
        session = self.machine.sessions.sessions.get(link.connection.session_id)
        if session is not None and session.connection is link.connection:
            self.machine.sessions.touch(session, self.kernel.now_ms)

    def _settle(self) -> None:
        for connection, frame in self.machine.take_effects().frames:
            link = connection.token
            assert isinstance(link, Link)
            kernel = self.kernel
            due_ms = max(link.to_client_ms, kernel.now_ms + self.network.delay_ms())
            link.to_client_ms = due_ms
            client = link.client
            kernel.after(due_ms - kernel.now_ms, client.process, client.on_frame, link, frame)


class _Batch:
    """The operations of one `execute`, some of which are still unanswered."""

    __slots__ = ("done", "operations", "remaining", "results")

    def __init__(self, operations: Sequence[Any], done: Callable[[Any], None]) -> None:
        self.operations = operations
        self.results: list[ZkResult | None] = [None] * len(operations)
        self.remaining = len(operations)
        self.done = done


class ZooKeeperSession:
    """Callbacks: `on_watch(kind, path)`, `on_expired()`, `on_connected(first: bool)`."""

    def __init__(
        self, kernel: Kernel, network: Network, server: ZooKeeperServer, process: Process,
        timeout_ms: int,
    ) -> None:  # fmt: skip
        self.kernel = kernel
        self.network = network
        self.server = server
        self.process = process
        self.timeout_ms = timeout_ms
        self.session_id, self.password = NO_SESSION
        self.is_connected = False
        self.on_watch: Callable[[str, str], None] = _ignore
        self.on_expired: Callable[[], None] = _ignore
        self.on_connected: Callable[[], None] = _ignore
        self._link: Link | None = None
        self._unsent: deque[tuple[_Batch, int]] = deque()
        self._unanswered: deque[tuple[_Batch, int]] = deque()
        self._watches: dict[tuple[str, str], None] = {}
        self._missed_pings = 0
        self._is_closing = False

    # Connecting

    def start(self) -> None:
        self._connect()
        self._heartbeat()

    def _connect(self) -> None:
        if self._link is not None:
            return
        link = self._link = Link(self)
        request = ConnectRequest(0, 0, self.timeout_ms, self.session_id, self.password)
        self._send_frame(link, jute.encode(request) + b"\0", is_first=True)
        # No answer in time: try another connection.
        self.kernel.after(self.timeout_ms // 2, self.process, self._connect_timed_out, link)

    def _connect_timed_out(self, link: Link) -> None:
        if self._link is link and not self.is_connected:
            self._disconnect()

    def _send_frame(self, link: Link, frame: bytes, *, is_first: bool = False) -> None:
        kernel, server = self.kernel, self.server
        self.check_link(link)
        if link.is_broken:
            return
        due_ms = max(link.to_server_ms, kernel.now_ms + self.network.delay_ms())
        link.to_server_ms = due_ms
        kernel.after(due_ms - kernel.now_ms, server.process, server.receive, link, frame, is_first)

    def check_link(self, link: Link) -> None:
        if not self.network.is_up(self.process.name, NAME) or not self.server.process.alive:
            link.is_broken = True

    def _heartbeat(self) -> None:
        self.kernel.after(self.timeout_ms // 3, self.process, self._heartbeat)
        link = self._link
        if link is None:
            self._connect()
            return
        self.check_link(link)
        if not link.is_broken:
            self._missed_pings = 0
            if self.is_connected:
                self.server.heartbeat(link)
            return
        self._missed_pings += 1
        if self._missed_pings >= 2:
            self._disconnect()

    def _disconnect(self) -> None:
        """The connection is lost; what was not answered will be asked again."""
        link, self._link = self._link, None
        if link is not None:
            link.is_open = False
            self.server.dropped(link)
        self._missed_pings = 0
        self.is_connected = False
        self._unsent.extendleft(reversed(self._unanswered))
        self._unanswered.clear()
        self.kernel.after(RECONNECT_MS, self.process, self._connect)

    def close(self) -> None:
        """The process died: its socket closes, its session goes on for a while."""
        if self._link is not None:
            self._link.is_open = False
            self.server.dropped(self._link)
            self._link = None

    def end_session(self, session: tuple[int, bytes]) -> None:
        """Take up the session of a dead predecessor and close it (broker.registration)."""
        self.session_id, self.password = session
        self._is_closing = True
        self.start()

    # Frames

    def on_frame(self, link: Link, frame: bytes | None) -> None:
        self.check_link(link)
        if link is not self._link or link.is_broken:
            return
        if frame is None:
            self._disconnect()
        elif not self.is_connected:
            self._on_connect_response(link, jute.decode(ConnectResponse, frame[4:]))
        else:
            xid, _, error = _REPLY.unpack_from(frame, 4)
            if xid == NOTIFICATION_XID:
                event = jute.decode(WatcherEvent, frame[4 + _REPLY.size :])
                self._fire(event.type, event.path)
            else:
                self._answered(error, frame[4 + _REPLY.size :])

    def _on_connect_response(self, link: Link, response: ConnectResponse) -> None:
        if response.session_id == 0:
            self._expired()
            return
        if self._is_closing:
            self._is_closing = False
            self._send_frame(link, _REQUEST.pack(1, Op.CLOSE_SESSION))
            self._forget_session(link)
            return
        self.session_id, self.password = response.session_id, bytes(response.password)
        self.is_connected = True
        self._missed_pings = 0
        watches, self._watches = self._watches, {}
        self.on_connected()
        for kind, path in watches:
            self.on_watch(kind, path)
        while self._unsent and self.is_connected:
            self._send(*self._unsent.popleft())

    def _forget_session(self, link: Link) -> None:
        self.session_id, self.password = NO_SESSION
        self._link = None
        # The new session is asked for behind the closing of the old one.
        self.kernel.after(link.to_server_ms - self.kernel.now_ms + 1, self.process, self._connect)

    def _expired(self) -> None:
        if self._is_closing:
            self._is_closing = False
            self.session_id, self.password = NO_SESSION
            self._disconnect()
            return
        self.session_id, self.password = NO_SESSION
        self._disconnect()
        waiting = [batch for batch, _ in self._unsent]
        self._unsent.clear()
        self.on_expired()
        for batch in dict.fromkeys(waiting):
            batch.done(None)

    def _fire(self, event: int, path: str) -> None:
        kinds = ["children"] if event == EventType.CHILDREN_CHANGED else ["data"]
        if event == EventType.DELETED:
            kinds.append("children")
        for kind in kinds:
            if (kind, path) in self._watches:
                del self._watches[kind, path]
                self.on_watch(kind, path)

    # Operations

    def execute(self, operations: Sequence[Any], done: Callable[[Any], None]) -> None:
        """`done(results)`, or `done(None)` if the session has expired."""
        batch = _Batch(operations, done)
        if not operations:
            done([])
        for index in range(len(operations)):
            if self.is_connected:
                self._send(batch, index)
            else:
                self._unsent.append((batch, index))

    def _send(self, batch: _Batch, index: int) -> None:
        link = self._link
        assert link is not None
        self._unanswered.append((batch, index))
        operation = batch.operations[index]
        watch = False
        if isinstance(operation, GetData | Exists | GetChildren) and operation.watch:
            watch = (_kind(operation), operation.path) not in self._watches
            self._watches[_kind(operation), operation.path] = None
        self._send_frame(link, _encode(operation, watch))

    def _answered(self, error: int, body: bytes) -> None:
        batch, index = self._unanswered.popleft()
        operation = batch.operations[index]
        result = _decode(operation, error, body)
        if isinstance(operation, GetData | GetChildren) and operation.watch and not result.ok:
            self._watches.pop((_kind(operation), operation.path), None)
        batch.results[index] = result
        batch.remaining -= 1
        if not batch.remaining:
            batch.done(batch.results)

    def run(self, flow: Flow[Any], done: Callable[[Any], None], results: Any = _BEGIN) -> None:
        """Drive a flow; `done` gets its value, or the exception that ended it."""
        try:
            operations = _advance(flow, results)
        except StopIteration as stop:
            done(stop.value)
        except Exception as error:
            done(error)
        else:
            self.execute(operations, lambda answers: self.run(flow, done, answers))


class SimulatedZooKeeper(ZooKeeper):
    """A broker's interface, over its session."""

    def __init__(self, link: ZooKeeperSession) -> None:
        super().__init__()
        self._link = link
        self._generation = 0
        self._on_watch: WatchCallback | None = None
        link.on_connected = partial(self._notify, SessionEvent.CONNECTED)
        link.on_expired = self._expired
        link.on_watch = self._watch_fired

    @property
    def session(self) -> tuple[int, bytes]:
        return self._link.session_id, self._link.password

    @property
    def is_connected(self) -> bool:
        return self._link.is_connected

    @property
    def session_generation(self) -> int:
        return self._generation

    async def execute(
        self, operations: Sequence[ZkOperation], on_watch: WatchCallback | None = None
    ) -> list[ZkResult]:
        if on_watch is not None:
            assert self._on_watch in (None, on_watch), "there is one listener a broker"
            self._on_watch = on_watch
        found: list[list[ZkResult] | None] = []
        is_answered = trio.Event()

        def answered(results: list[ZkResult] | None) -> None:
            found.append(results)
            is_answered.set()

        self._link.execute(operations, answered)
        await is_answered.wait()
        (results,) = found
        if results is None:
            raise SessionExpired
        return results

    def _watch_fired(self, kind: str, path: str) -> None:
        assert self._on_watch is not None
        self._on_watch(WatchKind(kind), path)

    def _expired(self) -> None:
        link = self._link
        link.kernel.note(f"{link.process.name} has lost its session")
        self._generation += 1
        self._notify(SessionEvent.EXPIRED)


def _advance(flow: Flow[Any], results: Any) -> Sequence[Any]:
    """The next operations of a flow: at its beginning, after results, or without its session."""
    if results is None:
        return flow.throw(SessionExpired())
    return next(flow) if results is _BEGIN else flow.send(results)


def _ignore(*_: Any) -> None:
    return None


def _kind(operation: GetData | Exists | GetChildren) -> str:
    return "children" if isinstance(operation, GetChildren) else "data"


def _record(operation: Any) -> tuple[int, object]:
    if isinstance(operation, Create):
        flags = operation.ephemeral * _EPHEMERAL | operation.sequential * _SEQUENTIAL
        return Op.CREATE, CreateRequest(operation.path, operation.data, list(OPEN_ACL), flags)
    if isinstance(operation, SetData):
        return Op.SET_DATA, SetDataRequest(operation.path, operation.data, operation.version)
    if isinstance(operation, Delete):
        return Op.DELETE, DeleteRequest(operation.path, operation.version)
    assert isinstance(operation, Check)
    return Op.CHECK, CheckVersionRequest(operation.path, operation.version)


def _encode(operation: Any, watch: bool) -> bytes:
    if isinstance(operation, Multi):
        parts = [_REQUEST.pack(1, Op.MULTI)]
        for part in operation.operations:
            op, record = _record(part)
            parts += [jute.encode(MultiHeader(op, False, -1)), jute.encode(record)]
        parts.append(jute.encode(MultiHeader(-1, True, -1)))
        return b"".join(parts)
    if isinstance(operation, GetData):
        op, record = Op.GET_DATA, PathWatchRequest(operation.path, watch)
    elif isinstance(operation, Exists):
        op, record = Op.EXISTS, PathWatchRequest(operation.path, watch)
    elif isinstance(operation, GetChildren):
        op, record = Op.GET_CHILDREN, PathWatchRequest(operation.path, watch)
    else:
        op, record = _record(operation)
    return _REQUEST.pack(1, op) + jute.encode(record)


def _decode(operation: Any, error: int, body: bytes) -> ZkResult:
    if isinstance(operation, Multi):
        return _decode_multi(error, body)
    if error:
        return ZkResult(ZkCode(error))
    if isinstance(operation, GetData):
        answer = jute.decode(GetDataResponse, body)
        return ZkResult(data=answer.data, stat=_stat(answer.stat))
    if isinstance(operation, Exists | SetData):
        return ZkResult(stat=_stat(jute.decode(StatResponse, body).stat))
    if isinstance(operation, GetChildren):
        return ZkResult(children=tuple(sorted(jute.decode(PathsResponse, body).paths)))
    if isinstance(operation, Create):
        return ZkResult(path=jute.decode(PathResponse, body).path)
    return ZkResult()


def _decode_multi(error: int, body: bytes) -> ZkResult:
    if error and not body:
        return ZkResult(ZkCode(error))
    parts = []
    header, position = jute.decode_from(MultiHeader, body, 0)
    while not header.done:
        if header.type == Op.ERROR:
            parts.append(ZkResult(ZkCode(header.error)))
            position += 4
        elif header.type == Op.SET_DATA:
            answer, position = jute.decode_from(StatResponse, body, position)
            parts.append(ZkResult(stat=_stat(answer.stat)))
        elif header.type == Op.CREATE:
            created, position = jute.decode_from(PathResponse, body, position)
            parts.append(ZkResult(path=created.path))
        else:
            parts.append(ZkResult())
        header, position = jute.decode_from(MultiHeader, body, position)
    failed = [part.code for part in parts if not part.ok]
    real = [code for code in failed if code is not ZkCode.RUNTIME_INCONSISTENCY]
    return ZkResult((real or failed or [ZkCode.OK])[0], results=tuple(parts))


def _stat(stat: Stat) -> ZkStat:
    return ZkStat(
        stat.czxid, stat.ctime, stat.version, stat.cversion, stat.ephemeral_owner,
        stat.num_children,
    )  # fmt: skip
