"""DeleteAcls: delete the ACLs that match filters (KIP-140).

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


class DeleteAclsFilter(Struct):
    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


@message(api_key=31, kind="request", valid="0-3", flexible="2+")
class DeleteAclsRequest(Message):
    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


class DeleteAclsMatchingAcl(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsFilterResult(Struct):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


@message(api_key=31, kind="response", valid="0-3", flexible="2+")
class DeleteAclsResponse(Message):
    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)


API: Final = Api(
    request=DeleteAclsRequest,
    response=DeleteAclsResponse,
    access=AccessRules((on_cluster(AclOperation.ALTER),)),
    elements=(elements_together("filters", "filter_results"),),
    since="0.11",
    handling=Handling.WAITS,
)
