"""From a frame to its handler and back: header, route, decoding, the handler contract, errors.

One `Route` per (API, version) that was requested: its codec functions, handler and counters behind
one dictionary look-up on the four bytes of key and version. The page of an API declares the kind of
its handler: a function that answers at once (`request.respond`) or keeps the request for a later
answer; a generator function, whose loop over the request runs in turns with others (`turns`); or a
coroutine function, which runs as a task of its own under `MAX_ASYNC_HANDLERS`. Large frames are
decoded and large responses encoded in turns as well.

Rules (SEMANTICS 1, SEMANTICS 2, SEMANTICS 3): a request that cannot be parsed or is not served
closes the connection, except ApiVersions, which answers any version; an exception of a handler
becomes the API's own error response, and an exception after the answer closes the connection.
Produce is decoded in the connection's buffer, because offsets are assigned in place; the frame of
every other request is copied, so that its parts may be kept.

Mirrors the parsing half of `SocketServer.processCompletedReceives` and `KafkaApis.handle`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from struct import Struct
from struct import error as struct_error
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import trio

from ...protocol import codec, framing, large_messages
from ...protocol.api import API_TABLE, ApiKey, ApiSpec, page
from ...protocol.api_page import Handling
from ...protocol.errors import ErrorCode, KafkaError, ProtocolError
from ...protocol.features import NOTHING_FINALIZED, Levels
from ...protocol.invariants import BrokenInvariant
from ...protocol.zookeeper.operations import SessionExpired, ZkError
from .bad_input import BadInput
from .connection import Connection
from .metadata_gate import MetadataGate
from .produce_request_template import ProduceRequestTemplate, template_of
from .repeated_request_template import RepeatedRequestTemplate, repeated_template_of
from .request import Handler, Request, Route
from .request_meter import RequestMeter
from .request_parts import InParts, place_to_cut
from .turns import Steps, Turns

if TYPE_CHECKING:
    from ..observability.metrics import BrokerMetrics
    from ..quotas.client_quotas import ClientQuotas

logger: Final = logging.getLogger("pybroker.broker.network.dispatcher")

MAX_ASYNC_HANDLERS: Final = 256
# A produce request of this size is handled at once, if it has few partitions.
MAX_AT_ONCE_BYTES: Final = 64 * 1024

# They wrap the handlers: an interceptor injects the faults chosen by a test, a guard refuses
# clients without permission, in one version.
Interceptor = Callable[[ApiKey, Callable[[Request], Any]], Callable[[Request], Any]]
Guard = Callable[[ApiKey, Callable[[Request], Any], int], Callable[[Request], Any]]

# size, api key and version as one number, correlation id, length of the client id
_HEADER: Final = Struct(">iIih").unpack_from
_HEADER_BYTES: Final = 14
_SMALLEST_CLIENT_HEADER: Final = _HEADER_BYTES - 4
_VERSION_BITS: Final = 16
# ControlledShutdown v0 alone has a header without client id, which the fast path cannot read.
_WITHOUT_CLIENT_ID: Final = int(ApiKey.CONTROLLED_SHUTDOWN) << _VERSION_BITS
_OUT_OF_WAY: Final = -2
_SESSION_GONE: Final = "the ZooKeeper session has expired"


class Dispatcher:
    """The table of handlers, and the way of every frame through it."""

    def __init__(self, metrics: BrokerMetrics) -> None:
        self._metrics = metrics
        self.turns = Turns()  # of all that takes long
        self._handlers: dict[ApiKey, Callable[[Request], Any]] = {}
        # By API and version as one number, and two that no frame has: one for versions that are
        # not served (-1), one for headers without a client id. Empty after each change above.
        self._routes: dict[int, Route] = {}
        self._nursery: trio.Nursery | None = None
        self._async_limit = trio.CapacityLimiter(MAX_ASYNC_HANDLERS)
        self._gate: MetadataGate | None = None  # None: it is open
        self._quotas: ClientQuotas | None = None  # None: requests are not metered
        self._guard: Guard | None = None
        self._interceptor: Interceptor | None = None
        self._levels: Levels = NOTHING_FINALIZED

    def hold_back(self) -> None:
        """Keep requests about the cluster until `open`: see `metadata_gate`."""
        self._gate = MetadataGate()
        self._routes.clear()

    def open(self) -> None:
        gate, self._gate = self._gate, None
        if gate is not None:
            self._routes.clear()
            gate.open(self.perform)

    def meter_with(self, quotas: ClientQuotas) -> None:
        """Requests are metered from now on whenever there is a quota."""

        def changed(is_active: bool) -> None:
            self._quotas = quotas if is_active else None

        quotas.on_change(changed)

    def guard_with(self, guard: Guard) -> None:
        """From now on `guard(key, handler, version)` is the handler of each API in each version."""
        self._guard = guard
        self._routes.clear()

    def intercept_with(self, interceptor: Interceptor | None) -> None:
        """From now on it stands before the handler of each API, and before the guard. Costs nothing
        where there is none: a handler is looked up once for all requests of its kind."""
        self._interceptor = interceptor
        self._routes.clear()

    def register(self, handlers: Mapping[ApiKey, Handler]) -> None:
        for key, handler in handlers.items():
            assert key not in self._handlers, f"two handlers for {key.name}"
            handling = page(key).handling
            if handling is Handling.WAITS:
                self._handlers[key] = _Spawned(self, handler)
            elif handling is Handling.IN_TURNS:
                self._handlers[key] = _Stepped(self, handler)
            else:
                self._handlers[key] = handler
        self._routes.clear()

    def finalized(self, levels: Levels) -> None:
        """From now on requests are served in the versions of these finalized features."""
        self._levels = levels
        self._routes.clear()

    def served(self) -> Iterator[tuple[ApiKey, int, int]]:
        """The APIs that ApiVersions advertises, with the first and the last version of each."""
        for key in sorted(self._handlers):
            spec = API_TABLE[key]
            highest = spec.highest(self._levels)
            if highest >= spec.min_version:
                yield key, spec.min_version, highest

    async def run_async_handlers(
        self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """The nursery of coroutine handlers; runs until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    def _new_request(
        self, connection: Connection, route: Route, correlation_id: int, client_id: str | None,
        body: Any, frame_bytes: int, started_at: float,
    ) -> Request:  # fmt: skip
        request = Request(
            connection, route, correlation_id, client_id, body, frame_bytes, started_at
        )
        if self._quotas is not None:
            request.meter = RequestMeter(self._quotas)
        return request

    # The hot path

    def handle_frame(self, connection: Connection) -> float:
        """Hand the request at the front of the connection's buffer to its handler. Returns when
        that was done."""
        started_at = perf_counter()
        buffer = connection.buffer
        begin = connection.start
        end = connection.start = begin + connection.needed
        if end - begin < _HEADER_BYTES:
            return self._handle_unusual(connection, begin, started_at)
        size, api, correlation_id, client_id_size = _HEADER(buffer, begin)
        route = self._routes.get(api)
        if route is None:
            return self._handle_unusual(connection, begin, started_at)
        template: ProduceRequestTemplate | RepeatedRequestTemplate | None = connection.memo
        if (
            template is not None
            and template.route is route
            and template.matches(buffer, connection.view, begin, end)
        ):
            body: Any = template.body
            client_id = template.client_id
        elif size > route.large_bytes:
            found = self._decode_at_once(connection, route, begin, end, client_id_size)
            if found is None:
                return self._begin_large(
                    connection, route, begin, correlation_id, client_id_size, started_at
                )
            body, client_id = found
        else:
            body, client_id = self._decode(connection, route, begin, end, client_id_size)
        request = self._new_request(
            connection, route, correlation_id, client_id, body, size, started_at
        )
        try:
            route.handle(request)
        except Exception as error:
            self.handler_failed(request, error)
        done_at = request.responded_at
        if done_at == 0.0:
            _leave_body(body, connection)
            done_at = perf_counter()
        request.local_done_at = done_at
        return done_at

    def perform(self, handle: Callable[[Request], Any], request: Request) -> None:
        """Have the request handled; an error becomes its answer."""
        try:
            handle(request)
        except Exception as error:
            self.handler_failed(request, error)

    def _decode(
        self, connection: Connection, route: Route, begin: int, end: int, client_id_size: int
    ) -> tuple[Any, str | None]:
        """The message of a frame and its client id."""
        client_id, offset = self._client_id(connection, begin, end, client_id_size)
        frame = connection.view[begin + 4 : end]
        if not route.in_place:
            frame = bytes(frame)  # type: ignore[assignment]
        body: Any
        try:
            start = _after_header(route, frame, offset)
            body, offset = codec.decode_from(route.request_class, route.api_version, frame, start)
        except (ProtocolError, IndexError) as error:
            raise _unreadable(route, error) from None
        if offset == len(frame):
            if route.in_place:
                connection.memo = template_of(route, frame, body, client_id, connection.memo)
            elif route.is_repeated:
                connection.memo = repeated_template_of(
                    route, bytes(frame), start, body, client_id, connection.memo
                )
        return body, client_id

    def _decode_at_once(
        self, connection: Connection, route: Route, begin: int, end: int, client_id_size: int
    ) -> tuple[Any, str | None] | None:
        """The same of a frame that is large for its records, if the rest of it is not."""
        if not route.in_place or end - begin > MAX_AT_ONCE_BYTES:
            return None
        client_id, offset = self._client_id(connection, begin, end, client_id_size)
        frame = connection.view[begin + 4 : end]
        try:
            start = _after_header(route, frame, offset)
            found = large_messages.decode_small(
                route.request_class, route.api_version, frame, start
            )
        except (ProtocolError, IndexError) as error:
            raise _unreadable(route, error) from None
        if found is None or place_to_cut(route, found[0]) is not None:
            return None
        return found[0], client_id

    def _client_id(
        self, connection: Connection, begin: int, end: int, client_id_size: int
    ) -> tuple[str | None, int]:
        """The client id of a frame, and the offset behind it; as `framing.decode_request_header`
        reads them, to which a test holds it, but that a known client id is not decoded again."""
        offset = _SMALLEST_CLIENT_HEADER
        if client_id_size <= 0:
            return "", offset
        start = begin + _HEADER_BYTES
        if start + client_id_size > end:
            raise BadInput("a request whose header is longer than its frame")
        raw = connection.buffer[start : start + client_id_size]
        if raw != connection.client_id_raw:
            connection.client_id = str(raw, "utf-8", "replace")
            connection.client_id_raw = bytes(raw)
        return connection.client_id, offset + client_id_size

    # Large requests

    def _begin_large(
        self, connection: Connection, route: Route, begin: int, correlation_id: int,
        client_id_size: int, started_at: float,
    ) -> float:  # fmt: skip
        """Decode and handle a frame in turns with others, beginning now."""
        end = connection.start
        client_id, offset = self._client_id(connection, begin, end, client_id_size)
        if route.in_place:
            frame = connection.view[begin + 4 : end]
        else:
            frame = connection.take_frame(begin + 4)
        self.turns.begin(
            self._handle_large(
                connection, route, frame, correlation_id, offset, client_id, started_at
            ),
            connection.fail,
        )
        return perf_counter()

    def _handle_large(
        self, connection: Connection, route: Route, frame: memoryview, correlation_id: int,
        offset: int, client_id: str | None, started_at: float,
    ) -> Steps:  # fmt: skip
        body: Any
        try:
            offset = _after_header(route, frame, offset)
            body, offset = yield from large_messages.decode_slices(
                route.request_class, route.api_version, frame, offset
            )
        except (ProtocolError, IndexError) as error:
            if not connection.closed:
                connection.finish_on_bad_input(_unreadable(route, error))
            return
        if connection.closed:
            return
        if route.in_place and offset == len(frame):
            connection.memo = template_of(route, frame, body, client_id, connection.memo)
        request = self._new_request(
            connection, route, correlation_id, client_id, body, len(frame), started_at
        )
        handle = route.handle
        place = place_to_cut(route, body)
        if place is not None:
            yield from InParts(request, place, partial(self.perform, handle)).steps()
        elif isinstance(handle, _Stepped):
            yield from handle.steps(request)
        else:
            self.perform(handle, request)
            if not request.answered:
                _leave_body(body, connection)
            request.local_done_at = request.responded_at or perf_counter()

    # Rare cases

    def _handle_unusual(self, connection: Connection, begin: int, started_at: float) -> float:
        """An API or version met for the first time, one not served, or a header without client."""
        frame = bytes(connection.view[begin + 4 : connection.start])
        if len(frame) < 8:
            raise BadInput(f"a frame of {len(frame)} bytes, too short for a request header")
        api = int.from_bytes(frame[:4], "big")
        key, version = api >> _VERSION_BITS, api & 0xFFFF
        handler = self._handlers.get(key)  # type: ignore[call-overload]
        if handler is None:
            name = API_TABLE[ApiKey(key)].name if key in API_TABLE else "unknown"
            raise BadInput(f"a request for API {key} ({name}) v{version}, which is not served")
        spec = API_TABLE[ApiKey(key)]
        highest = spec.highest(self._levels)
        if spec.min_version <= version <= highest:
            place = _OUT_OF_WAY if api == _WITHOUT_CLIENT_ID else api
            known = place in self._routes
            route = self._routes.get(place) or self._add_route(place, spec.key, version, handler)
            if not known and place == api and len(frame) >= _SMALLEST_CLIENT_HEADER:
                connection.start = begin
                return self.handle_frame(connection)
        elif spec.key is ApiKey.API_VERSIONS:
            # KIP-511: any version gets an answer, in the form of version 0.
            route = self._routes.get(-1) or self._add_route(-1, spec.key, 0, handler)
        else:
            raise BadInput(
                f"a {spec.name} request v{version}; "
                f"served are v{spec.min_version} to v{highest}{_later(spec, version)}"
            )
        self._handle_checked(connection, frame, route, version, started_at)
        return perf_counter()

    def _handle_checked(
        self, connection: Connection, frame: bytes, route: Route, version: int, started_at: float
    ) -> None:
        """A frame that the fast path does not take; every step is checked by the codec."""
        unsupported = version != route.api_version
        try:
            if unsupported:
                correlation_id = int.from_bytes(frame[4:8], "big", signed=True)
                client_id, body = "", None
            else:
                header, offset = framing.decode_request_header(frame)
                correlation_id, client_id = header.correlation_id, header.client_id or ""
                body = codec.decode(route.request_class, version, frame, offset)
        except (ProtocolError, struct_error, IndexError) as error:
            raise BadInput(
                f"a {route.name} request v{version} that cannot be read: {error}"
            ) from None
        request = self._new_request(
            connection, route, correlation_id, client_id, body, len(frame), started_at
        )
        if unsupported:
            request.fail(ErrorCode.UNSUPPORTED_VERSION)
        else:
            self.perform(route.handle, request)

    def _add_route(
        self, api: int, key: ApiKey, version: int, handler: Callable[[Request], Any]
    ) -> Route:
        name = API_TABLE[key].name
        if self._guard is not None:
            handler = self._guard(key, handler, version)
        if self._gate is not None:
            handler = self._gate.guard(key, handler) or handler
        if self._interceptor is not None:
            handler = self._interceptor(key, handler)
        route = Route(key, version, handler, self._metrics.request(name, version), self.turns)
        self._routes[api] = route
        return route

    def spawn(self, handler: Callable[[Request], Awaitable[None]], request: Request) -> None:
        assert self._nursery is not None, "run_async_handlers is not running"
        self._nursery.start_soon(self._run_async, handler, request)

    async def _run_async(
        self, handler: Callable[[Request], Awaitable[None]], request: Request
    ) -> None:
        async with self._async_limit:
            try:
                await handler(request)
            except Exception as error:
                self.handler_failed(request, error)

    def handler_failed(self, request: Request, error: Exception) -> None:
        """SEMANTICS 3: the error becomes the API's own error response."""
        if isinstance(error, BrokenInvariant):
            raise error  # of shared state: the broker ends
        if isinstance(error, KafkaError):
            code, message = error.code, error.message
        else:
            if isinstance(error, (ZkError, SessionExpired)):
                logger.warning("Handling %r failed: %s", request, str(error) or _SESSION_GONE)
            else:
                logger.exception("Handling %r failed", request, exc_info=error)
            code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
            if request.answered:  # perhaps not as far as its connection, which would wait for ever
                request.connection.fail(error)
                return
        if request.answered or request.connection.closed:
            return
        try:
            request.fail(code, message)
        except Exception:
            logger.exception("No error response could be built for %r; closing", request)
            request.close()


