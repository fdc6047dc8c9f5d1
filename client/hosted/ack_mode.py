"""Ack mode of the hosted consumers: deliveries from the trio thread, and answers to them.

Deliveries come many at a time, and so do acknowledgements go back: the threads meet once for them.

Invariants: answers are applied in their order, and before a later call of the same thread (a
commit). A delivery is handed out once: those that a call fetches, and its caller does not take
since it is cancelled, are there for the next. One that was revoked meanwhile is not handed out.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future

from ..consumer.consumer import Consumer
from ..consumer.deliveries import Delivery, RetryPolicy
from ..consumer.received import Received
from .host import Host


class HostedAck:
    """A record to acknowledge, see the subclasses."""

    __slots__ = ("_delivery", "_desk")

    def __init__(self, desk: AckDesk, delivery: Delivery) -> None:
        self._desk = desk
        self._delivery = delivery

    def __repr__(self) -> str:
        return repr(self._delivery)

    @property
    def record(self) -> Received:
        return self._delivery.record

    @property
    def attempts(self) -> int:
        """The number of its deliveries."""
        return self._delivery.attempts

    @property
    def is_finished(self) -> bool:
        """Whether it is acknowledged or given up, as far as the trio thread knows."""
        return self._delivery.is_finished

    def ack(self) -> None:
        """As `Delivery.ack`; any thread may call, and it does not wait."""
        self._desk.ack(self._delivery)


class AckDesk:
    """The deliveries of one consumer."""

    def __init__(self, host: Host[Consumer]) -> None:
        self._host = host
        self._ready: deque[Delivery] = deque()  # and not handed out yet
        self._acknowledged: deque[Delivery] = deque()  # and not applied yet
        self._will_apply = False

    # From outside

    def take(self) -> Delivery | None:
        """The next delivery that is here."""
        while self._ready:
            delivery = self._ready.popleft()
            if delivery.is_held:
                return delivery
        return None

    def fetch(self, max_unacknowledged: int, retry: RetryPolicy | None) -> Future[None]:
        """Have deliveries here, one at least."""
        return self._host.call_in_turn(self._fetch, max_unacknowledged, retry or RetryPolicy())

    def ack(self, delivery: Delivery) -> None:
        """Acknowledge a delivery. Raises ClientError outside of the consumer's block."""
        thread = self._host.thread
        self._acknowledged.append(delivery)
        if not self._will_apply:
            self._will_apply = True
            thread.run_soon(self._apply)

    def fail(self, delivery: Delivery) -> Future[bool]:
        """As `Delivery.fail`, behind the acknowledgements before it."""
        return self._host.call_at_once(delivery.fail)

    # In the trio thread

    async def _fetch(self, max_unacknowledged: int, retry: RetryPolicy) -> None:
        if not self._ready:
            polling = self._host.client.polling
            self._ready += await polling.next_deliveries(max_unacknowledged, retry)

    def _apply(self) -> None:
        self._will_apply = False
        while self._acknowledged:
            self._acknowledged.popleft().ack()
