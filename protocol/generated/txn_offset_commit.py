"""Of `apis/txn_offset_commit.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_TxnOffsetCommitRequest: Final[Any] = made_by_readers(TxnOffsetCommitRequest)
_TxnOffsetCommitRequestPartition: Final[Any] = made_by_readers(TxnOffsetCommitRequestPartition)
_TxnOffsetCommitRequestTopic: Final[Any] = made_by_readers(TxnOffsetCommitRequestTopic)
_TxnOffsetCommitResponse: Final[Any] = made_by_readers(TxnOffsetCommitResponse)
_TxnOffsetCommitResponsePartition: Final[Any] = made_by_readers(TxnOffsetCommitResponsePartition)
_TxnOffsetCommitResponseTopic: Final[Any] = made_by_readers(TxnOffsetCommitResponseTopic)


def read_TxnOffsetCommitRequestPartition(r: Reader, version: i64) -> Any:
    m: Any = _TxnOffsetCommitRequestPartition()
    m.partition_index = r.int32()
    m.committed_offset = r.int64()
    if version >= 2:
        m.committed_leader_epoch = r.int32()
    else:
        m.committed_leader_epoch = -1
    m.committed_metadata = r.string("committed_metadata", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TxnOffsetCommitRequestPartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i64_be(out, m.committed_offset)
    if version >= 2:
        write_i32_be(out, m.committed_leader_epoch)
    w.string("committed_metadata", m.committed_metadata, True)
    w.unknown_tags("TxnOffsetCommitRequestPartition", m.unknown_tagged_fields)


def read_TxnOffsetCommitRequestTopic(r: Reader, version: i64) -> Any:
    m: Any = _TxnOffsetCommitRequestTopic()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 14)
    m.partitions = [read_TxnOffsetCommitRequestPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TxnOffsetCommitRequestTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_TxnOffsetCommitRequestPartition(w, item, version)
    w.unknown_tags("TxnOffsetCommitRequestTopic", m.unknown_tagged_fields)


def read_TxnOffsetCommitRequest(r: Reader, version: i64) -> Any:
    m: Any = _TxnOffsetCommitRequest()
    m.transactional_id = r.string("transactional_id", False)
    m.group_id = r.string("group_id", False)
    m.producer_id = r.int64()
    m.producer_epoch = r.int16()
    if version >= 3:
        m.generation_id = r.int32()
        m.member_id = r.string("member_id", False)
        m.group_instance_id = r.string("group_instance_id", True)
    else:
        m.generation_id = -1
        m.member_id = ""
        m.group_instance_id = None
    count = r.count("topics", False, 3)
    m.topics = [read_TxnOffsetCommitRequestTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TxnOffsetCommitRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("transactional_id", m.transactional_id, False)
    w.string("group_id", m.group_id, False)
    write_i64_be(out, m.producer_id)
    write_i16_be(out, m.producer_epoch)
    if version >= 3:
        write_i32_be(out, m.generation_id)
        w.string("member_id", m.member_id, False)
        w.string("group_instance_id", m.group_instance_id, True)
    else:
        if m.generation_id != -1:
            w.refuse("TxnOffsetCommitRequest.generation_id")
        if m.member_id != "":
            w.refuse("TxnOffsetCommitRequest.member_id")
        if m.group_instance_id is not None:
            w.refuse("TxnOffsetCommitRequest.group_instance_id")
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_TxnOffsetCommitRequestTopic(w, item, version)
    w.unknown_tags("TxnOffsetCommitRequest", m.unknown_tagged_fields)


def read_TxnOffsetCommitResponsePartition(r: Reader, version: i64) -> Any:
    m: Any = _TxnOffsetCommitResponsePartition()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TxnOffsetCommitResponsePartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    w.unknown_tags("TxnOffsetCommitResponsePartition", m.unknown_tagged_fields)


def read_TxnOffsetCommitResponseTopic(r: Reader, version: i64) -> Any:
    m: Any = _TxnOffsetCommitResponseTopic()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 6)
    m.partitions = [read_TxnOffsetCommitResponsePartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TxnOffsetCommitResponseTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_TxnOffsetCommitResponsePartition(w, item, version)
    w.unknown_tags("TxnOffsetCommitResponseTopic", m.unknown_tagged_fields)


def read_TxnOffsetCommitResponse(r: Reader, version: i64) -> Any:
    m: Any = _TxnOffsetCommitResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("topics", False, 3)
    m.topics = [read_TxnOffsetCommitResponseTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TxnOffsetCommitResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_TxnOffsetCommitResponseTopic(w, item, version)
    w.unknown_tags("TxnOffsetCommitResponse", m.unknown_tagged_fields)
