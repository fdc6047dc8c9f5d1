"""DeleteShareGroupState: forget the state of a share partition (KIP-932).

Group coordinators send it to the share coordinator.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import BROKERS_ONLY
from ..api_page import Api, elements
from ..features import Feature, Later
from ..schema import Message, Struct, array, int16, int32, message, string, uuid


class PartitionData(Struct):
    partition: int = int32()


class DeleteStateData(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=86, kind="request", valid="0", flexible="0+")
class DeleteShareGroupStateRequest(Message):
    group_id: str = string()
    topics: list[DeleteStateData] = array(DeleteStateData)


class PartitionResult(Struct):
    partition: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class DeleteStateResult(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@message(api_key=86, kind="response", valid="0", flexible="0+")
class DeleteShareGroupStateResponse(Message):
    results: list[DeleteStateResult] = array(DeleteStateResult)


API: Final = Api(
    request=DeleteShareGroupStateRequest,
    response=DeleteShareGroupStateResponse,
    access=BROKERS_ONLY,
    later=Later(0, Feature.SHARE),
    elements=(elements("topics.partitions", "results.partitions"),),
)
