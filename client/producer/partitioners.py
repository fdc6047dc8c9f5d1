"""Chooses the partition of a record: by Kafka's murmur2 of its key, otherwise a sticky one.

Invariants: a key has the same partition as in Java's client, regardless of leaders. Records without
a key go to one partition until it has received the bytes of a batch, then to another one drawn at
random, shorter queues more often (KIP-794). The caller supplies random numbers.

Mirrors: BuiltInPartitioner. Leaves out partitioner.availability.timeout.ms.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

from ...protocol.murmur2 import murmur2


def partition_for(key: bytes, partition_count: int) -> int:
    """The partition of a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """The sticky partition of one topic, for records without a key.

    `draw` returns a random number, 0 or more; `current` is the partition of the next record, -1 if
    undecided; `taken_bytes` is counted by the callers that put records there.
    """

    __slots__ = ("_draw", "_stick_bytes", "current", "taken_bytes")

    def __init__(self, stick_bytes: int, draw: Callable[[], int]) -> None:
        self._stick_bytes = stick_bytes
        self._draw = draw
        self.taken_bytes = 0
        self.current = -1

    def choose(self, count: int, available: Sequence[int], queue_sizes: Sequence[int]) -> int:
        """Choose the next partition. `available`: the partitions with a leader, of `count`;
        `queue_sizes`: the number of batches waiting for each of these, empty for an even choice."""
        self.taken_bytes = 0
        self.current = next_partition(self._draw(), count, available, queue_sizes)
        return self.current

    def is_done(self, size: int) -> bool:
        """Whether another partition is due. Call this before a record that begins a batch:
        otherwise the partition stays, so that batches become full."""
        return self.current < 0 or self.taken_bytes + size > self._stick_bytes


def next_partition(
    drawn: int, count: int, available: Sequence[int], queue_sizes: Sequence[int]
) -> int:
    """Like BuiltInPartitioner.nextPartition after updatePartitionLoadStats."""
    if not available:
        return drawn % count
    is_even = min(queue_sizes, default=0) == max(queue_sizes, default=0)
    if count < 2 or (is_even and (len(available) == count or not queue_sizes)):
        return available[drawn % len(available)]
    longest = max(queue_sizes) + 1
    cumulated = list(accumulate(longest - size for size in queue_sizes))
    return available[bisect_right(cumulated, drawn % cumulated[-1])]
