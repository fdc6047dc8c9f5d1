"""ReadShareGroupState: the state of a share partition, for its new leader (KIP-932).

Leaders send it to the share coordinator.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import BROKERS_ONLY
from ..api_page import Api, elements
from ..features import Feature, Later
from ..schema import Message, Struct, array, int8, int16, int32, int64, message, string, uuid


class PartitionData(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=84, kind="request", valid="0", flexible="0+")
class ReadShareGroupStateRequest(Message):
    group_id: str = string()
    topics: list[ReadStateData] = array(ReadStateData)


class StateBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


class ReadStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@message(api_key=84, kind="response", valid="0", flexible="0+")
class ReadShareGroupStateResponse(Message):
    results: list[ReadStateResult] = array(ReadStateResult)


API: Final = Api(
    request=ReadShareGroupStateRequest,
    response=ReadShareGroupStateResponse,
    access=BROKERS_ONLY,
    later=Later(0, Feature.SHARE),
    elements=(elements("topics.partitions", "results.partitions"),),
)
