"""The loop of one fetcher of a simulated broker: ask, wait, be woken.

As in `broker.replicas.fetcher_runtime`.
"""

from typing import TYPE_CHECKING, Any

from pybroker_kafka.replication.follower_fetcher import FollowerFetcher
from pybroker_kafka.replication.follower_steps import Exchange as FollowerExchange
from pybroker_kafka.replication.follower_steps import Wait
from tests.simulation.network import Exchange

if TYPE_CHECKING:
    from tests.simulation.broker import Broker

LISTENER = "PLAINTEXT"
MIN_POLL_MS = 20


class FetcherTask:
    """The loop of one fetcher (`broker.replicas.fetcher_runtime`)."""

    def __init__(self, broker: "Broker", fetcher: FollowerFetcher) -> None:
        self._broker = broker
        self.fetcher = fetcher
        self._exchange: Exchange | None = None
        self._is_long_poll = False
        self._polling_since_ms = 0
        self._turn = 0  # counts steps, so that old wake-ups count no more
        self._ended = False

    def wake(self) -> None:
        if self._exchange is None and not self._ended:
            self._turn += 1
            self.run(self._turn)

    def interrupt(self) -> None:
        """Partitions have come: do not let them wait behind an idle poll."""
        if self._exchange is None:
            self.wake()
        elif self._is_long_poll:
            kernel = self._broker.kernel
            delay_ms = self._polling_since_ms + MIN_POLL_MS - kernel.now_ms
            kernel.after(delay_ms, self._broker.process, self._give_up_poll, self._exchange)

    def _give_up_poll(self, exchange: Exchange) -> None:
        if self._exchange is exchange and exchange.is_open:
            exchange.give_up()
            self._exchange = None
            self.fetcher.abandoned()
            self._next()

    def _next(self) -> None:
        self._broker.replicas.settle()
        self._turn += 1
        self.run(self._turn)

    def run(self, turn: int) -> None:
        if turn != self._turn or self._ended:
            return
        broker, fetcher = self._broker, self.fetcher
        if not fetcher.table.states:
            self._ended = True
            broker.fetcher_ended(fetcher)
            return
        kernel = broker.kernel
        step = fetcher.next_step(kernel.now_ms)
        if isinstance(step, Wait):
            broker.replicas.settle()
            if not fetcher.table.states:
                kernel.after(0, broker.process, self.run, turn)
            elif step.until_ms is not None:
                kernel.after(step.until_ms - kernel.now_ms, broker.process, self.run, turn)
            return
        self._is_long_poll = step.is_long_poll
        self._polling_since_ms = kernel.now_ms
        known = broker.manager.metadata.broker_endpoint(fetcher.source_id, LISTENER)
        if known is None:
            fetcher.failed(step, kernel.now_ms)
            self._next()
            return
        self._exchange = broker.call(
            fetcher.source_id, step.request, step.version,
            lambda response: self._answered(step, response),
        )  # fmt: skip

    def _answered(self, step: FollowerExchange, response: Any) -> None:
        self._exchange = None
        now_ms = self._broker.kernel.now_ms
        if response is None:
            self.fetcher.failed(step, now_ms)
        else:
            self.fetcher.answered(step, response, now_ms)
        self._next()
