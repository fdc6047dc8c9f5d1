"""The topic id of one log, kept in `partition.metadata`.

Nothing waits for a disk: a new log's file is forced to disk with its first flush. The file of a log
that was flushed before is written by its next flush, so that a power cut leaves it whole or absent.

Mirrors: PartitionMetadataFile.
"""

from __future__ import annotations

import os

from . import checkpoints
from .files import Files


class PartitionMetadata:
    __slots__ = ("_files", "_is_unsynced", "is_lost", "needs_sync", "topic_id")

    def __init__(self, files: Files, topic_id: bytes | None) -> None:
        self._files = files
        self.topic_id = topic_id  # once it is known it stays
        # Whether there was one that cannot be read: the log may be of an earlier topic of the name.
        self.is_lost = False
        self._is_unsynced = False
        # Whether the file has to be written yet, by `sync`.
        self.needs_sync = False

    def assign(self, directory: str, topic_id: bytes, *, was_flushed: bool) -> None:
        """Name the topic; the next flush forces that to disk."""
        if self.topic_id is not None:
            return
        if was_flushed:
            self.needs_sync = True
        else:
            checkpoints.write_partition_topic_id(self._files, directory, topic_id, sync=False)
            self._is_unsynced = True
        self.topic_id = topic_id
        self.is_lost = False

    def take_stored(self, topic_id: bytes | None, *, is_lost: bool) -> None:
        """Set the topic id read from the file, which may never have been forced to disk."""
        self.topic_id = topic_id
        self.is_lost = is_lost
        self._is_unsynced = topic_id is not None

    def sync(self, directory: str) -> bool:
        """Force the topic id to disk; whether the directory must be forced, too. Blocks."""
        if self.needs_sync and self.topic_id is not None:
            checkpoints.write_partition_topic_id(self._files, directory, self.topic_id)
            self.needs_sync = self._is_unsynced = False
        if not self._is_unsynced:
            return False
        path = os.path.join(directory, checkpoints.PARTITION_METADATA_FILE)
        self._files.open(path).sync()
        self._is_unsynced = False
        return True
