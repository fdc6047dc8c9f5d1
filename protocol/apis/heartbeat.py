"""Heartbeat: a member is alive; whether its group rebalances.

Consumers send it to the group's coordinator.
Versions: 3 knows static members; 4 is flexible.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import MEMBER
from ..api_page import Api
from ..schema import Message, int16, int32, message, string


@message(api_key=12, kind="request", valid="0-4", flexible="4+")
class HeartbeatRequest(Message):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


@message(api_key=12, kind="response", valid="0-4", flexible="4+")
class HeartbeatResponse(Message):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()


API: Final = Api(
    request=HeartbeatRequest,
    response=HeartbeatResponse,
    access=MEMBER,
    is_repeated=True,
    has_small_answers=True,
)
