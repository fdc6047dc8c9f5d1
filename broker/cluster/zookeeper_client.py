"""ZooKeeper for the broker: kazoo behind an async interface. The only module that knows kazoo.

Job: perform the operations of `protocol.zookeeper.operations`, pipelined and in order; drive
flows; call back on the trio loop when a watch fires; tell the session's changes.
- A lost connection is invisible to callers except as delay: operations whose outcome is unknown
  are sent again once connected, for as long as the session lives (as Kafka's ZooKeeperClient).
- A session that is gone raises `SessionExpired` in every waiting caller. kazoo then opens a new
  session by itself; `session_events` tells both, in order.
- kazoo forgets its watches when the connection drops. Here they are kept, and after a reconnect
  every one of them fires once: its owner reads again and sees what it may have missed.
- Arming a watch that is armed already does nothing: one change calls an owner back once.

Invariants: callbacks and session events run on the trio loop only; kazoo's threads do nothing
but hand over. The chroot is added and removed here, so that no one else knows of it.

Who this broker is, it proves on every connection before anything else: kazoo sends the login itself
before it takes from its queue, and here a connection counts only once a first read was answered
behind it. ZooKeeper's refusal ends a start; later it is a lost session, tried anew every second.

Mirrors kafka.zookeeper.ZooKeeperClient.
"""

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from enum import Enum
from time import perf_counter
from typing import Any, TypeVar

import trio
from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.protocol import serialization
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent, ZnodeStat
from kazoo.retry import KazooRetry

from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import (
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
    WriteOperation,
    ZkOperation,
    ZkResult,
    ZkStat,
    create_recursive,
)
from .kazoo_parts import (
    TlsHandler,
    acl_of,
    keep_session_when_cut,
    quiet_logger,
    sasl_options,
)
from .zookeeper_security import (
    CLIENT_SECTION,
    CREDENTIALS_FILE,
    JAAS_FILE,
    NO_SECURITY,
    ZooKeeperSecurity,
)

logger = logging.getLogger(__name__)
T = TypeVar("T")

# More are no faster, and while kazoo's thread has many to work on, each that is given to it costs
# the loop a turn at the interpreter: with 512 a step of it took up to 190 ms, with 64 below 10.
MAX_IN_FLIGHT_REQUESTS = 64
SUBMIT_SECONDS = 0.002
# jute.maxbuffer is 1 MiB, for a whole request: ZooKeeper ends the connection of who sends more, and
# it would be sent again and again.
MAX_REQUEST_BYTES = 1_000_000
CLOSE_TIMEOUT_S = 5.0  # kazoo itself waits for a session timeout, when the server hangs
RECONNECT_DELAY_S = 0.05
RECONNECT_MAX_DELAY_S = 1.0
REFUSED_DELAY_S = 1.0  # as Kafka's ZooKeeperClient waits after a failed login
NO_SESSION = (0, b"\0" * 16)
_EPHEMERAL = 1
_SEQUENTIAL = 2


