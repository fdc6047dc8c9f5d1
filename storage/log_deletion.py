"""Logs that go: their directory is renamed at once, and its files are removed later.

Invariant: a new topic of the same name never inherits the old topic's values in the checkpoints;
they are written again soon after each deletion.

Mirrors: LogManager.asyncDelete, LocalLog.logDeleteDirName.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress

from ..protocol.topics import TopicPartition
from .checkpoints import read_partition_topic_id
from .files import Files
from .log import Log
from .log_directory import LogDirectory, delete_name
from .log_maintenance import LogMaintenance
from .log_table import LogTable

logger = logging.getLogger("pybroker.storage.log_deletion")


class LogDeletion:
    __slots__ = ("_files", "_maintenance", "_random_below", "_table", "_unique_ids")

    def __init__(
        self,
        files: Files,
        table: LogTable,
        maintenance: LogMaintenance,
        random_below: Callable[[int], int] | None,
    ) -> None:
        self._files = files
        self._table = table
        self._maintenance = maintenance
        self._random_below = random_below
        self._unique_ids = 0  # given out so far; they are unique by it where nothing is random

    def unique_id(self, now_ms: int) -> str:
        """The 32 hexadecimal digits in the names of directories that come and go."""
        self._unique_ids += 1
        number = self._random_below(1 << 64) if self._random_below else self._unique_ids
        return f"{now_ms:016x}{number:016x}"

    def free_path(self, directory: LogDirectory, key: TopicPartition, now_ms: int) -> str:
        """A free path that the next load would delete, for a directory that must not be loaded
        yet."""
        path = self._delete_path(directory, key, now_ms)
        while self._files.exists(path):
            path = self._delete_path(directory, key, now_ms)
        return path

    def _delete_path(self, directory: LogDirectory, key: TopicPartition, now_ms: int) -> str:
        return os.path.join(directory.path, delete_name(*key, self.unique_id(now_ms)))

    def delete(self, log: Log, directory: LogDirectory, now_ms: int) -> None:
        """A log that the table does not know any more. Its files go after file.delete.delay.ms."""
        name = delete_name(log.topic, log.partition, self.unique_id(now_ms))
        path = log.rename_for_delete(name)
        self._maintenance.free_producers(log.producers.give_away())
        self._maintenance.schedule_deletion(
            directory, path, now_ms + log.config.file_delete_delay_ms
        )
        self._maintenance.checkpoint_soon(directory)

    def delete_unloaded(self, key: TopicPartition, path: str, now_ms: int) -> None:
        """The partition's directory at `path`, which no log is open on."""
        directory = self._table.directory_at(os.path.dirname(path))
        target = self._delete_path(directory, key, now_ms)
        try:
            self._files.rename(path, target)
        except OSError as error:
            logger.error("%s cannot be removed: %s", path, error)
            return
        self._maintenance.schedule_deletion(directory, target, now_ms)
        self._maintenance.checkpoint_soon(directory)

    def failed_topic_id(self, key: TopicPartition) -> bytes | None:
        """Of a partition that could not be loaded, if that much can be read."""
        for path in self._table.failed.get(key, ()):
            with suppress(OSError):
                return read_partition_topic_id(self._files, path)
        return None

    def delete_failed(self, key: TopicPartition, now_ms: int) -> bool:
        """Delete a partition that could not be loaded; False if this is none."""
        table = self._table
        paths = table.failed.get(key)
        if paths is None or not table.current.homes[key].is_online:
            return False
        for path in paths:
            self.delete_unloaded(key, path, now_ms)
        del table.failed[key], table.current.homes[key]
        return True
