"""ConsumerGroupHeartbeat: membership in the group protocol of KIP-848.

Consumers send it to the group's coordinator. Version 1: the member chooses its id (KIP-1082), and
may subscribe with a regular expression. Until group.version is finalized a broker answers with
UNSUPPORTED_VERSION, as 3.9 in ZooKeeper mode does.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import UNTIL_FINALIZED, AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api
from ..features import Feature, Later
from ..schema import Message, Struct, array, int16, int32, message, string, struct, uuid


class ConsumerGroupHeartbeatRequestTopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


@message(api_key=68, kind="request", valid="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest(Message):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    rebalance_timeout_ms: int = int32(default=-1)
    subscribed_topic_names: list[str] | None = array("string", nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string(nullable="0+", default=None)
    topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = array(
        ConsumerGroupHeartbeatRequestTopicPartitions, nullable="0+", default=None
    )


class ConsumerGroupHeartbeatResponseTopicPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


class ConsumerGroupHeartbeatResponseAssignment(Struct):
    topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartitions] = array(
        ConsumerGroupHeartbeatResponseTopicPartitions
    )


@message(api_key=68, kind="response", valid="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: ConsumerGroupHeartbeatResponseAssignment | None = struct(
        ConsumerGroupHeartbeatResponseAssignment, nullable="0+", default=None
    )


API: Final = Api(
    request=ConsumerGroupHeartbeatRequest,
    response=ConsumerGroupHeartbeatResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (Question(AclOperation.READ, ResourceType.GROUP, "group_id"),),
                "GROUP_AUTHORIZATION_FAILED",
            ),
            ByHandler(
                (Question(AclOperation.DESCRIBE, ResourceType.TOPIC, "subscribed_topic_names"),),
                "TOPIC_AUTHORIZATION_FAILED if one is denied; those that a regular expression "
                "matches are left out",
            ),
        ),
        note=UNTIL_FINALIZED,
    ),
    later=Later(1, Feature.GROUP),
    is_repeated=True,
    small_without=("assignment",),
)
