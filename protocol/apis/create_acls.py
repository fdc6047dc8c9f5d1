"""CreateAcls: new ACLs (KIP-140).

Tools and admin clients send it to any broker.
Versions: 1 adds prefixed patterns (KIP-290), 2 is flexible, 3 knows user resources.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_cluster
from ..acls import AclOperation
from ..api_page import Api, Handling, elements_together
from ..schema import Message, Struct, array, int8, int16, int32, message, string


class AclCreation(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@message(api_key=30, kind="request", valid="0-3", flexible="2+")
class CreateAclsRequest(Message):
    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(api_key=30, kind="response", valid="0-3", flexible="2+")
class CreateAclsResponse(Message):
    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)


API: Final = Api(
    request=CreateAclsRequest,
    response=CreateAclsResponse,
    access=AccessRules((on_cluster(AclOperation.ALTER),)),
    elements=(elements_together("creations", "results"),),
    since="0.11",
    handling=Handling.WAITS,
)
