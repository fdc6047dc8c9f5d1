"""Of `apis/delete_records.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_DeleteRecordsPartition: Final[Any] = made_by_readers(DeleteRecordsPartition)
_DeleteRecordsPartitionResult: Final[Any] = made_by_readers(DeleteRecordsPartitionResult)
_DeleteRecordsRequest: Final[Any] = made_by_readers(DeleteRecordsRequest)
_DeleteRecordsResponse: Final[Any] = made_by_readers(DeleteRecordsResponse)
_DeleteRecordsTopic: Final[Any] = made_by_readers(DeleteRecordsTopic)
_DeleteRecordsTopicResult: Final[Any] = made_by_readers(DeleteRecordsTopicResult)


def read_DeleteRecordsPartition(r: Reader, version: i64) -> Any:
    m: Any = _DeleteRecordsPartition()
    m.partition_index = r.int32()
    m.offset = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteRecordsPartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i64_be(out, m.offset)
    w.unknown_tags("DeleteRecordsPartition", m.unknown_tagged_fields)


def read_DeleteRecordsTopic(r: Reader, version: i64) -> Any:
    m: Any = _DeleteRecordsTopic()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 12)
    m.partitions = [read_DeleteRecordsPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteRecordsTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_DeleteRecordsPartition(w, item, version)
    w.unknown_tags("DeleteRecordsTopic", m.unknown_tagged_fields)


def read_DeleteRecordsRequest(r: Reader, version: i64) -> Any:
    m: Any = _DeleteRecordsRequest()
    count = r.count("topics", False, 3)
    m.topics = [read_DeleteRecordsTopic(r, version) for _ in range(count)]
    m.timeout_ms = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteRecordsRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_DeleteRecordsTopic(w, item, version)
    write_i32_be(out, m.timeout_ms)
    w.unknown_tags("DeleteRecordsRequest", m.unknown_tagged_fields)


def read_DeleteRecordsPartitionResult(r: Reader, version: i64) -> Any:
    m: Any = _DeleteRecordsPartitionResult()
    m.partition_index = r.int32()
    m.low_watermark = r.int64()
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteRecordsPartitionResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i64_be(out, m.low_watermark)
    write_i16_be(out, m.error_code)
    w.unknown_tags("DeleteRecordsPartitionResult", m.unknown_tagged_fields)


def read_DeleteRecordsTopicResult(r: Reader, version: i64) -> Any:
    m: Any = _DeleteRecordsTopicResult()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 14)
    m.partitions = [read_DeleteRecordsPartitionResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteRecordsTopicResult(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_DeleteRecordsPartitionResult(w, item, version)
    w.unknown_tags("DeleteRecordsTopicResult", m.unknown_tagged_fields)


def read_DeleteRecordsResponse(r: Reader, version: i64) -> Any:
    m: Any = _DeleteRecordsResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("topics", False, 3)
    m.topics = [read_DeleteRecordsTopicResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteRecordsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_DeleteRecordsTopicResult(w, item, version)
    w.unknown_tags("DeleteRecordsResponse", m.unknown_tagged_fields)
