"""DescribeGroups: the state of groups and their members.

Tools send it to the groups' coordinator.
Versions: 3 adds authorized operations, 4 static members, 5 is flexible; 6 says that
a group does not exist (KIP-1043).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, Each, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, elements
from ..errors import ErrorCode
from ..features import Later
from ..primitives import Buffer
from ..schema import Message, Struct, array, binary, boolean, int16, int32, message, string


@message(api_key=15, kind="request", valid="0-6", flexible="5+")
class DescribeGroupsRequest(Message):
    groups: list[str] = array("string")
    include_authorized_operations: bool = boolean("3+")


class DescribedGroupMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None, ignorable=True)
    client_id: str = string()
    client_host: str = string()
    member_metadata: Buffer = binary()
    member_assignment: Buffer = binary()


class DescribeGroupsResponseDescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-2_147_483_648)


@message(api_key=15, kind="response", valid="0-6", flexible="5+")
class DescribeGroupsResponse(Message):
    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribeGroupsResponseDescribedGroup] = array(DescribeGroupsResponseDescribedGroup)


API: Final = Api(
    request=DescribeGroupsRequest,
    response=DescribeGroupsResponse,
    access=AccessRules(
        each=Each(
            "groups",
            Question(AclOperation.DESCRIBE, ResourceType.GROUP),
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ),
        note="Authorized operations are those that are allowed.",
    ),
    elements=(elements("groups", "groups"),),
    later=Later(6),
    has_distinct_elements=True,
)
