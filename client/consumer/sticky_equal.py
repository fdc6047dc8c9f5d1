"""Divide partitions among members that all want the same topics, with as few moves as possible.

Every member ends with `share` partitions, and `extras` members, one per partition left over, with
one more.
1. Members keep their partitions, up to that number.
2. With racks: other partitions go to members near to them.
3. The rest is dealt out, first to members below `share`, then to those that may have one more.

Mirrors: AbstractStickyAssignor.ConstrainedAssignmentBuilder, order included.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...protocol.topics import TopicPartition
from .assignments import Assignment, TopicShape
from .java_order import java_order, utf16_order
from .racks import Racks


def divide_equally(
    topics: Mapping[str, TopicShape],
    owned: Mapping[str, list[TopicPartition]],
    contested: Collection[TopicPartition],
    racks: Racks,
) -> tuple[Assignment, dict[TopicPartition, str]]:
    """The assignment, and the partitions that move between members (with their new owner)."""
    division = _Division(topics, owned, contested, racks)
    division.keep_owned(owned)
    left = racks.by_consumers(division.unassigned())
    if racks.matter:
        left = division.deal_near(left)
    division.deal(left)
    return division.found, division.moving


class _Division:
    def __init__(
        self,
        topics: Mapping[str, TopicShape],
        owned: Mapping[str, list[TopicPartition]],
        contested: Collection[TopicPartition],
        racks: Racks,
    ) -> None:
        self._topics = topics
        self._contested = contested
        self._racks = racks
        total = sum(shape.partition_count for shape in topics.values())
        self._share, self._extras = divmod(total, len(owned))
        self._most = self._share + (1 if self._extras else 0)
        self._above_share = 0  # members with one more
        self._below: list[str] = []
        self._at_share: list[str] = []  # members at `share` that may get one more
        self._given_up: dict[TopicPartition, str] = {}  # with the previous owner
        self.found: Assignment = {member: [] for member in owned}
        self.moving: dict[TopicPartition, str] = {}

    @property
    def _has_extras(self) -> bool:
        return self._above_share < self._extras

    def keep_owned(self, owned: Mapping[str, list[TopicPartition]]) -> None:
        for member in java_order(owned):
            mine = []
            for partition in owned[member]:
                if self._racks.mismatch(member, partition):
                    self._given_up[partition] = member
                else:
                    mine.append(partition)
            mine.sort(key=lambda tp: (tp[1], utf16_order(tp[0])))
            mine = [partition for partition in mine if partition not in self._contested]
            if len(mine) < self._share:
                self.found[member] += mine
                self._below.append(member)
                continue
            if len(mine) >= self._most and self._has_extras:
                kept = self._most
                self._count_above()
            else:
                kept = self._share
                if self._has_extras:
                    self._at_share.append(member)
            self.found[member] += mine[:kept]
            self._given_up.update(dict.fromkeys(mine[kept:], member))
        self._below.sort(key=utf16_order)
        self._at_share.sort(key=utf16_order)

    def _count_above(self) -> None:
        self._above_share += 1
        if not self._has_extras:
            self._at_share.clear()

    def unassigned(self) -> list[TopicPartition]:
        assigned = {tp for partitions in self.found.values() for tp in partitions}
        return [
            (topic, number)
            for topic in sorted(self._topics, key=utf16_order)
            for number in range(self._topics[topic].partition_count)
            if (topic, number) not in assigned
        ]

    def deal_near(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Deal to members in a rack of a replica; returns the partitions that none of them may
        take."""
        left = []
        turn = 0
        for partition in partitions:
            index = self._racks.next_near(partition, self._below, turn)
            if index is not None:
                member = self._below[index]
                count = len(self.found[member]) + 1
                if count >= self._share:
                    self._below.remove(member)
                    if count < self._most and self._has_extras:
                        self._at_share.append(member)
                else:
                    index += 1
                turn = index % len(self._below) if self._below else 0
            else:
                index = self._racks.next_near(partition, self._at_share, 0)
                if index is None:
                    left.append(partition)
                    continue
                member = self._at_share[index]
                if len(self.found[member]) + 1 == self._most:
                    del self._at_share[index]
                    self._count_above()
            self._give(partition, member)
        return left

    def deal(self, partitions: list[TopicPartition]) -> None:
        """Deal in turn to members below their share, then one more to each that may have it."""
        turn = 0
        for partition in partitions:
            if turn >= len(self._below):
                turn = 0
            if not self._below:
                self._give(partition, self._at_share.pop(0))
                self._above_share += 1
                continue
            member = self._below[turn]
            self._give(partition, member)
            count = len(self.found[member])
            if count == self._share:
                del self._below[turn]
                self._at_share.append(member)
                continue
            if count == self._most:
                self._above_share += 1
            turn += 1

    def _give(self, partition: TopicPartition, member: str) -> None:
        self.found[member].append(partition)
        had = self._given_up.get(partition, member)
        if had != member or partition in self._contested:
            self.moving[partition] = member
