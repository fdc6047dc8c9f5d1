"""Of `apis/create_partitions.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_CreatePartitionsAssignment: Final[Any] = made_by_readers(CreatePartitionsAssignment)
_CreatePartitionsRequest: Final[Any] = made_by_readers(CreatePartitionsRequest)
_CreatePartitionsResponse: Final[Any] = made_by_readers(CreatePartitionsResponse)
_CreatePartitionsTopic: Final[Any] = made_by_readers(CreatePartitionsTopic)
_CreatePartitionsTopicResult: Final[Any] = made_by_readers(CreatePartitionsTopicResult)


def read_CreatePartitionsAssignment(r: Reader, version: i64) -> Any:
    m: Any = _CreatePartitionsAssignment()
    m.broker_ids = r.int32s("broker_ids", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CreatePartitionsAssignment(w: Writer, m: Any, version: i64) -> None:
    w.int32s("broker_ids", m.broker_ids, False)
    w.unknown_tags("CreatePartitionsAssignment", m.unknown_tagged_fields)


def read_CreatePartitionsTopic(r: Reader, version: i64) -> Any:
    m: Any = _CreatePartitionsTopic()
    m.name = r.string("name", False)
    m.count = r.int32()
    count = r.count("assignments", True, 2)
    m.assignments = (
        None if count < 0 else [read_CreatePartitionsAssignment(r, version) for _ in range(count)]
    )
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CreatePartitionsTopic(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("name", m.name, False)
    write_i32_be(out, m.count)
    assignments = m.assignments
    w.array("assignments", assignments, True)
    for item in assignments or ():
        write_CreatePartitionsAssignment(w, item, version)
    w.unknown_tags("CreatePartitionsTopic", m.unknown_tagged_fields)


def read_CreatePartitionsRequest(r: Reader, version: i64) -> Any:
    m: Any = _CreatePartitionsRequest()
    count = r.count("topics", False, 7)
    m.topics = [read_CreatePartitionsTopic(r, version) for _ in range(count)]
    m.timeout_ms = r.int32()
    m.validate_only = r.boolean()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CreatePartitionsRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_CreatePartitionsTopic(w, item, version)
    write_i32_be(out, m.timeout_ms)
    w.boolean(m.validate_only)
    w.unknown_tags("CreatePartitionsRequest", m.unknown_tagged_fields)


def read_CreatePartitionsTopicResult(r: Reader, version: i64) -> Any:
    m: Any = _CreatePartitionsTopicResult()
    m.name = r.string("name", False)
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CreatePartitionsTopicResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("name", m.name, False)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.unknown_tags("CreatePartitionsTopicResult", m.unknown_tagged_fields)


def read_CreatePartitionsResponse(r: Reader, version: i64) -> Any:
    m: Any = _CreatePartitionsResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("results", False, 5)
    m.results = [read_CreatePartitionsTopicResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CreatePartitionsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    results = m.results
    w.array("results", results, False)
    for item in results:
        write_CreatePartitionsTopicResult(w, item, version)
    w.unknown_tags("CreatePartitionsResponse", m.unknown_tagged_fields)
