"""Selects the pairs of offsets (source, target) to write, for translating groups' offsets; pure.

A pair is due at once if its target offset does not follow from earlier pairs: the first after a
start, a pair that does not follow its predecessor at the source or goes back at the target, and a
pair `offset.lag.max` records behind the last one. All others wait for `promote`.
Invariants: at most one pair of a partition waits, the newest; at most MAX_DUE are due in all.

Mirrors: OffsetSyncWriter and its PartitionState, but for batches instead of records: of the pairs
that become due within one batch, the first one is kept and those 0, 1, 3, 7, ... before the last: a
`sync_store` keeps no more.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.topics import TopicPartition
from .formats import OffsetSync

NONE = -1
MAX_DUE = 10_000


class PairsOfPartition:
    """The state of one partition of the source."""

    __slots__ = ("_last_synced", "_max_lag", "_previous_source", "_previous_target")

    def __init__(self, max_lag: int) -> None:
        self._max_lag = max_lag
        self._previous_source = NONE
        self._previous_target = NONE
        self._last_synced = NONE

    def take(self, offsets: Sequence[int], base: int) -> list[int]:
        """Records with these offsets were written at `base` and behind it at the target.

        The places of the records whose pairs are due, in order.
        """
        due: list[int] = []
        if isinstance(offsets, range):  # all but the first follow their predecessors
            if self._is_due(offsets[0], base):
                self._last_synced = base
                due.append(0)
            stride = self._max_lag + 1
            steps = (base + len(offsets) - 1 - self._last_synced) // stride
            due += [self._last_synced + step * stride - base for step in _thinned(steps)]
            self._last_synced += steps * stride
            self._previous_source = offsets[-1]
            self._previous_target = base + len(offsets) - 1
            return due
        for place, offset in enumerate(offsets):
            if self._is_due(offset, base + place):
                self._last_synced = base + place
                due.append(place)
            self._previous_source, self._previous_target = offset, base + place
        return [due[step - 1] for step in _thinned(len(due))]

    def _is_due(self, source: int, target: int) -> bool:
        return (
            self._last_synced == NONE
            or target - (self._last_synced + 1) >= self._max_lag
            or source - self._previous_source != 1
            or target < self._previous_target
        )


def _thinned(steps: int) -> list[int]:
    """The steps kept of 1 to `steps`."""
    kept = [steps - (1 << n) + 1 for n in range(steps.bit_length()) if steps - (1 << n) + 1 > 0]
    return sorted({1, *kept}) if kept else []


class OffsetSyncs:
    """The pairs of one flow."""

    def __init__(self, max_lag: int) -> None:
        self._max_lag = max_lag
        self._partitions: dict[TopicPartition, PairsOfPartition] = {}
        self._due: list[OffsetSync] = []
        self._waiting: dict[TopicPartition, OffsetSync] = {}

    def take(self, partition: TopicPartition, offsets: Sequence[int], base: int) -> None:
        """Record a batch that is written at the target."""
        state = self._partitions.get(partition)
        if state is None:
            state = self._partitions[partition] = PairsOfPartition(self._max_lag)
        due = state.take(offsets, base)
        last = len(offsets) - 1
        self._due += [OffsetSync(*partition, offsets[place], base + place) for place in due]
        if due:
            self._waiting.pop(partition, None)
        if last not in due:
            self._waiting[partition] = OffsetSync(*partition, offsets[last], base + last)
        if len(self._due) > MAX_DUE:  # they are not being taken: keep the last ones at least
            newest = {(one.topic, one.partition): one for one in self._due}
            self._due = list(newest.values())[-MAX_DUE:]

    def promote(self) -> None:
        """Make the waiting pairs due."""
        self._due += self._waiting.values()
        self._waiting.clear()

    def take_due(self) -> list[OffsetSync]:
        """The pairs to write now."""
        due, self._due = self._due, []
        return due
