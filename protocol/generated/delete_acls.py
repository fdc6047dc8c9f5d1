"""Of `apis/delete_acls.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_DeleteAclsFilter: Final[Any] = made_by_readers(DeleteAclsFilter)
_DeleteAclsFilterResult: Final[Any] = made_by_readers(DeleteAclsFilterResult)
_DeleteAclsMatchingAcl: Final[Any] = made_by_readers(DeleteAclsMatchingAcl)
_DeleteAclsRequest: Final[Any] = made_by_readers(DeleteAclsRequest)
_DeleteAclsResponse: Final[Any] = made_by_readers(DeleteAclsResponse)


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
