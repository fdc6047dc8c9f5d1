"""DeleteGroups: groups without members, with their offsets (KIP-229).

Tools and admin clients send it to the groups' coordinator.
Versions: 2 is flexible.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, Each, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, elements
from ..errors import ErrorCode
from ..schema import Message, Struct, array, int16, int32, message, string


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


API: Final = Api(
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
    access=AccessRules(
        each=Each(
            "groups_names",
            Question(AclOperation.DELETE, ResourceType.GROUP),
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
        )
    ),
    elements=(elements("groups_names", "results"),),
    since="1.1",
    has_distinct_elements=True,
)
