"""What a broker knows of the segments in the remote tier, and how it makes changes known.

`RemoteLogMetadataManager` is a Protocol. Everything happens on the broker's loop: reads answer from
memory, writes wait until the record is written and applied here. Reads raise RemoteLogNotReadyError
until all earlier records of the partition have been read.

Mirrors: RemoteLogMetadataManager, RemoteStorageNotReadyException.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import trio

from ...storage.remote.segments import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)


class RemoteLogMetadataManager(Protocol):
    async def add(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Make a copy that begins known. RemoteStorageError if that cannot be."""
        ...

    async def update(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        """Make the next state of a segment known. RemoteStorageError if that cannot be, and if the
        transition is illegal: another broker has begun to delete the segment."""
        ...

    def segment(
        self, partition: TopicIdPartition, epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None:
        """The finished segment that holds `offset`, which was written in `epoch`."""
        ...

    def highest_offset(self, partition: TopicIdPartition, epoch: int) -> int | None:
        """The last offset of `epoch` that has been copied."""
        ...

    def segments(
        self, partition: TopicIdPartition, epoch: int | None = None
    ) -> list[RemoteLogSegmentMetadata]:
        """All segments, or those with records of `epoch`, in the order of their first offsets."""
        ...

    def on_leadership(
        self, leaders: Collection[TopicIdPartition], followers: Collection[TopicIdPartition]
    ) -> None:
        """This broker leads or follows these partitions: read their metadata."""
        ...

    def on_stopped(self, partitions: Collection[TopicIdPartition]) -> None:
        """This broker has no replicas of these partitions any more."""
        ...

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow the changes of other brokers, until cancelled."""
        ...
