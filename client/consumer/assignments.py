"""The messages between members of a group: subscriptions and assignments, to and from bytes.

Both follow an int16 version; a newer version than ours is read as our newest. Topics and owned
partitions are written sorted, assigned ones in the assignor's order, grouped by topic: so the bytes
equal those of the Java client for the same content.

Mirrors: ConsumerProtocol and ConsumerPartitionAssignor.Subscription (KIP-429, 792, 881).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from ...protocol.codec import decode_versioned, encode_versioned
from ...protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from ...protocol.primitives import Buffer
from ...protocol.topics import TopicPartition

NEWEST_VERSION: Final = 3
NO_GENERATION: Final = -1


class Subscription(NamedTuple):
    """The topics that a member wants, and the partitions it owns; only the leader knows
    `instance_id`."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    instance_id: str | None = None


class TopicShape(NamedTuple):
    """The racks of the replicas of each partition of a topic, from partition 0 on."""

    racks: tuple[frozenset[str], ...]

    @property
    def partition_count(self) -> int:
        return len(self.racks)


Assignment = dict[str, list[TopicPartition]]


class Assignor(Protocol):
    """Divides partitions among members, for the leader of a group; pure."""

    name: str
    is_cooperative: bool  # partitions move in two steps, and no member stops (KIP-429)

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """The user data of a member's subscription, for the leader."""
        ...

    def assign(
        self, topics: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> Assignment:
        """Partitions by member id, for all members. Topics that do not exist are left out."""
        ...


def encode_subscription(subscription: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """The bytes of a subscription, by default in the newest version of the Java client of 3.9."""
    message = ConsumerProtocolSubscription(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=[
            ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in _by_topic(sorted(subscription.owned)).items()
        ],
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return encode_versioned(message, version)


def decode_subscription(data: Buffer, instance_id: str | None = None) -> Subscription:
    """The subscription in these bytes. Raises ProtocolError."""
    found = decode_versioned(ConsumerProtocolSubscription, data, clamp=True)
    return Subscription(
        topics=tuple(found.topics),
        user_data=None if found.user_data is None else bytes(found.user_data),
        owned=tuple((each.topic, p) for each in found.owned_partitions for p in each.partitions),
        generation=found.generation_id,
        rack=found.rack_id,
        instance_id=instance_id,
    )


def encode_assignment(
    partitions: Iterable[TopicPartition],
    user_data: bytes | None = None,
    version: int = NEWEST_VERSION,
) -> bytes:
    """The bytes that the leader sends to one member."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in _by_topic(partitions).items()
        ],
        user_data=user_data,
    )
    return encode_versioned(message, version)


def decode_assignment(data: Buffer) -> list[TopicPartition]:
    """The partitions in the leader's order; none for empty bytes. Raises ProtocolError."""
    if not len(data):
        return []
    found = decode_versioned(ConsumerProtocolAssignment, data, clamp=True)
    return [(each.topic, p) for each in found.assigned_partitions for p in each.partitions]


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
