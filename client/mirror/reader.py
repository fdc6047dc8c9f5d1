"""Fetches the source's partitions, and returns their records as batches for a producer.

Invariants: at most about `limit_bytes` are held, and one more fetch from each broker; the records
of a partition come in order and once, from its assigned position on.
Mirrors: the consumer of MirrorSourceTask.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

import trio

from ...protocol.apis.fetch import AbortedTransaction
from ...protocol.primitives import Buffer
from ...protocol.topics import TopicPartition
from ..cluster import Cluster
from ..consumer.fetcher import Fetcher
from ..consumer.options import ConsumerOptions
from ..consumer.positions import Position, Positions
from ..consumer.unpacking import is_for_a_thread
from .restamp import Portion, restamp

WAIT_SECONDS = 1.0
ALL = 2**31


@dataclass(slots=True)
class Copied:
    """The batches of one fetch of a partition; perhaps none, only a new position."""

    partition: TopicPartition
    portions: list[Portion]
    next_offset: int
    leader_epoch: int
    fetched_bytes: int
    records: int
    passed: int  # batches that were not unpacked

    def __len__(self) -> int:
        """Never 0: otherwise a position alone would not leave the buffer."""
        return max(self.records, 1)

    def split(self, _: int) -> tuple[Copied, None]:
        return self, None


class SourceReader:
    """`run` lives in the nursery of the flow; no `async with` is needed."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        *,
        is_transactional: bool,
        limit_bytes: int,
    ) -> None:
        self._options = options
        self._is_transactional = is_transactional
        self._limit_bytes = limit_bytes
        self._positions = Positions()
        self._fetcher: Fetcher[Copied] = Fetcher(
            cluster, options, self._positions, self._topics, self._unpack, self._has_room
        )
        self.run = self._fetcher.run

    def _topics(self) -> Collection[str]:
        return {topic for topic, _ in self._positions}

    def _has_room(self) -> bool:
        held = sum(copied.fetched_bytes for _, _, copied, _ in self._fetcher.buffer)
        return held < self._limit_bytes

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Read these partitions, new ones from their positions on (-1: as `auto_offset_reset`
        says).

        Raises ClientError if a position is missing and `auto_offset_reset` is none.
        """
        self._positions.assign(positions)
        places = {tp: Position(offset) for tp, offset in positions.items() if offset >= 0}
        self._positions.place(places, self._options.reset_to)
        self._fetcher.need_metadata()

    @property
    def assigned(self) -> Collection[TopicPartition]:
        return list(self._positions)

    def end_offsets(self) -> dict[TopicPartition, int]:
        """The end offsets of partitions that have been fetched."""
        return {
            tp: end
            for tp, state in self._positions.items()
            if (end := state.end_offset(self._options.reads_committed)) >= 0
        }

    async def take(self) -> Copied:
        """The next one. Raises ClientError for errors that a retry cannot resolve."""
        while True:
            found = self.take_nowait()
            if found is not None:
                return found
            await self._fetcher.arrived.wait(WAIT_SECONDS)

    def take_nowait(self) -> Copied | None:
        """The next one, None if there is none yet. Raises ClientError."""
        self._fetcher.take_failure()
        found = self._fetcher.take(ALL)
        if found is not None:
            self._fetcher.bell.ring()
        return found

    async def _unpack(
        self,
        partition: TopicPartition,
        records: Buffer,
        position: int,
        aborted: Collection[AbortedTransaction] | None,
    ) -> list[Copied]:
        work = partial(
            restamp,
            records,
            position,
            aborted=aborted,
            is_transactional=self._is_transactional,
            check_crcs=self._options.check_crcs,
            now_ms=int(time.time() * 1000),
        )
        if is_for_a_thread(records):  # some of it may have to be unpacked
            made = await trio.to_thread.run_sync(work)
        else:
            await trio.lowlevel.checkpoint()
            made = work()
        if made.next_offset <= position:
            return []
        size = sum(len(portion.data) for portion in made.portions)
        count = sum(len(portion.offsets) for portion in made.portions)
        return [
            Copied(
                partition, made.portions, made.next_offset, made.leader_epoch, size, count,
                made.passed,
            )
        ]  # fmt: skip
