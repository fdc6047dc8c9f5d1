"""Partitions by topic id, and the members among which an assignor divides them.

Mirrors Kafka's Assignment, GroupSpec and MemberSubscription. The order of members is that of the
sequence that an assignor gets: by member id, so that it does not depend on how the group came to
be (Kafka's is that of its hash table).
"""

from collections.abc import Collection, Mapping, Sequence
from struct import Struct
from typing import Final, NamedTuple

# By topic id; never with an empty set.
Assignment = Mapping[bytes, frozenset[int]]
# By topic id and partition, the epoch in which a member got it; never with an empty mapping.
PartitionEpochs = Mapping[bytes, Mapping[int, int]]

NOTHING: Final[Assignment] = {}
_SIGNED: Final = Struct(">qq").unpack


class AssignorError(Exception):
    """An assignor cannot divide the partitions; the text is for the member that asked."""


class Subscriber(NamedTuple):
    """A member, as assignors see it."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    # Its part of the last target assignment.
    target: Assignment


class Division(NamedTuple):
    """The task of an assignor."""

    subscribers: Sequence[Subscriber]
    # Of each topic that a member is subscribed to.
    partition_counts: Mapping[bytes, int]
    # Whether all members are subscribed to the same topics.
    is_homogeneous: bool


def id_order(topic_id: bytes) -> tuple[int, int]:
    """The order of ids in Java: by two signed halves."""
    high, low = _SIGNED(topic_id)
    return high, low


def frozen(assignment: Mapping[bytes, Collection[int]]) -> Assignment:
    return {topic_id: frozenset(found) for topic_id, found in assignment.items() if found}
