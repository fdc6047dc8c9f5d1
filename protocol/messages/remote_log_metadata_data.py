"""Values in `__remote_log_metadata`: segments of the remote tier, and deletions of whole partitions
(KIP-405). Keys are null.

In front of a value are three unsigned varints: the version of this frame, 1, the number of its
kind, and its version; each kind has version 0 only. Kafka 4 adds tagged fields, unknown here.

Mirrors: the schemas of the same names in storage/src/main/resources/message. Leaves out
RemoteLogSegmentMetadataSnapshotRecord, which 3.9 never writes.
"""

from __future__ import annotations

from ..primitives import Buffer
from ..schema import (
    Message,
    Struct,
    array,
    binary,
    int8,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)


class TopicIdPartitionEntry(Struct):
    name: str = string()
    id: bytes = uuid()
    partition: int = int32()


class RemoteLogSegmentIdEntry(Struct):
    topic_id_partition: TopicIdPartitionEntry = struct(TopicIdPartitionEntry)
    id: bytes = uuid()


class SegmentLeaderEpochEntry(Struct):
    leader_epoch: int = int32()
    offset: int = int64()


@message(kind="data", valid="0", flexible="0+")
class RemoteLogSegmentMetadataRecord(Message):
    remote_log_segment_id: RemoteLogSegmentIdEntry = struct(RemoteLogSegmentIdEntry)
    start_offset: int = int64()
    end_offset: int = int64()
    broker_id: int = int32()
    max_timestamp_ms: int = int64()
    event_timestamp_ms: int = int64()
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = array(SegmentLeaderEpochEntry)
    segment_size_in_bytes: int = int32()
    custom_metadata: Buffer | None = binary(nullable="0+", default=None)
    remote_log_segment_state: int = int8()


@message(kind="data", valid="0", flexible="0+")
class RemoteLogSegmentMetadataUpdateRecord(Message):
    remote_log_segment_id: RemoteLogSegmentIdEntry = struct(RemoteLogSegmentIdEntry)
    broker_id: int = int32()
    event_timestamp_ms: int = int64()
    custom_metadata: Buffer | None = binary(nullable="0+", default=None)
    remote_log_segment_state: int = int8()


@message(kind="data", valid="0", flexible="0+")
class RemotePartitionDeleteMetadataRecord(Message):
    topic_id_partition: TopicIdPartitionEntry = struct(TopicIdPartitionEntry)
    broker_id: int = int32()
    event_timestamp_ms: int = int64()
    remote_partition_delete_state: int = int8()
