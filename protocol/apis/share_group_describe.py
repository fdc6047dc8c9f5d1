"""ShareGroupDescribe: share groups and their members (KIP-932).

Tools send it to the groups' coordinator.
Versions: 0 was for early access in Kafka 4.0.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, elements
from ..features import Feature, Later
from ..schema import Message, Struct, array, boolean, int16, int32, message, string, struct, uuid


@message(api_key=77, kind="request", valid="1", flexible="0+")
class ShareGroupDescribeRequest(Message):
    group_ids: list[str] = array("string")
    include_authorized_operations: bool = boolean()


class TopicPartitions(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array("int32")


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class Member(Struct):
    member_id: str = string()
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array("string")
    assignment: Assignment = struct(Assignment)


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-2_147_483_648)


@message(api_key=77, kind="response", valid="1", flexible="0+")
class ShareGroupDescribeResponse(Message):
    throttle_time_ms: int = int32()
    groups: list[DescribedGroup] = array(DescribedGroup)


API: Final = Api(
    request=ShareGroupDescribeRequest,
    response=ShareGroupDescribeResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (Question(AclOperation.DESCRIBE, ResourceType.GROUP, "group_ids"),),
                "GROUP_AUTHORIZATION_FAILED for the group",
            ),
            ByHandler(
                (Question(AclOperation.DESCRIBE, ResourceType.TOPIC, "topic_name"),),
                "of its assignments: TOPIC_AUTHORIZATION_FAILED for the group",
            ),
        ),
    ),
    later=Later(1, Feature.SHARE),
    elements=(elements("group_ids", "groups"),),
    has_distinct_elements=True,
)
