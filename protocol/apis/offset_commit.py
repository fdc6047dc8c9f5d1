"""OffsetCommit: how far a group has read.

Consumers send it to the group's coordinator.
Versions: 1 adds generation and member; 2 the retention time, which 5 drops; 6 leader epochs; 7
static members; 8 is flexible; 9 lets members of new groups commit (KIP-848); 10 names topics
by id.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_each_topic, on_group
from ..acls import AclOperation
from ..api_page import Api, TopicsById, elements
from ..features import Later
from ..schema import Message, Struct, array, int16, int32, int64, message, string, uuid


class OffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("6+", default=-1, ignorable=True)
    commit_timestamp: int = int64("1", default=-1)
    committed_metadata: str | None = string(nullable="0+")


class OffsetCommitRequestTopic(Struct):
    name: str = string("0-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@message(api_key=8, kind="request", valid="0-10", flexible="8+")
class OffsetCommitRequest(Message):
    group_id: str = string()
    generation_id_or_member_epoch: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string("1+", ignorable=True)
    group_instance_id: str | None = string("7+", nullable="7+", default=None)
    retention_time_ms: int = int64("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


class OffsetCommitResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class OffsetCommitResponseTopic(Struct):
    name: str = string("0-9", ignorable=True)
    topic_id: bytes = uuid("10+", ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@message(api_key=8, kind="response", valid="0-10", flexible="8+")
class OffsetCommitResponse(Message):
    throttle_time_ms: int = int32("3+", ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)


API: Final = Api(
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
    access=AccessRules((on_group(AclOperation.READ),), on_each_topic(AclOperation.READ)),
    elements=(elements("topics.partitions", "topics.partitions"),),
    later=Later(10),
    topics_by_id=TopicsById("topics", 10),
    needs_metadata=True,
    is_repeated=True,
    has_small_answers=True,
)
