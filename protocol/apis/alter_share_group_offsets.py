"""AlterShareGroupOffsets: other start offsets for a share group without members (KIP-932).

Tools and admin clients send it to the group's coordinator.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question, on_group
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Handling, elements_together
from ..features import Feature, Later
from ..schema import Message, Struct, array, int16, int32, int64, message, string, uuid


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int = int32()
    start_offset: int = int64()


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = string()
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array(
        AlterShareGroupOffsetsRequestPartition
    )


@message(api_key=91, kind="request", valid="0", flexible="0+")
class AlterShareGroupOffsetsRequest(Message):
    group_id: str = string()
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic)


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: list[AlterShareGroupOffsetsResponsePartition] = array(
        AlterShareGroupOffsetsResponsePartition
    )


@message(api_key=91, kind="response", valid="0", flexible="0+")
class AlterShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array(
        AlterShareGroupOffsetsResponseTopic
    )


API: Final = Api(
    request=AlterShareGroupOffsetsRequest,
    response=AlterShareGroupOffsetsResponse,
    access=AccessRules(
        (on_group(AclOperation.READ),),
        by_handler=(
            ByHandler(
                (Question(AclOperation.READ, ResourceType.TOPIC, "topic_name"),),
                "TOPIC_AUTHORIZATION_FAILED for the topic's partitions, beside its id; an error of "
                "the group comes first",
            ),
        ),
    ),
    later=Later(0, Feature.SHARE),
    elements=(elements_together("topics.partitions", "responses.partitions"),),
    handling=Handling.WAITS,
)
