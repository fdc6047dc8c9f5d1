"""Of `apis/describe_groups.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseDescribedGroup,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_DescribeGroupsRequest: Final[Any] = made_by_readers(DescribeGroupsRequest)
_DescribeGroupsResponse: Final[Any] = made_by_readers(DescribeGroupsResponse)
_DescribeGroupsResponseDescribedGroup: Final[Any] = made_by_readers(
    DescribeGroupsResponseDescribedGroup
)
_DescribedGroupMember: Final[Any] = made_by_readers(DescribedGroupMember)


def read_DescribeGroupsRequest(r: Reader, version: i64) -> Any:
    m: Any = _DescribeGroupsRequest()
    m.groups = r.strings("groups", False)
    if version >= 3:
        m.include_authorized_operations = r.boolean()
    else:
        m.include_authorized_operations = False
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeGroupsRequest(w: Writer, m: Any, version: i64) -> None:
    w.strings("groups", m.groups, False)
    if version >= 3:
        w.boolean(m.include_authorized_operations)
    elif m.include_authorized_operations:
        w.refuse("DescribeGroupsRequest.include_authorized_operations")
    w.unknown_tags("DescribeGroupsRequest", m.unknown_tagged_fields)


def read_DescribedGroupMember(r: Reader, version: i64) -> Any:
    m: Any = _DescribedGroupMember()
    m.member_id = r.string("member_id", False)
    if version >= 4:
        m.group_instance_id = r.string("group_instance_id", True)
    else:
        m.group_instance_id = None
    m.client_id = r.string("client_id", False)
    m.client_host = r.string("client_host", False)
    m.member_metadata = r.binary("member_metadata", False)
    m.member_assignment = r.binary("member_assignment", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribedGroupMember(w: Writer, m: Any, version: i64) -> None:
    w.string("member_id", m.member_id, False)
    if version >= 4:
        w.string("group_instance_id", m.group_instance_id, True)
    w.string("client_id", m.client_id, False)
    w.string("client_host", m.client_host, False)
    w.binary("member_metadata", m.member_metadata, False)
    w.binary("member_assignment", m.member_assignment, False)
    w.unknown_tags("DescribedGroupMember", m.unknown_tagged_fields)


def read_DescribeGroupsResponseDescribedGroup(r: Reader, version: i64) -> Any:
    m: Any = _DescribeGroupsResponseDescribedGroup()
    m.error_code = r.int16()
    if version >= 6:
        m.error_message = r.string("error_message", True)
    else:
        m.error_message = None
    m.group_id = r.string("group_id", False)
    m.group_state = r.string("group_state", False)
    m.protocol_type = r.string("protocol_type", False)
    m.protocol_data = r.string("protocol_data", False)
    count = r.count("members", False, 7)
    m.members = [read_DescribedGroupMember(r, version) for _ in range(count)]
    if version >= 3:
        m.authorized_operations = r.int32()
    else:
        m.authorized_operations = -2147483648
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeGroupsResponseDescribedGroup(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    if version >= 6:
        w.string("error_message", m.error_message, True)
    elif m.error_message is not None:
        w.refuse("DescribeGroupsResponseDescribedGroup.error_message")
    w.string("group_id", m.group_id, False)
    w.string("group_state", m.group_state, False)
    w.string("protocol_type", m.protocol_type, False)
    w.string("protocol_data", m.protocol_data, False)
    members = m.members
    w.array("members", members, False)
    for item in members:
        write_DescribedGroupMember(w, item, version)
    if version >= 3:
        write_i32_be(out, m.authorized_operations)
    elif m.authorized_operations != -2147483648:
        w.refuse("DescribeGroupsResponseDescribedGroup.authorized_operations")
    w.unknown_tags("DescribeGroupsResponseDescribedGroup", m.unknown_tagged_fields)


def read_DescribeGroupsResponse(r: Reader, version: i64) -> Any:
    m: Any = _DescribeGroupsResponse()
    if version >= 1:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    count = r.count("groups", False, 12)
    m.groups = [read_DescribeGroupsResponseDescribedGroup(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeGroupsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 1:
        write_i32_be(out, m.throttle_time_ms)
    groups = m.groups
    w.array("groups", groups, False)
    for item in groups:
        write_DescribeGroupsResponseDescribedGroup(w, item, version)
    w.unknown_tags("DescribeGroupsResponse", m.unknown_tagged_fields)
