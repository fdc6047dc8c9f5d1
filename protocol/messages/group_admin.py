"""Looking at groups and deleting them: ListGroups, DescribeGroups and DeleteGroups.

ListGroups: 4 filters by state (KIP-518), 5 by type (KIP-848). DescribeGroups: 3 adds authorized
operations, 4 static members, 5 is flexible. DeleteGroups is KIP-229.

Mirrors: the schemas of the same names in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from ..primitives import Buffer
from ..schema import Message, Struct, array, binary, boolean, int16, int32, message, string


@message(api_key=16, kind="request", valid="0-5", flexible="3+")
class ListGroupsRequest(Message):
    states_filter: list[str] = array("string", "4+")
    types_filter: list[str] = array("string", "5+")


class ListedGroup(Struct):
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+", ignorable=True)
    group_type: str = string("5+", ignorable=True)


@message(api_key=16, kind="response", valid="0-5", flexible="3+")
class ListGroupsResponse(Message):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)


@message(api_key=15, kind="request", valid="0-5", flexible="5+")
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
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-2_147_483_648)


@message(api_key=15, kind="response", valid="0-5", flexible="5+")
class DescribeGroupsResponse(Message):
    throttle_time_ms: int = int32("1+", ignorable=True)
    groups: list[DescribeGroupsResponseDescribedGroup] = array(DescribeGroupsResponseDescribedGroup)


@message(api_key=42, kind="request", valid="0-2", flexible="2+")
class DeleteGroupsRequest(Message):
    groups_names: list[str] = array("string")


class DeletableGroupResult(Struct):
    group_id: str = string()
    error_code: int = int16()


@message(api_key=42, kind="response", valid="0-2", flexible="2+")
class DeleteGroupsResponse(Message):
    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
