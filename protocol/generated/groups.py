"""Of `messages/groups.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.groups import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_Coordinator: Final[Any] = made_by_readers(Coordinator)
_FindCoordinatorRequest: Final[Any] = made_by_readers(FindCoordinatorRequest)
_FindCoordinatorResponse: Final[Any] = made_by_readers(FindCoordinatorResponse)
_HeartbeatRequest: Final[Any] = made_by_readers(HeartbeatRequest)
_HeartbeatResponse: Final[Any] = made_by_readers(HeartbeatResponse)
_JoinGroupRequest: Final[Any] = made_by_readers(JoinGroupRequest)
_JoinGroupRequestProtocol: Final[Any] = made_by_readers(JoinGroupRequestProtocol)
_JoinGroupResponse: Final[Any] = made_by_readers(JoinGroupResponse)
_JoinGroupResponseMember: Final[Any] = made_by_readers(JoinGroupResponseMember)
_LeaveGroupRequest: Final[Any] = made_by_readers(LeaveGroupRequest)
_LeaveGroupResponse: Final[Any] = made_by_readers(LeaveGroupResponse)
_MemberIdentity: Final[Any] = made_by_readers(MemberIdentity)
_MemberResponse: Final[Any] = made_by_readers(MemberResponse)
_SyncGroupRequest: Final[Any] = made_by_readers(SyncGroupRequest)
_SyncGroupRequestAssignment: Final[Any] = made_by_readers(SyncGroupRequestAssignment)
_SyncGroupResponse: Final[Any] = made_by_readers(SyncGroupResponse)


def read_FindCoordinatorRequest(r: Reader, version: i64) -> Any:
    m: Any = _FindCoordinatorRequest()
    if version <= 3:
        m.key = r.string("key", False)
    else:
        m.key = ""
    if version >= 1:
        m.key_type = r.int8()
    else:
        m.key_type = 0
    if version >= 4:
        m.coordinator_keys = r.strings("coordinator_keys", False)
    else:
        m.coordinator_keys = []
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_FindCoordinatorRequest(w: Writer, m: Any, version: i64) -> None:
    if version <= 3:
        w.string("key", m.key, False)
    elif m.key != "":
        w.refuse("FindCoordinatorRequest.key")
    if version >= 1:
        w.int8(m.key_type)
    elif m.key_type != 0:
        w.refuse("FindCoordinatorRequest.key_type")
    if version >= 4:
        w.strings("coordinator_keys", m.coordinator_keys, False)
    elif m.coordinator_keys != []:
        w.refuse("FindCoordinatorRequest.coordinator_keys")
    w.unknown_tags("FindCoordinatorRequest", m.unknown_tagged_fields)


def read_Coordinator(r: Reader, version: i64) -> Any:
    m: Any = _Coordinator()
    m.key = r.string("key", False)
    m.node_id = r.int32()
    m.host = r.string("host", False)
    m.port = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_Coordinator(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("key", m.key, False)
    write_i32_be(out, m.node_id)
    w.string("host", m.host, False)
    write_i32_be(out, m.port)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.unknown_tags("Coordinator", m.unknown_tagged_fields)


def read_FindCoordinatorResponse(r: Reader, version: i64) -> Any:
    m: Any = _FindCoordinatorResponse()
    if version >= 1:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    if version <= 3:
        m.error_code = r.int16()
    else:
        m.error_code = 0
    if 1 <= version <= 3:
        m.error_message = r.string("error_message", True)
    else:
        m.error_message = ""
    if version <= 3:
        m.node_id = r.int32()
        m.host = r.string("host", False)
        m.port = r.int32()
    else:
        m.node_id = 0
        m.host = ""
        m.port = 0
    if version >= 4:
        count = r.count("coordinators", False, 14)
        m.coordinators = [read_Coordinator(r, version) for _ in range(count)]
    else:
        m.coordinators = []
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_FindCoordinatorResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 1:
        write_i32_be(out, m.throttle_time_ms)
    if version <= 3:
        write_i16_be(out, m.error_code)
    elif m.error_code != 0:
        w.refuse("FindCoordinatorResponse.error_code")
    if 1 <= version <= 3:
        w.string("error_message", m.error_message, True)
    if version <= 3:
        write_i32_be(out, m.node_id)
        w.string("host", m.host, False)
        write_i32_be(out, m.port)
    else:
        if m.node_id != 0:
            w.refuse("FindCoordinatorResponse.node_id")
        if m.host != "":
            w.refuse("FindCoordinatorResponse.host")
        if m.port != 0:
            w.refuse("FindCoordinatorResponse.port")
    if version >= 4:
        coordinators = m.coordinators
        w.array("coordinators", coordinators, False)
        for item in coordinators:
            write_Coordinator(w, item, version)
    elif m.coordinators != []:
        w.refuse("FindCoordinatorResponse.coordinators")
    w.unknown_tags("FindCoordinatorResponse", m.unknown_tagged_fields)


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


def read_HeartbeatRequest(r: Reader, version: i64) -> Any:
    m: Any = _HeartbeatRequest()
    m.group_id = r.string("group_id", False)
    m.generation_id = r.int32()
    m.member_id = r.string("member_id", False)
    if version >= 3:
        m.group_instance_id = r.string("group_instance_id", True)
    else:
        m.group_instance_id = None
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_HeartbeatRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("group_id", m.group_id, False)
    write_i32_be(out, m.generation_id)
    w.string("member_id", m.member_id, False)
    if version >= 3:
        w.string("group_instance_id", m.group_instance_id, True)
    elif m.group_instance_id is not None:
        w.refuse("HeartbeatRequest.group_instance_id")
    w.unknown_tags("HeartbeatRequest", m.unknown_tagged_fields)


def read_HeartbeatResponse(r: Reader, version: i64) -> Any:
    m: Any = _HeartbeatResponse()
    if version >= 1:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_HeartbeatResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 1:
        write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.unknown_tags("HeartbeatResponse", m.unknown_tagged_fields)


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
