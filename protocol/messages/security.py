"""SASL and access control: SaslHandshake, SaslAuthenticate and the ACL requests.

SaslHandshake: after version 0 tokens follow as bare frames, after 1 inside SaslAuthenticate
(KIP-152), whose version 1 tells how long the session lasts (KIP-368). ACLs (KIP-140): 1 adds
prefixed patterns (KIP-290), 2 is flexible, 3 knows user resources.

Mirrors: the schemas of the same names in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from ..primitives import Buffer
from ..schema import (
    Message,
    Struct,
    array,
    binary,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
)


@message(api_key=17, kind="request", valid="0-1")
class SaslHandshakeRequest(Message):
    mechanism: str = string()


@message(api_key=17, kind="response", valid="0-1")
class SaslHandshakeResponse(Message):
    error_code: int = int16()
    mechanisms: list[str] = array("string")


@message(api_key=36, kind="request", valid="0-2", flexible="2+")
class SaslAuthenticateRequest(Message):
    auth_bytes: Buffer = binary()


@message(api_key=36, kind="response", valid="0-2", flexible="2+")
class SaslAuthenticateResponse(Message):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: Buffer = binary()
    session_lifetime_ms: int = int64("1+", ignorable=True)


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
