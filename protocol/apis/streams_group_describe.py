"""StreamsGroupDescribe: the groups of Kafka Streams applications, with topology and tasks.

Tools send it to the groups' coordinator (KIP-1071). Until streams.version is finalized it is not
served.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, elements
from ..features import Feature, Later
from ..schema import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uint16,
)


@message(api_key=89, kind="request", valid="0", flexible="0+")
class StreamsGroupDescribeRequest(Message):
    group_ids: list[str] = array("string")
    include_authorized_operations: bool = boolean()


class StreamsGroupDescribeResponseKeyValue(Struct):
    key: str = string()
    value: str = string()


class StreamsGroupDescribeResponseTopicInfo(Struct):
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[StreamsGroupDescribeResponseKeyValue] = array(
        StreamsGroupDescribeResponseKeyValue
    )


class StreamsGroupDescribeResponseSubtopology(Struct):
    subtopology_id: str = string()
    source_topics: list[str] = array("string")
    repartition_sink_topics: list[str] = array("string")
    state_changelog_topics: list[StreamsGroupDescribeResponseTopicInfo] = array(
        StreamsGroupDescribeResponseTopicInfo
    )
    repartition_source_topics: list[StreamsGroupDescribeResponseTopicInfo] = array(
        StreamsGroupDescribeResponseTopicInfo
    )


class StreamsGroupDescribeResponseTopology(Struct):
    epoch: int = int32()
    subtopologies: list[StreamsGroupDescribeResponseSubtopology] | None = array(
        StreamsGroupDescribeResponseSubtopology, nullable="0+", default=None
    )


class StreamsGroupDescribeResponseEndpoint(Struct):
    host: str = string()
    port: int = uint16()


class StreamsGroupDescribeResponseTaskOffset(Struct):
    subtopology_id: str = string()
    partition: int = int32()
    offset: int = int64()


class StreamsGroupDescribeResponseTaskIds(Struct):
    subtopology_id: str = string()
    partitions: list[int] = array("int32")


class StreamsGroupDescribeResponseAssignment(Struct):
    active_tasks: list[StreamsGroupDescribeResponseTaskIds] = array(
        StreamsGroupDescribeResponseTaskIds
    )
    standby_tasks: list[StreamsGroupDescribeResponseTaskIds] = array(
        StreamsGroupDescribeResponseTaskIds
    )
    warmup_tasks: list[StreamsGroupDescribeResponseTaskIds] = array(
        StreamsGroupDescribeResponseTaskIds
    )


class StreamsGroupDescribeResponseMember(Struct):
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: StreamsGroupDescribeResponseEndpoint | None = struct(
        StreamsGroupDescribeResponseEndpoint, nullable="0+", default=None
    )
    client_tags: list[StreamsGroupDescribeResponseKeyValue] = array(
        StreamsGroupDescribeResponseKeyValue
    )
    task_offsets: list[StreamsGroupDescribeResponseTaskOffset] = array(
        StreamsGroupDescribeResponseTaskOffset
    )
    task_end_offsets: list[StreamsGroupDescribeResponseTaskOffset] = array(
        StreamsGroupDescribeResponseTaskOffset
    )
    assignment: StreamsGroupDescribeResponseAssignment = struct(
        StreamsGroupDescribeResponseAssignment
    )
    target_assignment: StreamsGroupDescribeResponseAssignment = struct(
        StreamsGroupDescribeResponseAssignment
    )
    is_classic: bool = boolean()


class StreamsGroupDescribeResponseDescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    topology: StreamsGroupDescribeResponseTopology | None = struct(
        StreamsGroupDescribeResponseTopology, nullable="0+", default=None
    )
    members: list[StreamsGroupDescribeResponseMember] = array(StreamsGroupDescribeResponseMember)
    authorized_operations: int = int32(default=-2_147_483_648)


@message(api_key=89, kind="response", valid="0", flexible="0+")
class StreamsGroupDescribeResponse(Message):
    throttle_time_ms: int = int32()
    groups: list[StreamsGroupDescribeResponseDescribedGroup] = array(
        StreamsGroupDescribeResponseDescribedGroup
    )


API: Final = Api(
    request=StreamsGroupDescribeRequest,
    response=StreamsGroupDescribeResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (Question(AclOperation.DESCRIBE, ResourceType.GROUP, "group_ids"),),
                "GROUP_AUTHORIZATION_FAILED for the group",
            ),
            ByHandler(
                (Question(AclOperation.DESCRIBE, ResourceType.TOPIC, "topology"),),
                "of each topic: TOPIC_AUTHORIZATION_FAILED for the group",
            ),
        ),
    ),
    later=Later(0, Feature.STREAMS),
    elements=(elements("group_ids", "groups"),),
    has_distinct_elements=True,
)
