"""A request while quotas are set: its answer says how long its connection is then held.

Job: one place for all APIs. Whatever the handler answers passes through here; what the request cost
is charged once, just before, the time goes into `throttle_time_ms` where the response has it, and
the connection mutes itself for it after the answer (KIP-219). A fetch is charged by its handler,
which has to know whether there is anything to send.

Invariants: no request is metered while there are no quotas (the dispatcher makes plain ones). What
brokers ask each other as such is never held, unless they were not allowed to. Time is that of the
loop, also in turns; what a coroutine does between them is not seen. A produce of a client
that may have to wait does not let the next one in behind it.

Mirrors RequestHandlerHelper, and what KafkaApis does with quotas in Produce and Fetch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from copy import copy
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.framing import decode_response
from ..quotas.client_quotas import PERCENT_OF_SECONDS, ClientQuotas, MutationQuota, longest
from .request import Request

if TYPE_CHECKING:
    from .request import ResponseSink, Route
    from .turns import Steps

T = TypeVar("T")

_SIZE_BYTES: Final = 4


class MeteredRequest(Request):
    __slots__ = ("_is_charged", "_is_denied", "_mutations", "_quotas", "_stepped_at", "_worked")

    def __init__(
        self, quotas: ClientQuotas, connection: ResponseSink, route: Route, correlation_id: int,
        client_id: str | None, body: Any, frame_bytes: int, started_at: float,
    ) -> None:  # fmt: skip
        super().__init__(
            connection, route, correlation_id, client_id, body, frame_bytes, started_at
        )
        self._quotas = quotas
        self._is_charged = False
        self._is_denied = False
        self._mutations: MutationQuota | None = None
        # Seconds in turns, and when the one began that it is in; 0 between turns.
        self._worked = 0.0
        self._stepped_at = 0.0

    # What handlers ask

    @property
    def is_metered(self) -> bool:
        return True

    def charge_fetch(self, answer_bytes: int) -> int:
        self._is_charged = True
        quotas, (user, client) = self._quotas, self._who
        now_ms = meter_clock_ms()
        waits = self._time_waits(user, client, now_ms)
        metered = quotas.fetch.find(user, client, now_ms)
        if metered is not None:
            waits.append((metered.meter.charge(answer_bytes, now_ms), metered))
        if waits:
            self.throttle_ms = longest(waits, now_ms)
            if self.throttle_ms and metered is not None:
                metered.meter.record(-answer_bytes, now_ms)
        return self.throttle_ms

    def exempt(self) -> None:
        if not self._is_charged:
            self._is_charged = True
            self._record_exempt(meter_clock_ms())

    def most_to_fetch(self) -> float:
        return self._quotas.most_to_fetch(*self._who)

    def mutation_quota(self, strict_since: int) -> MutationQuota | None:
        metered = self._quotas.mutation.find(*self._who, meter_clock_ms())
        if metered is not None:
            is_strict = self.api_version >= strict_since
            self._mutations = MutationQuota(metered, meter_clock_ms, is_strict=is_strict)
        return self._mutations

    def timed(self, steps: Generator[None, None, T]) -> Generator[None, None, T]:
        while True:
            outer = self._stepped_at  # the answer may be encoded in a step of the handler
            began = self._stepped_at = perf_counter()
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self._stepped_at = outer
                if not outer:
                    self._worked += perf_counter() - began
            yield

    def counts_mutations(self) -> Callable[[int], None] | None:
        metered = self._quotas.mutation.find(*self._who, meter_clock_ms())
        if metered is None:
            return None
        bucket = metered.meter
        return lambda partitions: bucket.take(partitions, meter_clock_ms())

    # Answers

    def respond(self, response: Any) -> None:
        super().respond(self._charged(response))

    def respond_encoded(self, frame: bytes) -> None:
        self._charge()
        if self.throttle_ms:
            route = self.route
            self.respond(decode_response(route.api_key, route.api_version, frame[_SIZE_BYTES:])[1])
        else:
            super().respond_encoded(frame)

    def fail(self, code: ErrorCode, message: str | None = None) -> None:
        self._is_denied = code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        super().fail(code, message)

    def _encode(self, response: Any) -> Steps:
        response = self._charged(response)
        worked = self._worked
        yield from self.timed(super()._encode(response))
        # What is known only afterwards counts for the next request.
        metered = self._quotas.request.find(*self._who, meter_clock_ms())
        if metered is not None and not self.route.page.is_exempt:
            percent = (self._worked - worked) * PERCENT_OF_SECONDS
            metered.meter.record(percent, meter_clock_ms())

    def appended(self) -> None:
        if not self._quotas.limits_bytes(*self._who):
            self._is_charged = True
            super().appended()

    # What it costs

    @property
    def _who(self) -> tuple[str, str]:
        return self.connection.peer.principal.name, self.client_id or ""

    def _charged(self, response: Any) -> Any:
        """The response with the time that the connection will be held."""
        self._charge()
        if self.throttle_ms and hasattr(response, "throttle_time_ms"):
            response = copy(response)  # the handler may keep it for others
            response.throttle_time_ms = self.throttle_ms
        return response

    def _charge(self) -> None:
        if self._is_charged:
            return
        self._is_charged = True
        api_key = self.route.api_key
        if self.route.page.is_exempt and not self._is_denied:
            self._record_exempt(meter_clock_ms())
            return
        quotas, (user, client) = self._quotas, self._who
        now_ms = meter_clock_ms()
        waits: list[Any] = []
        if api_key is not ApiKey.PRODUCE or self.body is None or self.body.acks != 0:
            waits = self._time_waits(user, client, now_ms)
        else:
            self._record_exempt(now_ms)
        if api_key is ApiKey.PRODUCE:
            metered = quotas.produce.find(user, client, now_ms)
            if metered is not None:
                waits.append((metered.meter.charge(self.frame_bytes, now_ms), metered))
        elif self._mutations is not None:
            waits.append((self._mutations.throttle_ms(now_ms), self._mutations.metered))
        if waits:
            self.throttle_ms = longest(waits, now_ms)

    def _time_waits(self, user: str, client: str, now_ms: float) -> list[Any]:
        """The time of the request quota, in a list; empty if there is none."""
        metered = self._quotas.request.find(user, client, now_ms)
        if metered is None:
            return []
        percent = self._seconds(now_ms / 1000) * PERCENT_OF_SECONDS
        return [(metered.meter.charge(percent, now_ms), metered)]

    def _record_exempt(self, now_ms: float) -> None:
        """The time of what is held for no quota, while there is one on time."""
        if self._quotas.request:
            percent = self._seconds(now_ms / 1000) * PERCENT_OF_SECONDS
            self._quotas.exempt.record(percent, now_ms)

    def _seconds(self, now: float) -> float:
        """How long it took of the loop: until its handler returned, or in turns after that."""
        worked = self._worked + (now - self._stepped_at if self._stepped_at else 0.0)
        at_once = self.local_done_at - self.started_at
        return max(worked, at_once) or now - self.started_at


def meter_clock_ms() -> float:
    """The time that all meters go by."""
    return perf_counter() * 1000
