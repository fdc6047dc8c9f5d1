"""Keys and values in `__consumer_offsets`: consumer groups of KIP-848.

Keys have no version of their own: the int16 in front of a key is the number of its kind, 3 to 8 and
16 (`CoordinatorRecordType`). Values stand behind an int16 version, as all do; each has version 0
only. Records of kind 4 are not decoded: Kafka 4.1 replaced them by the hash in kind 3.

Mirrors: the schemas of the same names in group-coordinator/src/main/resources/common/message.
"""

from __future__ import annotations

from ..primitives import Buffer
from ..schema import (
    Message,
    Struct,
    array,
    binary,
    int8,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)


@message(kind="data", valid="0")
class ConsumerGroupMetadataKey(Message):
    group_id: str = string()


@message(kind="data", valid="0", flexible="0+")
class ConsumerGroupMetadataValue(Message):
    epoch: int = int32()
    metadata_hash: int = int64(default=0, tag=0)


@message(kind="data", valid="0")
class ConsumerGroupPartitionMetadataKey(Message):
    group_id: str = string()


@message(kind="data", valid="0")
class ConsumerGroupMemberMetadataKey(Message):
    group_id: str = string()
    member_id: str = string()


class ClassicProtocol(Struct):
    name: str = string()
    metadata: Buffer = binary()


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


@message(kind="data", valid="0", flexible="0+")
class ConsumerGroupMemberMetadataValue(Message):
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array("string")
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    # Its default is not null, in Kafka's classes: a member of the consumer protocol has the tag.
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, nullable="0+", tag=0
    )


@message(kind="data", valid="0")
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    group_id: str = string()


@message(kind="data", valid="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(default=0, tag=0, ignorable=True)


@message(kind="data", valid="0")
class ConsumerGroupTargetAssignmentMemberKey(Message):
    group_id: str = string()
    member_id: str = string()


class TargetTopicPartition(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


@message(kind="data", valid="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue(Message):
    topic_partitions: list[TargetTopicPartition] = array(TargetTopicPartition)


@message(kind="data", valid="0")
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    group_id: str = string()
    member_id: str = string()


class CurrentTopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")
    assignment_epochs: list[int] | None = array("int32", nullable="0+", tag=0)


@message(kind="data", valid="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[CurrentTopicPartitions] = array(CurrentTopicPartitions)
    partitions_pending_revocation: list[CurrentTopicPartitions] = array(CurrentTopicPartitions)


@message(kind="data", valid="0")
class ConsumerGroupRegularExpressionKey(Message):
    group_id: str = string()
    regular_expression: str = string()


@message(kind="data", valid="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Message):
    topics: list[str] = array("string")
    version: int = int64()
    timestamp: int = int64()
