"""Of `apis/write_txn_markers.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_WritableTxnMarker: Final[Any] = made_by_readers(WritableTxnMarker)
_WritableTxnMarkerPartitionResult: Final[Any] = made_by_readers(WritableTxnMarkerPartitionResult)
_WritableTxnMarkerResult: Final[Any] = made_by_readers(WritableTxnMarkerResult)
_WritableTxnMarkerTopic: Final[Any] = made_by_readers(WritableTxnMarkerTopic)
_WritableTxnMarkerTopicResult: Final[Any] = made_by_readers(WritableTxnMarkerTopicResult)
_WriteTxnMarkersRequest: Final[Any] = made_by_readers(WriteTxnMarkersRequest)
_WriteTxnMarkersResponse: Final[Any] = made_by_readers(WriteTxnMarkersResponse)


def read_WritableTxnMarkerTopic(r: Reader, version: i64) -> Any:
    m: Any = _WritableTxnMarkerTopic()
    m.name = r.string("name", False)
    m.partition_indexes = r.int32s("partition_indexes", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WritableTxnMarkerTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.int32s("partition_indexes", m.partition_indexes, False)
    w.unknown_tags("WritableTxnMarkerTopic", m.unknown_tagged_fields)


def read_WritableTxnMarker(r: Reader, version: i64) -> Any:
    m: Any = _WritableTxnMarker()
    m.producer_id = r.int64()
    m.producer_epoch = r.int16()
    m.transaction_result = r.boolean()
    count = r.count("topics", False, 3)
    m.topics = [read_WritableTxnMarkerTopic(r, version) for _ in range(count)]
    m.coordinator_epoch = r.int32()
    if version >= 2:
        m.transaction_version = r.int8()
    else:
        m.transaction_version = 0
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WritableTxnMarker(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i64_be(out, m.producer_id)
    write_i16_be(out, m.producer_epoch)
    w.boolean(m.transaction_result)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_WritableTxnMarkerTopic(w, item, version)
    write_i32_be(out, m.coordinator_epoch)
    if version >= 2:
        w.int8(m.transaction_version)
    w.unknown_tags("WritableTxnMarker", m.unknown_tagged_fields)


def read_WriteTxnMarkersRequest(r: Reader, version: i64) -> Any:
    m: Any = _WriteTxnMarkersRequest()
    count = r.count("markers", False, 17)
    m.markers = [read_WritableTxnMarker(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WriteTxnMarkersRequest(w: Writer, m: Any, version: i64) -> None:
    markers = m.markers
    w.array("markers", markers, False)
    for item in markers:
        write_WritableTxnMarker(w, item, version)
    w.unknown_tags("WriteTxnMarkersRequest", m.unknown_tagged_fields)


def read_WritableTxnMarkerPartitionResult(r: Reader, version: i64) -> Any:
    m: Any = _WritableTxnMarkerPartitionResult()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WritableTxnMarkerPartitionResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    w.unknown_tags("WritableTxnMarkerPartitionResult", m.unknown_tagged_fields)


def read_WritableTxnMarkerTopicResult(r: Reader, version: i64) -> Any:
    m: Any = _WritableTxnMarkerTopicResult()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 6)
    m.partitions = [read_WritableTxnMarkerPartitionResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WritableTxnMarkerTopicResult(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_WritableTxnMarkerPartitionResult(w, item, version)
    w.unknown_tags("WritableTxnMarkerTopicResult", m.unknown_tagged_fields)


def read_WritableTxnMarkerResult(r: Reader, version: i64) -> Any:
    m: Any = _WritableTxnMarkerResult()
    m.producer_id = r.int64()
    count = r.count("topics", False, 3)
    m.topics = [read_WritableTxnMarkerTopicResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WritableTxnMarkerResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i64_be(out, m.producer_id)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_WritableTxnMarkerTopicResult(w, item, version)
    w.unknown_tags("WritableTxnMarkerResult", m.unknown_tagged_fields)


def read_WriteTxnMarkersResponse(r: Reader, version: i64) -> Any:
    m: Any = _WriteTxnMarkersResponse()
    count = r.count("markers", False, 10)
    m.markers = [read_WritableTxnMarkerResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WriteTxnMarkersResponse(w: Writer, m: Any, version: i64) -> None:
    markers = m.markers
    w.array("markers", markers, False)
    for item in markers:
        write_WritableTxnMarkerResult(w, item, version)
    w.unknown_tags("WriteTxnMarkersResponse", m.unknown_tagged_fields)
