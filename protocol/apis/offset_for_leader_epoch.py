"""OffsetForLeaderEpoch: where a leader epoch ends in a log (KIP-101, KIP-320).

Followers and consumers send it to leaders.
Versions: 3 adds the replica id, 4 is flexible.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, Question, on_each_topic
from ..acls import AclOperation, ResourceType
from ..api_page import Api, elements
from ..schema import Message, Struct, array, int16, int32, int64, message, string


class OffsetForLeaderPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32("2+", default=-1, ignorable=True)
    leader_epoch: int = int32()


class OffsetForLeaderTopic(Struct):
    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@message(api_key=23, kind="request", valid="0-4", flexible="4+")
class OffsetForLeaderEpochRequest(Message):
    replica_id: int = int32("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


class OffsetForLeaderEpochResponseEpochEndOffset(Struct):
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32("1+", default=-1, ignorable=True)
    end_offset: int = int64(default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = string()
    partitions: list[OffsetForLeaderEpochResponseEpochEndOffset] = array(
        OffsetForLeaderEpochResponseEpochEndOffset
    )


@message(api_key=23, kind="response", valid="0-4", flexible="4+")
class OffsetForLeaderEpochResponse(Message):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)


API: Final = Api(
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
    access=AccessRules(
        each=on_each_topic(AclOperation.DESCRIBE, "topic")._replace(
            unless=Question(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
        )
    ),
    elements=(elements("topics.partitions", "topics.partitions"),),
    since="0.11",
    has_small_answers=True,
)
