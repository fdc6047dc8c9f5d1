"""Of `apis/read_share_group_state_summary.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryData,
    ReadStateSummaryResult,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_PartitionData: Final[Any] = made_by_readers(PartitionData)
_PartitionResult: Final[Any] = made_by_readers(PartitionResult)
_ReadShareGroupStateSummaryRequest: Final[Any] = made_by_readers(ReadShareGroupStateSummaryRequest)
_ReadShareGroupStateSummaryResponse: Final[Any] = made_by_readers(
    ReadShareGroupStateSummaryResponse
)
_ReadStateSummaryData: Final[Any] = made_by_readers(ReadStateSummaryData)
_ReadStateSummaryResult: Final[Any] = made_by_readers(ReadStateSummaryResult)


def read_PartitionData(r: Reader, version: i64) -> Any:
    m: Any = _PartitionData()
    m.partition = r.int32()
    m.leader_epoch = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_PartitionData(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition)
    write_i32_be(out, m.leader_epoch)
    w.unknown_tags("PartitionData", m.unknown_tagged_fields)


def read_ReadStateSummaryData(r: Reader, version: i64) -> Any:
    m: Any = _ReadStateSummaryData()
    m.topic_id = r.uuid()
    count = r.count("partitions", False, 9)
    m.partitions = [read_PartitionData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ReadStateSummaryData(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_PartitionData(w, item, version)
    w.unknown_tags("ReadStateSummaryData", m.unknown_tagged_fields)


def read_ReadShareGroupStateSummaryRequest(r: Reader, version: i64) -> Any:
    m: Any = _ReadShareGroupStateSummaryRequest()
    m.group_id = r.string("group_id", False)
    count = r.count("topics", False, 18)
    m.topics = [read_ReadStateSummaryData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ReadShareGroupStateSummaryRequest(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_ReadStateSummaryData(w, item, version)
    w.unknown_tags("ReadShareGroupStateSummaryRequest", m.unknown_tagged_fields)


def read_PartitionResult(r: Reader, version: i64) -> Any:
    m: Any = _PartitionResult()
    m.partition = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.state_epoch = r.int32()
    m.leader_epoch = r.int32()
    m.start_offset = r.int64()
    if version >= 1:
        m.delivery_complete_count = r.int32()
    else:
        m.delivery_complete_count = -1
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_PartitionResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    write_i32_be(out, m.state_epoch)
    write_i32_be(out, m.leader_epoch)
    write_i64_be(out, m.start_offset)
    if version >= 1:
        write_i32_be(out, m.delivery_complete_count)
    w.unknown_tags("PartitionResult", m.unknown_tagged_fields)


def read_ReadStateSummaryResult(r: Reader, version: i64) -> Any:
    m: Any = _ReadStateSummaryResult()
    m.topic_id = r.uuid()
    count = r.count("partitions", False, 24)
    m.partitions = [read_PartitionResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ReadStateSummaryResult(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_PartitionResult(w, item, version)
    w.unknown_tags("ReadStateSummaryResult", m.unknown_tagged_fields)


def read_ReadShareGroupStateSummaryResponse(r: Reader, version: i64) -> Any:
    m: Any = _ReadShareGroupStateSummaryResponse()
    count = r.count("results", False, 18)
    m.results = [read_ReadStateSummaryResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ReadShareGroupStateSummaryResponse(w: Writer, m: Any, version: i64) -> None:
    results = m.results
    w.array("results", results, False)
    for item in results:
        write_ReadStateSummaryResult(w, item, version)
    w.unknown_tags("ReadShareGroupStateSummaryResponse", m.unknown_tagged_fields)
