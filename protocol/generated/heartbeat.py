"""Of `apis/heartbeat.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.heartbeat import (
    HeartbeatRequest,
    HeartbeatResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_HeartbeatRequest: Final[Any] = made_by_readers(HeartbeatRequest)
_HeartbeatResponse: Final[Any] = made_by_readers(HeartbeatResponse)


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
