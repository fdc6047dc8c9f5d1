"""TxnOffsetCommit: offsets of a group that are committed with a transaction (KIP-98).

Producers send it to the group's coordinator.
Versions: 2 adds leader epochs, 3 group members (KIP-447) and is flexible; 5 adds the group's
offsets to the transaction itself (KIP-890, part 2).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import WRITE_TRANSACTION, AccessRules, on_each_topic, on_group
from ..acls import AclOperation
from ..api_page import Api, elements
from ..features import Later
from ..schema import Message, Struct, array, int16, int32, int64, message, string


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    name: str = string()
    partitions: list[TxnOffsetCommitRequestPartition] = array(TxnOffsetCommitRequestPartition)


@message(api_key=28, kind="request", valid="0-5", flexible="3+")
class TxnOffsetCommitRequest(Message):
    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class TxnOffsetCommitResponseTopic(Struct):
    name: str = string()
    partitions: list[TxnOffsetCommitResponsePartition] = array(TxnOffsetCommitResponsePartition)


@message(api_key=28, kind="response", valid="0-5", flexible="3+")
class TxnOffsetCommitResponse(Message):
    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)


API: Final = Api(
    request=TxnOffsetCommitRequest,
    response=TxnOffsetCommitResponse,
    access=AccessRules(
        (WRITE_TRANSACTION, on_group(AclOperation.READ)), on_each_topic(AclOperation.READ)
    ),
    elements=(elements("topics.partitions", "topics.partitions"),),
    since="0.11",
    later=Later(5),
    needs_metadata=True,
    has_small_answers=True,
)
