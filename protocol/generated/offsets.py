"""Of `messages/offsets.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.offsets import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteRecordsTopicResult,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_DeleteRecordsPartition: Final[Any] = made_by_readers(DeleteRecordsPartition)
_DeleteRecordsPartitionResult: Final[Any] = made_by_readers(DeleteRecordsPartitionResult)
_DeleteRecordsRequest: Final[Any] = made_by_readers(DeleteRecordsRequest)
_DeleteRecordsResponse: Final[Any] = made_by_readers(DeleteRecordsResponse)
_DeleteRecordsTopic: Final[Any] = made_by_readers(DeleteRecordsTopic)
_DeleteRecordsTopicResult: Final[Any] = made_by_readers(DeleteRecordsTopicResult)
_ListOffsetsPartition: Final[Any] = made_by_readers(ListOffsetsPartition)
_ListOffsetsPartitionResponse: Final[Any] = made_by_readers(ListOffsetsPartitionResponse)
_ListOffsetsRequest: Final[Any] = made_by_readers(ListOffsetsRequest)
_ListOffsetsResponse: Final[Any] = made_by_readers(ListOffsetsResponse)
_ListOffsetsTopic: Final[Any] = made_by_readers(ListOffsetsTopic)
_ListOffsetsTopicResponse: Final[Any] = made_by_readers(ListOffsetsTopicResponse)
_OffsetForLeaderEpochRequest: Final[Any] = made_by_readers(OffsetForLeaderEpochRequest)
_OffsetForLeaderEpochResponse: Final[Any] = made_by_readers(OffsetForLeaderEpochResponse)
_OffsetForLeaderEpochResponseEpochEndOffset: Final[Any] = made_by_readers(
    OffsetForLeaderEpochResponseEpochEndOffset
)
_OffsetForLeaderPartition: Final[Any] = made_by_readers(OffsetForLeaderPartition)
_OffsetForLeaderTopic: Final[Any] = made_by_readers(OffsetForLeaderTopic)
_OffsetForLeaderTopicResult: Final[Any] = made_by_readers(OffsetForLeaderTopicResult)


def read_ListOffsetsPartition(r: Reader, version: i64) -> Any:
    m: Any = _ListOffsetsPartition()
    m.partition_index = r.int32()
    if version >= 4:
        m.current_leader_epoch = r.int32()
    else:
        m.current_leader_epoch = -1
    m.timestamp = r.int64()
    if version <= 0:
        m.max_num_offsets = r.int32()
    else:
        m.max_num_offsets = 1
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListOffsetsPartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    if version >= 4:
        write_i32_be(out, m.current_leader_epoch)
    write_i64_be(out, m.timestamp)
    if version <= 0:
        write_i32_be(out, m.max_num_offsets)
    elif m.max_num_offsets != 1:
        w.refuse("ListOffsetsPartition.max_num_offsets")
    w.unknown_tags("ListOffsetsPartition", m.unknown_tagged_fields)


def read_ListOffsetsTopic(r: Reader, version: i64) -> Any:
    m: Any = _ListOffsetsTopic()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 12)
    m.partitions = [read_ListOffsetsPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListOffsetsTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_ListOffsetsPartition(w, item, version)
    w.unknown_tags("ListOffsetsTopic", m.unknown_tagged_fields)


def read_ListOffsetsRequest(r: Reader, version: i64) -> Any:
    m: Any = _ListOffsetsRequest()
    m.replica_id = r.int32()
    if version >= 2:
        m.isolation_level = r.int8()
    else:
        m.isolation_level = 0
    count = r.count("topics", False, 3)
    m.topics = [read_ListOffsetsTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListOffsetsRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.replica_id)
    if version >= 2:
        w.int8(m.isolation_level)
    elif m.isolation_level != 0:
        w.refuse("ListOffsetsRequest.isolation_level")
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_ListOffsetsTopic(w, item, version)
    w.unknown_tags("ListOffsetsRequest", m.unknown_tagged_fields)


def read_ListOffsetsPartitionResponse(r: Reader, version: i64) -> Any:
    m: Any = _ListOffsetsPartitionResponse()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    if version <= 0:
        m.old_style_offsets = r.int64s("old_style_offsets", False)
    else:
        m.old_style_offsets = []
    if version >= 1:
        m.timestamp = r.int64()
        m.offset = r.int64()
    else:
        m.timestamp = -1
        m.offset = -1
    if version >= 4:
        m.leader_epoch = r.int32()
    else:
        m.leader_epoch = -1
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListOffsetsPartitionResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    if version <= 0:
        w.int64s("old_style_offsets", m.old_style_offsets, False)
    elif m.old_style_offsets != []:
        w.refuse("ListOffsetsPartitionResponse.old_style_offsets")
    if version >= 1:
        write_i64_be(out, m.timestamp)
        write_i64_be(out, m.offset)
    else:
        if m.timestamp != -1:
            w.refuse("ListOffsetsPartitionResponse.timestamp")
        if m.offset != -1:
            w.refuse("ListOffsetsPartitionResponse.offset")
    if version >= 4:
        write_i32_be(out, m.leader_epoch)
    elif m.leader_epoch != -1:
        w.refuse("ListOffsetsPartitionResponse.leader_epoch")
    w.unknown_tags("ListOffsetsPartitionResponse", m.unknown_tagged_fields)


def read_ListOffsetsTopicResponse(r: Reader, version: i64) -> Any:
    m: Any = _ListOffsetsTopicResponse()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 10)
    m.partitions = [read_ListOffsetsPartitionResponse(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListOffsetsTopicResponse(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_ListOffsetsPartitionResponse(w, item, version)
    w.unknown_tags("ListOffsetsTopicResponse", m.unknown_tagged_fields)


def read_ListOffsetsResponse(r: Reader, version: i64) -> Any:
    m: Any = _ListOffsetsResponse()
    if version >= 2:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    count = r.count("topics", False, 3)
    m.topics = [read_ListOffsetsTopicResponse(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListOffsetsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 2:
        write_i32_be(out, m.throttle_time_ms)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_ListOffsetsTopicResponse(w, item, version)
    w.unknown_tags("ListOffsetsResponse", m.unknown_tagged_fields)


def read_OffsetForLeaderPartition(r: Reader, version: i64) -> Any:
    m: Any = _OffsetForLeaderPartition()
    m.partition = r.int32()
    if version >= 2:
        m.current_leader_epoch = r.int32()
    else:
        m.current_leader_epoch = -1
    m.leader_epoch = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetForLeaderPartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition)
    if version >= 2:
        write_i32_be(out, m.current_leader_epoch)
    write_i32_be(out, m.leader_epoch)
    w.unknown_tags("OffsetForLeaderPartition", m.unknown_tagged_fields)


def read_OffsetForLeaderTopic(r: Reader, version: i64) -> Any:
    m: Any = _OffsetForLeaderTopic()
    m.topic = r.string("topic", False)
    count = r.count("partitions", False, 8)
    m.partitions = [read_OffsetForLeaderPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetForLeaderTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("topic", m.topic, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_OffsetForLeaderPartition(w, item, version)
    w.unknown_tags("OffsetForLeaderTopic", m.unknown_tagged_fields)


def read_OffsetForLeaderEpochRequest(r: Reader, version: i64) -> Any:
    m: Any = _OffsetForLeaderEpochRequest()
    if version >= 3:
        m.replica_id = r.int32()
    else:
        m.replica_id = -2
    count = r.count("topics", False, 3)
    m.topics = [read_OffsetForLeaderTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetForLeaderEpochRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 3:
        write_i32_be(out, m.replica_id)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_OffsetForLeaderTopic(w, item, version)
    w.unknown_tags("OffsetForLeaderEpochRequest", m.unknown_tagged_fields)


def read_OffsetForLeaderEpochResponseEpochEndOffset(r: Reader, version: i64) -> Any:
    m: Any = _OffsetForLeaderEpochResponseEpochEndOffset()
    m.error_code = r.int16()
    m.partition = r.int32()
    if version >= 1:
        m.leader_epoch = r.int32()
    else:
        m.leader_epoch = -1
    m.end_offset = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetForLeaderEpochResponseEpochEndOffset(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    write_i32_be(out, m.partition)
    if version >= 1:
        write_i32_be(out, m.leader_epoch)
    write_i64_be(out, m.end_offset)
    w.unknown_tags("OffsetForLeaderEpochResponseEpochEndOffset", m.unknown_tagged_fields)


def read_OffsetForLeaderTopicResult(r: Reader, version: i64) -> Any:
    m: Any = _OffsetForLeaderTopicResult()
    m.topic = r.string("topic", False)
    count = r.count("partitions", False, 14)
    m.partitions = [
        read_OffsetForLeaderEpochResponseEpochEndOffset(r, version) for _ in range(count)
    ]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetForLeaderTopicResult(w: Writer, m: Any, version: i64) -> None:
    w.string("topic", m.topic, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_OffsetForLeaderEpochResponseEpochEndOffset(w, item, version)
    w.unknown_tags("OffsetForLeaderTopicResult", m.unknown_tagged_fields)


def read_OffsetForLeaderEpochResponse(r: Reader, version: i64) -> Any:
    m: Any = _OffsetForLeaderEpochResponse()
    if version >= 2:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    count = r.count("topics", False, 3)
    m.topics = [read_OffsetForLeaderTopicResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetForLeaderEpochResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 2:
        write_i32_be(out, m.throttle_time_ms)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_OffsetForLeaderTopicResult(w, item, version)
    w.unknown_tags("OffsetForLeaderEpochResponse", m.unknown_tagged_fields)


def read_DeleteRecordsPartition(r: Reader, version: i64) -> Any:
    m: Any = _DeleteRecordsPartition()
    m.partition_index = r.int32()
    m.offset = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteRecordsPartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i64_be(out, m.offset)
    w.unknown_tags("DeleteRecordsPartition", m.unknown_tagged_fields)


def read_DeleteRecordsTopic(r: Reader, version: i64) -> Any:
    m: Any = _DeleteRecordsTopic()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 12)
    m.partitions = [read_DeleteRecordsPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteRecordsTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_DeleteRecordsPartition(w, item, version)
    w.unknown_tags("DeleteRecordsTopic", m.unknown_tagged_fields)


def read_DeleteRecordsRequest(r: Reader, version: i64) -> Any:
    m: Any = _DeleteRecordsRequest()
    count = r.count("topics", False, 3)
    m.topics = [read_DeleteRecordsTopic(r, version) for _ in range(count)]
    m.timeout_ms = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteRecordsRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_DeleteRecordsTopic(w, item, version)
    write_i32_be(out, m.timeout_ms)
    w.unknown_tags("DeleteRecordsRequest", m.unknown_tagged_fields)


def read_DeleteRecordsPartitionResult(r: Reader, version: i64) -> Any:
    m: Any = _DeleteRecordsPartitionResult()
    m.partition_index = r.int32()
    m.low_watermark = r.int64()
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteRecordsPartitionResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i64_be(out, m.low_watermark)
    write_i16_be(out, m.error_code)
    w.unknown_tags("DeleteRecordsPartitionResult", m.unknown_tagged_fields)


def read_DeleteRecordsTopicResult(r: Reader, version: i64) -> Any:
    m: Any = _DeleteRecordsTopicResult()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 14)
    m.partitions = [read_DeleteRecordsPartitionResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteRecordsTopicResult(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_DeleteRecordsPartitionResult(w, item, version)
    w.unknown_tags("DeleteRecordsTopicResult", m.unknown_tagged_fields)


def read_DeleteRecordsResponse(r: Reader, version: i64) -> Any:
    m: Any = _DeleteRecordsResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("topics", False, 3)
    m.topics = [read_DeleteRecordsTopicResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteRecordsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_DeleteRecordsTopicResult(w, item, version)
    w.unknown_tags("DeleteRecordsResponse", m.unknown_tagged_fields)
