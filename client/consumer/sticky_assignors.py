"""Sticky and cooperative-sticky: balanced, and members keep their partitions where possible.

Assignments are those of the Java client, order included. If all members want the same topics,
`sticky_equal` divides them, otherwise `sticky_general`. Members report their partitions: under
`sticky` in the user data, since they revoke all before they join; under `cooperative-sticky` in the
subscription. A partition that two members claim in the same generation is owned by neither.

Cooperative: a partition that moves between members is in no assignment at first; its owner revokes
it and joins again, and then it is assigned (KIP-429).

Mirrors: StickyAssignor, CooperativeStickyAssignor and AbstractStickyAssignor of the Java client.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from struct import Struct, error
from typing import Final, NamedTuple

from ...protocol.topics import TopicPartition
from .assignments import NO_GENERATION, Assignment, Subscription, TopicShape
from .assignors import known_topics
from .java_order import java_order
from .racks import Racks
from .sticky_equal import divide_equally
from .sticky_general import Claim, divide

_INT16 = Struct(">h")
_INT32 = Struct(">i")
MAX_PARTITIONS: Final = 1_000_000  # in user data


class _Claims(NamedTuple):
    """The partitions that members own, by member, and those that several members claimed."""

    owned: dict[str, list[TopicPartition]]
    contested: set[TopicPartition]
    are_equal: bool  # all members want the same topics


class _StickyAssignor(ABC):
    @abstractmethod
    def _claim(self, member: Subscription) -> Claim:
        """The partitions that the member says it owns."""

    def _assign(
        self, topics: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> tuple[Assignment, dict[TopicPartition, str] | None]:
        """Also the partitions that move between members, if they are known already."""
        members = {member: members[member] for member in java_order(members)}
        topics = {topic: topics[topic] for topic in known_topics(topics, members)}
        claims = {member: self._claim(each) for member, each in members.items()}
        found = _sort_out(topics, members, claims)
        racks = Racks(topics, members)
        if found.are_equal:
            return divide_equally(topics, found.owned, found.contested, racks)
        return divide(topics, members, found.owned, claims, racks), None


def _sort_out(
    topics: Mapping[str, TopicShape],
    members: Mapping[str, Subscription],
    claims: Mapping[str, Claim],
) -> _Claims:
    wanted: set[str] = set()
    are_equal = True
    owned: dict[str, list[TopicPartition]] = {}
    owners: dict[TopicPartition, str] = {}
    contested: set[TopicPartition] = set()
    for member, subscription in members.items():
        if not wanted:
            wanted.update(subscription.topics)
        elif len(subscription.topics) != len(wanted) or not wanted.issuperset(subscription.topics):
            are_equal = False
        mine = owned[member] = []
        generation = claims[member].known_generation
        for partition in claims[member].partitions:
            if not _exists(topics, partition):
                continue
            other = owners.get(partition)
            if other is None:
                mine.append(partition)
                owners[partition] = member
                continue
            other_generation = max(members[other].generation, NO_GENERATION)
            if generation < other_generation:
                continue
            if generation == other_generation:
                contested.add(partition)
            else:
                mine.append(partition)
            if partition in owned[other]:
                owned[other].remove(partition)
            owners[partition] = member
    return _Claims(owned, contested, are_equal)


def _exists(topics: Mapping[str, TopicShape], partition: TopicPartition) -> bool:
    """Java checks the topic only, and fails on one that was created again with fewer partitions."""
    return partition[0] in topics and 0 <= partition[1] < topics[partition[0]].partition_count


class StickyAssignor(_StickyAssignor):
    """Eager: see the module."""

    name = "sticky"
    is_cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """The member's assignment before this rebalance; None if there was none."""
        if generation == NO_GENERATION:
            return None
        by_topic: dict[str, list[int]] = {}
        for topic, partition in owned:
            by_topic.setdefault(topic, []).append(partition)
        parts = [_INT32.pack(len(by_topic))]
        for topic in java_order(by_topic):
            name = topic.encode()
            numbers = by_topic[topic]
            parts += [_INT16.pack(len(name)), name, _INT32.pack(len(numbers))]
            parts += [_INT32.pack(number) for number in numbers]
        return b"".join([*parts, _INT32.pack(generation)])

    def _claim(self, member: Subscription) -> Claim:
        if not member.user_data:
            return Claim((), None)
        try:
            partitions, end = _read_partitions(member.user_data)
        except (error, UnicodeDecodeError, ValueError):
            return Claim((), NO_GENERATION)
        if end + _INT32.size > len(member.user_data):
            return Claim(partitions, None)
        return Claim(partitions, _INT32.unpack_from(member.user_data, end)[0])

    def assign(
        self, topics: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> Assignment:
        """See the module."""
        return self._assign(topics, members)[0]


def _read_partitions(data: bytes) -> tuple[tuple[TopicPartition, ...], int]:
    """The partitions and the end of their bytes. struct.error, UnicodeDecodeError or ValueError for
    other bytes."""
    found: list[TopicPartition] = []
    (count,) = _INT32.unpack_from(data)
    if count < 0:
        raise ValueError(count)
    at = _INT32.size
    for _ in range(count):
        (length,) = _INT16.unpack_from(data, at)
        at += _INT16.size
        if not 0 <= length <= len(data) - at:
            raise ValueError(length)
        topic = data[at : at + length].decode()
        at += length
        (numbers,) = _INT32.unpack_from(data, at)
        at += _INT32.size
        if not 0 <= numbers <= MAX_PARTITIONS:
            raise ValueError(numbers)
        for _ in range(numbers):
            found.append((topic, _INT32.unpack_from(data, at)[0]))
            at += _INT32.size
    return tuple(found), at


class CooperativeStickyAssignor(_StickyAssignor):
    """See the module."""

    name = "cooperative-sticky"
    is_cooperative = True

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """The generation of the last assignment, for leaders that do not read it from the
        subscription."""
        return _INT32.pack(generation)

    def _claim(self, member: Subscription) -> Claim:
        if member.generation >= 0:
            return Claim(member.owned, member.generation)
        if member.user_data is None:
            return Claim(member.owned, None)
        if len(member.user_data) < _INT32.size:
            return Claim(member.owned, NO_GENERATION)
        return Claim(member.owned, _INT32.unpack_from(member.user_data)[0])

    def assign(
        self, topics: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> Assignment:
        """See the module."""
        found, moving = self._assign(topics, members)
        if moving is None:
            moving = _moving(members, found)
        for partition, member in moving.items():
            found[member].remove(partition)
        return found


def _moving(members: Mapping[str, Subscription], found: Assignment) -> dict[TopicPartition, str]:
    """Partitions that one member gets and another owns."""
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member, partitions in found.items():
        owned = members[member].owned
        added.update((tp, member) for tp in partitions if tp not in owned)
        revoked.update(tp for tp in owned if tp not in partitions)
    return {tp: member for tp, member in added.items() if tp in revoked}
