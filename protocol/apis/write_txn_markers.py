"""WriteTxnMarkers: the end of transactions, for the logs of their partitions (KIP-98).

Transaction coordinators send it to leaders, and tools to end a hanging transaction (KIP-664).
Versions: 1 is flexible; 2 says by which transaction version a marker is checked (KIP-1228).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_cluster
from ..acls import AclOperation
from ..api_page import Api, elements
from ..features import Later
from ..schema import Message, Struct, array, boolean, int8, int16, int32, int64, message, string


class WritableTxnMarkerTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array("int32")


class WritableTxnMarker(Struct):
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+", default=0, ignorable=True)


@message(api_key=27, kind="request", valid="0-2", flexible="1+")
class WriteTxnMarkersRequest(Message):
    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class WritableTxnMarkerTopicResult(Struct):
    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


class WritableTxnMarkerResult(Struct):
    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


@message(api_key=27, kind="response", valid="0-2", flexible="1+")
class WriteTxnMarkersResponse(Message):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)


API: Final = Api(
    request=WriteTxnMarkersRequest,
    response=WriteTxnMarkersResponse,
    access=AccessRules((on_cluster(AclOperation.ALTER, AclOperation.CLUSTER_ACTION),)),
    elements=(elements("markers.topics.partition_indexes", "markers.topics.partitions"),),
    since="0.11",
    later=Later(2),
    is_exempt=True,
)
