"""Segments in the remote tier: their ids, their metadata, and the states of copy and deletion.

Invariants:
- A segment id is never used twice, not even for another attempt to copy the same offsets.
- The metadata of a segment begins as COPY_SEGMENT_STARTED. Only updates change it, along the table
  of transitions below; an update with the state that the segment already has is valid, since
  brokers repeat theirs after a failure.
- Offsets are inclusive at both ends. Leader epochs are never empty, ascend, and begin at the first
  offset of each epoch within the segment.

Mirrors: RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentMetadataUpdate,
RemoteLogSegmentState, RemotePartitionDeleteMetadata, RemotePartitionDeleteState (KIP-405). Leaves
out the transitions of a partition's deletion: 3.9 writes none of these records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from ...protocol.topics import TopicPartition
from ...protocol.uuids import uuid_to_text

# Instead of a broker's id: the segment is that of a lost cluster (`pybroker tier import`).
IMPORTED: Final = -1


class TopicIdPartition(NamedTuple):
    """A partition of a topic that is not mistaken for a later topic with the same name."""

    topic_id: bytes
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        return self.topic, self.partition

    def __str__(self) -> str:
        return f"{uuid_to_text(self.topic_id)}:{self.topic}-{self.partition}"


class RemoteLogSegmentId(NamedTuple):
    """One attempt to copy one segment."""

    topic_id_partition: TopicIdPartition
    id: bytes

    def __str__(self) -> str:
        return f"{uuid_to_text(self.id)} of {self.topic_id_partition}"


class RemoteLogSegmentState(IntEnum):
    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


class RemotePartitionDeleteState(IntEnum):
    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


_Segment = RemoteLogSegmentState

# By the state before; None is a segment without metadata.
SEGMENT_TRANSITIONS: dict[_Segment | None, frozenset[_Segment]] = {
    None: frozenset({_Segment.COPY_SEGMENT_STARTED}),
    _Segment.COPY_SEGMENT_STARTED: frozenset(
        {
            _Segment.COPY_SEGMENT_STARTED,
            _Segment.COPY_SEGMENT_FINISHED,
            _Segment.DELETE_SEGMENT_STARTED,
        }
    ),
    _Segment.COPY_SEGMENT_FINISHED: frozenset(
        {_Segment.COPY_SEGMENT_FINISHED, _Segment.DELETE_SEGMENT_STARTED}
    ),
    _Segment.DELETE_SEGMENT_STARTED: frozenset(
        {_Segment.DELETE_SEGMENT_STARTED, _Segment.DELETE_SEGMENT_FINISHED}
    ),
    _Segment.DELETE_SEGMENT_FINISHED: frozenset({_Segment.DELETE_SEGMENT_FINISHED}),
}


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadata:
    """All that is known of one segment in the remote tier."""

    segment_id: RemoteLogSegmentId
    start_offset: int
    end_offset: int  # of its last record, inclusive
    max_timestamp_ms: int
    broker_id: int  # the writer of this state; or IMPORTED
    event_timestamp_ms: int  # the time of this state
    segment_size_bytes: int
    segment_leader_epochs: tuple[tuple[int, int], ...]  # (epoch, its first offset here), ascending
    custom_metadata: bytes | None = None  # the storage manager's own; opaque to brokers
    state: RemoteLogSegmentState = RemoteLogSegmentState.COPY_SEGMENT_STARTED

    def __post_init__(self) -> None:
        """ValueError if no segment can be like this."""
        if not 0 <= self.start_offset <= self.end_offset:
            raise ValueError(f"a segment from {self.start_offset} to {self.end_offset}")
        epochs = self.segment_leader_epochs
        if not epochs or any(a[0] >= b[0] for a, b in pairwise(epochs)):
            raise ValueError(f"leader epochs of a segment that do not ascend: {epochs}")

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        return self.segment_id.topic_id_partition

    def updated(self, update: RemoteLogSegmentMetadataUpdate) -> RemoteLogSegmentMetadata:
        """The metadata with the update's state; whether the transition is legal, the cache says."""
        if update.segment_id != self.segment_id:
            raise ValueError(f"an update of {update.segment_id} for {self.segment_id}")
        return replace(
            self,
            broker_id=update.broker_id,
            event_timestamp_ms=update.event_timestamp_ms,
            custom_metadata=update.custom_metadata,
            state=update.state,
        )


@dataclass(frozen=True, slots=True)
class RemoteLogSegmentMetadataUpdate:
    """The next state of a segment. Its custom metadata replaces the segment's, also by none."""

    segment_id: RemoteLogSegmentId
    event_timestamp_ms: int
    custom_metadata: bytes | None
    state: RemoteLogSegmentState
    broker_id: int

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        return self.segment_id.topic_id_partition


@dataclass(frozen=True, slots=True)
class RemotePartitionDeleteMetadata:
    """A step of the deletion of a partition's whole remote log."""

    topic_id_partition: TopicIdPartition
    state: RemotePartitionDeleteState
    event_timestamp_ms: int
    broker_id: int


# A record of the metadata topic.
RemoteLogMetadata: TypeAlias = (
    RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata
)
