"""Of `apis/join_group.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_JoinGroupRequest: Final[Any] = made_by_readers(JoinGroupRequest)
_JoinGroupRequestProtocol: Final[Any] = made_by_readers(JoinGroupRequestProtocol)
_JoinGroupResponse: Final[Any] = made_by_readers(JoinGroupResponse)
_JoinGroupResponseMember: Final[Any] = made_by_readers(JoinGroupResponseMember)


def read_JoinGroupRequestProtocol(r: Reader, version: i64) -> Any:
    m: Any = _JoinGroupRequestProtocol()
    m.name = r.string("name", False)
    m.metadata = r.binary("metadata", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_JoinGroupRequestProtocol(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.binary("metadata", m.metadata, False)
    w.unknown_tags("JoinGroupRequestProtocol", m.unknown_tagged_fields)


def read_JoinGroupRequest(r: Reader, version: i64) -> Any:
    m: Any = _JoinGroupRequest()
    m.group_id = r.string("group_id", False)
    m.session_timeout_ms = r.int32()
    if version >= 1:
        m.rebalance_timeout_ms = r.int32()
    else:
        m.rebalance_timeout_ms = -1
    m.member_id = r.string("member_id", False)
    if version >= 5:
        m.group_instance_id = r.string("group_instance_id", True)
    else:
        m.group_instance_id = None
    m.protocol_type = r.string("protocol_type", False)
    count = r.count("protocols", False, 3)
    m.protocols = [read_JoinGroupRequestProtocol(r, version) for _ in range(count)]
    if version >= 8:
        m.reason = r.string("reason", True)
    else:
        m.reason = None
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_JoinGroupRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("group_id", m.group_id, False)
    write_i32_be(out, m.session_timeout_ms)
    if version >= 1:
        write_i32_be(out, m.rebalance_timeout_ms)
    w.string("member_id", m.member_id, False)
    if version >= 5:
        w.string("group_instance_id", m.group_instance_id, True)
    elif m.group_instance_id is not None:
        w.refuse("JoinGroupRequest.group_instance_id")
    w.string("protocol_type", m.protocol_type, False)
    protocols = m.protocols
    w.array("protocols", protocols, False)
    for item in protocols:
        write_JoinGroupRequestProtocol(w, item, version)
    if version >= 8:
        w.string("reason", m.reason, True)
    w.unknown_tags("JoinGroupRequest", m.unknown_tagged_fields)


def read_JoinGroupResponseMember(r: Reader, version: i64) -> Any:
    m: Any = _JoinGroupResponseMember()
    m.member_id = r.string("member_id", False)
    if version >= 5:
        m.group_instance_id = r.string("group_instance_id", True)
    else:
        m.group_instance_id = None
    m.metadata = r.binary("metadata", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_JoinGroupResponseMember(w: Writer, m: Any, version: i64) -> None:
    w.string("member_id", m.member_id, False)
    if version >= 5:
        w.string("group_instance_id", m.group_instance_id, True)
    w.binary("metadata", m.metadata, False)
    w.unknown_tags("JoinGroupResponseMember", m.unknown_tagged_fields)


def read_JoinGroupResponse(r: Reader, version: i64) -> Any:
    m: Any = _JoinGroupResponse()
    if version >= 2:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    m.error_code = r.int16()
    m.generation_id = r.int32()
    if version >= 7:
        m.protocol_type = r.string("protocol_type", True)
    else:
        m.protocol_type = None
    m.protocol_name = r.string("protocol_name", version >= 7)
    m.leader = r.string("leader", False)
    if version >= 9:
        m.skip_assignment = r.boolean()
    else:
        m.skip_assignment = False
    m.member_id = r.string("member_id", False)
    count = r.count("members", False, 4)
    m.members = [read_JoinGroupResponseMember(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_JoinGroupResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 2:
        write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    write_i32_be(out, m.generation_id)
    if version >= 7:
        w.string("protocol_type", m.protocol_type, True)
    w.string("protocol_name", m.protocol_name, version >= 7)
    w.string("leader", m.leader, False)
    if version >= 9:
        w.boolean(m.skip_assignment)
    elif m.skip_assignment:
        w.refuse("JoinGroupResponse.skip_assignment")
    w.string("member_id", m.member_id, False)
    members = m.members
    w.array("members", members, False)
    for item in members:
        write_JoinGroupResponseMember(w, item, version)
    w.unknown_tags("JoinGroupResponse", m.unknown_tagged_fields)
