"""Produce: append record batches to partitions.

Producers send it to the leaders of partitions.
Versions: 2 adds the log append time; 3 transactional ids and record batches (magic 2), before it
came message sets; 5 the log start offset; 7 zstd; 8 errors of single records (KIP-467); 9 is
flexible; 10 tells clients the new leader and its endpoint (KIP-951); 13 names topics by id
(KIP-516). Versions 1, 4, 6, 11 and 12 change only what the sides promise. A request with acks=0
has no response.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Any, Final

from ..access_rules import WRITE_TRANSACTION, AccessRules, AnyRequest, When, on_each_topic
from ..acls import AclOperation
from ..api_page import Api, Failure, TopicsById, elements
from ..features import Later
from ..primitives import Records
from ..records.layout import LOW_ATTRIBUTES_POSITION, MAGIC_POSITION
from ..schema import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    message,
    opaque_records,
    string,
    struct,
    uuid,
)


class PartitionProduceData(Struct):
    index: int = int32()
    records: Records | None = opaque_records()


class TopicProduceData(Struct):
    name: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@message(api_key=0, kind="request", valid="0-13", flexible="9+")
class ProduceRequest(Message):
    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


class ProduceResponseLeaderIdAndEpoch(Struct):
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class PartitionProduceResponse(Struct):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64("2+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, "8+", ignorable=True
    )
    error_message: str | None = string("8+", nullable="8+", default=None, ignorable=True)
    current_leader: ProduceResponseLeaderIdAndEpoch = struct(
        ProduceResponseLeaderIdAndEpoch, "10+", tag=0
    )


class TopicProduceResponse(Struct):
    name: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class ProduceResponseNodeEndpoint(Struct):
    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", nullable="10+", default=None)


@message(api_key=0, kind="response", valid="0-13", flexible="9+")
class ProduceResponse(Message):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32("1+", ignorable=True)
    node_endpoints: list[ProduceResponseNodeEndpoint] = array(
        ProduceResponseNodeEndpoint, "10+", tag=0
    )


_MAGIC_V2: Final = 2
_TRANSACTIONAL: Final = 0x10


def _is_transactional(request: AnyRequest) -> bool:
    """By the first batch of each partition. Without an id the handler refuses it."""
    if request.body.transactional_id is None:
        return False
    for topic in request.body.topic_data:
        for partition in topic.partition_data:
            records = partition.records
            if (
                records is not None
                and len(records) > LOW_ATTRIBUTES_POSITION
                and records[MAGIC_POSITION] == _MAGIC_V2
                and records[LOW_ATTRIBUTES_POSITION] & _TRANSACTIONAL
            ):
                return True
    return False


def _none_without_acks(request: AnyRequest, answer: Any, code: int) -> Any:
    return None if request.body.acks == 0 else answer


API: Final = Api(
    request=ProduceRequest,
    response=ProduceResponse,
    access=AccessRules(
        (WRITE_TRANSACTION._replace(when=When("with transactional records", _is_transactional)),),
        on_each_topic(AclOperation.WRITE, of="topic_data"),
        note="With acks=0 the connection is closed when what is allowed is appended.",
    ),
    elements=(elements("topic_data.partition_data", "responses.partition_responses"),),
    failure=Failure(values={"base_offset": -1}, finish=_none_without_acks),
    later=Later(12),
    topics_by_id=TopicsById("topic_data", 13),
    is_read_in_place=True,
    has_small_answers=True,
)
