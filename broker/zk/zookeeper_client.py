"""ZooKeeper for the broker (`zookeeper.ZooKeeper`), through kazoo.

Job: perform the operations of `protocol.zookeeper.operations`, pipelined and in order; call back on
the trio loop when a watch fires; report changes of the session. kazoo opens a new session by itself
when one has expired. Watches outlive a lost connection (`zookeeper_watches`).

Invariants: callbacks and session events run on the trio loop only; kazoo's threads do nothing
but hand over.

The broker authenticates on every connection before any other request: kazoo sends the login before
the requests in its queue, and a connection counts here only once a first read behind the login was
answered. ZooKeeper's refusal ends a start; later it is a lost session, retried every second.

Mirrors kafka.zookeeper.ZooKeeperClient.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from time import perf_counter
from typing import Any, TypeVar

import trio
from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry

from ...protocol.zookeeper.operations import (
    Exists,
    SessionExpired,
    ZkOperation,
    ZkResult,
    create_recursive,
)
from ..config.jaas_file import JAAS_FILE
from .ensemble_members import EnsembleMembers
from .kazoo_operations import KazooOperations, data_bytes
from .kazoo_parts import (
    TlsHandler,
    keep_session_when_cut,
    quiet_logger,
    sasl_options,
    take_turns,
)
from .zookeeper import NO_SESSION, SessionEvent, WatchCallback, ZooKeeper
from .zookeeper_security import (
    CLIENT_SECTION,
    CREDENTIALS_FILE,
    NO_SECURITY,
    ZooKeeperSecurity,
)
from .zookeeper_watches import ZooKeeperWatches

logger = logging.getLogger("pybroker.broker.zk.zookeeper_client")
T = TypeVar("T")

# More are no faster, and while kazoo's thread has many to work on, each that is given to it costs
# the loop a turn at the interpreter: with 512 a step of it took up to 190 ms, with 64 below 10.
MAX_IN_FLIGHT_REQUESTS = 64
SUBMIT_SECONDS = 0.002
# jute.maxbuffer is 1 MiB, for a whole request: ZooKeeper closes the connection after a larger one,
# and the request would be sent again and again.
MAX_REQUEST_BYTES = 1_000_000
CLOSE_TIMEOUT_S = 5.0  # kazoo itself waits for a session timeout, when the server hangs
RECONNECT_DELAY_S = 0.05
RECONNECT_MAX_DELAY_S = 0.25  # an ensemble elects in 0.2 s, and sessions go on meanwhile
# States of kazoo in which no thread of its connects any more: refused, or something failed in it.
ENDED = (KeeperState.AUTH_FAILED, KeeperState.CLOSED)
REFUSED_DELAY_S = 1.0  # as Kafka's ZooKeeperClient waits after a failed login


class ZooKeeperUnavailable(Exception):
    """No ensemble member answered within the connection timeout, or it will not have us."""


_REFUSED = (kazoo_errors.AuthFailedError, kazoo_errors.SessionClosedRequireSaslError)
_CONNECTION_LOST = (
    kazoo_errors.ConnectionLoss,
    kazoo_errors.ConnectionClosedError,
    kazoo_errors.OperationTimeoutError,
)


class ZooKeeperClient(ZooKeeper):
    """Open with `async with open_zookeeper(...) as client`."""

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int,
        session: tuple[int, bytes] | None,
        security: ZooKeeperSecurity,
        follow_members: bool = False,
    ) -> None:
        super().__init__()
        hosts, slash, chroot = connect.partition("/")
        self.connect = connect
        self.security = security
        self._token = trio.lowlevel.current_trio_token()
        self._connected = trio.Event()
        self._session = NO_SESSION
        self._generation = 0  # counts expired sessions
        self._generation_ended = trio.Event()
        self._connection_count = 0  # of connections made and lost: tells old answers from new ones
        self._refused = trio.Event()
        self._is_reviving = False  # `_connect_again` runs
        self._starting = trio.Lock()  # kazoo is started and stopped by one thread at a time
        self._closed = False
        self._watches = ZooKeeperWatches(self._token)
        self._rearm = False
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
        root = "/" + chroot.strip("/") if slash and chroot.strip("/") else ""
        self._operations = KazooOperations(self._kazoo, root, security)
        self._members = EnsembleMembers(self._kazoo, hosts) if follow_members else None
        keep_session_when_cut(self._kazoo._connection)
        take_turns(self._kazoo)
        self._kazoo.add_listener(self._state_changed)

    # Session

    @property
    def session(self) -> tuple[int, bytes]:
        """Session id and password of the live session, to be re-attached after a crash.

        A lost connection does not end it: kazoo has it only while connected, so it is kept here.
        """
        return self._session

    @property
    def is_connected(self) -> bool:
        return self._connected.is_set()

    @property
    def session_generation(self) -> int:
        """Grows by one with every expired session."""
        return self._generation

    def _state_changed(self, state: str) -> None:  # on a thread of kazoo
        session = self._kazoo.client_id or NO_SESSION
        reason = self._kazoo.client_state
        try:
            self._token.run_sync_soon(self._apply_state, state, session, reason)
        except trio.RunFinishedError:
            logger.debug("ZooKeeper session changed to %s after the loop ended", state)

    def _apply_state(self, state: str, session: tuple[int, bytes], reason: str) -> None:
        """`reason`: kazoo stops when it is refused, or when an error occurs inside of it.

        An unannounced connection, one whose login was not answered, ends without an event too.
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
                self._notify(SessionEvent.SUSPENDED)
            return
        if self._session != NO_SESSION:
            self._session = NO_SESSION
            self._generation += 1
            ended, self._generation_ended = self._generation_ended, trio.Event()
            ended.set()
            self._notify(SessionEvent.EXPIRED)
        if reason == KeeperState.AUTH_FAILED:
            self._refused.set()
        if reason in ENDED and not self._is_reviving:
            self._is_reviving = True
            trio.lowlevel.spawn_system_task(self._connect_again)

    def _ask_first(self, session: tuple[int, bytes]) -> None:
        """kazoo reports a connection before it logs in: a read sent now is answered after the
        login.
        """
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
            self._notify(SessionEvent.CONNECTED)
            if self._members is not None:
                self._members.read()
            if self._rearm:
                self._rearm = False
                self._watches.fire_all()

    async def _connect_again(self) -> None:
        """Start kazoo until it is connected: it does not report an end before that, since the state
        stays LOST.
        """
        try:
            while not (self._closed or self.is_connected):
                await trio.sleep(REFUSED_DELAY_S)
                async with self._starting:
                    if not self._closed and self._kazoo.client_state in ENDED:
                        await trio.to_thread.run_sync(self._start_kazoo)
        finally:
            self._is_reviving = False

    def _start_kazoo(self) -> None:
        try:
            self._kazoo.start_async()
        except Exception:
            logger.exception("cannot connect to ZooKeeper at %s again", self.connect)

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
        chroot = self._operations.chroot
        if chroot:
            self._operations.chroot = ""
            await self.run(create_recursive(chroot))
            self._operations.chroot = chroot

    def _refusal(self) -> str:
        if self.security.digest or self.security.sasl:
            return "refuses this broker's name or password"
        return (
            f"refuses clients without a login: set {CREDENTIALS_FILE} or {JAAS_FILE} with a "
            f"section {CLIENT_SECTION}"
        )

    async def close(self) -> None:
        """End the session: its ephemeral nodes vanish at once."""
        self._closed = True
        self._watches.close()
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
                    self._watches.not_armed(operations[index], on_watch)
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

    def _result(
        self, operation: ZkOperation, answer: Any, on_watch: WatchCallback | None
    ) -> ZkResult:
        result = self._operations.result(operation, answer)
        if not result.ok and not isinstance(operation, Exists):  # which waits for what is not there
            self._watches.not_armed(operation, on_watch)
        return result

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
            if data_bytes(operation) > MAX_REQUEST_BYTES:
                deliver(index, kazoo_errors.BadArgumentsError())
                continue
            watcher = self._watches.arm(operation, on_watch)
            pending = self._operations.submit(operation, watcher)
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


def open_zookeeper(
    connect: str,
    *,
    session_timeout_ms: int = 18_000,
    connection_timeout_ms: int = 18_000,
    session: tuple[int, bytes] | None = None,
    security: ZooKeeperSecurity = NO_SECURITY,
    follow_members: bool = False,
) -> AbstractAsyncContextManager[ZooKeeperClient]:
    """A connected client; the session is closed on leaving the block.

    `connect` is Kafka's zookeeper.connect (host:port,host:port/chroot); the chroot is created.
    `session` re-attaches to an existing session if it still lives. `follow_members`: learn further
    members from the ensemble.
    """

    @asynccontextmanager
    async def opened() -> Any:
        client = ZooKeeperClient(
            connect,
            session_timeout_ms=session_timeout_ms,
            session=session,
            security=security,
            follow_members=follow_members,
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
