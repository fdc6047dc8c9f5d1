"""The quotas applied to one request: its answer contains the time that its connection is muted.

Job: one place for all APIs. Every answer is charged here: the cost of the request is charged once,
just before the answer, the delay goes into `throttle_time_ms` where the response has it, and the
connection mutes itself for the delay after the answer (KIP-219). A fetch is charged by its handler,
which has to know whether there is anything to send. Parts of a request have the meter of the whole.

Invariants: no request has a meter while there are no quotas (the dispatcher sets it). Requests
between brokers are never throttled, unless they were not authorized. The measured time is time on
the loop, also in turns; work of a coroutine between turns is not measured. No produce request is
admitted behind that of a client that may be throttled.

Mirrors RequestHandlerHelper, and the quotas of KafkaApis in Produce and Fetch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from copy import copy
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ..quotas.client_quotas import PERCENT_OF_SECONDS, ClientQuotas, MutationQuota, longest

if TYPE_CHECKING:
    from .request import Request
    from .turns import Steps

T = TypeVar("T")


class RequestMeter:
    __slots__ = ("_is_charged", "_is_denied", "_mutations", "_quotas", "_stepped_at", "_worked")

    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas
        self._is_charged = False
        self._is_denied = False
        self._mutations: MutationQuota | None = None
        # Seconds in turns, and when the one began that it is in; 0 between turns.
        self._worked = 0.0
        self._stepped_at = 0.0

    # Calls of handlers

    def charge_fetch(self, request: Request, answer_bytes: int) -> int:
        self._is_charged = True
        quotas, (user, client) = self._quotas, _who(request)
        now_ms = meter_clock_ms()
        waits = self._time_waits(request, user, client, now_ms)
        metered = quotas.fetch.find(user, client, now_ms)
        if metered is not None:
            waits.append((metered.meter.charge(answer_bytes, now_ms), metered))
        if waits:
            request.throttle_ms = longest(waits, now_ms)
            if request.throttle_ms and metered is not None:
                metered.meter.record(-answer_bytes, now_ms)
        return request.throttle_ms

    def exempt(self, request: Request) -> None:
        if not self._is_charged:
            self._is_charged = True
            self._record_exempt(request, meter_clock_ms())

    def most_to_fetch(self, request: Request) -> float:
        return self._quotas.most_to_fetch(*_who(request))

    def mutation_quota(self, request: Request, strict_since: int) -> MutationQuota | None:
        metered = self._quotas.mutation.find(*_who(request), meter_clock_ms())
        if metered is not None:
            is_strict = request.api_version >= strict_since
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

    def counts_mutations(self, request: Request) -> Callable[[int], None] | None:
        metered = self._quotas.mutation.find(*_who(request), meter_clock_ms())
        if metered is None:
            return None
        bucket = metered.meter
        return lambda partitions: bucket.take(partitions, meter_clock_ms())

    # Answers

    def charged(self, request: Request, response: Any) -> Any:
        """The response with the time that the connection will be held."""
        self._charge(request)
        if request.throttle_ms and hasattr(response, "throttle_time_ms"):
            response = copy(response)  # the handler may keep it for others
            response.throttle_time_ms = request.throttle_ms
        return response

    def failed(self, code: ErrorCode) -> None:
        """The request is answered with an error."""
        self._is_denied = code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    def encoding(self, request: Request, steps: Steps) -> Steps:
        """The same steps, which encode an answer that is charged: they count for the next one."""
        worked = self._worked
        yield from self.timed(steps)
        metered = self._quotas.request.find(*_who(request), meter_clock_ms())
        if metered is not None and not request.route.page.is_exempt:
            percent = (self._worked - worked) * PERCENT_OF_SECONDS
            metered.meter.record(percent, meter_clock_ms())

    def admits_next(self, request: Request) -> bool:
        """Whether the next produce may come while this one waits."""
        if self._quotas.limits_bytes(*_who(request)):
            return False
        self._is_charged = True
        return True

    # The cost

    def _charge(self, request: Request) -> None:
        if self._is_charged:
            return
        self._is_charged = True
        route = request.route
        if route.page.is_exempt and not self._is_denied:
            self._record_exempt(request, meter_clock_ms())
            return
        quotas, (user, client) = self._quotas, _who(request)
        now_ms = meter_clock_ms()
        waits: list[Any] = []
        is_produce = route.api_key is ApiKey.PRODUCE
        if not is_produce or request.body is None or request.body.acks != 0:
            waits = self._time_waits(request, user, client, now_ms)
        else:
            self._record_exempt(request, now_ms)
        if is_produce:
            metered = quotas.produce.find(user, client, now_ms)
            if metered is not None:
                waits.append((metered.meter.charge(request.frame_bytes, now_ms), metered))
        elif self._mutations is not None:
            waits.append((self._mutations.throttle_ms(now_ms), self._mutations.metered))
        if waits:
            request.throttle_ms = longest(waits, now_ms)

    def _time_waits(self, request: Request, user: str, client: str, now_ms: float) -> list[Any]:
        """The time of the request quota, in a list; empty if there is none."""
        metered = self._quotas.request.find(user, client, now_ms)
        if metered is None:
            return []
        percent = self._seconds(request, now_ms / 1000) * PERCENT_OF_SECONDS
        return [(metered.meter.charge(percent, now_ms), metered)]

    def _record_exempt(self, request: Request, now_ms: float) -> None:
        """The time of what is held for no quota, while there is one on time."""
        if self._quotas.request:
            percent = self._seconds(request, now_ms / 1000) * PERCENT_OF_SECONDS
            self._quotas.exempt.record(percent, now_ms)

    def _seconds(self, request: Request, now: float) -> float:
        """How long it took of the loop: until its handler returned, or in turns after that."""
        worked = self._worked + (now - self._stepped_at if self._stepped_at else 0.0)
        at_once = request.local_done_at - request.started_at
        return max(worked, at_once) or now - request.started_at


def _who(request: Request) -> tuple[str, str]:
    """The user and the client that quotas are of."""
    return request.connection.peer.principal.name, request.client_id or ""


def meter_clock_ms() -> float:
    """The time that all meters go by."""
    return perf_counter() * 1000
