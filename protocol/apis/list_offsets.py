"""ListOffsets: the first and last offset of partitions, and the first one at a time.

Consumers and followers send it to leaders.
Versions: 0 answers with a list of segment offsets, later ones with one offset and its timestamp;
2 adds the isolation level; 4 the leader epoch check; 6 is flexible; 7 knows the maximum timestamp
(KIP-734); 8 and 9 tiered storage; 10 has a timeout for offsets in tiered storage (KIP-1075); 11
knows the first offset that is not in tiered storage yet (KIP-1023).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_each_topic
from ..acls import AclOperation
from ..api_page import Api, elements
from ..features import Later
from ..schema import Message, Struct, array, int8, int16, int32, int64, message, string


class ListOffsetsPartition(Struct):
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1, ignorable=True)
    timestamp: int = int64()
    max_num_offsets: int = int32("0", default=1)


class ListOffsetsTopic(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


@message(api_key=2, kind="request", valid="0-11", flexible="6+")
class ListOffsetsRequest(Message):
    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+", ignorable=True)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    old_style_offsets: list[int] = array("int64", "0")
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@message(api_key=2, kind="response", valid="0-11", flexible="6+")
class ListOffsetsResponse(Message):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)


API: Final = Api(
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
    access=AccessRules(each=on_each_topic(AclOperation.DESCRIBE)),
    elements=(elements("topics.partitions", "topics.partitions"),),
    later=Later(10),
    has_small_answers=True,
)
