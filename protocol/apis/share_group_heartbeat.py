"""ShareGroupHeartbeat: membership in a share group (KIP-932).

Share consumers send it to the group's coordinator.
Versions: 0 was for early access in Kafka 4.0.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api
from ..features import Feature, Later
from ..schema import Message, Struct, array, int16, int32, message, string, struct, uuid


@message(api_key=76, kind="request", valid="1", flexible="0+")
class ShareGroupHeartbeatRequest(Message):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array("string", nullable="0+", default=None)


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@message(api_key=76, kind="response", valid="1", flexible="0+")
class ShareGroupHeartbeatResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable="0+", default=None)


API: Final = Api(
    request=ShareGroupHeartbeatRequest,
    response=ShareGroupHeartbeatResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (Question(AclOperation.READ, ResourceType.GROUP, "group_id"),),
                "GROUP_AUTHORIZATION_FAILED",
            ),
            ByHandler(
                (Question(AclOperation.DESCRIBE, ResourceType.TOPIC, "subscribed_topic_names"),),
                "TOPIC_AUTHORIZATION_FAILED if one is denied",
            ),
        ),
    ),
    later=Later(1, Feature.SHARE),
    is_repeated=True,
    small_without=("assignment",),
)
