"""The topic id of one log, kept in `partition.metadata`.

The file is forced to disk at once if the log has been flushed before; else with the first flush, so
that creating a partition need not wait for a disk.

Mirrors: PartitionMetadataFile.
"""

from __future__ import annotations

import os

from . import checkpoints
from .files import Files


class PartitionMetadata:
    __slots__ = ("_files", "_is_unsynced", "is_lost", "topic_id")

    def __init__(self, files: Files, topic_id: bytes | None) -> None:
        self._files = files
        self.topic_id = topic_id  # once it is known it stays
        # Whether there was one that cannot be read: the log may be of an earlier topic of the name.
        self.is_lost = False
        self._is_unsynced = False

    def assign(self, directory: str, topic_id: bytes, *, sync: bool) -> None:
        """Name the topic; without `sync` the next flush forces that to disk."""
        if self.topic_id is not None:
            return
        checkpoints.write_partition_topic_id(self._files, directory, topic_id, sync=sync)
        self.topic_id = topic_id
        self.is_lost = False
        self._is_unsynced = not sync

    def take_stored(self, topic_id: bytes | None, *, is_lost: bool) -> None:
        """Set the topic id read from the file, which may never have been forced to disk."""
        self.topic_id = topic_id
        self.is_lost = is_lost
        self._is_unsynced = topic_id is not None

    def sync(self, directory: str) -> bool:
        """Force an unsynced file to disk; whether there was one. Blocks."""
        if not self._is_unsynced:
            return False
        path = os.path.join(directory, checkpoints.PARTITION_METADATA_FILE)
        self._files.open(path).sync()
        self._is_unsynced = False
        return True
