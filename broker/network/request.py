"""Requests: a handler gets one, keeps it while it waits, and answers it.

Job: `Request` with its ways to answer; `Route`, the data common to all requests of one API and
version; and a request's view of its connection: `ConnectionInfo` for handlers, `ResponseSink` for
the answer. Nothing here knows sockets, buffers or queues.

An answer passes the filters of its request (the guard's), the whole request if it is one of a part
(`request_parts`), the meter of quotas if there are some (`request_meter`), and is encoded last.
Invariants: a request is answered once, or its connection is closed: a second answer is a
`BrokenConnection`; an answer is encoded once; a response that may be large is encoded in turns with
others, and bounded.

Mirrors `RequestChannel.Request` and `RequestContext`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from mypy_extensions import mypyc_attr

from ...protocol import framing, large_messages
from ...protocol.acls import AclOperation, ResourceType
from ...protocol.api import API_TABLE, ApiKey, page
from ...protocol.api_page import Api
from ...protocol.discarding import discard
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.framing import RequestHeader
from ...protocol.invariants import BrokenConnection
from ..security.access import OPERATIONS_ON, Access, bitmap
from ..security.principal import ANONYMOUS, KafkaPrincipal
from .turns import Pace, Steps, Turns

if TYPE_CHECKING:
    from ..observability.request_metrics import RequestMetrics
    from ..quotas.client_quotas import MutationQuota

logger: Final = logging.getLogger("pybroker.broker.network.dispatcher")

T = TypeVar("T")

# A frame up to this size is decoded at once: 2 000 of the smallest elements, a millisecond.
LARGE_FRAME_BYTES: Final = 4 * 1024
# Clients do not take more either (`receive.message.max.bytes` of librdkafka); parts of files do not
# count, `fetch.max.bytes` bounds them.
MAX_RESPONSE_BYTES: Final = 100 * 1024 * 1024
UNKNOWN_SOFTWARE: Final = "unknown"


class Meter(Protocol):
    """The quotas of one request, as `request_meter` has them; `Request` says when each is asked."""

    def charge_fetch(self, request: Request, answer_bytes: int) -> int: ...
    def exempt(self, request: Request) -> None: ...
    def most_to_fetch(self, request: Request) -> float: ...
    def mutation_quota(self, request: Request, strict_since: int) -> MutationQuota | None: ...
    def counts_mutations(self, request: Request) -> Callable[[int], None] | None: ...
    def charged(self, request: Request, response: Any) -> Any: ...
    def encoding(self, request: Request, steps: Steps) -> Steps: ...
    def admits_next(self, request: Request) -> bool: ...
    def timed(self, steps: Generator[None, None, T]) -> Generator[None, None, T]: ...
    def failed(self, code: ErrorCode) -> None: ...


class ConnectionInfo:
    """The facts about a client's connection that handlers may use.

    `principal` is known once the client is authenticated. `access` holds its permissions, None
    without an authorizer; `authorization.guard` sets it. `number` counts the connections of this
    process, in the order in which they were accepted. A client names its software in ApiVersions.
    """

    __slots__ = ("access", "host", "listener_name", "local_host", "local_port", "number", "port",
                 "principal", "security_protocol", "software_name", "software_version")  # fmt: skip

    def __init__(
        self,
        host: str,
        port: int,
        listener_name: str,
        security_protocol: str = "PLAINTEXT",
        principal: KafkaPrincipal = ANONYMOUS,
        local_host: str = "",
        local_port: int = 0,
        number: int = 0,
    ) -> None:
        self.host = host
        self.port = port
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.principal = principal
        self.access: Access | None = None
        self.local_host = local_host
        self.local_port = local_port
        self.number = number
        self.software_name = UNKNOWN_SOFTWARE
        self.software_version = UNKNOWN_SOFTWARE

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Wait(Protocol):
    """The wait of a request, known to its connection."""

    def hurry(self) -> None:
        """The client sends nothing more, and may be gone: answer early if possible."""

    def cancel(self) -> None:
        """The connection is closed: end the wait."""


class ResponseSink(Protocol):
    """The connection of a request, as far as the request knows it."""

    peer: ConnectionInfo
    closed: bool
    received_at: float
    memo: Any
    """What its next request is read by: a template of this one, or of one before, or None."""

    def respond(self, request: Request, parts: list[Any] | None) -> None:
        """Send the parts of its response; None is no response."""

    def appended(self, request: Request) -> None:
        """Its records are in the log and it waits for replicas: the next request may come."""

    def close_instead_of(self, request: Request) -> None:
        """Close instead of a response, after earlier requests are answered."""

    def fail(self, error: Exception) -> None:
        """Close after an unexpected error in the work for this connection."""

    def add_wait(self, wait: Wait) -> None:
        """One of its requests waits; `wait` must be notified when the client closes or sends
        nothing more."""

    def remove_wait(self, wait: Wait) -> None:
        """The wait is over."""


class Route:
    """How requests of one API in one version are read, handled and answered."""

    __slots__ = ("api_key", "api_version", "flexible", "handle", "in_place",
                 "is_repeated", "large_bytes", "metrics", "name", "page", "places", "request_class",
                 "small_answer", "small_without", "tagged_response", "turns")  # fmt: skip

    def __init__(
        self, api_key: ApiKey, api_version: int, handle: Callable[[Request], Any],
        metrics: RequestMetrics, turns: Turns,
    ) -> None:  # fmt: skip
        spec = API_TABLE[api_key]
        self.page: Api = page(api_key)
        self.api_key = api_key
        self.api_version = api_version
        self.name = spec.name
        self.flexible = spec.is_flexible(api_version)
        self.tagged_response = self.flexible and api_key is not ApiKey.API_VERSIONS
        self.large_bytes = 0 if self.page.makes_files else LARGE_FRAME_BYTES
        self.in_place = self.page.is_read_in_place
        self.is_repeated = self.page.is_repeated
        # Of other APIs the answer to a small request may be all that the cluster has.
        self.small_answer = self.page.has_small_answers
        self.small_without = self.page.small_without
        # The lists at which a request may be cut into parts.
        self.places = [each for each in self.page.elements_in(api_version) if each.are_independent]
        self.request_class = self.page.request
        self.handle = handle
        self.metrics = metrics
        self.turns = turns  # of all that takes long


def _lacks(response: Any, names: tuple[str, ...]) -> bool:
    """Whether there are names, and each is that of an empty field."""
    for name in names:
        if getattr(response, name):
            return False
    return len(names) > 0


class AnswerFilter(Protocol):
    """Changes an answer on its way to the connection."""

    def filtered(self, request: Request, response: Any) -> Generator[None, None, Any]:
        """The answer to continue with, in steps; CLOSE ends the connection instead."""


CLOSE: Final = object()
"""Of a filter: there is no answer, and the connection is closed."""


class WholeRequest(Protocol):
    """The request that a part belongs to; it gets the part's answer (`request_parts`)."""

    def part_answered(self, response: Any) -> None: ...

    def part_refused(self, part: Request, code: ErrorCode, message: str | None) -> bool:
        """Whether the error is the error of the whole request, which is then answered with it."""

    def part_failed(self) -> None:
        """The connection is to be closed instead of an answer."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Request:
    """One request: a handler gets it, keeps it while it waits, and answers it.

    It is plain if its answer goes to the connection unchanged; the answer may then be bytes
    (`respond_encoded`).
    """

    __slots__ = ("api_version", "body", "client_id", "connection", "correlation_id", "filters",
                 "frame_bytes", "local_done_at", "meter", "received_at", "responded_at", "route",
                 "started_at", "throttle_ms", "whole")  # fmt: skip

    def __init__(
        self, connection: ResponseSink, route: Route, correlation_id: int, client_id: str | None,
        body: Any, frame_bytes: int, started_at: float,
    ) -> None:  # fmt: skip
        self.connection = connection
        self.route = route
        self.api_version = route.api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body = body
        self.frame_bytes = frame_bytes  # 0 of a part of a request (`request_parts`)
        # received_at <= started_at <= local_done_at, in seconds of `perf_counter`.
        self.received_at = connection.received_at
        self.started_at = started_at
        self.local_done_at = started_at
        self.responded_at = 0.0  # set once, when the answer is known, or the close instead of it
        self.throttle_ms = 0  # how long the connection is held after the answer
        self.meter: Meter | None = None  # None: there are no quotas
        self.filters: list[AnswerFilter] | None = None  # the last one first
        self.whole: WholeRequest | None = None  # None: it is no part of another one

    @property
    def header(self) -> RequestHeader:
        route = self.route
        return RequestHeader(route.api_key, route.api_version, self.correlation_id, self.client_id)

    @property
    def api_key(self) -> ApiKey:
        return self.route.api_key

    @property
    def is_plain(self) -> bool:
        """Whether its answer is only sent, without further work."""
        return self.meter is None and self.filters is None and self.whole is None

    def add_filter(self, added: AnswerFilter) -> None:
        """Have the answer pass `added`, before the filters that were added earlier."""
        if self.filters is None:
            self.filters = [added]
        else:
            self.filters.append(added)

    @property
    def peer(self) -> ConnectionInfo:
        return self.connection.peer

    @property
    def answered(self) -> bool:
        return self.responded_at != 0.0

    def permits(
        self, operation: AclOperation, kind: ResourceType, name: str, *, is_logged: bool = True
    ) -> bool:
        """Whether the client may do this; True without an authorizer."""
        access = self.connection.peer.access
        return access is None or access.permits(
            operation, kind, name, self.route.name, is_logged=is_logged
        )

    def operations_on(self, kind: ResourceType, name: str) -> int:
        """The operations on this resource that the client may perform, as bits."""
        access = self.connection.peer.access
        if access is None:
            return bitmap(OPERATIONS_ON[kind])
        return access.operations_on(kind, name)

    @property
    def metrics(self) -> RequestMetrics:
        """The metrics of its API and version."""
        return self.route.metrics

    def respond(self, response: Any) -> None:
        """Send `response`; None is no response (Produce with acks=0). Unmutes the connection."""
        if self.responded_at:
            raise self._answered_twice()
        if self.filters is not None or self.whole is not None:
            self._pass_on(response)
            return
        if self.meter is not None:
            response = self.meter.charged(self, response)
        parts: list[Any] | None = None
        if response is not None and not self.connection.closed:
            route = self.route
            is_small = route.small_answer or _lacks(response, route.small_without)
            if self.frame_bytes > LARGE_FRAME_BYTES or not is_small:
                self.responded_at = perf_counter()
                route.turns.begin(self._encode(response), self.connection.fail)
                return
            parts = framing.encode_response(
                route.api_key, route.api_version, self.correlation_id, response
            )
        self.responded_at = perf_counter()
        self.connection.respond(self, parts)

    def respond_in_turns(self, response: Any) -> None:
        """Like `respond`, for a response that may be large: it is encoded in turns with others."""
        if self.responded_at:
            raise self._answered_twice()
        self._pass_on(response)

    def respond_encoded(self, frame: bytes) -> None:
        """Like `respond`, for a plain request, with the whole frame as its encoder would have
        written it."""
        if self.responded_at:
            raise self._answered_twice()
        self.responded_at = perf_counter()
        self.connection.respond(self, [frame])

    def _pass_on(self, response: Any) -> None:
        self.responded_at = perf_counter()
        self.route.turns.begin(self._passed(response), self.connection.fail)

    def _passed(self, response: Any) -> Steps:
        """Through the filters to the whole request, or encoded to the connection."""
        for each in reversed(self.filters or ()):
            response = yield from each.filtered(self, response)
            if response is CLOSE:
                self.close()
                return
        if self.whole is not None:
            self.whole.part_answered(response)
            return
        if self.meter is not None:
            response = self.meter.charged(self, response)
        if response is None or self.connection.closed:
            self.connection.respond(self, None)
        else:
            yield from self._encode(response)

    def _encode(self, response: Any) -> Steps:
        if self.meter is None:
            return self._encoded(response)
        return self.meter.encoding(self, self._encoded(response))

    def _encoded(self, response: Any) -> Steps:
        route, connection = self.route, self.connection
        parts: list[Any] = []
        size = counted = 0
        try:
            for _ in large_messages.encode_slices(response, route.api_version, parts):
                size += _buffered_bytes(parts, counted)
                counted = len(parts)
                if size > MAX_RESPONSE_BYTES:
                    logger.warning("The answer to %r is larger than %d bytes; closing",
                                self, MAX_RESPONSE_BYTES)  # fmt: skip
                    self.connection.close_instead_of(self)
                    return
                yield
                if connection.closed:
                    return
        except ProtocolError:
            logger.exception("The answer to %r cannot be encoded; closing", self)
            self.connection.close_instead_of(self)
            return
        framing.add_response_header(route.api_key, route.api_version, self.correlation_id, parts)
        self.connection.respond(self, parts)
        if len(parts) > 1 and route.api_key is not ApiKey.FETCH:  # a session may keep its data
            yield from discard(response)
        if self.frame_bytes > LARGE_FRAME_BYTES:
            yield from discard(self.body)

    async def in_turns(self, steps: Generator[None, None, T]) -> T:
        """For coroutine handlers: do this in turns with others; its result."""
        return await self.route.turns.finish(self.timed(steps))

    def pace(self) -> Pace:
        """For the loops of coroutine handlers."""
        return Pace(self.route.turns)

    def appended(self) -> None:
        """The request's records are in the log and it waits for replicas: the next may come."""
        if self.whole is None and (self.meter is None or self.meter.admits_next(self)):
            self.connection.appended(self)

    # Quotas

    @property
    def is_metered(self) -> bool:
        """Whether there are quotas: then how long its connection is held is known when it is
        answered."""
        return self.meter is not None

    def charge_fetch(self, answer_bytes: int) -> int:
        """Charge a consumer's fetch before `answer_bytes` are sent; returns its delay; if there is
        one, no records may be sent."""
        return 0 if self.meter is None else self.meter.charge_fetch(self, answer_bytes)

    def exempt(self) -> None:
        """Exempt the request from quotas: a broker sent it as a broker."""
        if self.meter is not None:
            self.meter.exempt(self)

    def most_to_fetch(self) -> float:
        """The bytes that a consumer's fetch may be given."""
        return float("inf") if self.meter is None else self.meter.most_to_fetch(self)

    def mutation_quota(self, strict_since: int) -> MutationQuota | None:
        """The quota to ask before topics are changed; clients know its error since version
        `strict_since`. None without a limit."""
        return None if self.meter is None else self.meter.mutation_quota(self, strict_since)

    def timed(self, steps: Generator[None, None, T]) -> Generator[None, None, T]:
        """The same steps, whose time counts for this request."""
        return steps if self.meter is None else self.meter.timed(steps)

    def counts_mutations(self) -> Callable[[int], None] | None:
        """A counter for topics that the request creates implicitly: they count, but throttle no
        client."""
        return None if self.meter is None else self.meter.counts_mutations(self)

    # Errors

    def fail(self, code: ErrorCode, message: str | None = None) -> None:
        """Answer with the API's own error response; without one, close the connection."""
        from ...protocol.failures import error_response

        if self.responded_at:
            raise self._answered_twice()
        if self.meter is not None:
            self.meter.failed(code)
        if self.whole is not None and self.whole.part_refused(self, code, message):
            self.responded_at = perf_counter()
            return
        self.route.metrics.error(code.name)
        if self.frame_bytes > LARGE_FRAME_BYTES:
            self.responded_at = perf_counter()
            self.route.turns.begin(self._fail(code, message), self.connection.fail)
            return
        response = error_response(self, code, message)
        if response is None:
            self.close()
        else:
            self.respond(response)

    def _fail(self, code: ErrorCode, message: str | None) -> Steps:
        """In turns with others: the error may stand at each of very many elements."""
        from ...protocol.failures import error_response_slices

        try:
            response = yield from error_response_slices(self, code, message)
        except Exception:
            logger.exception("No error response could be built for %r; closing", self)
            response = None
        if response is None:
            self.close()
        else:
            yield from self._passed(response)

    def close(self) -> None:
        """Close the connection without an answer."""
        self.responded_at = perf_counter()
        if self.whole is not None:
            self.whole.part_failed()
        else:
            self.connection.close_instead_of(self)

    def _answered_twice(self) -> BrokenConnection:
        return BrokenConnection(f"{self} was answered twice")

    def __repr__(self) -> str:
        return (f"<{self.route.name} v{self.route.api_version} #{self.correlation_id} "
                f"of {self.client_id or 'a nameless client'} at {self.peer}>")  # fmt: skip


Handler = (
    Callable[[Request], None] | Callable[[Request], Steps] | Callable[[Request], Awaitable[None]]
)


def _buffered_bytes(parts: list[Any], start: int) -> int:
    return sum(
        len(part) for part in parts[start:] if isinstance(part, (bytes, bytearray, memoryview))
    )
