"""SyncGroup: the leader's assignment, and each member's part of it.

Consumers send it to the group's coordinator.
Versions: 3 knows static members; 4 is flexible; 5 repeats the protocol.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import MEMBER
from ..api_page import Api
from ..primitives import Buffer
from ..schema import Message, Struct, array, binary, int16, int32, message, string


class SyncGroupRequestAssignment(Struct):
    member_id: str = string()
    assignment: Buffer = binary()


@message(api_key=14, kind="request", valid="0-5", flexible="4+")
class SyncGroupRequest(Message):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@message(api_key=14, kind="response", valid="0-5", flexible="4+")
class SyncGroupResponse(Message):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: Buffer = binary()


API: Final = Api(
    request=SyncGroupRequest, response=SyncGroupResponse, access=MEMBER, has_small_answers=True
)
