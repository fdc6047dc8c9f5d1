"""Of `apis/list_partition_reassignments.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_ListPartitionReassignmentsRequest: Final[Any] = made_by_readers(ListPartitionReassignmentsRequest)
_ListPartitionReassignmentsResponse: Final[Any] = made_by_readers(
    ListPartitionReassignmentsResponse
)
_ListPartitionReassignmentsTopics: Final[Any] = made_by_readers(ListPartitionReassignmentsTopics)
_OngoingPartitionReassignment: Final[Any] = made_by_readers(OngoingPartitionReassignment)
_OngoingTopicReassignment: Final[Any] = made_by_readers(OngoingTopicReassignment)


def read_ListPartitionReassignmentsTopics(r: Reader, version: i64) -> Any:
    m: Any = _ListPartitionReassignmentsTopics()
    m.name = r.string("name", False)
    m.partition_indexes = r.int32s("partition_indexes", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListPartitionReassignmentsTopics(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.int32s("partition_indexes", m.partition_indexes, False)
    w.unknown_tags("ListPartitionReassignmentsTopics", m.unknown_tagged_fields)


def read_ListPartitionReassignmentsRequest(r: Reader, version: i64) -> Any:
    m: Any = _ListPartitionReassignmentsRequest()
    m.timeout_ms = r.int32()
    count = r.count("topics", True, 3)
    m.topics = (
        None
        if count < 0
        else [read_ListPartitionReassignmentsTopics(r, version) for _ in range(count)]
    )
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListPartitionReassignmentsRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.timeout_ms)
    topics = m.topics
    w.array("topics", topics, True)
    for item in topics or ():
        write_ListPartitionReassignmentsTopics(w, item, version)
    w.unknown_tags("ListPartitionReassignmentsRequest", m.unknown_tagged_fields)


def read_OngoingPartitionReassignment(r: Reader, version: i64) -> Any:
    m: Any = _OngoingPartitionReassignment()
    m.partition_index = r.int32()
    m.replicas = r.int32s("replicas", False)
    m.adding_replicas = r.int32s("adding_replicas", False)
    m.removing_replicas = r.int32s("removing_replicas", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OngoingPartitionReassignment(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    w.int32s("replicas", m.replicas, False)
    w.int32s("adding_replicas", m.adding_replicas, False)
    w.int32s("removing_replicas", m.removing_replicas, False)
    w.unknown_tags("OngoingPartitionReassignment", m.unknown_tagged_fields)


def read_OngoingTopicReassignment(r: Reader, version: i64) -> Any:
    m: Any = _OngoingTopicReassignment()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 8)
    m.partitions = [read_OngoingPartitionReassignment(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OngoingTopicReassignment(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_OngoingPartitionReassignment(w, item, version)
    w.unknown_tags("OngoingTopicReassignment", m.unknown_tagged_fields)


def read_ListPartitionReassignmentsResponse(r: Reader, version: i64) -> Any:
    m: Any = _ListPartitionReassignmentsResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    count = r.count("topics", False, 3)
    m.topics = [read_OngoingTopicReassignment(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListPartitionReassignmentsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_OngoingTopicReassignment(w, item, version)
    w.unknown_tags("ListPartitionReassignmentsResponse", m.unknown_tagged_fields)
