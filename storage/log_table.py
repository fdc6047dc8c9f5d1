"""The logs of a broker, their directories, and the logs that it could not load.

A partition has at most one log that serves it, and one more while its replica moves to another
directory (its future log). The table does no I/O: code that creates, loads or deletes files records
that here.

Invariants: a partition's log and its future one are in different directories; only the loop's
thread uses the table, save while loading.

Mirrors: the maps of LogManager (currentLogs, futureLogs, strayLogs aside).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.topics import TopicPartition
from .log import Log
from .log_directory import LogDirDescription, LogDirectory, LogSize, StartupError

logger = logging.getLogger("pybroker.storage.log_table")


class LogSet:
    """The logs of one kind: those that serve their partitions, or the future ones."""

    __slots__ = ("homes", "logs")

    def __init__(self) -> None:
        # The directory of each partition, whether its log is loaded or not; set before its files
        # are read.
        self.homes: dict[TopicPartition, LogDirectory] = {}
        # Each has a home and shares its health. The home may be offline until that is reported.
        self.logs: dict[TopicPartition, Log] = {}

    def get(self, key: TopicPartition) -> Log | None:
        """The log if it is here and its directory is online."""
        log = self.logs.get(key)
        return log if log is not None and log.health.error is None else None

    def online(self) -> list[Log]:
        return [log for log in self.logs.values() if log.health.error is None]

    def put(self, key: TopicPartition, log: Log, home: LogDirectory) -> None:
        self.logs[key] = log
        self.homes[key] = home

    def take(self, key: TopicPartition) -> tuple[Log, LogDirectory] | None:
        """Forget the partition; returns its log and directory, None if it was not loaded."""
        log = self.logs.pop(key, None)
        home = self.homes.pop(key, None)
        return None if log is None or home is None else (log, home)

    def path_of(self, key: TopicPartition) -> str | None:
        """The directory that the partition is in."""
        home = self.homes.get(key)
        return None if home is None else home.path

    def release_in(self, directory: LogDirectory) -> list[TopicPartition]:
        """Release the logs in one directory; returns the partitions that have their home in it."""
        lost = [key for key, home in self.homes.items() if home is directory]
        for key in lost:
            log = self.logs.pop(key, None)
            if log is not None:
                log.release()
        return lost


class LogTable:
    __slots__ = ("_known_offline", "current", "directories", "failed", "future")

    def __init__(self, directories: Sequence[LogDirectory]) -> None:
        self.directories = directories
        self.current = LogSet()
        self.future = LogSet()
        # Partitions whose files are damaged, and where; the rest of the directory is served. Each
        # has a home among the current ones, and no log.
        self.failed: dict[TopicPartition, Sequence[str]] = {}
        # Paths of the directories whose failure was reported; their current homes stay known.
        self._known_offline: set[str] = set()

    # Partitions

    def is_offline(self, key: TopicPartition) -> bool:
        """Whether the partition lives in a directory that is offline, or could not be loaded."""
        home = self.current.homes.get(key)
        return key in self.failed or (home is not None and not home.is_online)

    def fail_partition(self, key: TopicPartition, paths: Sequence[str], reason: str) -> None:
        """Something is wrong with the files of one partition: it alone is offline."""
        logger.error("The partition %s-%d is offline: %s", *key, reason)
        self.failed[key] = paths

    def failed_in(self, directory: LogDirectory) -> list[TopicPartition]:
        """The partitions of a directory that could not be loaded."""
        return [key for key in self.failed if self.current.homes.get(key) is directory]

    def logs_in(self, directory: LogDirectory) -> Iterator[Log]:
        """The logs in one directory, future replicas too."""
        for kind in (self.current, self.future):
            for log in kind.logs.values():
                if log.health is directory.health:
                    yield log

    # Directories

    def online_directories(self) -> list[LogDirectory]:
        return [d for d in self.directories if d.is_online]

    def directories_by_load(self) -> list[LogDirectory]:
        """The online directories, the one with the fewest partitions first."""
        online = self.online_directories()
        if len(online) < 2:
            return online
        counts = {d.path: 0 for d in self.directories}
        for kind in (self.current, self.future):
            for home in kind.homes.values():
                counts[home.path] += 1
        return sorted(online, key=lambda d: counts[d.path])

    def directory_at(self, path: str) -> LogDirectory:
        (directory,) = (d for d in self.directories if d.path == path)
        return directory

    def check_any_online(self) -> None:
        """Raises StartupError if no directory is left to work on."""
        if not self.online_directories():
            raise StartupError(self.all_offline_message())

    def check_all_online(self, key: TopicPartition) -> None:
        """Raises KafkaError if the partition may be in an offline directory."""
        offline = [d.path for d in self.directories if not d.is_online]
        if offline:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Can not create log for {key[0]}-{key[1]} because log directories "
                f"{','.join(offline)} are offline",
            )

    def all_offline_message(self) -> str:
        reasons = "; ".join(f"{d.path}: {d.health.error}" for d in self.directories)
        return (
            f"Shutdown broker because none of the specified log dirs can be used: {reasons}; mend "
            "what is named here, then start again"
        )

    def take_newly_offline(self) -> list[tuple[str, list[TopicPartition]]]:
        """Directories that failed since the last call, with their partitions."""
        failed = []
        for directory in self.directories:
            if directory.is_online or directory.path in self._known_offline:
                continue
            self._known_offline.add(directory.path)
            lost = self.current.release_in(directory)
            for key in self.future.release_in(directory):
                del self.future.homes[key]
            logger.error(
                "Log directory %s is offline (%s); its %d partitions are not served",
                directory.path,
                directory.health.error,
                len(lost),
            )
            failed.append((directory.path, lost))
        return failed

    def describe(self) -> list[LogDirDescription]:
        """Every directory with the sizes of its logs (DescribeLogDirs), which are computed during
        iteration: there may be many."""
        result = []
        for directory in self.directories:
            error = ErrorCode.NONE if directory.is_online else ErrorCode.KAFKA_STORAGE_ERROR
            sizes = iter(()) if error else self._sizes(directory)
            result.append(LogDirDescription(directory.path, error, sizes))
        return result

    def _sizes(self, directory: LogDirectory) -> Iterator[LogSize]:
        for kind, is_future in ((self.current, False), (self.future, True)):
            for key, log in list(kind.logs.items()):
                if log.health is directory.health and kind.logs.get(key) is log:
                    yield LogSize(*key, log.size_bytes, is_future)

    def release(self) -> None:
        """Release all files and locks, as a crash would."""
        for kind in (self.current, self.future):
            for log in kind.logs.values():
                log.release()
        for directory in self.directories:
            directory.release_lock()
