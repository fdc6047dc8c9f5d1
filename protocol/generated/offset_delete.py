"""Of `apis/offset_delete.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import NO_TAGS, made_by_readers
from ..writer import Writer

_NO_TAGS: Final = NO_TAGS
_OffsetDeleteRequest: Final[Any] = made_by_readers(OffsetDeleteRequest)
_OffsetDeleteRequestPartition: Final[Any] = made_by_readers(OffsetDeleteRequestPartition)
_OffsetDeleteRequestTopic: Final[Any] = made_by_readers(OffsetDeleteRequestTopic)
_OffsetDeleteResponse: Final[Any] = made_by_readers(OffsetDeleteResponse)
_OffsetDeleteResponsePartition: Final[Any] = made_by_readers(OffsetDeleteResponsePartition)
_OffsetDeleteResponseTopic: Final[Any] = made_by_readers(OffsetDeleteResponseTopic)


def read_OffsetDeleteRequestPartition(r: Reader, version: i64) -> Any:
    m: Any = _OffsetDeleteRequestPartition()
    m.partition_index = r.int32()
    m.unknown_tagged_fields = _NO_TAGS
    return m


def write_OffsetDeleteRequestPartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    w.unknown_tags("OffsetDeleteRequestPartition", m.unknown_tagged_fields)


def read_OffsetDeleteRequestTopic(r: Reader, version: i64) -> Any:
    m: Any = _OffsetDeleteRequestTopic()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 4)
    m.partitions = [read_OffsetDeleteRequestPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = _NO_TAGS
    return m


def write_OffsetDeleteRequestTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_OffsetDeleteRequestPartition(w, item, version)
    w.unknown_tags("OffsetDeleteRequestTopic", m.unknown_tagged_fields)


def read_OffsetDeleteRequest(r: Reader, version: i64) -> Any:
    m: Any = _OffsetDeleteRequest()
    m.group_id = r.string("group_id", False)
    count = r.count("topics", False, 6)
    m.topics = [read_OffsetDeleteRequestTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = _NO_TAGS
    return m


def write_OffsetDeleteRequest(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_OffsetDeleteRequestTopic(w, item, version)
    w.unknown_tags("OffsetDeleteRequest", m.unknown_tagged_fields)


def read_OffsetDeleteResponsePartition(r: Reader, version: i64) -> Any:
    m: Any = _OffsetDeleteResponsePartition()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.unknown_tagged_fields = _NO_TAGS
    return m


def write_OffsetDeleteResponsePartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    w.unknown_tags("OffsetDeleteResponsePartition", m.unknown_tagged_fields)


def read_OffsetDeleteResponseTopic(r: Reader, version: i64) -> Any:
    m: Any = _OffsetDeleteResponseTopic()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 6)
    m.partitions = [read_OffsetDeleteResponsePartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = _NO_TAGS
    return m


def write_OffsetDeleteResponseTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_OffsetDeleteResponsePartition(w, item, version)
    w.unknown_tags("OffsetDeleteResponseTopic", m.unknown_tagged_fields)


def read_OffsetDeleteResponse(r: Reader, version: i64) -> Any:
    m: Any = _OffsetDeleteResponse()
    m.error_code = r.int16()
    m.throttle_time_ms = r.int32()
    count = r.count("topics", False, 6)
    m.topics = [read_OffsetDeleteResponseTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = _NO_TAGS
    return m


def write_OffsetDeleteResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    write_i32_be(out, m.throttle_time_ms)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_OffsetDeleteResponseTopic(w, item, version)
    w.unknown_tags("OffsetDeleteResponse", m.unknown_tagged_fields)
