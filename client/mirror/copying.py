"""Moves batches from the reader to the producer, and keeps the positions of the copying.

`copy_at_least_once` keeps the producer full; positions follow acknowledgements, and a restart
begins at the last stored positions. `copy_exactly_once` puts the records of TRANSACTION_SECONDS,
with the positions behind them, into one transaction of the target: after a crash both exist, or
neither.
Invariant: the producer's buffer bounds the records that wait for the target; while it is full
nothing is taken from the reader, whose buffer is bounded too.
Mirrors: AbstractWorkerSourceTask, WorkerSourceTask, ExactlyOnceWorkerSourceTask of Kafka Connect.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

import trio

from ...protocol.invariants import BrokenInvariant
from ...protocol.topics import TopicPartition
from ..consumer.background import Bell
from ..errors import ClientError, ProducerFenced
from ..producer import Producer
from ..producer.batch import Batch
from .offset_syncs import OffsetSyncs
from .progress import Acknowledged, Progress
from .reader import Copied, SourceReader
from .settings import FlowSettings
from .stats import FlowStats
from .stopping import until

TRANSACTION_SECONDS = 1.0
TRANSACTION_BYTES = 64 * 1024 * 1024

# Stores positions, with the producer of the records.
WritePositions = Callable[[Producer, Mapping[TopicPartition, int]], Awaitable[None]]


class Copying:
    """The copying of one flow."""

    def __init__(
        self,
        flow: FlowSettings,
        reader: SourceReader,
        producer: Producer,
        syncs: OffsetSyncs,
        stats: FlowStats,
        write_positions: WritePositions,
    ) -> None:
        self._flow = flow
        self._reader = reader
        self._producer = producer
        self._syncs = syncs
        self._stats = stats
        self._write_positions = write_positions
        self._progress = Progress()
        self._moved: set[TopicPartition] = set()  # their batches have outcomes, or were split
        self._bell = Bell()
        self._written: dict[TopicPartition, int] = {}
        self._passed_over: dict[TopicPartition, int] = {}  # positions, without new records
        self.positions: dict[TopicPartition, int] = {}  # behind acknowledged records

    # At least once

    async def copy_at_least_once(self, stop: trio.Event) -> None:
        """Copy until `stop`, and then until all is acknowledged. Raises ClientError."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._count_for_ever)
            nursery.start_soon(self._flush_for_ever)
            await until(stop, self._copy_for_ever)
            await self._producer.flush()
            self._count_acknowledged()
            nursery.cancel_scope.cancel()
        await self.flush_positions()

    async def _copy_for_ever(self) -> None:
        while True:
            await self._send(await self._reader.take(), self._progress)

    async def _count_for_ever(self) -> None:
        while True:
            await self._bell.wait(self._flow.flush_seconds)
            self._count_acknowledged()

    async def _flush_for_ever(self) -> None:
        while True:
            await trio.sleep(self._flow.flush_seconds)
            await self.flush_positions()

    async def flush_positions(self) -> None:
        """Store the positions that have changed. Raises ClientError."""
        changed = {tp: at for tp, at in self.positions.items() if self._written.get(tp) != at}
        if changed:
            await self._write_positions(self._producer, changed)
            self._written.update(changed)

    # Exactly once

    async def copy_exactly_once(self, stop: trio.Event) -> None:
        """Copy until `stop`, and then until the last transaction is committed. Raises
        ClientError."""
        while not stop.is_set():
            first = await until(stop, self._reader.take)
            if first is None:
                continue
            if first.portions:
                await self._copy_in_transaction(first, stop)
            else:  # for the next transaction
                self._passed_over[first.partition] = first.next_offset

    async def _copy_in_transaction(self, first: Copied, stop: trio.Event) -> None:
        began = trio.current_time()
        try:
            await self._transact(first, stop)
        except ProducerFenced as error:
            limit_ms = int(self._flow.producer["transaction.timeout.ms"])
            if trio.current_time() - began < limit_ms / 1000:
                raise  # by another mirror
            raise ClientError(f"a transaction took longer than {limit_ms} ms: {error}") from error

    async def _transact(self, first: Copied, stop: trio.Event) -> None:
        progress = Progress()
        deadline = trio.current_time() + TRANSACTION_SECONDS
        size = 0
        copied: Copied | None = first
        async with self._producer.transaction():
            while copied is not None:
                await self._send(copied, progress)
                size += copied.fetched_bytes
                if size >= TRANSACTION_BYTES or stop.is_set():
                    break
                copied = None
                with trio.move_on_at(deadline):
                    copied = await self._reader.take()
            await self._producer.flush()
            moved, self._moved = self._moved, set()
            acknowledged = [
                one for partition in moved for one in progress.take_acknowledged(partition)
            ]
            if not progress.is_complete:
                raise BrokenInvariant("a flush has ended, and batches have no outcome")
            positions = self._passed_over | progress.positions
            await self._write_positions(self._producer, positions)
        self._passed_over.clear()
        self._count(acknowledged)
        self.positions.update(positions)
        self._stats.transactions += 1

    # Both

    async def _send(self, copied: Copied, progress: Progress) -> None:
        topic, partition = copied.partition
        remote = self._flow.remote(topic)
        self._stats.passed_batches += copied.passed
        last = len(copied.portions) - 1
        for place, portion in enumerate(copied.portions):
            batch = await self._producer.enqueue_batch(
                remote, partition, portion.data, len(portion.offsets)
            )
            self._watch(batch, copied.partition)
            behind = copied.next_offset if place == last else -1
            progress.sent(copied.partition, batch, portion.offsets, portion.newest_ms, behind)
        if last < 0:
            progress.sent(copied.partition, None, (), -1, copied.next_offset)
            self._moved.add(copied.partition)

    def _watch(self, batch: Batch, partition: TopicPartition) -> None:
        batch.watchers.append(functools.partial(self._became, batch, partition))

    def _became(self, batch: Batch, partition: TopicPartition) -> None:
        for part in batch.parts:
            self._watch(part, partition)
        self._moved.add(partition)
        self._bell.ring()

    def _count_acknowledged(self) -> None:
        moved, self._moved = self._moved, set()
        self._count(
            [one for partition in moved for one in self._progress.take_acknowledged(partition)]
        )
        self.positions.update(self._progress.positions)
        self._progress.positions.clear()

    def _count(self, acknowledged: Iterable[Acknowledged]) -> None:
        now_ms = int(time.time() * 1000)
        for partition, offsets, base, size, newest_ms in acknowledged:
            if base >= 0:
                self._syncs.take(partition, offsets, base)
            place = (self._flow.remote(partition[0]), partition[1])
            self._stats.add(place, len(offsets), size, max(0, now_ms - newest_ms))
