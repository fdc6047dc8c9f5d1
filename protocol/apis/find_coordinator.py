"""FindCoordinator: which broker coordinates a group or a transactional id.

Clients send it to any broker.
Versions: 1 serves transactions too; 4 takes several keys at once (KIP-699).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Failure, elements
from ..schema import Message, Struct, array, int8, int16, int32, message, string


@message(api_key=10, kind="request", valid="0-6", flexible="3+")
class FindCoordinatorRequest(Message):
    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array("string", "4+")


class Coordinator(Struct):
    key: str = string("4+")
    node_id: int = int32("4+")
    host: str = string("4+")
    port: int = int32("4+")
    error_code: int = int16("4+")
    error_message: str | None = string("4+", nullable="4+", ignorable=True)


@message(api_key=10, kind="response", valid="0-6", flexible="3+")
class FindCoordinatorResponse(Message):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")


API: Final = Api(
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (Question(AclOperation.DESCRIBE, ResourceType.GROUP, "key"),),
                "of a group: GROUP_AUTHORIZATION_FAILED for the key",
            ),
            ByHandler(
                (Question(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "key"),),
                "of a transactional id: TRANSACTIONAL_ID_AUTHORIZATION_FAILED for the key",
            ),
            ByHandler(
                (Question(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),),
                "of a share group (v6): CLUSTER_AUTHORIZATION_FAILED for the key",
            ),
        )
    ),
    elements=(elements("coordinator_keys", "coordinators"),),
    failure=Failure(values={"node_id": -1, "port": -1}),
    needs_metadata=True,
    has_small_answers=True,
    has_distinct_elements=True,
)
