"""ConsumerGroupDescribe: groups of the protocol of KIP-848 and their members.

Tools send it to the groups' coordinator. Version 1 says which protocol a member uses (KIP-1099).
Until group.version is finalized a broker answers with UNSUPPORTED_VERSION, as 3.9 in ZooKeeper mode
does; the admin client then falls back to the classic requests.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import UNTIL_FINALIZED, AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, elements
from ..features import Feature, Later
from ..schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    message,
    string,
    struct,
    uuid,
)


@message(api_key=69, kind="request", valid="0-1", flexible="0+")
class ConsumerGroupDescribeRequest(Message):
    group_ids: list[str] = array("string")
    include_authorized_operations: bool = boolean()


class ConsumerGroupDescribeResponseTopicPartitions(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    partitions: list[int] = array("int32")


class ConsumerGroupDescribeResponseAssignment(Struct):
    topic_partitions: list[ConsumerGroupDescribeResponseTopicPartitions] = array(
        ConsumerGroupDescribeResponseTopicPartitions
    )


class Member(Struct):
    member_id: str = string()
    instance_id: str | None = string(nullable="0+", default=None)
    rack_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array("string")
    subscribed_topic_regex: str | None = string(nullable="0+", default=None)
    assignment: ConsumerGroupDescribeResponseAssignment = struct(
        ConsumerGroupDescribeResponseAssignment
    )
    target_assignment: ConsumerGroupDescribeResponseAssignment = struct(
        ConsumerGroupDescribeResponseAssignment
    )
    member_type: int = int8("1+", default=-1, ignorable=True)


class ConsumerGroupDescribeResponseDescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: list[Member] = array(Member)
    authorized_operations: int = int32(default=-2_147_483_648)


@message(api_key=69, kind="response", valid="0-1", flexible="0+")
class ConsumerGroupDescribeResponse(Message):
    throttle_time_ms: int = int32()
    groups: list[ConsumerGroupDescribeResponseDescribedGroup] = array(
        ConsumerGroupDescribeResponseDescribedGroup
    )


API: Final = Api(
    request=ConsumerGroupDescribeRequest,
    response=ConsumerGroupDescribeResponse,
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
        note=UNTIL_FINALIZED,
    ),
    later=Later(1, Feature.GROUP),
    elements=(elements("group_ids", "groups"),),
    has_distinct_elements=True,
)