class _Spawned:
    """A coroutine handler behind the synchronous interface."""

    __slots__ = ("_dispatcher", "_handler")

    def __init__(self, dispatcher: Dispatcher, handler: Any) -> None:
        self._dispatcher = dispatcher
        self._handler = handler

    def __call__(self, request: Request) -> None:
        self._dispatcher.spawn(self._handler, request)


class _Stepped:
    """A generator handler behind the synchronous interface."""

    __slots__ = ("_dispatcher", "_handler")

    def __init__(self, dispatcher: Dispatcher, handler: Any) -> None:
        self._dispatcher = dispatcher
        self._handler = handler

    def __call__(self, request: Request) -> None:
        request.route.turns.begin(self.steps(request), request.connection.fail)

    def steps(self, request: Request) -> Steps:
        try:
            for _ in request.timed(self._handler(request)):
                yield
                if request.connection.closed:
                    return
        except Exception as error:
            self._dispatcher.handler_failed(request, error)
        request.local_done_at = request.responded_at or perf_counter()


def _later(spec: ApiSpec, version: int) -> str:
    """How a version could be had that no finalized feature brings."""
    later = spec.later
    if later is None or not later.version <= version <= spec.max_version:
        return ""
    return f"; v{later.version} needs the feature {later.feature or 'group.version or another'}"


def _leave_body(body: Any, connection: Connection) -> None:
    """A request that waits keeps its message; the next one like it gets another."""
    template: ProduceRequestTemplate | RepeatedRequestTemplate | None = connection.memo
    if template is not None and template.body is body:
        template.give_away()


def _after_header(route: Route, frame: memoryview, offset: int) -> int:
    """The offset of the body, behind the header's tags."""
    if not route.flexible:
        return offset
    return framing.decode_request_header(frame)[1] if frame[offset] else offset + 1


def _unreadable(route: Route, error: Exception) -> BadInput:
    return BadInput(f"a {route.name} request v{route.api_version} that cannot be read: {error}")
