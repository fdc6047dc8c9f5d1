"""Of `apis/initialize_share_group_state.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateData,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_InitializeShareGroupStateRequest: Final[Any] = made_by_readers(InitializeShareGroupStateRequest)
_InitializeShareGroupStateResponse: Final[Any] = made_by_readers(InitializeShareGroupStateResponse)
_InitializeStateData: Final[Any] = made_by_readers(InitializeStateData)
_InitializeStateResult: Final[Any] = made_by_readers(InitializeStateResult)
_PartitionData: Final[Any] = made_by_readers(PartitionData)
_PartitionResult: Final[Any] = made_by_readers(PartitionResult)


def read_PartitionData(r: Reader, version: i64) -> Any:
    m: Any = _PartitionData()
    m.partition = r.int32()
    m.state_epoch = r.int32()
    m.start_offset = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_PartitionData(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition)
    write_i32_be(out, m.state_epoch)
    write_i64_be(out, m.start_offset)
    w.unknown_tags("PartitionData", m.unknown_tagged_fields)


def read_InitializeStateData(r: Reader, version: i64) -> Any:
    m: Any = _InitializeStateData()
    m.topic_id = r.uuid()
    count = r.count("partitions", False, 17)
    m.partitions = [read_PartitionData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_InitializeStateData(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_PartitionData(w, item, version)
    w.unknown_tags("InitializeStateData", m.unknown_tagged_fields)


def read_InitializeShareGroupStateRequest(r: Reader, version: i64) -> Any:
    m: Any = _InitializeShareGroupStateRequest()
    m.group_id = r.string("group_id", False)
    count = r.count("topics", False, 18)
    m.topics = [read_InitializeStateData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_InitializeShareGroupStateRequest(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_InitializeStateData(w, item, version)
    w.unknown_tags("InitializeShareGroupStateRequest", m.unknown_tagged_fields)


def read_PartitionResult(r: Reader, version: i64) -> Any:
    m: Any = _PartitionResult()
    m.partition = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_PartitionResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.unknown_tags("PartitionResult", m.unknown_tagged_fields)


def read_InitializeStateResult(r: Reader, version: i64) -> Any:
    m: Any = _InitializeStateResult()
    m.topic_id = r.uuid()
    count = r.count("partitions", False, 8)
    m.partitions = [read_PartitionResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_InitializeStateResult(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_PartitionResult(w, item, version)
    w.unknown_tags("InitializeStateResult", m.unknown_tagged_fields)


def read_InitializeShareGroupStateResponse(r: Reader, version: i64) -> Any:
    m: Any = _InitializeShareGroupStateResponse()
    count = r.count("results", False, 18)
    m.results = [read_InitializeStateResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_InitializeShareGroupStateResponse(w: Writer, m: Any, version: i64) -> None:
    results = m.results
    w.array("results", results, False)
    for item in results:
        write_InitializeStateResult(w, item, version)
    w.unknown_tags("InitializeShareGroupStateResponse", m.unknown_tagged_fields)
