"""The data of consumers in JoinGroup and SyncGroup: subscriptions and assignments.

Each stands behind an int16 version; a newer version than ours is read as our newest
(`codec.decode_versioned(..., clamp=True)`). Subscriptions: 1 adds owned partitions (KIP-429), 2
the generation (KIP-792), 3 the rack (KIP-881). The broker only passes them on, except to list a
group's topics.

Mirrors: the schemas of the same names in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from ..primitives import Buffer
from ..schema import Message, Struct, array, binary, int32, message, string


class ConsumerProtocolSubscriptionTopicPartition(Struct):
    topic: str = string("1+")
    partitions: list[int] = array("int32", "1+")


@message(kind="data", valid="0-3")
class ConsumerProtocolSubscription(Message):
    topics: list[str] = array("string")
    user_data: Buffer | None = binary(nullable="0+", default=None)
    owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = array(
        ConsumerProtocolSubscriptionTopicPartition, "1+", ignorable=True
    )
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignmentTopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array("int32")


@message(kind="data", valid="0-3")
class ConsumerProtocolAssignment(Message):
    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = array(
        ConsumerProtocolAssignmentTopicPartition
    )
    user_data: Buffer | None = binary(nullable="0+", default=None)
