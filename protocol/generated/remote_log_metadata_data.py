"""Of `messages/remote_log_metadata_data.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.remote_log_metadata_data import (
    RemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    SegmentLeaderEpochEntry,
    TopicIdPartitionEntry,
)
from ..packed import write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_RemoteLogSegmentIdEntry: Final[Any] = made_by_readers(RemoteLogSegmentIdEntry)
_RemoteLogSegmentMetadataRecord: Final[Any] = made_by_readers(RemoteLogSegmentMetadataRecord)
_RemoteLogSegmentMetadataUpdateRecord: Final[Any] = made_by_readers(
    RemoteLogSegmentMetadataUpdateRecord
)
_RemotePartitionDeleteMetadataRecord: Final[Any] = made_by_readers(
    RemotePartitionDeleteMetadataRecord
)
_SegmentLeaderEpochEntry: Final[Any] = made_by_readers(SegmentLeaderEpochEntry)
_TopicIdPartitionEntry: Final[Any] = made_by_readers(TopicIdPartitionEntry)


def read_TopicIdPartitionEntry(r: Reader, version: i64) -> Any:
    m: Any = _TopicIdPartitionEntry()
    m.name = r.string("name", False)
    m.id = r.uuid()
    m.partition = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TopicIdPartitionEntry(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("name", m.name, False)
    w.uuid(m.id)
    write_i32_be(out, m.partition)
    w.unknown_tags("TopicIdPartitionEntry", m.unknown_tagged_fields)


def read_RemoteLogSegmentIdEntry(r: Reader, version: i64) -> Any:
    m: Any = _RemoteLogSegmentIdEntry()
    m.topic_id_partition = read_TopicIdPartitionEntry(r, version)
    m.id = r.uuid()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_RemoteLogSegmentIdEntry(w: Writer, m: Any, version: i64) -> None:
    if m.topic_id_partition is None:
        w.refuse_null("topic_id_partition")
    write_TopicIdPartitionEntry(w, m.topic_id_partition, version)
    w.uuid(m.id)
    w.unknown_tags("RemoteLogSegmentIdEntry", m.unknown_tagged_fields)


def read_SegmentLeaderEpochEntry(r: Reader, version: i64) -> Any:
    m: Any = _SegmentLeaderEpochEntry()
    m.leader_epoch = r.int32()
    m.offset = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_SegmentLeaderEpochEntry(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.leader_epoch)
    write_i64_be(out, m.offset)
    w.unknown_tags("SegmentLeaderEpochEntry", m.unknown_tagged_fields)


def read_RemoteLogSegmentMetadataRecord(r: Reader, version: i64) -> Any:
    m: Any = _RemoteLogSegmentMetadataRecord()
    m.remote_log_segment_id = read_RemoteLogSegmentIdEntry(r, version)
    m.start_offset = r.int64()
    m.end_offset = r.int64()
    m.broker_id = r.int32()
    m.max_timestamp_ms = r.int64()
    m.event_timestamp_ms = r.int64()
    count = r.count("segment_leader_epochs", False, 13)
    m.segment_leader_epochs = [read_SegmentLeaderEpochEntry(r, version) for _ in range(count)]
    m.segment_size_in_bytes = r.int32()
    m.custom_metadata = r.binary("custom_metadata", True)
    m.remote_log_segment_state = r.int8()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_RemoteLogSegmentMetadataRecord(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if m.remote_log_segment_id is None:
        w.refuse_null("remote_log_segment_id")
    write_RemoteLogSegmentIdEntry(w, m.remote_log_segment_id, version)
    write_i64_be(out, m.start_offset)
    write_i64_be(out, m.end_offset)
    write_i32_be(out, m.broker_id)
    write_i64_be(out, m.max_timestamp_ms)
    write_i64_be(out, m.event_timestamp_ms)
    segment_leader_epochs = m.segment_leader_epochs
    w.array("segment_leader_epochs", segment_leader_epochs, False)
    for item in segment_leader_epochs:
        write_SegmentLeaderEpochEntry(w, item, version)
    write_i32_be(out, m.segment_size_in_bytes)
    w.binary("custom_metadata", m.custom_metadata, True)
    w.int8(m.remote_log_segment_state)
    w.unknown_tags("RemoteLogSegmentMetadataRecord", m.unknown_tagged_fields)


def read_RemoteLogSegmentMetadataUpdateRecord(r: Reader, version: i64) -> Any:
    m: Any = _RemoteLogSegmentMetadataUpdateRecord()
    m.remote_log_segment_id = read_RemoteLogSegmentIdEntry(r, version)
    m.broker_id = r.int32()
    m.event_timestamp_ms = r.int64()
    m.custom_metadata = r.binary("custom_metadata", True)
    m.remote_log_segment_state = r.int8()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_RemoteLogSegmentMetadataUpdateRecord(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if m.remote_log_segment_id is None:
        w.refuse_null("remote_log_segment_id")
    write_RemoteLogSegmentIdEntry(w, m.remote_log_segment_id, version)
    write_i32_be(out, m.broker_id)
    write_i64_be(out, m.event_timestamp_ms)
    w.binary("custom_metadata", m.custom_metadata, True)
    w.int8(m.remote_log_segment_state)
    w.unknown_tags("RemoteLogSegmentMetadataUpdateRecord", m.unknown_tagged_fields)


def read_RemotePartitionDeleteMetadataRecord(r: Reader, version: i64) -> Any:
    m: Any = _RemotePartitionDeleteMetadataRecord()
    m.topic_id_partition = read_TopicIdPartitionEntry(r, version)
    m.broker_id = r.int32()
    m.event_timestamp_ms = r.int64()
    m.remote_partition_delete_state = r.int8()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_RemotePartitionDeleteMetadataRecord(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if m.topic_id_partition is None:
        w.refuse_null("topic_id_partition")
    write_TopicIdPartitionEntry(w, m.topic_id_partition, version)
    write_i32_be(out, m.broker_id)
    write_i64_be(out, m.event_timestamp_ms)
    w.int8(m.remote_partition_delete_state)
    w.unknown_tags("RemotePartitionDeleteMetadataRecord", m.unknown_tagged_fields)
