"""Range and round robin: partitions divided regardless of their previous owners.

Assignments are those of the Java client, order included: where it iterates over a HashMap, so do we
(`java_order`). Members are ordered by their group instance ids if they have them, then by member
ids. With racks, range gives a member partitions that have a replica in its rack first (KIP-881).

Mirrors: RangeAssignor, RoundRobinAssignor and AbstractPartitionAssignor of the Java client.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import cycle

from ...protocol.topics import TopicPartition
from .assignments import Assignment, Subscription, TopicShape
from .java_order import java_order, utf16_order


def member_order(members: Mapping[str, Subscription], ids: Collection[str]) -> list[str]:
    """Static members by their instance ids, then the others by their member ids."""

    def key(member: str) -> tuple[bool, bytes]:
        instance = members[member].instance_id
        return instance is None, utf16_order(member if instance is None else instance)

    return sorted(ids, key=key)


def known_topics(
    topics: Mapping[str, TopicShape], members: Mapping[str, Subscription]
) -> list[str]:
    """Topics that a member wants and that have partitions, in the order of Java's maps."""
    wanted = java_order(t for member in java_order(members) for t in members[member].topics)
    return java_order(t for t in wanted if t in topics and topics[t].partition_count)


def rack_of(subscription: Subscription) -> str | None:
    return subscription.rack or None


def racks_matter(shapes: Collection[TopicShape], consumer_racks: Collection[str | None]) -> bool:
    """False if no rack of a member has a replica, or every partition has replicas in all the
    racks."""
    partition_racks = [racks for shape in shapes for racks in shape.racks]
    everywhere = frozenset[str]().union(*partition_racks)
    if not everywhere & {rack for rack in consumer_racks if rack}:
        return False
    return any(racks != everywhere for racks in partition_racks)


class RangeAssignor:
    """Gives each member one run of partitions of each topic."""

    name = "range"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return None

    def assign(
        self, topics: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> Assignment:
        """See the module."""
        found: Assignment = {member: [] for member in members}
        states = []
        for topic in known_topics(topics, members):
            ids = [member for member, each in members.items() if topic in each.topics]
            states.append(_TopicRange(topic, topics[topic], member_order(members, ids), members))
        uses_racks = any(state.racks_matter for state in states)
        if uses_racks:
            _match_racks(states, found)
        for state in states:
            state.give_ranges(found, match_racks=False)
        if uses_racks:
            for partitions in found.values():
                partitions.sort(key=lambda tp: (utf16_order(tp[0]), tp[1]))
        return found


class _TopicRange:
    """The unassigned partitions of a topic, and the number that each member may still get."""

    def __init__(
        self,
        topic: str,
        shape: TopicShape,
        ids: Sequence[str],
        members: Mapping[str, Subscription],
    ) -> None:
        self.topic = topic
        self.shape = shape
        self.racks = {member: rack_of(members[member]) for member in ids}
        self.racks_matter = racks_matter([shape], self.racks.values())
        self._left = dict.fromkeys(range(shape.partition_count))
        self._counts = dict.fromkeys(ids, 0)
        self._share, self._extra = divmod(shape.partition_count, len(ids))

    def may_take(self, member: str) -> int:
        most = self._share + (1 if self._extra > 0 else 0)
        return max(0, most - self._counts[member])

    def is_near(self, member: str, partition: int) -> bool:
        rack = self.racks[member]
        return rack is None or rack in self.shape.racks[partition]

    def give(self, member: str, partitions: Sequence[int], found: Assignment) -> None:
        found[member] += [(self.topic, partition) for partition in partitions]
        self._counts[member] += len(partitions)
        if self._counts[member] > self._share:
            self._extra -= 1
        for partition in partitions:
            del self._left[partition]

    def give_ranges(self, found: Assignment, *, match_racks: bool) -> None:
        for member in self.racks:
            fitting = [p for p in self._left if not match_racks or self.is_near(member, p)]
            if taken := fitting[: self.may_take(member)]:
                self.give(member, taken, found)


def _match_racks(states: Sequence[_TopicRange], found: Assignment) -> None:
    """Topics with the same members and numbers of partitions are assigned alike
    (co-partitioned)."""
    alike: dict[tuple[tuple[tuple[str, str | None], ...], int], list[_TopicRange]] = {}
    for state in states:
        has_racks = any(state.racks.values())  # if not, Java counts no partitions, and matches none
        key = (tuple(state.racks.items()), state.shape.partition_count if has_racks else 0)
        alike.setdefault(key, []).append(state)
    for (members, count), group in alike.items():
        if len(group) == 1:
            if group[0].racks_matter:
                group[0].give_ranges(found, match_racks=True)
            continue
        remaining = [member for member, _ in members]
        for partition in range(count):
            member = next(
                (
                    m
                    for m in remaining
                    if all(s.is_near(m, partition) and s.may_take(m) for s in group)
                ),
                None,
            )
            if member is None:
                continue
            for state in group:
                state.give(member, [partition], found)
            if not any(state.may_take(member) for state in group):
                remaining.remove(member)


class RoundRobinAssignor:
    """Deals out all partitions of all topics, one after the other."""

    name = "roundrobin"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return None

    def assign(
        self, topics: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> Assignment:
        """See the module."""
        found: Assignment = {member: [] for member in members}
        dealer = cycle(member_order(members, members))
        for topic in sorted(known_topics(topics, members), key=utf16_order):
            for partition in range(topics[topic].partition_count):
                member = next(m for m in dealer if topic in members[m].topics)
                found[member].append((topic, partition))
        return found
