"""ListGroups: the groups that a broker coordinates.

Tools send it to every broker.
Versions: 3 is flexible, 4 filters by state (KIP-518), 5 by type (KIP-848).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import DESCRIBE_CLUSTER, AccessRules, Hidden, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Handling
from ..schema import Message, Struct, array, int16, int32, message, string


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


API: Final = Api(
    request=ListGroupsRequest,
    response=ListGroupsResponse,
    access=AccessRules(
        hidden=(
            Hidden(
                ("groups",),
                Question(AclOperation.DESCRIBE, ResourceType.GROUP, "group_id"),
                unless=DESCRIBE_CLUSTER,
            ),
        )
    ),
    handling=Handling.IN_TURNS,
)
