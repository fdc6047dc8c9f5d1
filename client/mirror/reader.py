"""Fetches the source's partitions, and hands over what comes as batches for a producer.

Invariants: about `limit_bytes` are held at most, those of one more fetch from each broker aside; of
a partition everything comes in order and once, from the position on that it was given.
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
    """What one fetch brought of a partition. It may be nothing but a new position."""

    partition: TopicPartition
    portions: list[Portion]
    next_offset: int
    leader_epoch: int
    fetched_bytes: int
    records: int
    passed: int  # batches that were not unpacked

    def __len__(self) -> int:
        """Never 0, or a position alone would not come out of the buffer."""
        return max(self.records, 1)

    def split(self, _: int) -> tuple[Copied, None]:
        return self, None


class SourceReader:
    """`async with` nothing: `run` lives in the nursery of the flow."""

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
        """Read these, those that are new from their positions on (-1: as `auto_offset_reset` says).

        Raises ClientError if that says that a position is needed.
        """
        self._positions.assign(positions)
        places = {tp: Position(offset) for tp, offset in positions.items() if offset >= 0}
        self._positions.place(places, self._options.reset_to)
        self._fetcher.need_metadata()

    @property
    def assigned(self) -> Collection[TopicPartition]:
        return list(self._positions)

    def end_offsets(self) -> dict[TopicPartition, int]:
        """Of those that a fetch has told."""
        return {
            tp: end
            for tp, state in self._positions.items()
            if (end := state.end_offset(self._options.reads_committed)) >= 0
        }

    async def take(self) -> Copied:
        """The next one. Raises ClientError for what trying again does not heal."""
        while True:
            found = self.take_nowait()
            if found is not None:
                return found
            await self._fetcher.arrived.wait(WAIT_SECONDS)

    def take_nowait(self) -> Copied | None:
        """None if nothing is there. Raises ClientError."""
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
