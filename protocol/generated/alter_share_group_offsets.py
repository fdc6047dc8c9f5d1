"""Of `apis/alter_share_group_offsets.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AlterShareGroupOffsetsRequest: Final[Any] = made_by_readers(AlterShareGroupOffsetsRequest)
_AlterShareGroupOffsetsRequestPartition: Final[Any] = made_by_readers(
    AlterShareGroupOffsetsRequestPartition
)
_AlterShareGroupOffsetsRequestTopic: Final[Any] = made_by_readers(
    AlterShareGroupOffsetsRequestTopic
)
_AlterShareGroupOffsetsResponse: Final[Any] = made_by_readers(AlterShareGroupOffsetsResponse)
_AlterShareGroupOffsetsResponsePartition: Final[Any] = made_by_readers(
    AlterShareGroupOffsetsResponsePartition
)
_AlterShareGroupOffsetsResponseTopic: Final[Any] = made_by_readers(
    AlterShareGroupOffsetsResponseTopic
)


def read_AlterShareGroupOffsetsRequestPartition(r: Reader, version: i64) -> Any:
    m: Any = _AlterShareGroupOffsetsRequestPartition()
    m.partition_index = r.int32()
    m.start_offset = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterShareGroupOffsetsRequestPartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i64_be(out, m.start_offset)
    w.unknown_tags("AlterShareGroupOffsetsRequestPartition", m.unknown_tagged_fields)


def read_AlterShareGroupOffsetsRequestTopic(r: Reader, version: i64) -> Any:
    m: Any = _AlterShareGroupOffsetsRequestTopic()
    m.topic_name = r.string("topic_name", False)
    count = r.count("partitions", False, 13)
    m.partitions = [read_AlterShareGroupOffsetsRequestPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterShareGroupOffsetsRequestTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("topic_name", m.topic_name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_AlterShareGroupOffsetsRequestPartition(w, item, version)
    w.unknown_tags("AlterShareGroupOffsetsRequestTopic", m.unknown_tagged_fields)


def read_AlterShareGroupOffsetsRequest(r: Reader, version: i64) -> Any:
    m: Any = _AlterShareGroupOffsetsRequest()
    m.group_id = r.string("group_id", False)
    count = r.count("topics", False, 3)
    m.topics = [read_AlterShareGroupOffsetsRequestTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterShareGroupOffsetsRequest(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_AlterShareGroupOffsetsRequestTopic(w, item, version)
    w.unknown_tags("AlterShareGroupOffsetsRequest", m.unknown_tagged_fields)


def read_AlterShareGroupOffsetsResponsePartition(r: Reader, version: i64) -> Any:
    m: Any = _AlterShareGroupOffsetsResponsePartition()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterShareGroupOffsetsResponsePartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.unknown_tags("AlterShareGroupOffsetsResponsePartition", m.unknown_tagged_fields)


def read_AlterShareGroupOffsetsResponseTopic(r: Reader, version: i64) -> Any:
    m: Any = _AlterShareGroupOffsetsResponseTopic()
    m.topic_name = r.string("topic_name", False)
    m.topic_id = r.uuid()
    count = r.count("partitions", False, 8)
    m.partitions = [read_AlterShareGroupOffsetsResponsePartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterShareGroupOffsetsResponseTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("topic_name", m.topic_name, False)
    w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_AlterShareGroupOffsetsResponsePartition(w, item, version)
    w.unknown_tags("AlterShareGroupOffsetsResponseTopic", m.unknown_tagged_fields)


def read_AlterShareGroupOffsetsResponse(r: Reader, version: i64) -> Any:
    m: Any = _AlterShareGroupOffsetsResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    count = r.count("responses", False, 19)
    m.responses = [read_AlterShareGroupOffsetsResponseTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterShareGroupOffsetsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    responses = m.responses
    w.array("responses", responses, False)
    for item in responses:
        write_AlterShareGroupOffsetsResponseTopic(w, item, version)
    w.unknown_tags("AlterShareGroupOffsetsResponse", m.unknown_tagged_fields)
