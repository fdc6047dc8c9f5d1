"""Of `apis/sync_group.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_SyncGroupRequest: Final[Any] = made_by_readers(SyncGroupRequest)
_SyncGroupRequestAssignment: Final[Any] = made_by_readers(SyncGroupRequestAssignment)
_SyncGroupResponse: Final[Any] = made_by_readers(SyncGroupResponse)


def read_SyncGroupRequestAssignment(r: Reader, version: i64) -> Any:
    m: Any = _SyncGroupRequestAssignment()
    m.member_id = r.string("member_id", False)
    m.assignment = r.binary("assignment", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_SyncGroupRequestAssignment(w: Writer, m: Any, version: i64) -> None:
    w.string("member_id", m.member_id, False)
    w.binary("assignment", m.assignment, False)
    w.unknown_tags("SyncGroupRequestAssignment", m.unknown_tagged_fields)


def read_SyncGroupRequest(r: Reader, version: i64) -> Any:
    m: Any = _SyncGroupRequest()
    m.group_id = r.string("group_id", False)
    m.generation_id = r.int32()
    m.member_id = r.string("member_id", False)
    if version >= 3:
        m.group_instance_id = r.string("group_instance_id", True)
    else:
        m.group_instance_id = None
    if version >= 5:
        m.protocol_type = r.string("protocol_type", True)
        m.protocol_name = r.string("protocol_name", True)
    else:
        m.protocol_type = None
        m.protocol_name = None
    count = r.count("assignments", False, 3)
    m.assignments = [read_SyncGroupRequestAssignment(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_SyncGroupRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("group_id", m.group_id, False)
    write_i32_be(out, m.generation_id)
    w.string("member_id", m.member_id, False)
    if version >= 3:
        w.string("group_instance_id", m.group_instance_id, True)
    elif m.group_instance_id is not None:
        w.refuse("SyncGroupRequest.group_instance_id")
    if version >= 5:
        w.string("protocol_type", m.protocol_type, True)
        w.string("protocol_name", m.protocol_name, True)
    assignments = m.assignments
    w.array("assignments", assignments, False)
    for item in assignments:
        write_SyncGroupRequestAssignment(w, item, version)
    w.unknown_tags("SyncGroupRequest", m.unknown_tagged_fields)


def read_SyncGroupResponse(r: Reader, version: i64) -> Any:
    m: Any = _SyncGroupResponse()
    if version >= 1:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    m.error_code = r.int16()
    if version >= 5:
        m.protocol_type = r.string("protocol_type", True)
        m.protocol_name = r.string("protocol_name", True)
    else:
        m.protocol_type = None
        m.protocol_name = None
    m.assignment = r.binary("assignment", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_SyncGroupResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 1:
        write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    if version >= 5:
        w.string("protocol_type", m.protocol_type, True)
        w.string("protocol_name", m.protocol_name, True)
    w.binary("assignment", m.assignment, False)
    w.unknown_tags("SyncGroupResponse", m.unknown_tagged_fields)
