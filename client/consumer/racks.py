"""Racks of members and of replicas, for the sticky assignors (KIP-881).

Mirrors: AbstractStickyAssignor.RackInfo.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ...protocol.topics import TopicPartition
from .assignments import Subscription, TopicShape
from .assignors import rack_of, racks_matter


class Racks:
    """`matter` is False if racks make no assignment better than another."""

    def __init__(
        self, topics: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> None:
        racks = {member: rack for member, each in members.items() if (rack := rack_of(each))}
        self._topics = topics
        self._consumers_in = Counter(racks.values())
        self.matter = racks_matter(topics.values(), racks.values())
        self._of_member = racks if self.matter else {}

    def of_partition(self, partition: TopicPartition) -> frozenset[str]:
        topic, number = partition
        if not self.matter or topic not in self._topics:
            return frozenset()
        racks = self._topics[topic].racks
        return racks[number] if number < len(racks) else frozenset()

    def mismatch(self, member: str, partition: TopicPartition) -> bool:
        """Whether the member has a rack in which the partition has no replica."""
        rack = self._of_member.get(member)
        return rack is not None and rack not in self.of_partition(partition)

    def by_consumers(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Partitions in order of the number of members near to them, the fewest first."""
        if not self._consumers_in:
            return partitions

        def near(partition: TopicPartition) -> int:
            topic, number = partition
            return sum(self._consumers_in[rack] for rack in self._topics[topic].racks[number])

        return sorted(partitions, key=near)

    def next_near(
        self, partition: TopicPartition, members: Sequence[str], first: int
    ) -> int | None:
        """The index of the next member, cyclically from `first`, in a rack with a replica."""
        racks = self.of_partition(partition)
        for step in range(len(members)):
            index = (first + step) % len(members)
            if self._of_member.get(members[index]) in racks:
                return index
        return None
