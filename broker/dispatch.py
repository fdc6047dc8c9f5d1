"""From a frame to its handler and back: header, route, decoding, the handler contract, errors.

One `Route` per (API, version) that has been asked for: its codec functions, handler and counters
behind one dictionary look-up on the four bytes of key and version. A handler either answers at once
(`request.respond`), or keeps the request and something answers later, or is a coroutine function,
which runs as a task of its own under `MAX_ASYNC_HANDLERS`.

Rules of semantics 1.2-1.4: what cannot be parsed or is not served closes the connection, except
ApiVersions, which answers any version; an exception of a handler becomes the API's own error
response. Produce is decoded in the connection's buffer, because offsets are assigned in place; of
every other request the frame is copied, so that what it holds may be kept.

Mirrors the parsing half of `SocketServer.processCompletedReceives` and `KafkaApis.handle`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from struct import Struct
from struct import error as struct_error
from time import perf_counter
from typing import TYPE_CHECKING, Any

import trio

from protocol import codec, framing
from protocol.api import API_TABLE, ApiKey, request_class
from protocol.errors import ErrorCode, KafkaError, ProtocolError
from protocol.framing import RequestHeader

from .produce_shapes import shape_of
from .reactor.bad_input import BadInput
from .reactor.connection import Connection, ConnectionInfo
from .warm_up import WarmUp

if TYPE_CHECKING:
    from .metrics import BrokerMetrics, RequestMetrics
    from .reactor.handlers_pool import HandlersPool

log = logging.getLogger("broker.dispatch")

Handler = Callable[["Request"], None] | Callable[["Request"], Awaitable[None]]

MAX_ASYNC_HANDLERS = 256

# size, api key and version as one number, correlation id, length of the client id
_HEADER = Struct(">iIih").unpack_from
_HEADER_BYTES = 14
_SMALLEST_CLIENT_HEADER = _HEADER_BYTES - 4
_LENGTHS = Struct(">ii").pack
_VERSION_BITS = 16
# ControlledShutdown v0 alone has a header without client id, which the fast path cannot read.
_WITHOUT_CLIENT_ID = int(ApiKey.CONTROLLED_SHUTDOWN) << _VERSION_BITS
_OUT_OF_WAY = -2


class Route:
    """How requests of one API in one version are read, handled and answered."""

    __slots__ = ("api_key", "api_version", "encode", "flexible", "handle", "in_place", "metrics",
                 "name", "request_class", "tagged_response")  # fmt: skip

    def __init__(
        self, api_key: ApiKey, api_version: int, handle: Callable[[Request], Any],
        metrics: RequestMetrics,
    ) -> None:  # fmt: skip
        spec = API_TABLE[api_key]
        self.api_key = api_key
        self.api_version = api_version
        self.name = spec.name
        self.flexible = spec.is_flexible(api_version)
        self.tagged_response = self.flexible and api_key is not ApiKey.API_VERSIONS
        self.in_place = api_key is ApiKey.PRODUCE
        self.request_class = request_class(api_key)
        self.handle = handle
        self.metrics = metrics


class Request:
    """One request on its way: what a handler gets, keeps while it waits, and answers."""

    __slots__ = ("api_version", "body", "channel", "client_id", "correlation_id", "frame_bytes",
                 "local_done_at", "pool", "received_at", "responded_at", "route", "started_at",
                 "throttle_ms")  # fmt: skip

    def __init__(
        self, pool: HandlersPool, channel: Connection, route: Route, correlation_id: int,
        client_id: str | None, body: Any, frame_bytes: int, started_at: float,
    ) -> None:  # fmt: skip
        self.pool = pool
        self.channel = channel
        self.route = route
        self.api_version = route.api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body = body
        self.frame_bytes = frame_bytes
        self.received_at = channel.received_at
        self.started_at = started_at
        self.local_done_at = started_at
        self.responded_at = 0.0
        self.throttle_ms = 0

    @property
    def header(self) -> RequestHeader:
        route = self.route
        return RequestHeader(route.api_key, route.api_version, self.correlation_id, self.client_id)

    @property
    def api_key(self) -> ApiKey:
        return self.route.api_key

    @property
    def connection(self) -> ConnectionInfo:
        return self.channel.info

    @property
    def answered(self) -> bool:
        return self.responded_at != 0.0

    @property
    def metrics(self) -> RequestMetrics:
        """Those of its API and version."""
        return self.route.metrics

    def respond(self, response: Any) -> None:
        """Send `response`; None is no response (Produce with acks=0). Unmutes the connection."""
        assert self.responded_at == 0.0, f"{self} was answered twice"
        parts: list[Any] | None = None
        if response is not None and not self.channel.closed:
            route = self.route
            parts = framing.encode_response(
                route.api_key, route.api_version, self.correlation_id, response
            )
        self.responded_at = perf_counter()
        self.pool.respond(self, parts)

    def respond_encoded(self, frame: bytes) -> None:
        """As `respond`, with the whole frame as its encoder would have written it."""
        assert self.responded_at == 0.0, f"{self} was answered twice"
        self.responded_at = perf_counter()
        self.pool.respond(self, [frame])

    def appended(self) -> None:
        """The request's records are in the log and it waits for replicas: the next may come."""
        self.pool.appended(self)

    def fail(self, code: ErrorCode, message: str | None = None) -> None:
        """Answer with the API's own error response; without one, close the connection."""
        from .error_responses import error_response

        self.route.metrics.error(code.name)
        response = error_response(self, code, message)
        if response is None:
            self.close()
        else:
            self.respond(response)

    def close(self) -> None:
        """Close the connection without an answer."""
        self.responded_at = perf_counter()
        self.pool.close(self)

    def __repr__(self) -> str:
        return (f"<{self.route.name} v{self.route.api_version} #{self.correlation_id} "
                f"of {self.client_id or 'a nameless client'} at {self.channel.info}>")  # fmt: skip


