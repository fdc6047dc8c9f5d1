"""Of `apis/offset_commit.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import ZERO_UUID, made_by_readers
from ..writer import Writer

_OffsetCommitRequest: Final[Any] = made_by_readers(OffsetCommitRequest)
_OffsetCommitRequestPartition: Final[Any] = made_by_readers(OffsetCommitRequestPartition)
_OffsetCommitRequestTopic: Final[Any] = made_by_readers(OffsetCommitRequestTopic)
_OffsetCommitResponse: Final[Any] = made_by_readers(OffsetCommitResponse)
_OffsetCommitResponsePartition: Final[Any] = made_by_readers(OffsetCommitResponsePartition)
_OffsetCommitResponseTopic: Final[Any] = made_by_readers(OffsetCommitResponseTopic)


def read_OffsetCommitRequestPartition(r: Reader, version: i64) -> Any:
    m: Any = _OffsetCommitRequestPartition()
    m.partition_index = r.int32()
    m.committed_offset = r.int64()
    if version >= 6:
        m.committed_leader_epoch = r.int32()
    else:
        m.committed_leader_epoch = -1
    if version == 1:
        m.commit_timestamp = r.int64()
    else:
        m.commit_timestamp = -1
    m.committed_metadata = r.string("committed_metadata", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetCommitRequestPartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i64_be(out, m.committed_offset)
    if version >= 6:
        write_i32_be(out, m.committed_leader_epoch)
    if version == 1:
        write_i64_be(out, m.commit_timestamp)
    elif m.commit_timestamp != -1:
        w.refuse("OffsetCommitRequestPartition.commit_timestamp")
    w.string("committed_metadata", m.committed_metadata, True)
    w.unknown_tags("OffsetCommitRequestPartition", m.unknown_tagged_fields)


def read_OffsetCommitRequestTopic(r: Reader, version: i64) -> Any:
    m: Any = _OffsetCommitRequestTopic()
    if version <= 9:
        m.name = r.string("name", False)
    else:
        m.name = ""
    if version >= 10:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    count = r.count("partitions", False, 14)
    m.partitions = [read_OffsetCommitRequestPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetCommitRequestTopic(w: Writer, m: Any, version: i64) -> None:
    if version <= 9:
        w.string("name", m.name, False)
    if version >= 10:
        w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_OffsetCommitRequestPartition(w, item, version)
    w.unknown_tags("OffsetCommitRequestTopic", m.unknown_tagged_fields)


def read_OffsetCommitRequest(r: Reader, version: i64) -> Any:
    m: Any = _OffsetCommitRequest()
    m.group_id = r.string("group_id", False)
    if version >= 1:
        m.generation_id_or_member_epoch = r.int32()
        m.member_id = r.string("member_id", False)
    else:
        m.generation_id_or_member_epoch = -1
        m.member_id = ""
    if version >= 7:
        m.group_instance_id = r.string("group_instance_id", True)
    else:
        m.group_instance_id = None
    if 2 <= version <= 4:
        m.retention_time_ms = r.int64()
    else:
        m.retention_time_ms = -1
    count = r.count("topics", False, 3)
    m.topics = [read_OffsetCommitRequestTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetCommitRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("group_id", m.group_id, False)
    if version >= 1:
        write_i32_be(out, m.generation_id_or_member_epoch)
        w.string("member_id", m.member_id, False)
    if version >= 7:
        w.string("group_instance_id", m.group_instance_id, True)
    elif m.group_instance_id is not None:
        w.refuse("OffsetCommitRequest.group_instance_id")
    if 2 <= version <= 4:
        write_i64_be(out, m.retention_time_ms)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_OffsetCommitRequestTopic(w, item, version)
    w.unknown_tags("OffsetCommitRequest", m.unknown_tagged_fields)


def read_OffsetCommitResponsePartition(r: Reader, version: i64) -> Any:
    m: Any = _OffsetCommitResponsePartition()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetCommitResponsePartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    w.unknown_tags("OffsetCommitResponsePartition", m.unknown_tagged_fields)


def read_OffsetCommitResponseTopic(r: Reader, version: i64) -> Any:
    m: Any = _OffsetCommitResponseTopic()
    if version <= 9:
        m.name = r.string("name", False)
    else:
        m.name = ""
    if version >= 10:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    count = r.count("partitions", False, 6)
    m.partitions = [read_OffsetCommitResponsePartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetCommitResponseTopic(w: Writer, m: Any, version: i64) -> None:
    if version <= 9:
        w.string("name", m.name, False)
    if version >= 10:
        w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_OffsetCommitResponsePartition(w, item, version)
    w.unknown_tags("OffsetCommitResponseTopic", m.unknown_tagged_fields)


def read_OffsetCommitResponse(r: Reader, version: i64) -> Any:
    m: Any = _OffsetCommitResponse()
    if version >= 3:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    count = r.count("topics", False, 3)
    m.topics = [read_OffsetCommitResponseTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetCommitResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 3:
        write_i32_be(out, m.throttle_time_ms)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_OffsetCommitResponseTopic(w, item, version)
    w.unknown_tags("OffsetCommitResponse", m.unknown_tagged_fields)