class SessionEvent(Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"


class WatchKind(Enum):
    DATA = "data"
    CHILDREN = "children"


WatchCallback = Callable[[WatchKind, str], None]


class ZooKeeperUnavailable(Exception):
    """No ensemble member answered within the connection timeout, or it will not have us."""


_ERROR_CODES: dict[type[Exception], ZkCode] = {
    kazoo_errors.NoNodeError: ZkCode.NO_NODE,
    kazoo_errors.NodeExistsError: ZkCode.NODE_EXISTS,
    kazoo_errors.BadVersionError: ZkCode.BAD_VERSION,
    kazoo_errors.NotEmptyError: ZkCode.NOT_EMPTY,
    kazoo_errors.NoAuthError: ZkCode.NO_AUTH,
    kazoo_errors.NoChildrenForEphemeralsError: ZkCode.NO_CHILDREN_FOR_EPHEMERALS,
    kazoo_errors.RolledBackError: ZkCode.RUNTIME_INCONSISTENCY,
    kazoo_errors.RuntimeInconsistency: ZkCode.RUNTIME_INCONSISTENCY,
    kazoo_errors.InvalidACLError: ZkCode.INVALID_ACL,
    kazoo_errors.AuthFailedError: ZkCode.AUTH_FAILED,
    kazoo_errors.BadArgumentsError: ZkCode.BAD_ARGUMENTS,
    kazoo_errors.MarshallingError: ZkCode.MARSHALLING_ERROR,
}
_REFUSED = (kazoo_errors.AuthFailedError, kazoo_errors.SessionClosedRequireSaslError)
_CONNECTION_LOST = (
    kazoo_errors.ConnectionLoss,
    kazoo_errors.ConnectionClosedError,
    kazoo_errors.OperationTimeoutError,
)


class ZooKeeperClient:
    """Open with `async with open_zookeeper(...) as client`."""

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int,
        session: tuple[int, bytes] | None,
        security: ZooKeeperSecurity,
    ) -> None:
        hosts, slash, chroot = connect.partition("/")
        self.connect = connect
        self.security = security
        self._chroot = "/" + chroot.strip("/") if slash and chroot.strip("/") else ""
        self._token = trio.lowlevel.current_trio_token()
        self._connected = trio.Event()
        self._session = NO_SESSION
        self._generation = 0  # counts expired sessions
        self._generation_ended = trio.Event()
        self._connection_count = 0  # of connections made and lost: whose answer this is
        self._refused = trio.Event()
        self._starting = trio.Lock()  # kazoo is started and stopped by one thread at a time
        self._closed = False
        self._watches: set[tuple[WatchKind, str, WatchCallback]] = set()
        self._rearm = False
        self._listeners: list[trio.MemorySendChannel[SessionEvent]] = []
        self._tls = TlsHandler(security.tls) if security.tls is not None else None
        self._kazoo = KazooClient(
            hosts=hosts,
            handler=self._tls,
            use_ssl=security.tls is not None,
            auth_data=[("digest", security.digest)] if security.digest else None,
            sasl_options=sasl_options(security),
            timeout=session_timeout_ms / 1000,
            client_id=session,
            randomize_hosts=True,
            connection_retry=KazooRetry(
                max_tries=-1,
                delay=RECONNECT_DELAY_S,
                backoff=2,
                max_jitter=0.1,
                max_delay=RECONNECT_MAX_DELAY_S,
            ),
            logger=quiet_logger(),
        )
        keep_session_when_cut(self._kazoo._connection)
        self._kazoo.add_listener(self._state_changed)

    # Session

    @property
    def session(self) -> tuple[int, bytes]:
        """Session id and password of the live session, to be re-attached after a crash.

        A lost connection does not end it: kazoo tells it only while connected, so it is kept here.
        """
        return self._session

    @property
    def is_connected(self) -> bool:
        return self._connected.is_set()

    @property
    def session_generation(self) -> int:
        """Grows by one with every expired session."""
        return self._generation

    def session_events(self) -> trio.MemoryReceiveChannel[SessionEvent]:
        """The session's changes from now on."""
        send, receive = trio.open_memory_channel[SessionEvent](math.inf)
        self._listeners.append(send)
        return receive

    def _state_changed(self, state: str) -> None:  # on a thread of kazoo
        session = self._kazoo.client_id or NO_SESSION
        reason = self._kazoo.client_state
        try:
            self._token.run_sync_soon(self._apply_state, state, session, reason)
        except trio.RunFinishedError:
            logger.debug("ZooKeeper session changed to %s after the loop ended", state)

    def _apply_state(self, state: str, session: tuple[int, bytes], reason: str) -> None:
        """`reason`: kazoo gives up when it is refused, or when something fails inside of it.

        What nobody was told of, a connection before its login was answered, does not end either.
        """
        if self._closed:
            return
        self._connection_count += 1
        if state == KazooState.CONNECTED:
            self._ask_first(session)
            return
        was_connected = self._connected.is_set()
        if was_connected:
            self._connected = trio.Event()
        self._rearm = True
        if state == KazooState.SUSPENDED:
            if was_connected:
                self._tell(SessionEvent.SUSPENDED)
            return
        if self._session != NO_SESSION:
            self._session = NO_SESSION
            self._generation += 1
            ended, self._generation_ended = self._generation_ended, trio.Event()
            ended.set()
            self._tell(SessionEvent.EXPIRED)
        if reason == KeeperState.AUTH_FAILED:
            self._refused.set()
        if reason in (KeeperState.AUTH_FAILED, KeeperState.CLOSED):
            trio.lowlevel.spawn_system_task(self._connect_again)

    def _ask_first(self, session: tuple[int, bytes]) -> None:
        """kazoo tells of a connection before it logs in: what is asked now is answered after."""
        pending = self._kazoo.exists_async("/")
        count = self._connection_count

        def completed(answer: Any) -> None:  # on a thread of kazoo
            try:
                self._token.run_sync_soon(self._answered, session, count, answer.exception)
            except trio.RunFinishedError:
                logger.debug("ZooKeeper answered after the loop ended")

        pending.rawlink(completed)

    def _answered(self, session: tuple[int, bytes], count: int, error: Exception | None) -> None:
        if self._closed or count != self._connection_count:
            return
        if isinstance(error, _REFUSED):
            logger.error("ZooKeeper at %s refuses this broker's login", self.connect)
            self._refused.set()
        elif not isinstance(error, (*_CONNECTION_LOST, kazoo_errors.SessionExpiredError)):
            self._session = session
            self._connected.set()
            self._tell(SessionEvent.CONNECTED)
            if self._rearm:
                self._rearm = False
                self._fire_all_watches()

    async def _connect_again(self) -> None:
        is_started = False
        while not is_started:
            await trio.sleep(REFUSED_DELAY_S)
            async with self._starting:
                is_started = self._closed or await trio.to_thread.run_sync(self._start_kazoo)

    def _start_kazoo(self) -> bool:
        try:
            self._kazoo.start_async()
        except Exception:
            logger.exception("cannot connect to ZooKeeper at %s again", self.connect)
            return False
        return True

    def _tell(self, event: SessionEvent) -> None:
        logger.info("ZooKeeper session %s", event.value)
        for listener in self._listeners:
            listener.send_nowait(event)

    async def start(self, connection_timeout_ms: int) -> None:
        """Connect and make sure that the chroot exists."""
        self._kazoo.start_async()
        with trio.move_on_after(connection_timeout_ms / 1000) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_after, self._connected, scope)
                nursery.start_soon(_cancel_after, self._refused, scope)
        if self._refused.is_set():
            raise ZooKeeperUnavailable(f"ZooKeeper at {self.connect} {self._refusal()}")
        if not self.is_connected:
            problem = self._tls.problem if self._tls is not None else None
            raise ZooKeeperUnavailable(
                f"no ZooKeeper answered at {self.connect} within {connection_timeout_ms} ms"
                + (f": {problem}" if problem else "")
            )
        if self._chroot:
            chroot, self._chroot = self._chroot, ""
            await self.run(create_recursive(chroot))
            self._chroot = chroot

    def _refusal(self) -> str:
        if self.security.digest or self.security.sasl:
            return "refuses this broker's name or password"
        return (
            f"lets nobody in without a login: give {CREDENTIALS_FILE} or {JAAS_FILE} with a "
            f"section {CLIENT_SECTION}"
        )

    async def close(self) -> None:
        """End the session: its ephemeral nodes vanish at once."""
        self._closed = True
        self._generation_ended.set()
        with trio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
            async with self._starting:
                await trio.to_thread.run_sync(self._stop_kazoo, abandon_on_cancel=True)

    def _stop_kazoo(self) -> None:
        try:
            self._kazoo.stop()
            self._kazoo.close()
        except Exception as error:  # kazoo raises its own kinds when the server is already gone
            logger.info("closing the ZooKeeper session: %r", error)

    # Operations

    async def run(self, flow: Flow[T]) -> T:
        """Drive a flow to its end; an expired session is raised inside of it."""
        try:
            operations = next(flow)
            while True:
                try:
                    results = await self.execute(operations)
                except SessionExpired as error:
                    operations = flow.throw(error)
                else:
                    operations = flow.send(results)
        except StopIteration as stop:
            value: T = stop.value
            return value

    async def execute(
        self, operations: Sequence[ZkOperation], on_watch: WatchCallback | None = None
    ) -> list[ZkResult]:
        """Results in the order of the operations, which are sent pipelined in that order."""
        results: list[ZkResult | None] = [None] * len(operations)
        remaining = list(range(len(operations)))
        generation = self._generation
        while remaining:
            await self._wait_connected(generation)
            chunk, rest = remaining[:MAX_IN_FLIGHT_REQUESTS], remaining[MAX_IN_FLIGHT_REQUESTS:]
            answers = await self._send([operations[index] for index in chunk], on_watch, generation)
            lost = []
            for index, answer in zip(chunk, answers, strict=True):
                if isinstance(answer, _CONNECTION_LOST):
                    self._not_armed(operations[index], on_watch)
                    lost.append(index)
                elif isinstance(answer, kazoo_errors.SessionExpiredError):
                    raise SessionExpired
                else:
                    results[index] = self._result(operations[index], answer, on_watch)
            if lost:
                # kazoo reports the loss before its state listener has run here.
                await trio.sleep(RECONNECT_DELAY_S)
            remaining = lost + rest
        return [result for result in results if result is not None]

    async def execute_one(
        self, operation: ZkOperation, on_watch: WatchCallback | None = None
    ) -> ZkResult:
        return (await self.execute((operation,), on_watch))[0]

    async def _wait_connected(self, generation: int) -> None:
        while not self._connected.is_set():
            if self._closed or generation != self._generation:
                raise SessionExpired
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_after, self._generation_ended, nursery.cancel_scope)
                nursery.start_soon(_cancel_after, self._connected, nursery.cancel_scope)
        if self._closed or generation != self._generation:
            raise SessionExpired

    async def _send(
        self, operations: Sequence[ZkOperation], on_watch: WatchCallback | None, generation: int
    ) -> list[Any]:
        """Submit all, then wait for all: values of kazoo, or its exceptions. Between them others
        have their turn."""
        answers: list[Any] = [None] * len(operations)
        waiting = len(operations)
        done = trio.Event()

        def deliver(index: int, answer: Any) -> None:
            nonlocal waiting
            answers[index] = answer
            waiting -= 1
            if waiting == 0:
                done.set()

        ends = perf_counter() + SUBMIT_SECONDS
        for index, operation in enumerate(operations):
            if _data_bytes(operation) > MAX_REQUEST_BYTES:
                deliver(index, kazoo_errors.BadArgumentsError())
                continue
            pending = self._submit(operation, on_watch)
            pending.rawlink(self._hand_over(index, deliver))
            if perf_counter() > ends:
                await trio.lowlevel.checkpoint()
                if generation != self._generation:
                    raise SessionExpired  # the rest is not for the new session
                ends = perf_counter() + SUBMIT_SECONDS
        await done.wait()
        return answers

    def _hand_over(self, index: int, deliver: Callable[[int, Any], None]) -> Callable[[Any], None]:
        def completed(pending: Any) -> None:  # on a thread of kazoo
            answer = pending.exception if not pending.successful() else pending.get_nowait()
            try:
                self._token.run_sync_soon(deliver, index, answer)
            except trio.RunFinishedError:
                logger.debug("an answer of ZooKeeper came after the loop ended")

        return completed

    def _submit(self, operation: ZkOperation, on_watch: WatchCallback | None) -> Any:
        kazoo = self._kazoo
        if isinstance(operation, Multi):
            transaction = kazoo.transaction()
            for part in operation.operations:
                self._add_to_transaction(transaction, part)
            return transaction.commit_async()
        path = self._chroot + operation.path if operation.path != "/" else self._chroot or "/"
        if isinstance(operation, GetData):
            return kazoo.get_async(path, self._watch(operation, WatchKind.DATA, on_watch))
        if isinstance(operation, Exists):
            return kazoo.exists_async(path, self._watch(operation, WatchKind.DATA, on_watch))
        if isinstance(operation, GetChildren):
            watch = self._watch(operation, WatchKind.CHILDREN, on_watch)
            return kazoo.get_children_async(path, watch)
        if isinstance(operation, Create):
            return kazoo.create_async(
                path,
                operation.data,
                acl=acl_of(operation.path, self.security),
                ephemeral=operation.ephemeral,
                sequence=operation.sequential,
            )
        if isinstance(operation, SetData):
            return kazoo.set_async(path, operation.data, operation.version)
        return kazoo.delete_async(path, operation.version)

    def _add_to_transaction(self, transaction: Any, part: WriteOperation) -> None:
        path = self._chroot + part.path
        if isinstance(part, Create):
            # Transaction.create() refuses null data, which Kafka writes into its inner nodes.
            flags = part.ephemeral * _EPHEMERAL | part.sequential * _SEQUENTIAL
            request = serialization.Create(path, part.data, acl_of(part.path, self.security), flags)
            transaction.operations.append(request)
        elif isinstance(part, SetData):
            transaction.set_data(path, part.data, part.version)
        elif isinstance(part, Delete):
            transaction.delete(path, part.version)
        else:
            assert isinstance(part, Check)
            transaction.check(path, part.version)

    def _result(
        self, operation: ZkOperation, answer: Any, on_watch: WatchCallback | None
    ) -> ZkResult:
        if isinstance(operation, Multi):
            if isinstance(answer, Exception):
                return ZkResult(_code_of(answer))
            parts = tuple(self._part_result(part) for part in answer)
            failed = [p.code for p in parts if not p.ok]
            real = [code for code in failed if code is not ZkCode.RUNTIME_INCONSISTENCY]
            return ZkResult((real or failed or [ZkCode.OK])[0], results=parts)
        if isinstance(answer, Exception):
            result = ZkResult(_code_of(answer))
        elif isinstance(operation, GetData):
            data, stat = answer
            result = ZkResult(data=data, stat=_stat(stat))
        elif isinstance(operation, Exists):
            result = ZkResult(ZkCode.OK if answer else ZkCode.NO_NODE, stat=_stat(answer))
        elif isinstance(operation, GetChildren):
            result = ZkResult(children=tuple(sorted(answer)))
        else:
            result = self._part_result(answer)
        if not result.ok and not isinstance(operation, Exists):
            self._not_armed(operation, on_watch)
        return result

    def _part_result(self, answer: Any) -> ZkResult:
        if isinstance(answer, Exception):
            return ZkResult(_code_of(answer))
        if isinstance(answer, ZnodeStat):
            return ZkResult(stat=_stat(answer))
        if isinstance(answer, str):
            return ZkResult(path=answer[len(self._chroot) :])
        return ZkResult()

    # Watches

    def _watch(
        self, operation: GetData | Exists | GetChildren, kind: WatchKind, on_watch: Any
    ) -> Callable[[WatchedEvent], None] | None:
        if not operation.watch:
            return None
        assert on_watch is not None, "a watch needs someone to tell"
        path = operation.path
        if (kind, path, on_watch) in self._watches:
            return None  # it is armed, or has fired and its owner is about to hear of it
        # From now on, not from the answer on: it may have fired before somebody looks at that.
        self._watches.add((kind, path, on_watch))

        def fired(event: WatchedEvent) -> None:  # on a thread of kazoo
            if event.type == EventType.NONE:
                return  # the connection is lost; `_apply_state` takes care of all watches
            try:
                self._token.run_sync_soon(self._fire, kind, path, on_watch)
            except trio.RunFinishedError:
                logger.debug("a watch fired after the loop ended")

        return fired

    def _not_armed(self, operation: ZkOperation, on_watch: WatchCallback | None) -> None:
        """A read failed or was lost with its connection, and its watch, if it had one, with it."""
        if isinstance(operation, GetData | Exists | GetChildren) and operation.watch:
            assert on_watch is not None
            self._watches.discard((_kind(operation), operation.path, on_watch))

    def _fire(self, kind: WatchKind, path: str, on_watch: WatchCallback) -> None:
        self._watches.discard((kind, path, on_watch))
        if not self._closed:
            on_watch(kind, path)

    def _fire_all_watches(self) -> None:
        watches, self._watches = self._watches, set()
        for kind, path, on_watch in watches:
            on_watch(kind, path)


