"""What is known of remote segments, in one list: a dumb twin of the metadata topic and its cache.

Brokers that share one `SharedMetadata` know the same at once. It survives their restarts.
"""

from __future__ import annotations

from collections.abc import Collection

import trio

from pybroker_kafka.storage.remote.segments import (
    SEGMENT_TRANSITIONS,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from pybroker_kafka.storage.remote.storage_manager import RemoteStorageError

_State = RemoteLogSegmentState


class SharedMetadata:
    """A RemoteLogMetadataManager."""

    def __init__(self) -> None:
        self.known: dict[RemoteLogSegmentId, RemoteLogSegmentMetadata] = {}
        self.finished: list[RemoteLogSegmentMetadata] = []  # also those deleted by now
        self.fails: Exception | None = None  # of the next write

    async def add(self, metadata: RemoteLogSegmentMetadata) -> None:
        await trio.lowlevel.checkpoint()
        self._maybe_fail()
        assert metadata.segment_id not in self.known, "an id is used twice"
        self.known[metadata.segment_id] = metadata

    async def update(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        await trio.lowlevel.checkpoint()
        self._maybe_fail()
        known = self.known.get(update.segment_id)
        state = None if known is None else known.state
        if known is None or update.state not in SEGMENT_TRANSITIONS[state]:
            raise RemoteStorageError(f"{update.state} follows {state}")
        self.known[update.segment_id] = known.updated(update)
        if update.state is _State.COPY_SEGMENT_FINISHED:
            self.finished.append(known)
        if update.state is _State.DELETE_SEGMENT_FINISHED:
            del self.known[update.segment_id]

    def _maybe_fail(self) -> None:
        error, self.fails = self.fails, None
        if error is not None:
            raise error

    def segment(
        self, partition: TopicIdPartition, epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        holding = [
            one
            for one in self.segments(partition, epoch)
            if one.state is _State.COPY_SEGMENT_FINISHED
            and dict(one.segment_leader_epochs)[epoch] <= offset <= end_of(one, epoch)
        ]
        return max(holding, key=lambda one: end_of(one, epoch), default=None)

    def highest_offset(self, partition: TopicIdPartition, epoch: int) -> int | None:
        ends = [
            end_of(one, epoch)
            for one in self.finished
            if one.topic_id_partition == partition and epoch in dict(one.segment_leader_epochs)
        ]
        return max(ends, default=None)

    def segments(
        self, partition: TopicIdPartition, epoch: int | None = None
    ) -> list[RemoteLogSegmentMetadata]:
        found = [
            one
            for one in self.known.values()
            if one.topic_id_partition == partition
            and (epoch is None or epoch in dict(one.segment_leader_epochs))
        ]
        return sorted(found, key=lambda one: one.start_offset)

    def on_leadership(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        pass

    def on_stopped(self, partitions: Collection[TopicIdPartition]) -> None:
        pass

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await trio.sleep_forever()


def end_of(metadata: RemoteLogSegmentMetadata, epoch: int) -> int:
    """The last offset of an epoch in a segment."""
    later = [start for one, start in metadata.segment_leader_epochs if one > epoch]
    return min(later) - 1 if later else metadata.end_offset
