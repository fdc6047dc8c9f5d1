"""Of `messages/security.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.security import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AclCreation: Final[Any] = made_by_readers(AclCreation)
_AclCreationResult: Final[Any] = made_by_readers(AclCreationResult)
_AclDescription: Final[Any] = made_by_readers(AclDescription)
_CreateAclsRequest: Final[Any] = made_by_readers(CreateAclsRequest)
_CreateAclsResponse: Final[Any] = made_by_readers(CreateAclsResponse)
_DeleteAclsFilter: Final[Any] = made_by_readers(DeleteAclsFilter)
_DeleteAclsFilterResult: Final[Any] = made_by_readers(DeleteAclsFilterResult)
_DeleteAclsMatchingAcl: Final[Any] = made_by_readers(DeleteAclsMatchingAcl)
_DeleteAclsRequest: Final[Any] = made_by_readers(DeleteAclsRequest)
_DeleteAclsResponse: Final[Any] = made_by_readers(DeleteAclsResponse)
_DescribeAclsRequest: Final[Any] = made_by_readers(DescribeAclsRequest)
_DescribeAclsResource: Final[Any] = made_by_readers(DescribeAclsResource)
_DescribeAclsResponse: Final[Any] = made_by_readers(DescribeAclsResponse)
_SaslAuthenticateRequest: Final[Any] = made_by_readers(SaslAuthenticateRequest)
_SaslAuthenticateResponse: Final[Any] = made_by_readers(SaslAuthenticateResponse)
_SaslHandshakeRequest: Final[Any] = made_by_readers(SaslHandshakeRequest)
_SaslHandshakeResponse: Final[Any] = made_by_readers(SaslHandshakeResponse)


def read_SaslHandshakeRequest(r: Reader, version: i64) -> Any:
    m: Any = _SaslHandshakeRequest()
    m.mechanism = r.string("mechanism", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_SaslHandshakeRequest(w: Writer, m: Any, version: i64) -> None:
    w.string("mechanism", m.mechanism, False)
    w.unknown_tags("SaslHandshakeRequest", m.unknown_tagged_fields)


def read_SaslHandshakeResponse(r: Reader, version: i64) -> Any:
    m: Any = _SaslHandshakeResponse()
    m.error_code = r.int16()
    m.mechanisms = r.strings("mechanisms", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_SaslHandshakeResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.strings("mechanisms", m.mechanisms, False)
    w.unknown_tags("SaslHandshakeResponse", m.unknown_tagged_fields)


def read_SaslAuthenticateRequest(r: Reader, version: i64) -> Any:
    m: Any = _SaslAuthenticateRequest()
    m.auth_bytes = r.binary("auth_bytes", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_SaslAuthenticateRequest(w: Writer, m: Any, version: i64) -> None:
    w.binary("auth_bytes", m.auth_bytes, False)
    w.unknown_tags("SaslAuthenticateRequest", m.unknown_tagged_fields)


def read_SaslAuthenticateResponse(r: Reader, version: i64) -> Any:
    m: Any = _SaslAuthenticateResponse()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.auth_bytes = r.binary("auth_bytes", False)
    if version >= 1:
        m.session_lifetime_ms = r.int64()
    else:
        m.session_lifetime_ms = 0
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_SaslAuthenticateResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.binary("auth_bytes", m.auth_bytes, False)
    if version >= 1:
        write_i64_be(out, m.session_lifetime_ms)
    w.unknown_tags("SaslAuthenticateResponse", m.unknown_tagged_fields)


def read_DescribeAclsRequest(r: Reader, version: i64) -> Any:
    m: Any = _DescribeAclsRequest()
    m.resource_type_filter = r.int8()
    m.resource_name_filter = r.string("resource_name_filter", True)
    if version >= 1:
        m.pattern_type_filter = r.int8()
    else:
        m.pattern_type_filter = 3
    m.principal_filter = r.string("principal_filter", True)
    m.host_filter = r.string("host_filter", True)
    m.operation = r.int8()
    m.permission_type = r.int8()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeAclsRequest(w: Writer, m: Any, version: i64) -> None:
    w.int8(m.resource_type_filter)
    w.string("resource_name_filter", m.resource_name_filter, True)
    if version >= 1:
        w.int8(m.pattern_type_filter)
    elif m.pattern_type_filter != 3:
        w.refuse("DescribeAclsRequest.pattern_type_filter")
    w.string("principal_filter", m.principal_filter, True)
    w.string("host_filter", m.host_filter, True)
    w.int8(m.operation)
    w.int8(m.permission_type)
    w.unknown_tags("DescribeAclsRequest", m.unknown_tagged_fields)


def read_AclDescription(r: Reader, version: i64) -> Any:
    m: Any = _AclDescription()
    m.principal = r.string("principal", False)
    m.host = r.string("host", False)
    m.operation = r.int8()
    m.permission_type = r.int8()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AclDescription(w: Writer, m: Any, version: i64) -> None:
    w.string("principal", m.principal, False)
    w.string("host", m.host, False)
    w.int8(m.operation)
    w.int8(m.permission_type)
    w.unknown_tags("AclDescription", m.unknown_tagged_fields)


def read_DescribeAclsResource(r: Reader, version: i64) -> Any:
    m: Any = _DescribeAclsResource()
    m.resource_type = r.int8()
    m.resource_name = r.string("resource_name", False)
    if version >= 1:
        m.pattern_type = r.int8()
    else:
        m.pattern_type = 3
    count = r.count("acls", False, 5)
    m.acls = [read_AclDescription(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeAclsResource(w: Writer, m: Any, version: i64) -> None:
    w.int8(m.resource_type)
    w.string("resource_name", m.resource_name, False)
    if version >= 1:
        w.int8(m.pattern_type)
    elif m.pattern_type != 3:
        w.refuse("DescribeAclsResource.pattern_type")
    acls = m.acls
    w.array("acls", acls, False)
    for item in acls:
        write_AclDescription(w, item, version)
    w.unknown_tags("DescribeAclsResource", m.unknown_tagged_fields)


def read_DescribeAclsResponse(r: Reader, version: i64) -> Any:
    m: Any = _DescribeAclsResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    count = r.count("resources", False, 5)
    m.resources = [read_DescribeAclsResource(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeAclsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    resources = m.resources
    w.array("resources", resources, False)
    for item in resources:
        write_DescribeAclsResource(w, item, version)
    w.unknown_tags("DescribeAclsResponse", m.unknown_tagged_fields)


def read_AclCreation(r: Reader, version: i64) -> Any:
    m: Any = _AclCreation()
    m.resource_type = r.int8()
    m.resource_name = r.string("resource_name", False)
    if version >= 1:
        m.resource_pattern_type = r.int8()
    else:
        m.resource_pattern_type = 3
    m.principal = r.string("principal", False)
    m.host = r.string("host", False)
    m.operation = r.int8()
    m.permission_type = r.int8()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AclCreation(w: Writer, m: Any, version: i64) -> None:
    w.int8(m.resource_type)
    w.string("resource_name", m.resource_name, False)
    if version >= 1:
        w.int8(m.resource_pattern_type)
    elif m.resource_pattern_type != 3:
        w.refuse("AclCreation.resource_pattern_type")
    w.string("principal", m.principal, False)
    w.string("host", m.host, False)
    w.int8(m.operation)
    w.int8(m.permission_type)
    w.unknown_tags("AclCreation", m.unknown_tagged_fields)


def read_CreateAclsRequest(r: Reader, version: i64) -> Any:
    m: Any = _CreateAclsRequest()
    count = r.count("creations", False, 8)
    m.creations = [read_AclCreation(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CreateAclsRequest(w: Writer, m: Any, version: i64) -> None:
    creations = m.creations
    w.array("creations", creations, False)
    for item in creations:
        write_AclCreation(w, item, version)
    w.unknown_tags("CreateAclsRequest", m.unknown_tagged_fields)


def read_AclCreationResult(r: Reader, version: i64) -> Any:
    m: Any = _AclCreationResult()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AclCreationResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.unknown_tags("AclCreationResult", m.unknown_tagged_fields)


def read_CreateAclsResponse(r: Reader, version: i64) -> Any:
    m: Any = _CreateAclsResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("results", False, 4)
    m.results = [read_AclCreationResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CreateAclsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    results = m.results
    w.array("results", results, False)
    for item in results:
        write_AclCreationResult(w, item, version)
    w.unknown_tags("CreateAclsResponse", m.unknown_tagged_fields)


def read_DeleteAclsFilter(r: Reader, version: i64) -> Any:
    m: Any = _DeleteAclsFilter()
    m.resource_type_filter = r.int8()
    m.resource_name_filter = r.string("resource_name_filter", True)
    if version >= 1:
        m.pattern_type_filter = r.int8()
    else:
        m.pattern_type_filter = 3
    m.principal_filter = r.string("principal_filter", True)
    m.host_filter = r.string("host_filter", True)
    m.operation = r.int8()
    m.permission_type = r.int8()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteAclsFilter(w: Writer, m: Any, version: i64) -> None:
    w.int8(m.resource_type_filter)
    w.string("resource_name_filter", m.resource_name_filter, True)
    if version >= 1:
        w.int8(m.pattern_type_filter)
    elif m.pattern_type_filter != 3:
        w.refuse("DeleteAclsFilter.pattern_type_filter")
    w.string("principal_filter", m.principal_filter, True)
    w.string("host_filter", m.host_filter, True)
    w.int8(m.operation)
    w.int8(m.permission_type)
    w.unknown_tags("DeleteAclsFilter", m.unknown_tagged_fields)


def read_DeleteAclsRequest(r: Reader, version: i64) -> Any:
    m: Any = _DeleteAclsRequest()
    count = r.count("filters", False, 8)
    m.filters = [read_DeleteAclsFilter(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteAclsRequest(w: Writer, m: Any, version: i64) -> None:
    filters = m.filters
    w.array("filters", filters, False)
    for item in filters:
        write_DeleteAclsFilter(w, item, version)
    w.unknown_tags("DeleteAclsRequest", m.unknown_tagged_fields)


def read_DeleteAclsMatchingAcl(r: Reader, version: i64) -> Any:
    m: Any = _DeleteAclsMatchingAcl()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.resource_type = r.int8()
    m.resource_name = r.string("resource_name", False)
    if version >= 1:
        m.pattern_type = r.int8()
    else:
        m.pattern_type = 3
    m.principal = r.string("principal", False)
    m.host = r.string("host", False)
    m.operation = r.int8()
    m.permission_type = r.int8()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteAclsMatchingAcl(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.int8(m.resource_type)
    w.string("resource_name", m.resource_name, False)
    if version >= 1:
        w.int8(m.pattern_type)
    elif m.pattern_type != 3:
        w.refuse("DeleteAclsMatchingAcl.pattern_type")
    w.string("principal", m.principal, False)
    w.string("host", m.host, False)
    w.int8(m.operation)
    w.int8(m.permission_type)
    w.unknown_tags("DeleteAclsMatchingAcl", m.unknown_tagged_fields)


def read_DeleteAclsFilterResult(r: Reader, version: i64) -> Any:
    m: Any = _DeleteAclsFilterResult()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    count = r.count("matching_acls", False, 11)
    m.matching_acls = [read_DeleteAclsMatchingAcl(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteAclsFilterResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    matching_acls = m.matching_acls
    w.array("matching_acls", matching_acls, False)
    for item in matching_acls:
        write_DeleteAclsMatchingAcl(w, item, version)
    w.unknown_tags("DeleteAclsFilterResult", m.unknown_tagged_fields)


def read_DeleteAclsResponse(r: Reader, version: i64) -> Any:
    m: Any = _DeleteAclsResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("filter_results", False, 5)
    m.filter_results = [read_DeleteAclsFilterResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteAclsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    filter_results = m.filter_results
    w.array("filter_results", filter_results, False)
    for item in filter_results:
        write_DeleteAclsFilterResult(w, item, version)
    w.unknown_tags("DeleteAclsResponse", m.unknown_tagged_fields)
