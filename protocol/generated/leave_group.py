"""Of `apis/leave_group.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_LeaveGroupRequest: Final[Any] = made_by_readers(LeaveGroupRequest)
_LeaveGroupResponse: Final[Any] = made_by_readers(LeaveGroupResponse)
_MemberIdentity: Final[Any] = made_by_readers(MemberIdentity)
_MemberResponse: Final[Any] = made_by_readers(MemberResponse)


def read_MemberIdentity(r: Reader, version: i64) -> Any:
    m: Any = _MemberIdentity()
    m.member_id = r.string("member_id", False)
    m.group_instance_id = r.string("group_instance_id", True)
    if version >= 5:
        m.reason = r.string("reason", True)
    else:
        m.reason = None
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_MemberIdentity(w: Writer, m: Any, version: i64) -> None:
    w.string("member_id", m.member_id, False)
    w.string("group_instance_id", m.group_instance_id, True)
    if version >= 5:
        w.string("reason", m.reason, True)
    w.unknown_tags("MemberIdentity", m.unknown_tagged_fields)


def read_LeaveGroupRequest(r: Reader, version: i64) -> Any:
    m: Any = _LeaveGroupRequest()
    m.group_id = r.string("group_id", False)
    if version <= 2:
        m.member_id = r.string("member_id", False)
    else:
        m.member_id = ""
    if version >= 3:
        count = r.count("members", False, 3)
        m.members = [read_MemberIdentity(r, version) for _ in range(count)]
    else:
        m.members = []
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_LeaveGroupRequest(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    if version <= 2:
        w.string("member_id", m.member_id, False)
    elif m.member_id != "":
        w.refuse("LeaveGroupRequest.member_id")
    if version >= 3:
        members = m.members
        w.array("members", members, False)
        for item in members:
            write_MemberIdentity(w, item, version)
    elif m.members != []:
        w.refuse("LeaveGroupRequest.members")
    w.unknown_tags("LeaveGroupRequest", m.unknown_tagged_fields)


def read_MemberResponse(r: Reader, version: i64) -> Any:
    m: Any = _MemberResponse()
    m.member_id = r.string("member_id", False)
    m.group_instance_id = r.string("group_instance_id", True)
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_MemberResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("member_id", m.member_id, False)
    w.string("group_instance_id", m.group_instance_id, True)
    write_i16_be(out, m.error_code)
    w.unknown_tags("MemberResponse", m.unknown_tagged_fields)


def read_LeaveGroupResponse(r: Reader, version: i64) -> Any:
    m: Any = _LeaveGroupResponse()
    if version >= 1:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    m.error_code = r.int16()
    if version >= 3:
        count = r.count("members", False, 5)
        m.members = [read_MemberResponse(r, version) for _ in range(count)]
    else:
        m.members = []
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_LeaveGroupResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 1:
        write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    if version >= 3:
        members = m.members
        w.array("members", members, False)
        for item in members:
            write_MemberResponse(w, item, version)
    elif m.members != []:
        w.refuse("LeaveGroupResponse.members")
    w.unknown_tags("LeaveGroupResponse", m.unknown_tagged_fields)