class Dispatcher:
    """The table of handlers, and the way of every frame through it."""

    def __init__(self, metrics: BrokerMetrics) -> None:
        self._metrics = metrics
        self._handlers: dict[ApiKey, Callable[[Request], Any]] = {}
        self._routes: dict[int, Route] = {}
        self._nursery: trio.Nursery | None = None
        self._async_limit = trio.CapacityLimiter(MAX_ASYNC_HANDLERS)
        self._warm_up: WarmUp | None = None
        self.pool: HandlersPool | None = None

    def hold_back(self) -> None:
        """Keep requests about the cluster until `open`: see `broker.warm_up`."""
        self._warm_up = WarmUp()
        self._routes.clear()

    def open(self) -> None:
        warm_up, self._warm_up = self._warm_up, None
        if warm_up is not None:
            self._routes.clear()
            warm_up.open(self._perform)

    def register(self, handlers: Mapping[ApiKey, Handler]) -> None:
        for key, handler in handlers.items():
            assert key not in self._handlers, f"two handlers for {key.name}"
            if inspect.iscoroutinefunction(handler):
                self._handlers[key] = _Spawned(self, handler)
            else:
                self._handlers[key] = handler
        self._routes.clear()

    def served(self) -> Iterable[ApiKey]:
        """What ApiVersions advertises."""
        return sorted(self._handlers)

    async def run_async_handlers(
        self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """The nursery of coroutine handlers; runs until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    # -- the hot path --

    def handle_frame(self, connection: Connection) -> None:
        """Hand the request at the front of the connection's buffer to its handler."""
        started_at = perf_counter()
        buffer = connection.buffer
        begin = connection.start
        end = connection.start = begin + connection.needed
        if end - begin < _HEADER_BYTES:
            self._handle_unusual(connection, begin, started_at)
            return
        size, api, correlation_id, client_id_size = _HEADER(buffer, begin)
        route = self._routes.get(api)
        if route is None:
            self._handle_unusual(connection, begin, started_at)
            return
        shape = connection.shape
        if (
            shape is not None
            and shape.route is route
            and shape.matches(buffer, connection.view, begin, end)
        ):
            body, client_id = shape.body, shape.client_id
        else:
            body, client_id = self._decode(connection, route, begin, end, client_id_size)
        pool = self.pool
        assert pool is not None
        request = Request(
            pool, connection, route, correlation_id, client_id, body, size, started_at
        )
        try:
            route.handle(request)
        except Exception as error:
            self._handler_failed(request, error)
        request.local_done_at = request.responded_at or perf_counter()

    def _perform(self, handle: Callable[[Request], Any], request: Request) -> None:
        try:
            handle(request)
        except Exception as error:
            self._handler_failed(request, error)

    def _decode(
        self, connection: Connection, route: Route, begin: int, end: int, client_id_size: int
    ) -> tuple[Any, str | None]:
        """The message of a frame and its client id."""
        buffer = connection.buffer
        offset = _SMALLEST_CLIENT_HEADER
        if client_id_size > 0:
            raw = buffer[begin + _HEADER_BYTES : begin + _HEADER_BYTES + client_id_size]
            offset += client_id_size
            if raw != connection.client_id_raw:
                if begin + 4 + offset > end:
                    raise BadInput("a request whose header is longer than its frame")
                self._learn_client_id(connection, bytes(raw))
            client_id = connection.client_id
        elif client_id_size >= -1:
            client_id = ""
        else:
            raise BadInput(f"a request with a client id of {client_id_size} bytes")
        frame = connection.view[begin + 4 : end]
        if not route.in_place:
            frame = bytes(frame)  # type: ignore[assignment]
        try:
            if route.flexible:
                if frame[offset]:
                    offset = framing.decode_request_header(frame)[1]
                else:
                    offset += 1
            body: Any
            body, offset = codec.decode_from(route.request_class, route.api_version, frame, offset)
        except (ProtocolError, IndexError) as error:
            raise BadInput(
                f"a {route.name} request v{route.api_version} that cannot be read: {error}"
            ) from None
        if route.in_place and offset == len(frame):
            connection.shape = shape_of(route, frame, body, client_id, connection.shape)
        return body, client_id

    # -- what is rare --

    def _learn_client_id(self, connection: Connection, raw: bytes) -> None:
        try:
            connection.client_id = raw.decode()
        except UnicodeDecodeError:
            raise BadInput(f"a client id that is not UTF-8: {raw[:32]!r}") from None
        connection.client_id_raw = raw

    def _handle_unusual(self, connection: Connection, begin: int, started_at: float) -> None:
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
        if spec.supports(version):
            place = _OUT_OF_WAY if api == _WITHOUT_CLIENT_ID else api
            known = place in self._routes
            route = self._routes.get(place) or self._add_route(place, spec.key, version, handler)
            if not known and place == api and len(frame) >= _SMALLEST_CLIENT_HEADER:
                connection.start = begin
                self.handle_frame(connection)
                return
        elif spec.key is ApiKey.API_VERSIONS:
            # KIP-511: any version gets an answer, in the form of version 0.
            route = self._routes.get(-1) or self._add_route(-1, spec.key, 0, handler)
        else:
            raise BadInput(
                f"a {spec.name} request v{version}; "
                f"served are v{spec.min_version} to v{spec.max_version}"
            )
        self._handle_checked(connection, frame, route, version, started_at)

    def _handle_checked(
        self, connection: Connection, frame: bytes, route: Route, version: int, started_at: float
    ) -> None:
        """A frame that the fast path does not take; every step is checked by the codec."""
        pool = self.pool
        assert pool is not None
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
        request = Request(
            pool, connection, route, correlation_id, client_id, body, len(frame), started_at
        )
        if unsupported:
            request.fail(ErrorCode.UNSUPPORTED_VERSION)
        else:
            self._perform(route.handle, request)

    def _add_route(
        self, api: int, key: ApiKey, version: int, handler: Callable[[Request], Any]
    ) -> Route:
        name = API_TABLE[key].name
        if self._warm_up is not None:
            handler = self._warm_up.guard(key, handler) or handler
        route = Route(key, version, handler, self._metrics.request(name, version))
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
                self._handler_failed(request, error)

    def _handler_failed(self, request: Request, error: Exception) -> None:
        """Semantics 1.4: the error becomes the API's own error response."""
        if isinstance(error, KafkaError):
            code, message = error.code, error.message
        else:
            log.exception("Handling %r failed", request, exc_info=error)
            code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
        if request.answered or request.channel.closed:
            return
        try:
            request.fail(code, message)
        except Exception:
            log.exception("No error response could be built for %r; closing", request)
            request.close()


class _Spawned:
    """A coroutine handler behind the synchronous interface."""

    __slots__ = ("_dispatcher", "_handler")

    def __init__(self, dispatcher: Dispatcher, handler: Any) -> None:
        self._dispatcher = dispatcher
        self._handler = handler

    def __call__(self, request: Request) -> None:
        self._dispatcher.spawn(self._handler, request)
