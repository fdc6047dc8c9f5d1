"""InitializeShareGroupState: the first state of a share partition (KIP-932).

Group coordinators send it to the share coordinator.

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
    state_epoch: int = int32()
    start_offset: int = int64()


class InitializeStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=83, kind="request", valid="0", flexible="0+")
class InitializeShareGroupStateRequest(Message):
    group_id: str = string()
    topics: list[InitializeStateData] = array(InitializeStateData)


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class InitializeStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@message(api_key=83, kind="response", valid="0", flexible="0+")
class InitializeShareGroupStateResponse(Message):
    results: list[InitializeStateResult] = array(InitializeStateResult)


API: Final = Api(
    request=InitializeShareGroupStateRequest,
    response=InitializeShareGroupStateResponse,
    access=BROKERS_ONLY,
    later=Later(0, Feature.SHARE),
    elements=(elements("topics.partitions", "results.partitions"),),
)
