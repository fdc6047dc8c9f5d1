"""Of `apis/describe_producers.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_DescribeProducersRequest: Final[Any] = made_by_readers(DescribeProducersRequest)
_DescribeProducersResponse: Final[Any] = made_by_readers(DescribeProducersResponse)
_PartitionResponse: Final[Any] = made_by_readers(PartitionResponse)
_ProducerState: Final[Any] = made_by_readers(ProducerState)
_TopicRequest: Final[Any] = made_by_readers(TopicRequest)
_TopicResponse: Final[Any] = made_by_readers(TopicResponse)


def read_TopicRequest(r: Reader, version: i64) -> Any:
    m: Any = _TopicRequest()
    m.name = r.string("name", False)
    m.partition_indexes = r.int32s("partition_indexes", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TopicRequest(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.int32s("partition_indexes", m.partition_indexes, False)
    w.unknown_tags("TopicRequest", m.unknown_tagged_fields)


def read_DescribeProducersRequest(r: Reader, version: i64) -> Any:
    m: Any = _DescribeProducersRequest()
    count = r.count("topics", False, 3)
    m.topics = [read_TopicRequest(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeProducersRequest(w: Writer, m: Any, version: i64) -> None:
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_TopicRequest(w, item, version)
    w.unknown_tags("DescribeProducersRequest", m.unknown_tagged_fields)


def read_ProducerState(r: Reader, version: i64) -> Any:
    m: Any = _ProducerState()
    m.producer_id = r.int64()
    m.producer_epoch = r.int32()
    m.last_sequence = r.int32()
    m.last_timestamp = r.int64()
    m.coordinator_epoch = r.int32()
    m.current_txn_start_offset = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ProducerState(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i64_be(out, m.producer_id)
    write_i32_be(out, m.producer_epoch)
    write_i32_be(out, m.last_sequence)
    write_i64_be(out, m.last_timestamp)
    write_i32_be(out, m.coordinator_epoch)
    write_i64_be(out, m.current_txn_start_offset)
    w.unknown_tags("ProducerState", m.unknown_tagged_fields)


def read_PartitionResponse(r: Reader, version: i64) -> Any:
    m: Any = _PartitionResponse()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    count = r.count("active_producers", False, 37)
    m.active_producers = [read_ProducerState(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_PartitionResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    active_producers = m.active_producers
    w.array("active_producers", active_producers, False)
    for item in active_producers:
        write_ProducerState(w, item, version)
    w.unknown_tags("PartitionResponse", m.unknown_tagged_fields)


def read_TopicResponse(r: Reader, version: i64) -> Any:
    m: Any = _TopicResponse()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 9)
    m.partitions = [read_PartitionResponse(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TopicResponse(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_PartitionResponse(w, item, version)
    w.unknown_tags("TopicResponse", m.unknown_tagged_fields)


def read_DescribeProducersResponse(r: Reader, version: i64) -> Any:
    m: Any = _DescribeProducersResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("topics", False, 3)
    m.topics = [read_TopicResponse(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeProducersResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_TopicResponse(w, item, version)
    w.unknown_tags("DescribeProducersResponse", m.unknown_tagged_fields)
