"""DescribeAcls: the ACLs that match a filter (KIP-140).

Tools and admin clients send it to any broker.
Versions: 1 adds prefixed patterns (KIP-290), 2 is flexible, 3 knows user resources.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_cluster
from ..acls import AclOperation
from ..api_page import Api, Handling
from ..schema import Message, Struct, array, int8, int16, int32, message, string


@message(api_key=29, kind="request", valid="0-3", flexible="2+")
class DescribeAclsRequest(Message):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


class AclDescription(Struct):
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResource(Struct):
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=3)
    acls: list[AclDescription] = array(AclDescription)


@message(api_key=29, kind="response", valid="0-3", flexible="2+")
class DescribeAclsResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)


API: Final = Api(
    request=DescribeAclsRequest,
    response=DescribeAclsResponse,
    access=AccessRules((on_cluster(AclOperation.DESCRIBE),)),
    since="0.11",
    handling=Handling.WAITS,
)
