"""Of `apis/list_groups.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_ListGroupsRequest: Final[Any] = made_by_readers(ListGroupsRequest)
_ListGroupsResponse: Final[Any] = made_by_readers(ListGroupsResponse)
_ListedGroup: Final[Any] = made_by_readers(ListedGroup)


def read_ListGroupsRequest(r: Reader, version: i64) -> Any:
    m: Any = _ListGroupsRequest()
    if version >= 4:
        m.states_filter = r.strings("states_filter", False)
    else:
        m.states_filter = []
    if version >= 5:
        m.types_filter = r.strings("types_filter", False)
    else:
        m.types_filter = []
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListGroupsRequest(w: Writer, m: Any, version: i64) -> None:
    if version >= 4:
        w.strings("states_filter", m.states_filter, False)
    elif m.states_filter != []:
        w.refuse("ListGroupsRequest.states_filter")
    if version >= 5:
        w.strings("types_filter", m.types_filter, False)
    elif m.types_filter != []:
        w.refuse("ListGroupsRequest.types_filter")
    w.unknown_tags("ListGroupsRequest", m.unknown_tagged_fields)


def read_ListedGroup(r: Reader, version: i64) -> Any:
    m: Any = _ListedGroup()
    m.group_id = r.string("group_id", False)
    m.protocol_type = r.string("protocol_type", False)
    if version >= 4:
        m.group_state = r.string("group_state", False)
    else:
        m.group_state = ""
    if version >= 5:
        m.group_type = r.string("group_type", False)
    else:
        m.group_type = ""
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListedGroup(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.string("protocol_type", m.protocol_type, False)
    if version >= 4:
        w.string("group_state", m.group_state, False)
    if version >= 5:
        w.string("group_type", m.group_type, False)
    w.unknown_tags("ListedGroup", m.unknown_tagged_fields)


def read_ListGroupsResponse(r: Reader, version: i64) -> Any:
    m: Any = _ListGroupsResponse()
    if version >= 1:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    m.error_code = r.int16()
    count = r.count("groups", False, 3)
    m.groups = [read_ListedGroup(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListGroupsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 1:
        write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    groups = m.groups
    w.array("groups", groups, False)
    for item in groups:
        write_ListedGroup(w, item, version)
    w.unknown_tags("ListGroupsResponse", m.unknown_tagged_fields)
