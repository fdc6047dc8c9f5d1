"""Translates a group's offset at the source to the target, by the written pairs; pure.

SLOTS pairs of each partition are kept, the newest first, the older the more widely spaced: a
translated offset is never too high, and too low by no more than the distance to the end.
Invariants of a partition's slots, as MirrorMaker 2 has them (s: the source's offset of a slot): A.
slot 0 is the newest pair; B. for i < j: s[i] <= s[j] + 2^j - 2^i, or it is the same pair; C. for
neighbours: s[i] >= s[i+1] + 2^max(i-2, 0), or it is the same pair.

Mirrors: OffsetSyncStore.
"""

from __future__ import annotations

from typing import Final

from ...protocol.topics import TopicPartition
from .formats import OffsetSync

SLOTS: Final = 64
MAX_INT64: Final = 2**63 - 1
TOO_OLD: Final = -1  # before the first pair

Slots = list[OffsetSync]


class SyncStore:
    """`keeps_history` False: of the pairs read before `is_complete` only the last is used, since
    earlier checkpoints of groups are unknown."""

    def __init__(self, *, keeps_history: bool) -> None:
        self._keeps_history = keeps_history
        self._slots: dict[TopicPartition, Slots] = {}
        self.is_complete = False

    def take(self, sync: OffsetSync) -> None:
        """Add the next pair of the topic."""
        place = (sync.topic, sync.partition)
        slots = self._slots.get(place)
        is_only_last = not self.is_complete and not self._keeps_history
        if slots is None or is_only_last or sync.source_offset < slots[0].source_offset:
            self._slots[place] = [sync] * SLOTS
        else:
            self._slots[place] = _updated(slots, sync)

    def translate(self, partition: TopicPartition, offset: int) -> int | None:
        """The target's offset for a group at an offset of the source; TOO_OLD before the first
        pair, or None without pairs of the partition."""
        slots = self._slots.get(partition)
        if slots is None or not self.is_complete:
            return None
        found = next((one for one in slots if one.source_offset <= offset), None)
        if found is None:
            return TOO_OLD
        return found.target_offset + (0 if found.source_offset == offset else 1)


def _updated(original: Slots, newest: OffsetSync) -> Slots:
    slots = list(original)
    slots[0] = replacement = newest
    at = 0  # in `original`: the first pair without a slot yet
    for current in range(1, SLOTS):
        previous = current - 1
        while True:
            old = original[at]
            is_apart = _is_apart(slots[previous], old, previous)
            following = current + 1
            fits = (
                _is_recent(slots[previous], old, previous, current)
                and is_apart
                and (following >= SLOTS or _is_apart(old, slots[following], current))
            )
            is_twin = at + 1 < SLOTS and old is original[at + 1]
            if fits:
                replacement = old
            is_passed = is_twin or not is_apart
            if fits or is_passed:
                at += 1
            if not (at < current and is_passed):
                break
        if _is_recent(slots[previous], slots[current], previous, current):
            break  # the following slots are valid already
        slots[current] = replacement
    return slots


def _is_recent(newer: OffsetSync, older: OffsetSync, i: int, j: int) -> bool:
    """Check invariant B."""
    bound = older.source_offset + (1 << j) - (1 << i)
    return newer is older or bound > MAX_INT64 or newer.source_offset <= bound


def _is_apart(newer: OffsetSync, older: OffsetSync, i: int) -> bool:
    """Check invariant C."""
    bound = older.source_offset + (1 << max(i - 2, 0))
    return newer is older or (bound <= MAX_INT64 and newer.source_offset >= bound)
