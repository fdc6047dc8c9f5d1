"""What members of a group tell each other: subscriptions and assignments, in and out of bytes.

Both stand behind an int16 version; one that is newer than ours is read as our newest. Topics and
owned partitions are written sorted, the assigned ones in the order that the assignor gave them,
grouped by topic: so bytes are those of the Java client for the same content.

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
    """What a member wants, and what it has; `instance_id` is known to the leader only."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None
    instance_id: str | None = None


class TopicShape(NamedTuple):
    """Of a topic: for each of its partitions, 0 and on, the racks of its replicas."""

    racks: tuple[frozenset[str], ...]

    @property
    def partition_count(self) -> int:
        return len(self.racks)


Assignment = dict[str, list[TopicPartition]]


class Assignor(Protocol):
    """How the leader of a group divides partitions; pure."""

    name: str
    is_cooperative: bool  # partitions change hands in two steps, and nobody stops (KIP-429)

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        """What a member tells the leader beside its subscription."""
        ...

    def assign(
        self, topics: Mapping[str, TopicShape], members: Mapping[str, Subscription]
    ) -> Assignment:
        """Partitions by member id, all members included. Topics that are not there are left out."""
        ...


def encode_subscription(subscription: Subscription, version: int = NEWEST_VERSION) -> bytes:
    """In the newest version that the Java client of 3.9 writes, or an older one."""
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
    """Raises ProtocolError."""
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
    """What the leader sends to one member."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in _by_topic(partitions).items()
        ],
        user_data=user_data,
    )
    return encode_versioned(message, version)


def decode_assignment(data: Buffer) -> list[TopicPartition]:
    """In the leader's order; no bytes at all are no partitions. Raises ProtocolError."""
    if not len(data):
        return []
    found = decode_versioned(ConsumerProtocolAssignment, data, clamp=True)
    return [(each.topic, p) for each in found.assigned_partitions for p in each.partitions]


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
