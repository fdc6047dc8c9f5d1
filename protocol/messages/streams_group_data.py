"""Keys and values in `__consumer_offsets`: groups of Kafka Streams applications (KIP-1071).

The int16 in front of a key is the number of its kind, 17 and 19 to 23 (`CoordinatorRecordType`).
Values stand behind an int16 version, as all do; each has version 0 only. A default that
Kafka's schemas give as null without quotes is an empty list in its classes.

Mirrors: the schemas of the same names in group-coordinator/src/main/resources/common/message.
"""

from __future__ import annotations

from ..schema import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uint16,
)


@message(kind="data", valid="0")
class StreamsGroupMetadataKey(Message):
    group_id: str = string()


class LastAssignmentConfig(Struct):
    key: str = string()
    value: str = string()


@message(kind="data", valid="0", flexible="0+")
class StreamsGroupMetadataValue(Message):
    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = array(
        LastAssignmentConfig, nullable="0+", tag=1
    )


@message(kind="data", valid="0")
class StreamsGroupMemberMetadataKey(Message):
    group_id: str = string()
    member_id: str = string()


class Endpoint(Struct):
    host: str = string()
    port: int = uint16()


class KeyValue(Struct):
    key: str = string()
    value: str = string()


@message(kind="data", valid="0", flexible="0+")
class StreamsGroupMemberMetadataValue(Message):
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = struct(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue)


@message(kind="data", valid="0")
class StreamsGroupTargetAssignmentMetadataKey(Message):
    group_id: str = string()


@message(kind="data", valid="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(default=0, ignorable=True, tag=0)


@message(kind="data", valid="0")
class StreamsGroupTargetAssignmentMemberKey(Message):
    group_id: str = string()
    member_id: str = string()


class TargetTaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array("int32")


@message(kind="data", valid="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue(Message):
    active_tasks: list[TargetTaskIds] = array(TargetTaskIds)
    standby_tasks: list[TargetTaskIds] = array(TargetTaskIds)
    warmup_tasks: list[TargetTaskIds] = array(TargetTaskIds)


@message(kind="data", valid="0")
class StreamsGroupCurrentMemberAssignmentKey(Message):
    group_id: str = string()
    member_id: str = string()


class CurrentTaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array("int32")
    assignment_epochs: list[int] | None = array("int32", nullable="0+", tag=0)


@message(kind="data", valid="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue(Message):
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    standby_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    warmup_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    active_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)
    standby_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)
    warmup_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)


@message(kind="data", valid="0")
class StreamsGroupTopologyKey(Message):
    group_id: str = string()


class TopicConfig(Struct):
    key: str = string()
    value: str = string()


class TopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[TopicConfig] = array(TopicConfig)


class CopartitionGroup(Struct):
    source_topics: list[int] = array("int16")
    source_topic_regex: list[int] = array("int16")
    repartition_source_topics: list[int] = array("int16")


class Subtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array("string")
    source_topic_regex: list[str] = array("string")
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array("string")
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


@message(kind="data", valid="0", flexible="0+")
class StreamsGroupTopologyValue(Message):
    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)
