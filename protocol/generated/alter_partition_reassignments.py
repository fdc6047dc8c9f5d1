"""Of `apis/alter_partition_reassignments.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AlterPartitionReassignmentsRequest: Final[Any] = made_by_readers(
    AlterPartitionReassignmentsRequest
)
_AlterPartitionReassignmentsResponse: Final[Any] = made_by_readers(
    AlterPartitionReassignmentsResponse
)
_ReassignablePartition: Final[Any] = made_by_readers(ReassignablePartition)
_ReassignablePartitionResponse: Final[Any] = made_by_readers(ReassignablePartitionResponse)
_ReassignableTopic: Final[Any] = made_by_readers(ReassignableTopic)
_ReassignableTopicResponse: Final[Any] = made_by_readers(ReassignableTopicResponse)


def read_ReassignablePartition(r: Reader, version: i64) -> Any:
    m: Any = _ReassignablePartition()
    m.partition_index = r.int32()
    m.replicas = r.int32s("replicas", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ReassignablePartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    w.int32s("replicas", m.replicas, True)
    w.unknown_tags("ReassignablePartition", m.unknown_tagged_fields)


def read_ReassignableTopic(r: Reader, version: i64) -> Any:
    m: Any = _ReassignableTopic()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 6)
    m.partitions = [read_ReassignablePartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ReassignableTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_ReassignablePartition(w, item, version)
    w.unknown_tags("ReassignableTopic", m.unknown_tagged_fields)


def read_AlterPartitionReassignmentsRequest(r: Reader, version: i64) -> Any:
    m: Any = _AlterPartitionReassignmentsRequest()
    m.timeout_ms = r.int32()
    if version >= 1:
        m.allow_replication_factor_change = r.boolean()
    else:
        m.allow_replication_factor_change = True
    count = r.count("topics", False, 3)
    m.topics = [read_ReassignableTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterPartitionReassignmentsRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.timeout_ms)
    if version >= 1:
        w.boolean(m.allow_replication_factor_change)
    elif not m.allow_replication_factor_change:
        w.refuse("AlterPartitionReassignmentsRequest.allow_replication_factor_change")
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_ReassignableTopic(w, item, version)
    w.unknown_tags("AlterPartitionReassignmentsRequest", m.unknown_tagged_fields)


def read_ReassignablePartitionResponse(r: Reader, version: i64) -> Any:
    m: Any = _ReassignablePartitionResponse()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ReassignablePartitionResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.unknown_tags("ReassignablePartitionResponse", m.unknown_tagged_fields)


def read_ReassignableTopicResponse(r: Reader, version: i64) -> Any:
    m: Any = _ReassignableTopicResponse()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 8)
    m.partitions = [read_ReassignablePartitionResponse(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ReassignableTopicResponse(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_ReassignablePartitionResponse(w, item, version)
    w.unknown_tags("ReassignableTopicResponse", m.unknown_tagged_fields)


def read_AlterPartitionReassignmentsResponse(r: Reader, version: i64) -> Any:
    m: Any = _AlterPartitionReassignmentsResponse()
    m.throttle_time_ms = r.int32()
    if version >= 1:
        m.allow_replication_factor_change = r.boolean()
    else:
        m.allow_replication_factor_change = True
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    count = r.count("responses", False, 3)
    m.responses = [read_ReassignableTopicResponse(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterPartitionReassignmentsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    if version >= 1:
        w.boolean(m.allow_replication_factor_change)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    responses = m.responses
    w.array("responses", responses, False)
    for item in responses:
        write_ReassignableTopicResponse(w, item, version)
    w.unknown_tags("AlterPartitionReassignmentsResponse", m.unknown_tagged_fields)
