"""OffsetDelete: forget a group's offsets of partitions (KIP-496).

Tools and admin clients send it to the group's coordinator.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_each_topic, on_group
from ..acls import AclOperation
from ..api_page import Api, elements
from ..schema import Message, Struct, array, int16, int32, message, string


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = int32()


class OffsetDeleteRequestTopic(Struct):
    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@message(api_key=47, kind="request", valid="0")
class OffsetDeleteRequest(Message):
    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class OffsetDeleteResponseTopic(Struct):
    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@message(api_key=47, kind="response", valid="0")
class OffsetDeleteResponse(Message):
    error_code: int = int16()
    throttle_time_ms: int = int32(ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)


API: Final = Api(
    request=OffsetDeleteRequest,
    response=OffsetDeleteResponse,
    access=AccessRules(
        (on_group(AclOperation.DELETE),), on_each_topic(AclOperation.READ)._replace(goes_on=True)
    ),
    elements=(elements("topics.partitions", "topics.partitions"),),
    since="2.4",
)
