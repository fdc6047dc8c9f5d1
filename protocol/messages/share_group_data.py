"""Keys and values in `__consumer_offsets`: share groups (KIP-932).

Keys have no version of their own: the int16 in front of a key is the number of its kind, 10 to 15
(`CoordinatorRecordType`). Values stand behind an int16 version, as all do; each has version 0 only.

Mirrors: the schemas of the same names in group-coordinator/src/main/resources/common/message.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int8, int32, int64, message, string, uuid


@message(kind="data", valid="0")
class ShareGroupMemberMetadataKey(Message):
    group_id: str = string()
    member_id: str = string()


@message(kind="data", valid="0", flexible="0+")
class ShareGroupMemberMetadataValue(Message):
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array("string")


@message(kind="data", valid="0")
class ShareGroupMetadataKey(Message):
    group_id: str = string()


@message(kind="data", valid="0", flexible="0+")
class ShareGroupMetadataValue(Message):
    epoch: int = int32()
    metadata_hash: int = int64()


@message(kind="data", valid="0")
class ShareGroupTargetAssignmentMetadataKey(Message):
    group_id: str = string()


@message(kind="data", valid="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(default=0, tag=0, ignorable=True)


@message(kind="data", valid="0")
class ShareGroupTargetAssignmentMemberKey(Message):
    group_id: str = string()
    member_id: str = string()


class TargetTopicPartition(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


@message(kind="data", valid="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue(Message):
    topic_partitions: list[TargetTopicPartition] = array(TargetTopicPartition)


@message(kind="data", valid="0")
class ShareGroupCurrentMemberAssignmentKey(Message):
    group_id: str = string()
    member_id: str = string()


class CurrentTopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


@message(kind="data", valid="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[CurrentTopicPartitions] = array(CurrentTopicPartitions)


@message(kind="data", valid="0")
class ShareGroupStatePartitionMetadataKey(Message):
    group_id: str = string()


class TopicPartitionsInfo(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array("int32")


class TopicInfo(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()


@message(kind="data", valid="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue(Message):
    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)
