"""Of `apis/offset_for_leader_epoch.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_OffsetForLeaderEpochRequest: Final[Any] = made_by_readers(OffsetForLeaderEpochRequest)
_OffsetForLeaderEpochResponse: Final[Any] = made_by_readers(OffsetForLeaderEpochResponse)
_OffsetForLeaderEpochResponseEpochEndOffset: Final[Any] = made_by_readers(
    OffsetForLeaderEpochResponseEpochEndOffset
)
_OffsetForLeaderPartition: Final[Any] = made_by_readers(OffsetForLeaderPartition)
_OffsetForLeaderTopic: Final[Any] = made_by_readers(OffsetForLeaderTopic)
_OffsetForLeaderTopicResult: Final[Any] = made_by_readers(OffsetForLeaderTopicResult)


def read_OffsetForLeaderPartition(r: Reader, version: i64) -> Any:
    m: Any = _OffsetForLeaderPartition()
    m.partition = r.int32()
    if version >= 2:
        m.current_leader_epoch = r.int32()
    else:
        m.current_leader_epoch = -1
    m.leader_epoch = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetForLeaderPartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition)
    if version >= 2:
        write_i32_be(out, m.current_leader_epoch)
    write_i32_be(out, m.leader_epoch)
    w.unknown_tags("OffsetForLeaderPartition", m.unknown_tagged_fields)


def read_OffsetForLeaderTopic(r: Reader, version: i64) -> Any:
    m: Any = _OffsetForLeaderTopic()
    m.topic = r.string("topic", False)
    count = r.count("partitions", False, 8)
    m.partitions = [read_OffsetForLeaderPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetForLeaderTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("topic", m.topic, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_OffsetForLeaderPartition(w, item, version)
    w.unknown_tags("OffsetForLeaderTopic", m.unknown_tagged_fields)


def read_OffsetForLeaderEpochRequest(r: Reader, version: i64) -> Any:
    m: Any = _OffsetForLeaderEpochRequest()
    if version >= 3:
        m.replica_id = r.int32()
    else:
        m.replica_id = -2
    count = r.count("topics", False, 3)
    m.topics = [read_OffsetForLeaderTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetForLeaderEpochRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 3:
        write_i32_be(out, m.replica_id)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_OffsetForLeaderTopic(w, item, version)
    w.unknown_tags("OffsetForLeaderEpochRequest", m.unknown_tagged_fields)


def read_OffsetForLeaderEpochResponseEpochEndOffset(r: Reader, version: i64) -> Any:
    m: Any = _OffsetForLeaderEpochResponseEpochEndOffset()
    m.error_code = r.int16()
    m.partition = r.int32()
    if version >= 1:
        m.leader_epoch = r.int32()
    else:
        m.leader_epoch = -1
    m.end_offset = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetForLeaderEpochResponseEpochEndOffset(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    write_i32_be(out, m.partition)
    if version >= 1:
        write_i32_be(out, m.leader_epoch)
    write_i64_be(out, m.end_offset)
    w.unknown_tags("OffsetForLeaderEpochResponseEpochEndOffset", m.unknown_tagged_fields)


def read_OffsetForLeaderTopicResult(r: Reader, version: i64) -> Any:
    m: Any = _OffsetForLeaderTopicResult()
    m.topic = r.string("topic", False)
    count = r.count("partitions", False, 14)
    m.partitions = [
        read_OffsetForLeaderEpochResponseEpochEndOffset(r, version) for _ in range(count)
    ]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetForLeaderTopicResult(w: Writer, m: Any, version: i64) -> None:
    w.string("topic", m.topic, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_OffsetForLeaderEpochResponseEpochEndOffset(w, item, version)
    w.unknown_tags("OffsetForLeaderTopicResult", m.unknown_tagged_fields)


def read_OffsetForLeaderEpochResponse(r: Reader, version: i64) -> Any:
    m: Any = _OffsetForLeaderEpochResponse()
    if version >= 2:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    count = r.count("topics", False, 3)
    m.topics = [read_OffsetForLeaderTopicResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetForLeaderEpochResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 2:
        write_i32_be(out, m.throttle_time_ms)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_OffsetForLeaderTopicResult(w, item, version)
    w.unknown_tags("OffsetForLeaderEpochResponse", m.unknown_tagged_fields)
