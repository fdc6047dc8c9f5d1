"""The batches in flight to the target, and the positions behind acknowledged ones; pure.

Invariant: a position is released once all records before it at the source are acknowledged, or need
no copying; so positions never skip records that may be lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...protocol.topics import TopicPartition
from ..producer.batch import Batch


class Acknowledged(NamedTuple):
    """Records written at `base` and behind it in the target's partition (-1: unknown)."""

    partition: TopicPartition
    offsets: Sequence[int]
    base: int
    size: int
    newest_ms: int


class _Sent(NamedTuple):
    batch: Batch | None  # None: no records to copy
    offsets: Sequence[int]
    size: int
    newest_ms: int
    next_offset: int  # -1: more of the same fetch follows


class Progress:
    """The progress of one flow, or of one of its transactions."""

    def __init__(self) -> None:
        self._sent: dict[TopicPartition, deque[_Sent]] = {}
        self.positions: dict[TopicPartition, int] = {}  # released; of partitions that have moved

    @property
    def is_complete(self) -> bool:
        return not self._sent

    def sent(
        self,
        partition: TopicPartition,
        batch: Batch | None,
        offsets: Sequence[int],
        newest_ms: int,
        next_offset: int,
    ) -> None:
        """A batch is in flight; behind it the source continues at `next_offset`."""
        size = batch.size if batch is not None else 0
        queue = self._sent.setdefault(partition, deque())
        queue.append(_Sent(batch, offsets, size, newest_ms, next_offset))
        if batch is None:
            self._advance(partition, [])

    def take_acknowledged(self, partition: TopicPartition) -> list[Acknowledged]:
        """A batch of this partition has an outcome, or was split. Raises a permanent refusal."""
        found: list[Acknowledged] = []
        self._advance(partition, found)
        return found

    def _advance(self, partition: TopicPartition, found: list[Acknowledged]) -> None:
        queue = self._sent.get(partition)
        while queue:
            first = queue[0]
            if first.batch is not None:
                parts = list(_leaves(first.batch))
                if any(part.outcome is None for part in parts):
                    return
                found += _acknowledged(partition, first, parts)
            if first.next_offset >= 0:
                self.positions[partition] = first.next_offset
            queue.popleft()
        self._sent.pop(partition, None)


def _leaves(batch: Batch) -> Iterator[Batch]:
    """The parts of a batch that was split because it was too large, or the batch itself."""
    if not batch.parts:
        yield batch
    for part in batch.parts:
        yield from _leaves(part)


def _acknowledged(
    partition: TopicPartition, sent: _Sent, parts: list[Batch]
) -> Iterator[Acknowledged]:
    at = 0
    for part in parts:
        assert part.outcome is not None
        if part.outcome.error is not None:
            raise part.outcome.error
        count = len(part.records)
        offsets = sent.offsets[at : at + count]
        size = sent.size * count // max(len(sent.offsets), 1)
        yield Acknowledged(partition, offsets, part.outcome.base_offset, size, sent.newest_ms)
        at += count
