"""Of `apis/create_acls.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AclCreation: Final[Any] = made_by_readers(AclCreation)
_AclCreationResult: Final[Any] = made_by_readers(AclCreationResult)
_CreateAclsRequest: Final[Any] = made_by_readers(CreateAclsRequest)
_CreateAclsResponse: Final[Any] = made_by_readers(CreateAclsResponse)


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
