"""A connection to a broker: many requests on their way, answers in the same order.

Invariants: requests go out in the order in which `request` was called; a caller that is cancelled
or gives up loses its answer only, which is read and dropped; a connection that failed, or on which
an answer timed out, fails all requests in flight with ConnectionFailed, is closed, and never used
again. At most MAX_IN_FLIGHT requests are in flight, others wait. Before a session expires, once
nothing is in flight, the client logs in again on the stream (KIP-368); if the broker refuses, a new
stream replaces it.

The tasks that read and write live in the nursery of `Connections`. A cancellation from outside does
not reach them: a cancelled caller may still send last requests in a shielded scope.
Mirrors: NetworkClient, InFlightRequests; KIP-35 and KIP-511.
Leaves out: connections that are closed because they are idle.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from math import inf
from types import TracebackType
from typing import TypeAlias, TypeVar, cast

import trio

from ..protocol.api import API_TABLE, ApiKey
from ..protocol.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ..protocol.errors import ErrorCode, ProtocolError
from ..protocol.features import NOTHING_FINALIZED, Levels
from ..protocol.schema import Message
from .errors import ClientError, ConnectionFailed, LoginError, Unsupported
from .exchanges import STREAM_ERRORS, Exchanges, SentRequest
from .frames import FramesReader, send_some
from .releases import not_served
from .security.connector import OPEN, Connector, Link
from .security.tls import explained

# Settings that may be missing if a connection ends before the first answer.
_HINTS = {
    "PLAINTEXT": "; if this port wants TLS or a login, give their settings (security.protocol)",
    "SSL": "; if this port wants a login, set security.protocol=SASL_SSL and sasl.*",
}

CLIENT_ID = "pybroker-client"
CLIENT_VERSION = "0.1"
CONNECT_TIMEOUT_SECONDS = 5.0
HANDSHAKE_TIMEOUT_SECONDS = 10.0  # a frozen broker's kernel still takes connections
REQUEST_TIMEOUT_SECONDS = 40.0
MAX_IN_FLIGHT = 100
LOGIN_PAUSE_SECONDS = 1.0  # brokers refuse a login that follows another sooner than this

R = TypeVar("R", bound=Message)
# A message, or a function that makes it for the version that both sides support.
Question: TypeAlias = Message | Callable[[int], Message]


class _Awaited:
    """A request in flight; `notify` is called once there is an answer or an error."""

    __slots__ = ("answer", "error", "is_dropped", "notify", "sent")

    def __init__(self, sent: SentRequest, notify: Callable[[], None]) -> None:
        self.sent = sent
        self.notify = notify
        self.answer: Message | None = None
        self.error: BaseException | None = None
        self.is_dropped = False


class Connection:
    """Made by `Connections.open`."""

    def __init__(
        self, nursery: trio.Nursery, link: Link, host: str, port: int, connector: Connector
    ) -> None:
        self._nursery = nursery
        self._link = link
        self._host, self._port = host, port
        self._connector = connector
        self._exchanges = Exchanges(CLIENT_ID)
        self._in_flight: deque[_Awaited] = deque()  # oldest first, in the order of the stream
        self._outgoing: deque[bytes] = deque()  # bytes that the socket has not taken yet
        self._is_sending = False  # a task is writing `_outgoing`
        self._tasks: dict[trio.CancelScope, None] = {}  # in the order of their start
        self._turn = trio.Lock()  # held while a task waits for room, or logs in again
        self._logged_in_again = -inf  # on this stream: the time at which the last login began
        self._is_logging_in = False  # the connection is logging in again: nothing else is in flight
        self._progress: trio.Event | None = None  # set, if a task waits, when an answer has arrived
        self._versions: dict[int, tuple[int, int]] = {}  # by API: the first and last version served
        # The finalized features and their epoch, as they were when this connection was made.
        self.features: Levels = NOTHING_FINALIZED
        self.features_epoch = -1
        self._serves_us = False  # an API other than ApiVersions, which needs no login, was answered
        self.is_open = True
        self._frames = FramesReader()
        nursery.start_soon(self._read_answers, link)

    @property
    def address(self) -> str:
        return f"{self._host}:{self._port}"

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    def close(self) -> None:
        """Close at once; requests in flight fail with ConnectionFailed."""
        self._fail(trio.ClosedResourceError("it was closed"))

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def version(self, key: ApiKey, newest: int | None = None) -> int:
        """The newest version of an API that both sides support, at most `newest`; without it, at
        most the newest one of Kafka 3.9.

        Raises Unsupported.
        """
        ours = API_TABLE[key]
        theirs = self._versions.get(key)
        if theirs is not None:
            highest = ours.highest() if newest is None else min(ours.max_version, newest)
            found = min(highest, theirs[1])
            if found >= max(ours.min_version, theirs[0]):
                return found
        raise not_served(self.address, key)

    async def request(
        self,
        key: ApiKey,
        message: Question,
        answer_class: type[R],
        *,
        newest: int | None = None,
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
    ) -> R:
        """Send one request, wait for its answer; `newest` is the highest version to use.

        `timeout_seconds` limits the broker's silence: while answers arrive, a large one in its
        parts, the wait continues. Raises ClientError: ConnectionFailed if the request may have had
        an effect.
        """
        version = self.version(key, newest)
        if callable(message):
            message = message(version)
        answer = await self._exchange(version, message, timeout_seconds)
        assert isinstance(answer, answer_class)
        self._serves_us = True
        return answer

    def post(
        self,
        key: ApiKey,
        message: Question,
        answer_class: type[R],
        notify: Callable[[R | ClientError], None],
        *,
        newest: int | None = None,
    ) -> None:
        """Send a request at once; `notify` is called with its answer or error by the task that
        detects it: `notify` must neither wait nor raise. `newest`: see `version`.

        For callers that must know the order in which requests leave, and time them out themselves
        (`give_up`). Raises ClientError if it is not sent: then `notify` is not called.
        """
        assert not self.must_wait
        version = self.version(key, newest)
        sent = self._send(message(version) if callable(message) else message, version)

        def told() -> None:
            if awaited.error is not None:
                notify(self._failed(awaited.error))
                return
            assert isinstance(awaited.answer, answer_class)
            self._serves_us = True
            notify(awaited.answer)

        awaited = _Awaited(sent, told)
        self._in_flight.append(awaited)

    def give_up(self) -> None:
        """Fail all requests in flight, as in `close`, because an answer timed out."""
        self._fail(trio.TooSlowError())

    async def send_without_answer(self, key: ApiKey, message: Question) -> None:
        """Send a request that has no answer (a Produce with acks=0). Raises ClientError."""
        version = self.version(key)
        await self.wait_for_turn()
        self._send(message(version) if callable(message) else message, version)
        while self._is_sending and self.is_open:
            await self._wait_for_progress()
        await trio.lowlevel.checkpoint()

    async def agree_on_versions(self) -> None:
        """Learn the API versions that the broker serves. Raises ClientError."""
        key = ApiKey.API_VERSIONS
        request = ApiVersionsRequest(
            client_software_name=CLIENT_ID, client_software_version=CLIENT_VERSION
        )
        self._versions = {key: (0, API_TABLE[key].max_version)}
        answer = await self._ask_versions(self.version(key), request)
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            answer = await self._ask_versions(0, ApiVersionsRequest())
        if answer.error_code:
            raise ClientError(f"{self.address} refuses: {ErrorCode(answer.error_code).name}")
        self._versions = {
            api.api_key: (api.min_version, api.max_version) for api in answer.api_keys
        }
        self.features = {one.name: one.max_version_level for one in answer.finalized_features}
        self.features_epoch = answer.finalized_features_epoch

    async def _ask_versions(self, version: int, request: ApiVersionsRequest) -> ApiVersionsResponse:
        answer = await self._exchange(version, request, REQUEST_TIMEOUT_SECONDS)
        return cast(ApiVersionsResponse, answer)

    # One request

    async def _exchange(self, version: int, message: Message, timeout_seconds: float) -> Message:
        awaited: _Awaited | None = None
        answered = trio.Event()
        steps = -1
        while steps != self._frames.steps:
            steps = self._frames.steps
            with trio.move_on_after(timeout_seconds):
                if awaited is None:
                    if self.must_wait:
                        await self.wait_for_turn()
                    awaited = _Awaited(self._send(message, version), answered.set)
                    self._in_flight.append(awaited)
                return await self._answer_to(awaited, answered)
        self.give_up()
        raise self._failed(trio.TooSlowError())

    async def _answer_to(self, awaited: _Awaited, answered: trio.Event) -> Message:
        awaited.is_dropped = False
        try:
            await answered.wait()
        finally:
            awaited.is_dropped = awaited.answer is None
        if awaited.answer is not None:
            return awaited.answer
        assert awaited.error is not None
        raise self._failed(awaited.error) from awaited.error

    @property
    def must_wait(self) -> bool:
        """Other requests come first, or there is no room: `post` may not be called."""
        return (
            len(self._in_flight) >= MAX_IN_FLIGHT
            or self._turn.locked()
            or (self._link.good_until < inf and trio.current_time() >= self._link.good_until)
        )

    async def wait_for_turn(self) -> None:
        """Wait, in the order of the calls; returns when a request may be sent, before others can.

        Raises ClientError.
        """
        async with self._turn:
            while self.is_open and len(self._in_flight) >= MAX_IN_FLIGHT:
                await self._wait_for_progress()
            if self.is_open and trio.current_time() >= self._link.good_until:
                while self.is_open and (self._in_flight or self._is_sending):
                    await self._wait_for_progress()
                if self.is_open:
                    await self._renew()

    async def _renew(self) -> None:
        """Begin another session, while nothing is in flight. Raises ClientError."""
        try:
            link = await self._log_in_again()
            if link is None:
                link = await self._leave_stream()
        except BaseException:
            self._fail(trio.ClosedResourceError("its session has ended"))
            raise
        self._link = link

    async def _log_in_again(self) -> Link | None:
        """Log in on the stream in use; None if the broker does not accept that. Raises
        ClientError."""
        now = trio.current_time()
        if (
            self._connector.login is None
            or ApiKey.SASL_AUTHENTICATE not in self._versions  # versions are not agreed on yet
            or now - self._logged_in_again < LOGIN_PAUSE_SECONDS
        ):
            return None
        self._logged_in_again = now
        version = self.version(ApiKey.SASL_AUTHENTICATE)
        self._is_logging_in = True
        try:
            with trio.fail_after(HANDSHAKE_TIMEOUT_SECONDS):
                return await self._connector.renewed(self._link, self._ask, version, self.address)
        except trio.TooSlowError as error:
            raise _silent(self.address) from error
        except (ConnectionFailed, LoginError) as error:
            if not self.is_open:  # the request that waits for the login has had no effect
                raise ClientError(str(error)) from error
            return None
        finally:
            self._is_logging_in = False

    async def _leave_stream(self) -> Link:
        """Replace the stream by a new one. Raises ClientError."""
        self._stop_tasks()
        self._link.close()
        link = await open_link(self._host, self._port, self._connector)
        if not self.is_open:  # closed in the meantime
            link.close()
            return link
        self._logged_in_again = -inf
        self._nursery.start_soon(self._read_answers, link)
        return link

    async def _ask(self, message: Message, version: int) -> Message:
        """An exchange by the holder of the turn, without a timeout."""
        answered = trio.Event()
        awaited = _Awaited(self._send(message, version), answered.set)
        self._in_flight.append(awaited)
        return await self._answer_to(awaited, answered)

    def _send(self, message: Message, version: int) -> SentRequest:
        """Send without waiting: a task writes the bytes that the socket does not take."""
        if not self.is_open:
            raise ConnectionFailed(f"the connection to {self.address} is closed")
        try:
            sent, frame = self._exchanges.encode(message, version)
        except ProtocolError as error:
            raise Unsupported(
                f"the request cannot be written for {self.address}: {error}"
            ) from error
        if self._is_sending:
            self._outgoing.append(frame)
            return sent
        try:
            count = send_some(self._link.stream, frame)
        except OSError as error:
            self._lose_stream(error)
            raise self._failed(error) from error
        if count < len(frame):
            self._outgoing.append(frame[count:])
            self._is_sending = True
            self._nursery.start_soon(self._send_rest, self._link)
        return sent

    # Tasks

    async def _send_rest(self, link: Link) -> None:
        with trio.CancelScope(shield=True) as scope:
            self._tasks[scope] = None
            try:
                while self._outgoing:
                    await link.stream.send_all(self._outgoing.popleft())
            except STREAM_ERRORS as error:
                self._lose_stream(error)
        self._tasks.pop(scope, None)
        self._is_sending = False
        self._show_progress()

    async def _read_answers(self, link: Link) -> None:
        frames = self._frames = FramesReader()
        with trio.CancelScope(shield=True) as scope:
            self._tasks[scope] = None
            try:
                while link.stream is self._link.stream and self.is_open:
                    self._take(await frames.read(link.stream))
            except (*STREAM_ERRORS, ProtocolError) as error:
                if link.stream is self._link.stream:
                    self._lose_stream(error)
        self._tasks.pop(scope, None)

    def _take(self, frame: memoryview) -> None:
        if not self._in_flight:
            raise ProtocolError("an answer without a request")
        awaited = self._in_flight[0]
        if awaited.is_dropped:
            awaited.sent.drop(frame)
        else:
            awaited.answer = awaited.sent.read(frame)
        self._in_flight.popleft()
        self._show_progress()
        if not awaited.is_dropped:
            awaited.notify()

    def _show_progress(self) -> None:
        if self._progress is not None:
            self._progress.set()
            self._progress = None

    async def _wait_for_progress(self) -> None:
        if self._progress is None:
            self._progress = trio.Event()
        await self._progress.wait()

    # The end

    def _lose_stream(self, error: BaseException) -> None:
        """Fail the connection; during another login only its requests fail, and a new stream
        follows."""
        if self._is_logging_in:
            self._fail_requests(error)
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._stop_tasks()
        self._link.close()
        self._fail_requests(error)

    def _fail_requests(self, error: BaseException) -> None:
        self._outgoing.clear()
        failed = list(self._in_flight)
        self._in_flight.clear()
        self._show_progress()
        for awaited in failed:
            awaited.error = error
            awaited.notify()

    def _stop_tasks(self) -> None:
        for scope in self._tasks:
            scope.cancel()

    def _failed(self, error: BaseException) -> ConnectionFailed:
        what = _reason(error) or "no answer in time"
        hint = "" if self._serves_us else _HINTS.get(self._connector.protocol, "")
        return ConnectionFailed(f"the connection to {self.address} failed: {what}{hint}")


class Connections:
    """The nursery of connections: `async with Connections() as connections: ...`

    At its end they are closed. Exceptions of the block pass through unchanged.
    """

    def __init__(self) -> None:
        self._nurseries: AbstractAsyncContextManager[trio.Nursery] | None = None
        self._nursery: trio.Nursery | None = None
        self._open: dict[Connection, None] = {}  # in the order in which they were opened

    async def __aenter__(self) -> Connections:
        self._nurseries = trio.open_nursery()
        self._nursery = await self._nurseries.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for connection in self._open:
            connection.close()
        if self._nurseries is not None:
            # Without the block's error: it would come back in a group.
            await self._nurseries.__aexit__(None, None, None)

    async def open(self, host: str, port: int, connector: Connector = OPEN) -> Connection:
        """Connect, log in if configured, and agree on versions. Raises ClientError."""
        assert self._nursery is not None, "use it with `async with`"
        self._open = dict.fromkeys(one for one in self._open if one.is_open)
        link = await open_link(host, port, connector)
        connection = Connection(self._nursery, link, host, port, connector)
        self._open[connection] = None
        try:
            with trio.fail_after(HANDSHAKE_TIMEOUT_SECONDS):
                await connection.agree_on_versions()
        except trio.TooSlowError as error:
            connection.close()
            raise _silent(connection.address) from error
        except BaseException:
            connection.close()
            raise
        return connection


async def open_link(host: str, port: int, connector: Connector) -> Link:
    """A stream that is ready for requests. Raises ClientError."""
    address = f"{host}:{port}"
    try:
        with trio.fail_after(CONNECT_TIMEOUT_SECONDS):
            tcp = await connector.reach(host, port)
    except socket.gaierror as error:
        raise ClientError(
            f"the name {host!r} of {address} cannot be resolved: {error.strerror}"
        ) from error
    except (OSError, trio.TooSlowError) as error:
        raise ClientError(
            f"no broker answers at {address}; is one running? start one with: pybroker start"
        ) from error
    try:
        with trio.fail_after(HANDSHAKE_TIMEOUT_SECONDS):
            return await connector.secure(tcp, host, port, CLIENT_ID)
    except trio.TooSlowError as error:
        raise _silent(address) from error
    except STREAM_ERRORS as error:
        raise ClientError(f"the connection to {address} failed: {error}") from error


def _silent(address: str) -> ClientError:
    return ClientError(f"{address} takes connections, but does not answer; is its broker paused?")


def _reason(error: BaseException) -> str:
    """The reason of a failure; the details of TLS are in the cause of the stream's error."""
    cause = error.__cause__
    return explained(cause) if isinstance(cause, ssl.SSLError) else str(error)
