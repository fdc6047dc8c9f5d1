"""StreamsGroupHeartbeat: membership in the group of a Kafka Streams application (KIP-1071).

A Streams client sends its topology when it joins, and says which tasks it has; the coordinator
answers with the tasks that it should have, the partitions behind the endpoints of others, and the
state of the application's topics. Until streams.version is finalized it is not served.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api
from ..features import Feature, Later
from ..schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uint16,
)


class StreamsGroupHeartbeatRequestKeyValue(Struct):
    key: str = string()
    value: str = string()


class StreamsGroupHeartbeatRequestTopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[StreamsGroupHeartbeatRequestKeyValue] = array(
        StreamsGroupHeartbeatRequestKeyValue
    )


class StreamsGroupHeartbeatRequestCopartitionGroup(Struct):
    source_topics: list[int] = array("int16")
    source_topic_regex: list[int] = array("int16")
    repartition_source_topics: list[int] = array("int16")


class StreamsGroupHeartbeatRequestSubtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array("string")
    source_topic_regex: list[str] = array("string")
    state_changelog_topics: list[StreamsGroupHeartbeatRequestTopicInfo] = array(
        StreamsGroupHeartbeatRequestTopicInfo
    )
    repartition_sink_topics: list[str] = array("string")
    repartition_source_topics: list[StreamsGroupHeartbeatRequestTopicInfo] = array(
        StreamsGroupHeartbeatRequestTopicInfo
    )
    copartition_groups: list[StreamsGroupHeartbeatRequestCopartitionGroup] = array(
        StreamsGroupHeartbeatRequestCopartitionGroup
    )


class StreamsGroupHeartbeatRequestTopology(Struct):
    epoch: int = int32()
    subtopologies: list[StreamsGroupHeartbeatRequestSubtopology] = array(
        StreamsGroupHeartbeatRequestSubtopology
    )


class StreamsGroupHeartbeatRequestTaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array("int32")


class StreamsGroupHeartbeatRequestEndpoint(Struct):
    host: str = string()
    port: int = uint16()


class StreamsGroupHeartbeatRequestTaskOffset(Struct):
    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


@message(api_key=88, kind="request", valid="0", flexible="0+")
class StreamsGroupHeartbeatRequest(Message):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    endpoint_information_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    topology: StreamsGroupHeartbeatRequestTopology | None = struct(
        StreamsGroupHeartbeatRequestTopology, nullable="0+", default=None
    )
    active_tasks: list[StreamsGroupHeartbeatRequestTaskIds] | None = array(
        StreamsGroupHeartbeatRequestTaskIds, nullable="0+", default=None
    )
    standby_tasks: list[StreamsGroupHeartbeatRequestTaskIds] | None = array(
        StreamsGroupHeartbeatRequestTaskIds, nullable="0+", default=None
    )
    warmup_tasks: list[StreamsGroupHeartbeatRequestTaskIds] | None = array(
        StreamsGroupHeartbeatRequestTaskIds, nullable="0+", default=None
    )
    process_id: str | None = string(nullable="0+", default=None)
    user_endpoint: StreamsGroupHeartbeatRequestEndpoint | None = struct(
        StreamsGroupHeartbeatRequestEndpoint, nullable="0+", default=None
    )
    client_tags: list[StreamsGroupHeartbeatRequestKeyValue] | None = array(
        StreamsGroupHeartbeatRequestKeyValue, nullable="0+", default=None
    )
    task_offsets: list[StreamsGroupHeartbeatRequestTaskOffset] | None = array(
        StreamsGroupHeartbeatRequestTaskOffset, nullable="0+", default=None
    )
    task_end_offsets: list[StreamsGroupHeartbeatRequestTaskOffset] | None = array(
        StreamsGroupHeartbeatRequestTaskOffset, nullable="0+", default=None
    )
    shutdown_application: bool = boolean()


class StreamsGroupHeartbeatResponseStatus(Struct):
    status_code: int = int8()
    status_detail: str = string()


class StreamsGroupHeartbeatResponseTaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array("int32")


class StreamsGroupHeartbeatResponseEndpoint(Struct):
    host: str = string()
    port: int = uint16()


class StreamsGroupHeartbeatResponseTopicPartition(Struct):
    topic: str = string()
    partitions: list[int] = array("int32")


class EndpointToPartitions(Struct):
    user_endpoint: StreamsGroupHeartbeatResponseEndpoint = struct(
        StreamsGroupHeartbeatResponseEndpoint
    )
    active_partitions: list[StreamsGroupHeartbeatResponseTopicPartition] = array(
        StreamsGroupHeartbeatResponseTopicPartition
    )
    standby_partitions: list[StreamsGroupHeartbeatResponseTopicPartition] = array(
        StreamsGroupHeartbeatResponseTopicPartition
    )


@message(api_key=88, kind="response", valid="0", flexible="0+")
class StreamsGroupHeartbeatResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str = string()
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    acceptable_recovery_lag: int = int32()
    task_offset_interval_ms: int = int32()
    status: list[StreamsGroupHeartbeatResponseStatus] | None = array(
        StreamsGroupHeartbeatResponseStatus, nullable="0+"
    )
    active_tasks: list[StreamsGroupHeartbeatResponseTaskIds] | None = array(
        StreamsGroupHeartbeatResponseTaskIds, nullable="0+", default=None
    )
    standby_tasks: list[StreamsGroupHeartbeatResponseTaskIds] | None = array(
        StreamsGroupHeartbeatResponseTaskIds, nullable="0+", default=None
    )
    warmup_tasks: list[StreamsGroupHeartbeatResponseTaskIds] | None = array(
        StreamsGroupHeartbeatResponseTaskIds, nullable="0+", default=None
    )
    endpoint_information_epoch: int = int32()
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array(
        EndpointToPartitions, nullable="0+", default=None
    )


API: Final = Api(
    request=StreamsGroupHeartbeatRequest,
    response=StreamsGroupHeartbeatResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (Question(AclOperation.READ, ResourceType.GROUP, "group_id"),),
                "GROUP_AUTHORIZATION_FAILED",
            ),
            ByHandler(
                (Question(AclOperation.DESCRIBE, ResourceType.TOPIC, "topology"),),
                "of each topic: TOPIC_AUTHORIZATION_FAILED if one is denied",
            ),
            ByHandler(
                (
                    Question(AclOperation.CREATE, ResourceType.CLUSTER),
                    Question(AclOperation.CREATE, ResourceType.TOPIC, "topology"),
                ),
                "of each internal topic that is missing: none is created, and the status "
                "MISSING_INTERNAL_TOPICS names the denied ones",
            ),
        ),
    ),
    later=Later(0, Feature.STREAMS),
    is_repeated=True,
    small_without=(
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "partitions_by_user_endpoint",
        "status",
    ),
)
