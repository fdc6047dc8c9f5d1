"""What was sent to the target and is not settled, and how far each partition is behind that; pure.

Invariant: a position is given out once all that is before it at the source is acknowledged, or has
no records to copy; so positions never go over what may be lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...protocol.topics import TopicPartition
from ..producer.batch import Batch


class Settled(NamedTuple):
    """Some records are at `base` and behind it in the target's partition (-1: nobody knows)."""

    partition: TopicPartition
    offsets: Sequence[int]
    base: int
    size: int
    newest_ms: int


class _Sent(NamedTuple):
    batch: Batch | None  # None: there was nothing to copy
    offsets: Sequence[int]
    size: int
    newest_ms: int
    next_offset: int  # -1: more of the same fetch follows


class Progress:
    """Of one flow, or of one transaction of it."""

    def __init__(self) -> None:
        self._sent: dict[TopicPartition, deque[_Sent]] = {}
        self.positions: dict[TopicPartition, int] = {}  # where to go on, of what has moved

    @property
    def is_settled(self) -> bool:
        return not self._sent

    def sent(
        self,
        partition: TopicPartition,
        batch: Batch | None,
        offsets: Sequence[int],
        newest_ms: int,
        next_offset: int,
    ) -> None:
        """A batch is on its way, and behind it the source goes on at `next_offset`."""
        size = batch.size if batch is not None else 0
        queue = self._sent.setdefault(partition, deque())
        queue.append(_Sent(batch, offsets, size, newest_ms, next_offset))
        if batch is None:
            self._advance(partition, [])

    def settle(self, partition: TopicPartition) -> list[Settled]:
        """Something became of a batch of this partition. Raises what was refused for good."""
        found: list[Settled] = []
        self._advance(partition, found)
        return found

    def _advance(self, partition: TopicPartition, found: list[Settled]) -> None:
        queue = self._sent.get(partition)
        while queue:
            first = queue[0]
            if first.batch is not None:
                parts = list(_leaves(first.batch))
                if any(part.outcome is None for part in parts):
                    return
                found += _settled(partition, first, parts)
            if first.next_offset >= 0:
                self.positions[partition] = first.next_offset
            queue.popleft()
        self._sent.pop(partition, None)


def _leaves(batch: Batch) -> Iterator[Batch]:
    """What a batch has become, if brokers found it too large."""
    if not batch.parts:
        yield batch
    for part in batch.parts:
        yield from _leaves(part)


def _settled(partition: TopicPartition, sent: _Sent, parts: list[Batch]) -> Iterator[Settled]:
    at = 0
    for part in parts:
        assert part.outcome is not None
        if part.outcome.error is not None:
            raise part.outcome.error
        count = len(part.records)
        offsets = sent.offsets[at : at + count]
        size = sent.size * count // max(len(sent.offsets), 1)
        yield Settled(partition, offsets, part.outcome.base_offset, size, sent.newest_ms)
        at += count
