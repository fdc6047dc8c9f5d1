"""DeleteRecords: partitions lose the records before an offset (KIP-107).

Tools and admin clients send it to leaders.
Versions: 2 is flexible.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_each_topic
from ..acls import AclOperation
from ..api_page import Api, Failure, elements
from ..schema import Message, Struct, array, int16, int32, int64, message, string


class DeleteRecordsPartition(Struct):
    partition_index: int = int32()
    offset: int = int64()


class DeleteRecordsTopic(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


@message(api_key=21, kind="request", valid="0-2", flexible="2+")
class DeleteRecordsRequest(Message):
    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


class DeleteRecordsTopicResult(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


@message(api_key=21, kind="response", valid="0-2", flexible="2+")
class DeleteRecordsResponse(Message):
    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)


API: Final = Api(
    request=DeleteRecordsRequest,
    response=DeleteRecordsResponse,
    access=AccessRules(each=on_each_topic(AclOperation.DELETE)),
    elements=(elements("topics.partitions", "topics.partitions"),),
    failure=Failure(values={"low_watermark": -1}),
    since="0.11",
)
