"""Of `apis/describe_share_group_offsets.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_DescribeShareGroupOffsetsRequest: Final[Any] = made_by_readers(DescribeShareGroupOffsetsRequest)
_DescribeShareGroupOffsetsRequestGroup: Final[Any] = made_by_readers(
    DescribeShareGroupOffsetsRequestGroup
)
_DescribeShareGroupOffsetsRequestTopic: Final[Any] = made_by_readers(
    DescribeShareGroupOffsetsRequestTopic
)
_DescribeShareGroupOffsetsResponse: Final[Any] = made_by_readers(DescribeShareGroupOffsetsResponse)
_DescribeShareGroupOffsetsResponseGroup: Final[Any] = made_by_readers(
    DescribeShareGroupOffsetsResponseGroup
)
_DescribeShareGroupOffsetsResponsePartition: Final[Any] = made_by_readers(
    DescribeShareGroupOffsetsResponsePartition
)
_DescribeShareGroupOffsetsResponseTopic: Final[Any] = made_by_readers(
    DescribeShareGroupOffsetsResponseTopic
)


def read_DescribeShareGroupOffsetsRequestTopic(r: Reader, version: i64) -> Any:
    m: Any = _DescribeShareGroupOffsetsRequestTopic()
    m.topic_name = r.string("topic_name", False)
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeShareGroupOffsetsRequestTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("topic_name", m.topic_name, False)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("DescribeShareGroupOffsetsRequestTopic", m.unknown_tagged_fields)


def read_DescribeShareGroupOffsetsRequestGroup(r: Reader, version: i64) -> Any:
    m: Any = _DescribeShareGroupOffsetsRequestGroup()
    m.group_id = r.string("group_id", False)
    count = r.count("topics", True, 3)
    m.topics = (
        None
        if count < 0
        else [read_DescribeShareGroupOffsetsRequestTopic(r, version) for _ in range(count)]
    )
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeShareGroupOffsetsRequestGroup(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    topics = m.topics
    w.array("topics", topics, True)
    for item in topics or ():
        write_DescribeShareGroupOffsetsRequestTopic(w, item, version)
    w.unknown_tags("DescribeShareGroupOffsetsRequestGroup", m.unknown_tagged_fields)


def read_DescribeShareGroupOffsetsRequest(r: Reader, version: i64) -> Any:
    m: Any = _DescribeShareGroupOffsetsRequest()
    count = r.count("groups", False, 3)
    m.groups = [read_DescribeShareGroupOffsetsRequestGroup(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeShareGroupOffsetsRequest(w: Writer, m: Any, version: i64) -> None:
    groups = m.groups
    w.array("groups", groups, False)
    for item in groups:
        write_DescribeShareGroupOffsetsRequestGroup(w, item, version)
    w.unknown_tags("DescribeShareGroupOffsetsRequest", m.unknown_tagged_fields)


def read_DescribeShareGroupOffsetsResponsePartition(r: Reader, version: i64) -> Any:
    m: Any = _DescribeShareGroupOffsetsResponsePartition()
    m.partition_index = r.int32()
    m.start_offset = r.int64()
    m.leader_epoch = r.int32()
    if version >= 1:
        m.lag = r.int64()
    else:
        m.lag = -1
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeShareGroupOffsetsResponsePartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i64_be(out, m.start_offset)
    write_i32_be(out, m.leader_epoch)
    if version >= 1:
        write_i64_be(out, m.lag)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.unknown_tags("DescribeShareGroupOffsetsResponsePartition", m.unknown_tagged_fields)


def read_DescribeShareGroupOffsetsResponseTopic(r: Reader, version: i64) -> Any:
    m: Any = _DescribeShareGroupOffsetsResponseTopic()
    m.topic_name = r.string("topic_name", False)
    m.topic_id = r.uuid()
    count = r.count("partitions", False, 20)
    m.partitions = [
        read_DescribeShareGroupOffsetsResponsePartition(r, version) for _ in range(count)
    ]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeShareGroupOffsetsResponseTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("topic_name", m.topic_name, False)
    w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_DescribeShareGroupOffsetsResponsePartition(w, item, version)
    w.unknown_tags("DescribeShareGroupOffsetsResponseTopic", m.unknown_tagged_fields)


def read_DescribeShareGroupOffsetsResponseGroup(r: Reader, version: i64) -> Any:
    m: Any = _DescribeShareGroupOffsetsResponseGroup()
    m.group_id = r.string("group_id", False)
    count = r.count("topics", False, 19)
    m.topics = [read_DescribeShareGroupOffsetsResponseTopic(r, version) for _ in range(count)]
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeShareGroupOffsetsResponseGroup(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("group_id", m.group_id, False)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_DescribeShareGroupOffsetsResponseTopic(w, item, version)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.unknown_tags("DescribeShareGroupOffsetsResponseGroup", m.unknown_tagged_fields)


def read_DescribeShareGroupOffsetsResponse(r: Reader, version: i64) -> Any:
    m: Any = _DescribeShareGroupOffsetsResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("groups", False, 6)
    m.groups = [read_DescribeShareGroupOffsetsResponseGroup(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeShareGroupOffsetsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    groups = m.groups
    w.array("groups", groups, False)
    for item in groups:
        write_DescribeShareGroupOffsetsResponseGroup(w, item, version)
    w.unknown_tags("DescribeShareGroupOffsetsResponse", m.unknown_tagged_fields)
