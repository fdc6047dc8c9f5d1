"""DescribeProducers: the producers that are active in partitions (KIP-664).

Tools and admin clients send it to leaders.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Handling, elements
from ..schema import Message, Struct, array, int16, int32, int64, message, string


class TopicRequest(Struct):
    name: str = string()
    partition_indexes: list[int] = array("int32")


@message(api_key=61, kind="request", valid="0", flexible="0+")
class DescribeProducersRequest(Message):
    topics: list[TopicRequest] = array(TopicRequest)


class ProducerState(Struct):
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


class PartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: list[ProducerState] = array(ProducerState)


class TopicResponse(Struct):
    name: str = string()
    partitions: list[PartitionResponse] = array(PartitionResponse)


@message(api_key=61, kind="response", valid="0", flexible="0+")
class DescribeProducersResponse(Message):
    throttle_time_ms: int = int32()
    topics: list[TopicResponse] = array(TopicResponse)


API: Final = Api(
    request=DescribeProducersRequest,
    response=DescribeProducersResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (Question(AclOperation.READ, ResourceType.TOPIC, "name"),),
                "TOPIC_AUTHORIZATION_FAILED for the topic's partitions",
            ),
        ),
        note="After INVALID_TOPIC_EXCEPTION.",
    ),
    elements=(elements("topics.partition_indexes", "topics.partitions"),),
    since="2.8",
    handling=Handling.IN_TURNS,
)
