"""LeaveGroup: members leave their group.

Consumers and tools send it to the group's coordinator.
Versions: 3 takes several members, 4 is flexible, 5 has their reasons (KIP-800).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import MEMBER
from ..api_page import Api, elements
from ..schema import Message, Struct, array, int16, int32, message, string


class MemberIdentity(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)


@message(api_key=13, kind="request", valid="0-5", flexible="4+")
class LeaveGroupRequest(Message):
    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


class MemberResponse(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = int16("3+")


@message(api_key=13, kind="response", valid="0-5", flexible="4+")
class LeaveGroupResponse(Message):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")


API: Final = Api(
    request=LeaveGroupRequest,
    response=LeaveGroupResponse,
    access=MEMBER,
    elements=(elements("members", "members"),),
)
