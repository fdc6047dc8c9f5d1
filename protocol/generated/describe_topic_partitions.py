"""Of `apis/describe_topic_partitions.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_Cursor: Final[Any] = made_by_readers(Cursor)
_DescribeTopicPartitionsRequest: Final[Any] = made_by_readers(DescribeTopicPartitionsRequest)
_DescribeTopicPartitionsResponse: Final[Any] = made_by_readers(DescribeTopicPartitionsResponse)
_DescribeTopicPartitionsResponsePartition: Final[Any] = made_by_readers(
    DescribeTopicPartitionsResponsePartition
)
_DescribeTopicPartitionsResponseTopic: Final[Any] = made_by_readers(
    DescribeTopicPartitionsResponseTopic
)
_TopicRequest: Final[Any] = made_by_readers(TopicRequest)


def read_TopicRequest(r: Reader, version: i64) -> Any:
    m: Any = _TopicRequest()
    m.name = r.string("name", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TopicRequest(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.unknown_tags("TopicRequest", m.unknown_tagged_fields)


def read_Cursor(r: Reader, version: i64) -> Any:
    m: Any = _Cursor()
    m.topic_name = r.string("topic_name", False)
    m.partition_index = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_Cursor(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("topic_name", m.topic_name, False)
    write_i32_be(out, m.partition_index)
    w.unknown_tags("Cursor", m.unknown_tagged_fields)


def read_DescribeTopicPartitionsRequest(r: Reader, version: i64) -> Any:
    m: Any = _DescribeTopicPartitionsRequest()
    count = r.count("topics", False, 2)
    m.topics = [read_TopicRequest(r, version) for _ in range(count)]
    m.response_partition_limit = r.int32()
    m.cursor = None if r.int8() < 0 else read_Cursor(r, version)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeTopicPartitionsRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_TopicRequest(w, item, version)
    write_i32_be(out, m.response_partition_limit)
    if m.cursor is None:
        w.int8(-1)
    else:
        w.int8(1)
        write_Cursor(w, m.cursor, version)
    w.unknown_tags("DescribeTopicPartitionsRequest", m.unknown_tagged_fields)


def read_DescribeTopicPartitionsResponsePartition(r: Reader, version: i64) -> Any:
    m: Any = _DescribeTopicPartitionsResponsePartition()
    m.error_code = r.int16()
    m.partition_index = r.int32()
    m.leader_id = r.int32()
    m.leader_epoch = r.int32()
    m.replica_nodes = r.int32s("replica_nodes", False)
    m.isr_nodes = r.int32s("isr_nodes", False)
    m.eligible_leader_replicas = r.int32s("eligible_leader_replicas", True)
    m.last_known_elr = r.int32s("last_known_elr", True)
    m.offline_replicas = r.int32s("offline_replicas", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeTopicPartitionsResponsePartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    write_i32_be(out, m.partition_index)
    write_i32_be(out, m.leader_id)
    write_i32_be(out, m.leader_epoch)
    w.int32s("replica_nodes", m.replica_nodes, False)
    w.int32s("isr_nodes", m.isr_nodes, False)
    w.int32s("eligible_leader_replicas", m.eligible_leader_replicas, True)
    w.int32s("last_known_elr", m.last_known_elr, True)
    w.int32s("offline_replicas", m.offline_replicas, False)
    w.unknown_tags("DescribeTopicPartitionsResponsePartition", m.unknown_tagged_fields)


def read_DescribeTopicPartitionsResponseTopic(r: Reader, version: i64) -> Any:
    m: Any = _DescribeTopicPartitionsResponseTopic()
    m.error_code = r.int16()
    m.name = r.string("name", True)
    m.topic_id = r.uuid()
    m.is_internal = r.boolean()
    count = r.count("partitions", False, 20)
    m.partitions = [read_DescribeTopicPartitionsResponsePartition(r, version) for _ in range(count)]
    m.topic_authorized_operations = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeTopicPartitionsResponseTopic(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.string("name", m.name, True)
    w.uuid(m.topic_id)
    w.boolean(m.is_internal)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_DescribeTopicPartitionsResponsePartition(w, item, version)
    write_i32_be(out, m.topic_authorized_operations)
    w.unknown_tags("DescribeTopicPartitionsResponseTopic", m.unknown_tagged_fields)


def read_DescribeTopicPartitionsResponse(r: Reader, version: i64) -> Any:
    m: Any = _DescribeTopicPartitionsResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("topics", False, 26)
    m.topics = [read_DescribeTopicPartitionsResponseTopic(r, version) for _ in range(count)]
    m.next_cursor = None if r.int8() < 0 else read_Cursor(r, version)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeTopicPartitionsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_DescribeTopicPartitionsResponseTopic(w, item, version)
    if m.next_cursor is None:
        w.int8(-1)
    else:
        w.int8(1)
        write_Cursor(w, m.next_cursor, version)
    w.unknown_tags("DescribeTopicPartitionsResponse", m.unknown_tagged_fields)
