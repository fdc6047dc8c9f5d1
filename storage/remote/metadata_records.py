"""Metadata of remote segments as records of `__remote_log_metadata`, and back; and the partition of
that topic which has them.

Invariants: a value that we write is byte for byte Kafka's. `read` raises nothing but
`ProtocolError`, and refuses the numbers of unknown kinds and states.

Mirrors: RemoteLogMetadataSerde with its transforms, RemoteLogMetadataTopicPartitioner. Leaves out
records of kind 3, snapshots, which 3.9 never writes to the topic.
"""

from __future__ import annotations

from typing import Any, Final

from ...protocol.codec import decode, encode
from ...protocol.errors import ProtocolError
from ...protocol.java_hash import java_long_hash, java_objects_hash
from ...protocol.messages import remote_log_metadata_data as data
from ...protocol.murmur2 import murmur2
from ...protocol.primitives import Buffer, decode_uvarint
from .segments import (
    RemoteLogMetadata,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)

_FRAME: Final = 1  # in front of each value
_VERSION: Final = 0
_SEGMENT: Final = 0
_SEGMENT_UPDATE: Final = 1
_PARTITION_DELETE: Final = 2
_INT32_MAX: Final = 0x7FFFFFFF


def metadata_partition(partition: TopicIdPartition, partition_count: int) -> int:
    """The partition of `__remote_log_metadata` for the segments of a partition."""
    most = int.from_bytes(partition.topic_id[:8], "big")
    least = int.from_bytes(partition.topic_id[8:], "big")
    hashed = java_objects_hash(java_long_hash(least), java_long_hash(most), partition.partition)
    return (murmur2(hashed.to_bytes(4, "big", signed=True)) & _INT32_MAX) % partition_count


def record_value(metadata: RemoteLogMetadata) -> bytes:
    kind: int
    message: Any
    match metadata:
        case RemoteLogSegmentMetadata():
            kind = _SEGMENT
            message = data.RemoteLogSegmentMetadataRecord(
                remote_log_segment_id=_segment_id(metadata.segment_id),
                start_offset=metadata.start_offset,
                end_offset=metadata.end_offset,
                broker_id=metadata.broker_id,
                max_timestamp_ms=metadata.max_timestamp_ms,
                event_timestamp_ms=metadata.event_timestamp_ms,
                segment_leader_epochs=[
                    data.SegmentLeaderEpochEntry(leader_epoch=epoch, offset=offset)
                    for epoch, offset in metadata.segment_leader_epochs
                ],
                segment_size_in_bytes=metadata.segment_size_bytes,
                custom_metadata=metadata.custom_metadata,
                remote_log_segment_state=metadata.state,
            )
        case RemoteLogSegmentMetadataUpdate():
            kind = _SEGMENT_UPDATE
            message = data.RemoteLogSegmentMetadataUpdateRecord(
                remote_log_segment_id=_segment_id(metadata.segment_id),
                broker_id=metadata.broker_id,
                event_timestamp_ms=metadata.event_timestamp_ms,
                custom_metadata=metadata.custom_metadata,
                remote_log_segment_state=metadata.state,
            )
        case RemotePartitionDeleteMetadata():
            kind = _PARTITION_DELETE
            message = data.RemotePartitionDeleteMetadataRecord(
                topic_id_partition=_partition(metadata.topic_id_partition),
                broker_id=metadata.broker_id,
                event_timestamp_ms=metadata.event_timestamp_ms,
                remote_partition_delete_state=metadata.state,
            )
    return bytes((_FRAME, kind, _VERSION)) + encode(message, _VERSION)


def read(value: Buffer) -> RemoteLogMetadata:
    """The metadata in a record's value; raises ProtocolError."""
    try:
        frame, position = decode_uvarint(value, 0)
        kind, position = decode_uvarint(value, position)
        version, position = decode_uvarint(value, position)
    except IndexError:
        raise ProtocolError("a value of __remote_log_metadata without its kind") from None
    if (frame, version) != (_FRAME, _VERSION):
        raise ProtocolError(f"version {version} of remote log metadata of kind {kind}, {frame=}")
    try:
        match kind:
            case 0:
                return _read_segment(value, position)
            case 1:
                return _read_update(value, position)
            case 2:
                return _read_partition_delete(value, position)
    except ValueError as error:
        raise ProtocolError(str(error)) from error
    raise ProtocolError(f"remote log metadata of the unknown kind {kind}")


def _read_segment(value: Buffer, position: int) -> RemoteLogSegmentMetadata:
    found = decode(data.RemoteLogSegmentMetadataRecord, _VERSION, value, position)
    epochs = {one.leader_epoch: one.offset for one in found.segment_leader_epochs}
    return RemoteLogSegmentMetadata(
        _read_segment_id(found.remote_log_segment_id),
        found.start_offset,
        found.end_offset,
        found.max_timestamp_ms,
        found.broker_id,
        found.event_timestamp_ms,
        found.segment_size_in_bytes,
        tuple(sorted(epochs.items())),
        _bytes(found.custom_metadata),
        RemoteLogSegmentState(found.remote_log_segment_state),
    )


def _read_update(value: Buffer, position: int) -> RemoteLogSegmentMetadataUpdate:
    found = decode(data.RemoteLogSegmentMetadataUpdateRecord, _VERSION, value, position)
    return RemoteLogSegmentMetadataUpdate(
        _read_segment_id(found.remote_log_segment_id),
        found.event_timestamp_ms,
        _bytes(found.custom_metadata),
        RemoteLogSegmentState(found.remote_log_segment_state),
        found.broker_id,
    )


def _read_partition_delete(value: Buffer, position: int) -> RemotePartitionDeleteMetadata:
    found = decode(data.RemotePartitionDeleteMetadataRecord, _VERSION, value, position)
    return RemotePartitionDeleteMetadata(
        _read_partition(found.topic_id_partition),
        RemotePartitionDeleteState(found.remote_partition_delete_state),
        found.event_timestamp_ms,
        found.broker_id,
    )


def _bytes(value: Buffer | None) -> bytes | None:
    """Own bytes: the buffer belongs to a fetched batch."""
    return None if value is None else bytes(value)


def _partition(partition: TopicIdPartition) -> data.TopicIdPartitionEntry:
    return data.TopicIdPartitionEntry(
        name=partition.topic, id=partition.topic_id, partition=partition.partition
    )


def _segment_id(segment: RemoteLogSegmentId) -> data.RemoteLogSegmentIdEntry:
    return data.RemoteLogSegmentIdEntry(
        topic_id_partition=_partition(segment.topic_id_partition), id=segment.id
    )


def _read_partition(entry: data.TopicIdPartitionEntry) -> TopicIdPartition:
    return TopicIdPartition(entry.id, entry.name, entry.partition)


def _read_segment_id(entry: data.RemoteLogSegmentIdEntry) -> RemoteLogSegmentId:
    return RemoteLogSegmentId(_read_partition(entry.topic_id_partition), entry.id)
