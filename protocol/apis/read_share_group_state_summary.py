"""ReadShareGroupStateSummary: the start offset of a share partition (KIP-932).

Group coordinators send it to the share coordinator.
Versions: 1 adds the number of records that are delivered for good (KIP-1226).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import BROKERS_ONLY
from ..api_page import Api, elements
from ..features import Feature, Later
from ..schema import Message, Struct, array, int16, int32, int64, message, string, uuid


class PartitionData(Struct):
    partition: int = int32()
    leader_epoch: int = int32()


class ReadStateSummaryData(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=87, kind="request", valid="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest(Message):
    group_id: str = string()
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData)


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32("1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@message(api_key=87, kind="response", valid="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse(Message):
    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult)


API: Final = Api(
    request=ReadShareGroupStateSummaryRequest,
    response=ReadShareGroupStateSummaryResponse,
    access=BROKERS_ONLY,
    later=Later(0, Feature.SHARE),
    elements=(elements("topics.partitions", "results.partitions"),),
)
