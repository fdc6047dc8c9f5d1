"""Of `apis/list_offsets.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_ListOffsetsPartition: Final[Any] = made_by_readers(ListOffsetsPartition)
_ListOffsetsPartitionResponse: Final[Any] = made_by_readers(ListOffsetsPartitionResponse)
_ListOffsetsRequest: Final[Any] = made_by_readers(ListOffsetsRequest)
_ListOffsetsResponse: Final[Any] = made_by_readers(ListOffsetsResponse)
_ListOffsetsTopic: Final[Any] = made_by_readers(ListOffsetsTopic)
_ListOffsetsTopicResponse: Final[Any] = made_by_readers(ListOffsetsTopicResponse)


def read_ListOffsetsPartition(r: Reader, version: i64) -> Any:
    m: Any = _ListOffsetsPartition()
    m.partition_index = r.int32()
    if version >= 4:
        m.current_leader_epoch = r.int32()
    else:
        m.current_leader_epoch = -1
    m.timestamp = r.int64()
    if version <= 0:
        m.max_num_offsets = r.int32()
    else:
        m.max_num_offsets = 1
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListOffsetsPartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    if version >= 4:
        write_i32_be(out, m.current_leader_epoch)
    write_i64_be(out, m.timestamp)
    if version <= 0:
        write_i32_be(out, m.max_num_offsets)
    elif m.max_num_offsets != 1:
        w.refuse("ListOffsetsPartition.max_num_offsets")
    w.unknown_tags("ListOffsetsPartition", m.unknown_tagged_fields)


def read_ListOffsetsTopic(r: Reader, version: i64) -> Any:
    m: Any = _ListOffsetsTopic()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 12)
    m.partitions = [read_ListOffsetsPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListOffsetsTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_ListOffsetsPartition(w, item, version)
    w.unknown_tags("ListOffsetsTopic", m.unknown_tagged_fields)


def read_ListOffsetsRequest(r: Reader, version: i64) -> Any:
    m: Any = _ListOffsetsRequest()
    m.replica_id = r.int32()
    if version >= 2:
        m.isolation_level = r.int8()
    else:
        m.isolation_level = 0
    count = r.count("topics", False, 3)
    m.topics = [read_ListOffsetsTopic(r, version) for _ in range(count)]
    if version >= 10:
        m.timeout_ms = r.int32()
    else:
        m.timeout_ms = 0
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListOffsetsRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.replica_id)
    if version >= 2:
        w.int8(m.isolation_level)
    elif m.isolation_level != 0:
        w.refuse("ListOffsetsRequest.isolation_level")
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_ListOffsetsTopic(w, item, version)
    if version >= 10:
        write_i32_be(out, m.timeout_ms)
    w.unknown_tags("ListOffsetsRequest", m.unknown_tagged_fields)


def read_ListOffsetsPartitionResponse(r: Reader, version: i64) -> Any:
    m: Any = _ListOffsetsPartitionResponse()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    if version <= 0:
        m.old_style_offsets = r.int64s("old_style_offsets", False)
    else:
        m.old_style_offsets = []
    if version >= 1:
        m.timestamp = r.int64()
        m.offset = r.int64()
    else:
        m.timestamp = -1
        m.offset = -1
    if version >= 4:
        m.leader_epoch = r.int32()
    else:
        m.leader_epoch = -1
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListOffsetsPartitionResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    if version <= 0:
        w.int64s("old_style_offsets", m.old_style_offsets, False)
    elif m.old_style_offsets != []:
        w.refuse("ListOffsetsPartitionResponse.old_style_offsets")
    if version >= 1:
        write_i64_be(out, m.timestamp)
        write_i64_be(out, m.offset)
    else:
        if m.timestamp != -1:
            w.refuse("ListOffsetsPartitionResponse.timestamp")
        if m.offset != -1:
            w.refuse("ListOffsetsPartitionResponse.offset")
    if version >= 4:
        write_i32_be(out, m.leader_epoch)
    elif m.leader_epoch != -1:
        w.refuse("ListOffsetsPartitionResponse.leader_epoch")
    w.unknown_tags("ListOffsetsPartitionResponse", m.unknown_tagged_fields)


def read_ListOffsetsTopicResponse(r: Reader, version: i64) -> Any:
    m: Any = _ListOffsetsTopicResponse()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 10)
    m.partitions = [read_ListOffsetsPartitionResponse(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListOffsetsTopicResponse(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_ListOffsetsPartitionResponse(w, item, version)
    w.unknown_tags("ListOffsetsTopicResponse", m.unknown_tagged_fields)


def read_ListOffsetsResponse(r: Reader, version: i64) -> Any:
    m: Any = _ListOffsetsResponse()
    if version >= 2:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    count = r.count("topics", False, 3)
    m.topics = [read_ListOffsetsTopicResponse(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListOffsetsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 2:
        write_i32_be(out, m.throttle_time_ms)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_ListOffsetsTopicResponse(w, item, version)
    w.unknown_tags("ListOffsetsResponse", m.unknown_tagged_fields)
