"""Of `apis/write_share_group_state.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.write_share_group_state import (
    PartitionData,
    PartitionResult,
    StateBatch,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateData,
    WriteStateResult,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_PartitionData: Final[Any] = made_by_readers(PartitionData)
_PartitionResult: Final[Any] = made_by_readers(PartitionResult)
_StateBatch: Final[Any] = made_by_readers(StateBatch)
_WriteShareGroupStateRequest: Final[Any] = made_by_readers(WriteShareGroupStateRequest)
_WriteShareGroupStateResponse: Final[Any] = made_by_readers(WriteShareGroupStateResponse)
_WriteStateData: Final[Any] = made_by_readers(WriteStateData)
_WriteStateResult: Final[Any] = made_by_readers(WriteStateResult)


def read_StateBatch(r: Reader, version: i64) -> Any:
    m: Any = _StateBatch()
    m.first_offset = r.int64()
    m.last_offset = r.int64()
    m.delivery_state = r.int8()
    m.delivery_count = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StateBatch(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i64_be(out, m.first_offset)
    write_i64_be(out, m.last_offset)
    w.int8(m.delivery_state)
    write_i16_be(out, m.delivery_count)
    w.unknown_tags("StateBatch", m.unknown_tagged_fields)


def read_PartitionData(r: Reader, version: i64) -> Any:
    m: Any = _PartitionData()
    m.partition = r.int32()
    m.state_epoch = r.int32()
    m.leader_epoch = r.int32()
    m.start_offset = r.int64()
    if version >= 1:
        m.delivery_complete_count = r.int32()
    else:
        m.delivery_complete_count = -1
    count = r.count("state_batches", False, 20)
    m.state_batches = [read_StateBatch(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_PartitionData(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition)
    write_i32_be(out, m.state_epoch)
    write_i32_be(out, m.leader_epoch)
    write_i64_be(out, m.start_offset)
    if version >= 1:
        write_i32_be(out, m.delivery_complete_count)
    state_batches = m.state_batches
    w.array("state_batches", state_batches, False)
    for item in state_batches:
        write_StateBatch(w, item, version)
    w.unknown_tags("PartitionData", m.unknown_tagged_fields)


def read_WriteStateData(r: Reader, version: i64) -> Any:
    m: Any = _WriteStateData()
    m.topic_id = r.uuid()
    count = r.count("partitions", False, 22)
    m.partitions = [read_PartitionData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WriteStateData(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_PartitionData(w, item, version)
    w.unknown_tags("WriteStateData", m.unknown_tagged_fields)


def read_WriteShareGroupStateRequest(r: Reader, version: i64) -> Any:
    m: Any = _WriteShareGroupStateRequest()
    m.group_id = r.string("group_id", False)
    count = r.count("topics", False, 18)
    m.topics = [read_WriteStateData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WriteShareGroupStateRequest(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_WriteStateData(w, item, version)
    w.unknown_tags("WriteShareGroupStateRequest", m.unknown_tagged_fields)


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


def read_WriteStateResult(r: Reader, version: i64) -> Any:
    m: Any = _WriteStateResult()
    m.topic_id = r.uuid()
    count = r.count("partitions", False, 8)
    m.partitions = [read_PartitionResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WriteStateResult(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_PartitionResult(w, item, version)
    w.unknown_tags("WriteStateResult", m.unknown_tagged_fields)


def read_WriteShareGroupStateResponse(r: Reader, version: i64) -> Any:
    m: Any = _WriteShareGroupStateResponse()
    count = r.count("results", False, 18)
    m.results = [read_WriteStateResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WriteShareGroupStateResponse(w: Writer, m: Any, version: i64) -> None:
    results = m.results
    w.array("results", results, False)
    for item in results:
        write_WriteStateResult(w, item, version)
    w.unknown_tags("WriteShareGroupStateResponse", m.unknown_tagged_fields)
