"""OffsetFetch: how far groups have read.

Consumers and tools send it to the group's coordinator.
Versions: 0 read from ZooKeeper, 2 asks for all topics by null, 7 waits for stable offsets
(KIP-447), 8 takes several groups (KIP-709), 9 member epochs, 10 names topics by id (KIP-848).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Failure, elements
from ..features import Later
from ..schema import Message, Struct, array, boolean, int16, int32, int64, message, string, uuid


class OffsetFetchRequestTopic(Struct):
    name: str = string("0-7")
    partition_indexes: list[int] = array("int32", "0-7")


class OffsetFetchRequestTopics(Struct):
    name: str = string("8-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partition_indexes: list[int] = array("int32", "8+")


class OffsetFetchRequestGroup(Struct):
    group_id: str = string("8+")
    member_id: str | None = string("9+", nullable="9+", default=None, ignorable=True)
    member_epoch: int = int32("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = array(
        OffsetFetchRequestTopics, "8+", nullable="8+"
    )


@message(api_key=9, kind="request", valid="0-10", flexible="6+")
class OffsetFetchRequest(Message):
    group_id: str = string("0-7")
    topics: list[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, "0-7", nullable="2-7"
    )
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")


class OffsetFetchResponsePartition(Struct):
    partition_index: int = int32("0-7")
    committed_offset: int = int64("0-7")
    committed_leader_epoch: int = int32("5-7", default=-1, ignorable=True)
    metadata: str | None = string("0-7", nullable="0-7")
    error_code: int = int16("0-7")


class OffsetFetchResponseTopic(Struct):
    name: str = string("0-7")
    partitions: list[OffsetFetchResponsePartition] = array(OffsetFetchResponsePartition, "0-7")


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = int32("8+")
    committed_offset: int = int64("8+")
    committed_leader_epoch: int = int32("8+", default=-1, ignorable=True)
    metadata: str | None = string("8+", nullable="8+")
    error_code: int = int16("8+")


class OffsetFetchResponseTopics(Struct):
    name: str = string("8-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, "8+")


class OffsetFetchResponseGroup(Struct):
    group_id: str = string("8+")
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+")
    error_code: int = int16("8+")


@message(api_key=9, kind="response", valid="0-10", flexible="6+")
class OffsetFetchResponse(Message):
    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, "0-7")
    error_code: int = int16("2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")


API: Final = Api(
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (Question(AclOperation.DESCRIBE, ResourceType.GROUP, "group_id"),),
                "GROUP_AUTHORIZATION_FAILED for the group",
            ),
            ByHandler(
                (Question(AclOperation.DESCRIBE, ResourceType.TOPIC, "name"),),
                "TOPIC_AUTHORIZATION_FAILED for the topic's partitions; left out if all "
                "topics are asked for",
            ),
        ),
        note="An error of the group comes before those of topics.",
    ),
    elements=(
        elements("groups.topics.partition_indexes", "groups.topics.partitions"),
        elements("topics.partition_indexes", "topics.partitions"),
    ),
    failure=Failure(values={"committed_offset": -1, "metadata": ""}),
    later=Later(10),
    is_repeated=True,
)
