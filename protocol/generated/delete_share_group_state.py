"""Of `apis/delete_share_group_state.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateData,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_DeleteShareGroupStateRequest: Final[Any] = made_by_readers(DeleteShareGroupStateRequest)
_DeleteShareGroupStateResponse: Final[Any] = made_by_readers(DeleteShareGroupStateResponse)
_DeleteStateData: Final[Any] = made_by_readers(DeleteStateData)
_DeleteStateResult: Final[Any] = made_by_readers(DeleteStateResult)
_PartitionData: Final[Any] = made_by_readers(PartitionData)
_PartitionResult: Final[Any] = made_by_readers(PartitionResult)


def read_PartitionData(r: Reader, version: i64) -> Any:
    m: Any = _PartitionData()
    m.partition = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_PartitionData(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition)
    w.unknown_tags("PartitionData", m.unknown_tagged_fields)


def read_DeleteStateData(r: Reader, version: i64) -> Any:
    m: Any = _DeleteStateData()
    m.topic_id = r.uuid()
    count = r.count("partitions", False, 5)
    m.partitions = [read_PartitionData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteStateData(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_PartitionData(w, item, version)
    w.unknown_tags("DeleteStateData", m.unknown_tagged_fields)


def read_DeleteShareGroupStateRequest(r: Reader, version: i64) -> Any:
    m: Any = _DeleteShareGroupStateRequest()
    m.group_id = r.string("group_id", False)
    count = r.count("topics", False, 18)
    m.topics = [read_DeleteStateData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteShareGroupStateRequest(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_DeleteStateData(w, item, version)
    w.unknown_tags("DeleteShareGroupStateRequest", m.unknown_tagged_fields)


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


def read_DeleteStateResult(r: Reader, version: i64) -> Any:
    m: Any = _DeleteStateResult()
    m.topic_id = r.uuid()
    count = r.count("partitions", False, 8)
    m.partitions = [read_PartitionResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteStateResult(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_PartitionResult(w, item, version)
    w.unknown_tags("DeleteStateResult", m.unknown_tagged_fields)


def read_DeleteShareGroupStateResponse(r: Reader, version: i64) -> Any:
    m: Any = _DeleteShareGroupStateResponse()
    count = r.count("results", False, 18)
    m.results = [read_DeleteStateResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteShareGroupStateResponse(w: Writer, m: Any, version: i64) -> None:
    results = m.results
    w.array("results", results, False)
    for item in results:
        write_DeleteStateResult(w, item, version)
    w.unknown_tags("DeleteShareGroupStateResponse", m.unknown_tagged_fields)
