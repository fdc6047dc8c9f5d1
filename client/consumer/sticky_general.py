"""Divide partitions among members that want different topics, with few moves and in balance.

Members keep the partitions that they own and still want; each other partition goes to the member
with the fewest partitions that wants it. Then partitions move from members with more to members
with fewer for as long as that helps; if the result is no better than before, nothing is moved. A
move that cancels an earlier one of the same topic between the same two members is preferred.

Mirrors: AbstractStickyAssignor.GeneralAssignmentBuilder and PartitionMovements, order included.
Leaves out: the check for cycles of moves, which only logs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...protocol.java_hash import java_string_hash
from ...protocol.topics import TopicPartition
from .assignments import NO_GENERATION, Assignment, Subscription, TopicShape
from .java_order import FIRST_BUCKETS, LOAD, spread, utf16_order
from .racks import Racks


class Claim(NamedTuple):
    """The partitions that a member claims, and their generation (None: not reported)."""

    partitions: Sequence[TopicPartition]
    generation: int | None

    @property
    def known_generation(self) -> int:
        return NO_GENERATION if self.generation is None else self.generation


def divide(
    topics: Mapping[str, TopicShape],
    members: Mapping[str, Subscription],
    owned: dict[str, list[TopicPartition]],
    claims: Mapping[str, Claim],
    racks: Racks,
) -> Assignment:
    """The assignment; `owned` is changed to it."""
    division = _Division(topics, members, owned, racks)
    previous = _previous_owners(claims)
    assigned = division.keep_owned(members)
    division.balance(previous, division.unassigned(assigned))
    return division.found


def _previous_owners(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """The last owner of each partition in generations before the newest one."""
    newest = max((claim.known_generation for claim in claims.values()), default=NO_GENERATION)
    found: dict[TopicPartition, tuple[int, str]] = {}
    for member, claim in claims.items():
        if claim.known_generation >= newest:
            continue
        for partition in claim.partitions:
            if partition not in found or claim.known_generation > found[partition][0]:
                found[partition] = (claim.known_generation, member)
    return {partition: member for partition, (_, member) in found.items()}


class _BySize:
    """Members ordered by their numbers of partitions, then by their ids."""

    def __init__(self, found: Assignment) -> None:
        self._found = found
        self._sorted: list[tuple[int, bytes, str]] = []

    def _entry(self, member: str) -> tuple[int, bytes, str]:
        return len(self._found[member]), utf16_order(member), member

    def add(self, member: str) -> None:
        insort(self._sorted, self._entry(member))

    def remove(self, member: str) -> None:
        """Call this before the member gets or loses a partition."""
        entry = self._entry(member)
        index = bisect_left(self._sorted, entry)
        assert self._sorted[index] == entry
        del self._sorted[index]

    def __iter__(self) -> Iterator[str]:
        return (member for _, _, member in self._sorted)

    @property
    def fewest(self) -> int:
        return self._sorted[0][0]

    @property
    def most(self) -> int:
        return self._sorted[-1][0]


class _PartitionSet:
    """Partitions of one topic, in the order of a java.util.HashSet, which never shrinks."""

    def __init__(self, topic: str) -> None:
        self._topic_hash = java_string_hash(topic)
        self._partitions: dict[TopicPartition, None] = {}
        self._buckets = FIRST_BUCKETS

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def add(self, partition: TopicPartition) -> None:
        self._partitions[partition] = None
        if len(self._partitions) > self._buckets * LOAD:
            self._buckets *= 2

    def remove(self, partition: TopicPartition) -> None:
        del self._partitions[partition]

    def first(self) -> TopicPartition:
        def bucket(partition: TopicPartition) -> int:
            return spread(31 * (31 + partition[1]) + self._topic_hash) & (self._buckets - 1)

        return min(self._partitions, key=bucket)


class _Moves:
    """The partitions moved from one member to another, by topic, source and target."""

    def __init__(self) -> None:
        self._pairs: dict[TopicPartition, tuple[str, str]] = {}
        self._moved: dict[tuple[str, str, str], _PartitionSet] = {}

    def note(self, partition: TopicPartition, source: str, target: str) -> None:
        before = self._pairs.pop(partition, None)
        if before is not None:
            key = (partition[0], *before)
            self._moved[key].remove(partition)
            if not self._moved[key]:
                del self._moved[key]
            source = before[0]
            if source == target:
                return
        self._pairs[partition] = (source, target)
        key = (partition[0], source, target)
        self._moved.setdefault(key, _PartitionSet(partition[0])).add(partition)

    def better(self, partition: TopicPartition, source: str, target: str) -> TopicPartition:
        """The partition to move instead: one moved the other way before, if there is one."""
        if partition in self._pairs:
            source = self._pairs[partition][0]
        back = self._moved.get((partition[0], target, source))
        return back.first() if back else partition


class _Division:
    def __init__(
        self,
        topics: Mapping[str, TopicShape],
        members: Mapping[str, Subscription],
        owned: dict[str, list[TopicPartition]],
        racks: Racks,
    ) -> None:
        self.found = owned
        self._topics = topics
        self._racks = racks
        self._total = sum(shape.partition_count for shape in topics.values())
        self._wanted = {m: [t for t in each.topics if t in topics] for m, each in members.items()}
        self._consumers: dict[str, list[str]] = {topic: [] for topic in topics}
        for member, wanted in self._wanted.items():
            for topic in wanted:
                self._consumers[topic].append(member)
        self._owner = {tp: member for member, mine in owned.items() for tp in mine}
        self._all = [
            (topic, number)
            for topic in sorted(topics, key=self._topic_order)
            for number in range(topics[topic].partition_count)
        ]
        self._by_size = _BySize(owned)
        self._has_revoked = False
        self._moves = _Moves()

    def _topic_order(self, topic: str) -> tuple[int, bytes]:
        return len(self._consumers[topic]), utf16_order(topic)

    def keep_owned(self, members: Mapping[str, Subscription]) -> list[TopicPartition]:
        """Remove partitions that their owner does not want any more or is not near to."""
        assigned = []
        for member, mine in self.found.items():
            kept = []
            for partition in mine:
                is_wanted = partition[0] in members[member].topics
                if not is_wanted or self._racks.mismatch(member, partition):
                    self._has_revoked = True
                else:
                    kept.append(partition)
            mine[:] = kept
            assigned += kept
        return assigned

    def unassigned(self, assigned: list[TopicPartition]) -> list[TopicPartition]:
        taken = set(assigned)
        return [partition for partition in self._all if partition not in taken]

    def balance(
        self, previous: Mapping[TopicPartition, str], unassigned: list[TopicPartition]
    ) -> None:
        """See the module."""
        for member in self.found:
            self._by_size.add(member)
        is_new = self._by_size.most == 0
        left = unassigned
        if self._racks.matter:
            left = [tp for tp in unassigned if not self._give(tp, only_near=True)]
        for partition in left:
            self._give(partition, only_near=False)

        contested = {topic for topic, members in self._consumers.items() if len(members) >= 2}
        movable = [tp for tp in self._all if tp[0] in contested]
        unassigned = [tp for tp in unassigned if tp[0] in contested]
        fixed = {}
        for member in self._wanted:
            if not self._may_change(member, contested):
                self._by_size.remove(member)
                fixed[member] = self.found.pop(member)
        before = {member: list(mine) for member, mine in self.found.items()}
        if not self._has_revoked:
            self._move(unassigned, previous)
        has_moved = self._move(movable, previous)
        if not is_new and has_moved and _imbalance(self.found) >= _imbalance(before):
            self.found.clear()
            self.found.update(before)
        self.found.update(fixed)

    def _give(self, partition: TopicPartition, *, only_near: bool) -> bool:
        """Assign to the member with the fewest partitions that wants it; whether there was one."""
        for member in self._by_size:
            if partition[0] not in self._wanted[member]:
                continue
            if only_near and self._racks.mismatch(member, partition):
                continue
            self._by_size.remove(member)
            self.found[member].append(partition)
            self._owner[partition] = member
            self._by_size.add(member)
            return True
        return False

    def _most_for(self, member: str) -> int:
        wanted = self._wanted[member]
        if len(wanted) == len(self._topics):
            return self._total
        return sum(self._topics[topic].partition_count for topic in wanted)

    def _may_change(self, member: str, contested: set[str]) -> bool:
        mine = self.found[member]
        return len(mine) < self._most_for(member) or any(tp[0] in contested for tp in mine)

    def _is_balanced(self) -> bool:
        if self._by_size.fewest >= self._by_size.most - 1:
            return True
        owners = {tp: member for member, mine in self.found.items() for tp in mine}
        for member in self._by_size:
            mine = self.found[member]
            if len(mine) == self._most_for(member):
                continue
            for topic in self._wanted[member]:
                for number in range(self._topics[topic].partition_count):
                    owner = owners.get((topic, number), member)
                    if owner != member and len(mine) + 1 < len(self.found[owner]):
                        return False
        return True

    def _move(
        self, partitions: Sequence[TopicPartition], previous: Mapping[TopicPartition, str]
    ) -> bool:
        """Move partitions until no move helps; whether there was a move."""
        has_moved = False
        goes_on = True
        while goes_on:
            goes_on = False
            for partition in partitions:
                if self._is_balanced():
                    break
                target = self._target(partition, previous)
                if target is not None:
                    self._reassign(partition, target)
                    has_moved = goes_on = True
        return has_moved

    def _target(
        self, partition: TopicPartition, previous: Mapping[TopicPartition, str]
    ) -> str | None:
        """The member that should own the partition instead, if any."""
        count = len(self.found[self._owner[partition]])
        before = previous.get(partition)
        if before in self.found and count > len(self.found[before]) + 1:
            return before
        consumers: Iterable[str] = self._consumers[partition[0]]
        if any(count > len(self.found[other]) + 1 for other in consumers):
            return next(m for m in self._by_size if partition[0] in self._wanted[m])
        return None

    def _reassign(self, partition: TopicPartition, target: str) -> None:
        source = self._owner[partition]
        partition = self._moves.better(partition, source, target)
        source = self._owner[partition]
        for member in dict.fromkeys((source, target)):
            self._by_size.remove(member)
        self._moves.note(partition, source, target)
        self.found[source].remove(partition)
        self.found[target].append(partition)
        self._owner[partition] = target
        for member in dict.fromkeys((target, source)):
            self._by_size.add(member)


def _imbalance(found: Assignment) -> int:
    sizes = sorted(map(len, found.values()))
    return sum(size * (2 * index - len(sizes) + 1) for index, size in enumerate(sizes))