def open_zookeeper(
    connect: str,
    *,
    session_timeout_ms: int = 18_000,
    connection_timeout_ms: int = 18_000,
    session: tuple[int, bytes] | None = None,
    security: ZooKeeperSecurity = NO_SECURITY,
) -> AbstractAsyncContextManager[ZooKeeperClient]:
    """A connected client; the session is closed on leaving the block.

    `connect` is Kafka's zookeeper.connect (host:port,host:port/chroot); the chroot is created.
    `session` re-attaches to an existing session if it still lives.
    """

    @asynccontextmanager
    async def opened() -> Any:
        client = ZooKeeperClient(
            connect, session_timeout_ms=session_timeout_ms, session=session, security=security
        )
        try:
            await client.start(connection_timeout_ms)
            yield client
        finally:
            await client.close()

    return opened()


async def _cancel_after(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def _kind(operation: GetData | Exists | GetChildren) -> WatchKind:
    return WatchKind.CHILDREN if isinstance(operation, GetChildren) else WatchKind.DATA


def _data_bytes(operation: ZkOperation) -> int:
    """What it would have ZooKeeper store."""
    parts = operation.operations if isinstance(operation, Multi) else (operation,)
    return sum(len(part.data or b"") for part in parts if isinstance(part, Create | SetData))


def _code_of(error: Exception) -> ZkCode:
    code = _ERROR_CODES.get(type(error))
    if code is None:
        logger.warning("unexpected answer of ZooKeeper: %r", error)
        return ZkCode.SYSTEM_ERROR
    return code


def _stat(stat: ZnodeStat | None) -> ZkStat | None:
    if stat is None:
        return None
    return ZkStat(
        czxid=stat.czxid,
        ctime_ms=stat.ctime,
        version=stat.version,
        cversion=stat.cversion,
        ephemeral_owner=stat.ephemeralOwner,
        child_count=stat.numChildren,
    )
