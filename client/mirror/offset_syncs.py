"""Which pairs of offsets (source, target) are written down, so that groups can be translated; pure.

A pair is due at once when nothing else tells where the target is: the first of a start, one that
does not follow its predecessor at the source, one that does not go on at the target, and one that
is `offset.lag.max` records behind the last pair. All others wait for `promote`.
Invariant: of a partition at most one pair is due and one waits, the newest ones.

Mirrors: OffsetSyncWriter and its PartitionState, with a batch where that has a record: of the pairs
that become due within one batch only the last is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...protocol.topics import TopicPartition
from .formats import OffsetSync

NONE = -1


class PairsOfPartition:
    """The state of one partition of the source."""

    __slots__ = ("_last_synced", "_max_lag", "_previous_source", "_previous_target")

    def __init__(self, max_lag: int) -> None:
        self._max_lag = max_lag
        self._previous_source = NONE
        self._previous_target = NONE
        self._last_synced = NONE

    def take(self, offsets: Sequence[int], base: int) -> int | None:
        """Records with these offsets are at `base` and behind it at the target.

        The place of the last one whose pair is due, or None.
        """
        due = None
        if isinstance(offsets, range):  # all but the first follow their predecessors
            if self._is_due(offsets[0], base):
                self._last_synced, due = base, 0
            steps = (base + len(offsets) - 1 - self._last_synced) // (self._max_lag + 1)
            if steps > 0:
                self._last_synced += steps * (self._max_lag + 1)
                due = self._last_synced - base
            self._previous_source = offsets[-1]
            self._previous_target = base + len(offsets) - 1
            return due
        for place, offset in enumerate(offsets):
            if self._is_due(offset, base + place):
                self._last_synced, due = base + place, place
            self._previous_source, self._previous_target = offset, base + place
        return due

    def _is_due(self, source: int, target: int) -> bool:
        return (
            self._last_synced == NONE
            or target - (self._last_synced + 1) >= self._max_lag
            or source - self._previous_source != 1
            or target < self._previous_target
        )


class OffsetSyncs:
    """Of one flow."""

    def __init__(self, max_lag: int) -> None:
        self._max_lag = max_lag
        self._partitions: dict[TopicPartition, PairsOfPartition] = {}
        self._due: dict[TopicPartition, OffsetSync] = {}
        self._waiting: dict[TopicPartition, OffsetSync] = {}

    def take(self, partition: TopicPartition, offsets: Sequence[int], base: int) -> None:
        """A batch is written at the target."""
        state = self._partitions.get(partition)
        if state is None:
            state = self._partitions[partition] = PairsOfPartition(self._max_lag)
        due = state.take(offsets, base)
        last = len(offsets) - 1
        if due is not None:
            self._due[partition] = OffsetSync(*partition, offsets[due], base + due)
            self._waiting.pop(partition, None)
        if due != last:
            self._waiting[partition] = OffsetSync(*partition, offsets[last], base + last)

    def promote(self) -> None:
        """What waits is due now."""
        self._due.update(self._waiting)
        self._waiting.clear()

    def take_due(self) -> list[OffsetSync]:
        """To be written now."""
        due, self._due = self._due, {}
        return list(due.values())
