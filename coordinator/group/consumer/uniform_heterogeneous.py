"""The uniform assignor for members of different subscriptions.

Members keep the partitions that they are still subscribed to; the free ones of each topic go to its
least loaded subscribers; then partitions move from the most to the least loaded subscribers of a
topic, topic by topic, until no topic can be balanced further, or for `MAX_ROUNDS` rounds. Topics
with many partitions for each subscriber come first, because they leave the least choice.

The subscribers of one topic are balanced in two ranges of a list sorted by load: the least loaded
ones at its start take partitions in turns, the most loaded ones at its end give them in turns, and
a range grows when its level meets that of its neighbour.

Mirrors Kafka's UniformHeterogeneousAssignmentBuilder, whose choices these are.
"""

from typing import Final

from .assignment import Assignment, Division, frozen, id_order

MAX_ROUNDS: Final = 16
_NOBODY: Final = -1


class _Levels:
    """The subscribers of one topic by load, as partitions are taken and given in turns."""

    def __init__(self, loads: list[int], members: list[int]) -> None:
        self._loads = loads
        self._members = sorted(members, key=lambda member: (loads[member], member))
        least, most = loads[self._members[0]], loads[self._members[-1]]
        self.imbalance = most - least
        # Takers are the first `_low_end` members, all at `_low_level` before they took.
        self._low_end, self._low_next, self._low_level = 0, 0, least - 1
        # Givers are the members from `_high_start` to before `_high_end`, at `_high_level`.
        self._high_start = self._high_end = len(self._members)
        self._high_next, self._high_level = len(self._members) - 1, most + 1

    def is_balanced(self) -> bool:
        return self._high_level - self._low_level <= 1

    def taker(self) -> int:
        """The member that gets the next partition."""
        members, loads = self._members, self._loads
        if self._low_next >= self._low_end:
            self._low_level += 1
            while self._low_end < len(members) and (
                loads[members[self._low_end]] == self._low_level
            ):
                self._low_end += 1
            self._low_next = 0
        self._low_next += 1
        return members[self._low_next - 1]

    def giver(self) -> int:
        """The member that gives the next partition, or `_NOBODY`."""
        members, loads = self._members, self._loads
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                # All givers were dropped: go on with the level below.
                self._high_level = loads[members[self._high_start - 1]]
            else:
                self._high_level -= 1
            while self._high_start > 0 and (
                loads[members[self._high_start - 1]] == self._high_level
            ):
                self._high_start -= 1
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return _NOBODY
        self._high_next -= 1
        return members[self._high_next + 1]

    def drop_giver(self) -> None:
        """The last giver has no partition of this topic: no giver from now on."""
        members, place, last = self._members, self._high_next + 1, self._high_end - 1
        members[place], members[last] = members[last], members[place]
        self._high_end = last


class _Builder:
    def __init__(self, division: Division) -> None:
        self._subscribers = division.subscribers
        self._counts = division.partition_counts
        self._loads = [0] * len(division.subscribers)
        self._topic_members: dict[bytes, list[int]] = {}
        for member, subscriber in enumerate(division.subscribers):
            for topic_id in subscriber.topic_ids:
                self._topic_members.setdefault(topic_id, []).append(member)
        # The owner of each partition.
        self._owners = {
            topic_id: [_NOBODY] * self._counts[topic_id] for topic_id in self._topic_members
        }

    def build(self) -> dict[str, Assignment]:
        for member, subscriber in enumerate(self._subscribers):
            for topic_id, partitions in subscriber.target.items():
                if topic_id in subscriber.topic_ids:
                    for partition in partitions:
                        self._owners[topic_id][partition] = member
                    self._loads[member] += len(partitions)
        topics = sorted(self._topic_members, key=self._urgency)
        for topic_id in topics:
            levels = None
            for partition, owner in enumerate(self._owners[topic_id]):
                if owner == _NOBODY:
                    levels = levels or _Levels(self._loads, self._topic_members[topic_id])
                    self._give(topic_id, partition, levels.taker())
        self._balance([topic for topic in topics if len(self._topic_members[topic]) > 1])
        return self._result()

    def _urgency(self, topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
        members = len(self._topic_members[topic_id])
        return -self._counts[topic_id] / members, members, id_order(topic_id)

    def _give(self, topic_id: bytes, partition: int, member: int) -> None:
        owner = self._owners[topic_id][partition]
        if owner != _NOBODY:
            self._loads[owner] -= 1
        self._owners[topic_id][partition] = member
        self._loads[member] += 1

    def _balance(self, topics: list[bytes]) -> None:
        last_changed = -1
        for _ in range(MAX_ROUNDS):
            for index, topic_id in enumerate(topics):
                if index == last_changed:
                    return
                if self._balance_topic(topic_id) or last_changed == -1:
                    last_changed = index

    def _balance_topic(self, topic_id: bytes) -> int:
        """Move partitions of one topic; returns how many."""
        levels = _Levels(self._loads, self._topic_members[topic_id])
        if levels.imbalance <= 1:
            return 0
        # Of each owner its partitions in order; the last one goes first.
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(self._owners[topic_id]):
            owned.setdefault(owner, []).append(partition)
        moved = 0
        while not levels.is_balanced():
            giver = levels.giver()
            while giver != _NOBODY and not owned.get(giver):
                levels.drop_giver()
                giver = levels.giver()
            if giver == _NOBODY:
                break
            partition = owned[giver].pop()
            taker = levels.taker()
            if levels.is_balanced():
                break
            self._give(topic_id, partition, taker)
            moved += 1
        return moved

    def _result(self) -> dict[str, Assignment]:
        mine: list[dict[bytes, list[int]]] = [{} for _ in self._subscribers]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                mine[owner].setdefault(topic_id, []).append(partition)
        return {
            subscriber.member_id: frozen(owned)
            for subscriber, owned in zip(self._subscribers, mine, strict=True)
        }


def assign_heterogeneous(division: Division) -> dict[str, Assignment]:
    """The target of each member; nothing at all if no member is subscribed to a topic."""
    if not any(subscriber.topic_ids for subscriber in division.subscribers):
        return {}
    return _Builder(division).build()
