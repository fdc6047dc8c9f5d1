"""The copy of a segment to the remote tier, in a thread that cannot be stopped.

Once it is abandoned, it removes at its end what it has stored: by then the next leader may have
deleted it as an orphan, with its metadata. If that fails, `is_unremoved` says so until it has
metadata again. The deletion of a partition waits until abandoned copies of this process are over.

Mirrors: the part of RLMCopyTask.copyLogSegment that calls the storage manager, which is interrupted
in Kafka.
"""

from __future__ import annotations

from ...storage.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition
from ...storage.remote.storage_manager import LogSegmentData, RemoteStorageManager


class SegmentCopy:
    __slots__ = ("_data", "_store", "is_abandoned", "is_under_way", "is_unremoved", "metadata")

    def __init__(
        self, store: RemoteStorageManager, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> None:
        self._store = store
        self.metadata = metadata
        self._data = data
        self.is_abandoned = False
        self.is_under_way = False
        self.is_unremoved = False

    def is_of(self, partition: TopicIdPartition) -> bool:
        return self.metadata.topic_id_partition == partition

    def run(self) -> bytes | None:
        self.is_under_way = True
        try:
            return self._store.copy_log_segment_data(self.metadata, self._data)
        finally:
            try:
                if self.is_abandoned:
                    self.is_unremoved = True
                    self._store.delete_log_segment_data(self.metadata)
                    self.is_unremoved = False
            finally:
                self.is_under_way = False
