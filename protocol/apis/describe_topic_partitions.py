"""DescribeTopicPartitions: topics with their partitions, in pages (KIP-966).

Admin clients send it to any broker.

Mirrors: the schemas of this name in clients/src/main/resources/common/message of Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Handling, elements_together
from ..features import Later
from ..schema import Message, Struct, array, boolean, int16, int32, message, string, struct, uuid


class TopicRequest(Struct):
    name: str = string()


class Cursor(Struct):
    topic_name: str = string()
    partition_index: int = int32()


@message(api_key=75, kind="request", valid="0", flexible="0+")
class DescribeTopicPartitionsRequest(Message):
    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = struct(Cursor, nullable="0+", default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1, ignorable=True)
    replica_nodes: list[int] = array("int32")
    isr_nodes: list[int] = array("int32")
    eligible_leader_replicas: list[int] | None = array("int32", nullable="0+", default=None)
    last_known_elr: list[int] | None = array("int32", nullable="0+", default=None)
    offline_replicas: list[int] = array("int32", ignorable=True)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid(ignorable=True)
    is_internal: bool = boolean(ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = int32(default=-2_147_483_648)


@message(api_key=75, kind="response", valid="0", flexible="0+")
class DescribeTopicPartitionsResponse(Message):
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = struct(Cursor, nullable="0+", default=None)


API: Final = Api(
    request=DescribeTopicPartitionsRequest,
    response=DescribeTopicPartitionsResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (Question(AclOperation.DESCRIBE, ResourceType.TOPIC, "name"),),
                "TOPIC_AUTHORIZATION_FAILED, whether there is such a topic or not; left out if all "
                "topics are asked for",
            ),
        ),
        note="Authorized operations of topics are those that are allowed.",
    ),
    elements=(elements_together("topics", "topics"),),
    since="3.8",
    later=Later(0),
    needs_metadata=True,
    handling=Handling.IN_TURNS,
)
