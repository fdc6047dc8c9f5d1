"""JoinGroup: become a member of a group, or stay one in its next generation.

Consumers send it to the group's coordinator.
Versions: 1 adds the rebalance timeout; 4 hands out member ids first (KIP-394); 5 static members
(KIP-345); 7 the protocol type; 8 the reason of a join (KIP-800); 9 lets a leader skip the
assignment (KIP-814).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import MEMBER
from ..api_page import Api, Failure
from ..primitives import Buffer
from ..schema import Message, Struct, array, binary, boolean, int16, int32, message, string


class JoinGroupRequestProtocol(Struct):
    name: str = string()
    metadata: Buffer = binary()


@message(api_key=11, kind="request", valid="0-9", flexible="6+")
class JoinGroupRequest(Message):
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata: Buffer = binary()


@message(api_key=11, kind="response", valid="0-9", flexible="6+")
class JoinGroupResponse(Message):
    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)


API: Final = Api(
    request=JoinGroupRequest,
    response=JoinGroupResponse,
    access=MEMBER,
    failure=Failure(values={"generation_id": -1, "protocol_name": None}),
    small_without=("members",),
)
