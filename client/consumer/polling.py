"""A request for records by the application: its previous records are done, so commits, rebalances
and positions come first, then the fetcher's batches.

Invariants: no cancellation can occur between a batch's removal from the fetcher and its delivery,
or it would be lost. Partitions are added and removed only here.

Mirrors: KafkaConsumer.poll.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import trio

from .background import Bell
from .commits import Commits
from .deliveries import Delivery, Ledger, RetryPolicy
from .fetcher import Fetcher, now_ms
from .group import Group
from .offset_keeper import OffsetKeeper
from .options import ConsumerOptions
from .positions import Position, Positions
from .progress import Progress
from .received import ReceivedBatch

WAIT_SECONDS: Final = 1.0  # for records, before the group is checked again


class Polling:
    """The polling of one consumer, with or without a group."""

    def __init__(
        self,
        options: ConsumerOptions,
        positions: Positions,
        fetcher: Fetcher[ReceivedBatch],
        group: Group | None,
        offsets: OffsetKeeper,
        commits: Commits,
        progress: Progress,
    ) -> None:
        self._options = options
        self._positions = positions
        self._fetcher = fetcher
        self._group = group
        self._offsets = offsets
        self._commits = commits
        self._progress = progress
        self._finished = Bell()  # in ack mode
        self.record_count = 0  # handed out, batch by batch

    async def next_batch(
        self, max_records: int, timeout_seconds: float | None = None
    ) -> ReceivedBatch | None:
        """The next batch; the previous one is done. None only with a timeout."""
        deadline = trio.current_time() + (timeout_seconds or 0.0)
        self._progress.ask_for_more()
        rest = self._progress.rest()
        if rest is not None:
            self._commits.start_if_due()
            await trio.lowlevel.checkpoint()
            return self._progress.hold(rest)
        has_waited = False
        while True:
            await self._before_poll()
            if not has_waited:
                await trio.lowlevel.checkpoint()  # no cancellation after this
            batch = self._fetcher.take(max_records)
            if batch is not None:
                self.record_count += len(batch)
                return self._progress.hold(batch)
            left = deadline - trio.current_time()
            if timeout_seconds is not None and left <= 0:
                return None
            wait = WAIT_SECONDS if timeout_seconds is None else min(left, WAIT_SECONDS)
            await self._fetcher.arrived.wait(wait)
            has_waited = True

    async def _before_poll(self) -> None:
        """The application has processed its records: commit, rebalance, find positions."""
        self._fetcher.take_failure()
        self._commits.start_if_due()
        group = self._group
        if group is not None:
            if group.is_subscribed:
                await group.before_poll()
            waiting = self._positions.awaiting_committed()
            if waiting:
                found = await self._offsets.committed(waiting)
                places = {tp: Position(c.offset, c.epoch) for tp, c in found.items()}
                self._positions.place(places, self._options.reset_to)
                self._fetcher.bell.ring()
        self._progress.end_batch()

    async def deliveries(
        self, max_unacknowledged: int, retry: RetryPolicy
    ) -> AsyncIterator[Delivery]:
        """See `Consumer.deliveries`."""
        ledger = self._ledger(max_unacknowledged, retry)
        in_a_row = 0
        while True:
            delivery = ledger.next(now_ms())
            if delivery is not None and in_a_row < self._options.max_poll_records:
                in_a_row += 1
                yield delivery
                continue
            in_a_row = 0
            if delivery is not None:
                ledger.put_back(delivery)
                await self._before_poll()
                await trio.lowlevel.checkpoint()
                continue
            await self._wait_for_deliveries(ledger)

    async def next_deliveries(self, max_unacknowledged: int, retry: RetryPolicy) -> list[Delivery]:
        """Those that `deliveries` hands out without a wait between them, one at least."""
        ledger = self._ledger(max_unacknowledged, retry)
        await self._before_poll()
        while True:
            await trio.lowlevel.checkpoint()  # no cancellation after this
            found: list[Delivery] = []
            while len(found) < self._options.max_poll_records:
                delivery = ledger.next(now_ms())
                if delivery is None:
                    break
                found.append(delivery)
            if found:
                return found
            await self._wait_for_deliveries(ledger)

    def _ledger(self, max_unacknowledged: int, retry: RetryPolicy) -> Ledger:
        progress = self._progress
        if progress.ledger is None:
            progress.ledger = Ledger(retry, max_unacknowledged, self._finished.ring)
        return progress.ledger

    async def _wait_for_deliveries(self, ledger: Ledger) -> None:
        """Wait until there may be a delivery, and poll for records if there is room for them."""
        due_ms = ledger.wait_ms(now_ms())
        wait = WAIT_SECONDS if due_ms is None else min(WAIT_SECONDS, due_ms / 1000)
        if ledger.room:
            limit = min(ledger.room, self._options.max_poll_records)
            batch = await self.next_batch(limit, wait)
            self._progress.end_batch()
            if batch is not None:
                ledger.add(batch, batch.next_offset)
        else:
            await self._before_poll()
            await self._finished.wait(wait)
