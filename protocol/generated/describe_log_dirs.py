"""Of `apis/describe_log_dirs.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_DescribableLogDirTopic: Final[Any] = made_by_readers(DescribableLogDirTopic)
_DescribeLogDirsPartition: Final[Any] = made_by_readers(DescribeLogDirsPartition)
_DescribeLogDirsRequest: Final[Any] = made_by_readers(DescribeLogDirsRequest)
_DescribeLogDirsResponse: Final[Any] = made_by_readers(DescribeLogDirsResponse)
_DescribeLogDirsResult: Final[Any] = made_by_readers(DescribeLogDirsResult)
_DescribeLogDirsTopic: Final[Any] = made_by_readers(DescribeLogDirsTopic)


def read_DescribableLogDirTopic(r: Reader, version: i64) -> Any:
    m: Any = _DescribableLogDirTopic()
    m.topic = r.string("topic", False)
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribableLogDirTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("topic", m.topic, False)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("DescribableLogDirTopic", m.unknown_tagged_fields)


def read_DescribeLogDirsRequest(r: Reader, version: i64) -> Any:
    m: Any = _DescribeLogDirsRequest()
    count = r.count("topics", True, 3)
    m.topics = (
        None if count < 0 else [read_DescribableLogDirTopic(r, version) for _ in range(count)]
    )
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeLogDirsRequest(w: Writer, m: Any, version: i64) -> None:
    topics = m.topics
    w.array("topics", topics, True)
    for item in topics or ():
        write_DescribableLogDirTopic(w, item, version)
    w.unknown_tags("DescribeLogDirsRequest", m.unknown_tagged_fields)


def read_DescribeLogDirsPartition(r: Reader, version: i64) -> Any:
    m: Any = _DescribeLogDirsPartition()
    m.partition_index = r.int32()
    m.partition_size = r.int64()
    m.offset_lag = r.int64()
    m.is_future_key = r.boolean()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeLogDirsPartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i64_be(out, m.partition_size)
    write_i64_be(out, m.offset_lag)
    w.boolean(m.is_future_key)
    w.unknown_tags("DescribeLogDirsPartition", m.unknown_tagged_fields)


def read_DescribeLogDirsTopic(r: Reader, version: i64) -> Any:
    m: Any = _DescribeLogDirsTopic()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 21)
    m.partitions = [read_DescribeLogDirsPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeLogDirsTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_DescribeLogDirsPartition(w, item, version)
    w.unknown_tags("DescribeLogDirsTopic", m.unknown_tagged_fields)


def read_DescribeLogDirsResult(r: Reader, version: i64) -> Any:
    m: Any = _DescribeLogDirsResult()
    m.error_code = r.int16()
    m.log_dir = r.string("log_dir", False)
    count = r.count("topics", False, 3)
    m.topics = [read_DescribeLogDirsTopic(r, version) for _ in range(count)]
    if version >= 4:
        m.total_bytes = r.int64()
        m.usable_bytes = r.int64()
    else:
        m.total_bytes = -1
        m.usable_bytes = -1
    if version >= 5:
        m.is_cordoned = r.boolean()
    else:
        m.is_cordoned = False
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeLogDirsResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.string("log_dir", m.log_dir, False)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_DescribeLogDirsTopic(w, item, version)
    if version >= 4:
        write_i64_be(out, m.total_bytes)
        write_i64_be(out, m.usable_bytes)
    if version >= 5:
        w.boolean(m.is_cordoned)
    w.unknown_tags("DescribeLogDirsResult", m.unknown_tagged_fields)


def read_DescribeLogDirsResponse(r: Reader, version: i64) -> Any:
    m: Any = _DescribeLogDirsResponse()
    m.throttle_time_ms = r.int32()
    if version >= 3:
        m.error_code = r.int16()
    else:
        m.error_code = 0
    count = r.count("results", False, 5)
    m.results = [read_DescribeLogDirsResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeLogDirsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    if version >= 3:
        write_i16_be(out, m.error_code)
    results = m.results
    w.array("results", results, False)
    for item in results:
        write_DescribeLogDirsResult(w, item, version)
    w.unknown_tags("DescribeLogDirsResponse", m.unknown_tagged_fields)
