"""Metadata of segments for tests of the remote tier."""

from __future__ import annotations

from pybroker_kafka.storage.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)

PARTITION = TopicIdPartition(bytes(range(16)), "history", 3)


def segment_id(number: int, partition: TopicIdPartition = PARTITION) -> RemoteLogSegmentId:
    return RemoteLogSegmentId(partition, b"segment " + number.to_bytes(8))


def started(
    number: int, start: int, end: int, *epochs: tuple[int, int], size_bytes: int = 1000
) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        segment_id(number),
        start,
        end,
        max_timestamp_ms=1000 + end,
        broker_id=1,
        event_timestamp_ms=5000,
        segment_size_bytes=size_bytes,
        segment_leader_epochs=epochs or ((0, start),),
    )


def update(
    number: int, state: RemoteLogSegmentState, custom_metadata: bytes | None = None
) -> RemoteLogSegmentMetadataUpdate:
    return RemoteLogSegmentMetadataUpdate(segment_id(number), 6000, custom_metadata, state, 2)
