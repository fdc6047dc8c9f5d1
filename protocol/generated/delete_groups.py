"""Of `apis/delete_groups.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_DeletableGroupResult: Final[Any] = made_by_readers(DeletableGroupResult)
_DeleteGroupsRequest: Final[Any] = made_by_readers(DeleteGroupsRequest)
_DeleteGroupsResponse: Final[Any] = made_by_readers(DeleteGroupsResponse)


def read_DeleteGroupsRequest(r: Reader, version: i64) -> Any:
    m: Any = _DeleteGroupsRequest()
    m.groups_names = r.strings("groups_names", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteGroupsRequest(w: Writer, m: Any, version: i64) -> None:
    w.strings("groups_names", m.groups_names, False)
    w.unknown_tags("DeleteGroupsRequest", m.unknown_tagged_fields)


def read_DeletableGroupResult(r: Reader, version: i64) -> Any:
    m: Any = _DeletableGroupResult()
    m.group_id = r.string("group_id", False)
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeletableGroupResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("group_id", m.group_id, False)
    write_i16_be(out, m.error_code)
    w.unknown_tags("DeletableGroupResult", m.unknown_tagged_fields)


def read_DeleteGroupsResponse(r: Reader, version: i64) -> Any:
    m: Any = _DeleteGroupsResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("results", False, 4)
    m.results = [read_DeletableGroupResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteGroupsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    results = m.results
    w.array("results", results, False)
    for item in results:
        write_DeletableGroupResult(w, item, version)
    w.unknown_tags("DeleteGroupsResponse", m.unknown_tagged_fields)
