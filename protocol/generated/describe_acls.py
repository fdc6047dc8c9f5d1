"""Of `apis/describe_acls.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AclDescription: Final[Any] = made_by_readers(AclDescription)
_DescribeAclsRequest: Final[Any] = made_by_readers(DescribeAclsRequest)
_DescribeAclsResource: Final[Any] = made_by_readers(DescribeAclsResource)
_DescribeAclsResponse: Final[Any] = made_by_readers(DescribeAclsResponse)


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
