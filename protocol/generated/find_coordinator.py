"""Of `apis/find_coordinator.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_Coordinator: Final[Any] = made_by_readers(Coordinator)
_FindCoordinatorRequest: Final[Any] = made_by_readers(FindCoordinatorRequest)
_FindCoordinatorResponse: Final[Any] = made_by_readers(FindCoordinatorResponse)


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
