"""Load all logs of a broker when it starts: the kinds of sub-directories and their treatment.

A partition is loaded, a `-delete` directory removed, a `-future` one (a replica on its way to this
directory) loaded as such; anything else is left alone and logged. A partition in two directories is
loaded from neither, unless one has the mark that it was replaced: then a crash came between the two
renames at the end of a move, and the marked one is deleted.

Invariant: a problem with the files of one partition takes that partition offline, with one log line
that names the file; only an error of the disk takes the directory offline.

Mirrors: LogManager.loadLogs and loadLog. Beyond Kafka: the mark (Kafka wants one of the two
directories deleted by hand); partitions fail alone (Kafka's directory goes offline, or the broker
ends, for a damaged file or a strange name).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from ..protocol.errors import KafkaError
from ..protocol.topics import TopicPartition
from ..protocol.wall_clock import WallClock
from . import checkpoints
from .files import Files
from .log import Log
from .log_config import LogConfig, LogManagerConfig
from .log_deletion import LogDeletion
from .log_directory import (
    DELETE_SUFFIX,
    REMOTE_INDEX_DIRECTORY,
    REPLACED_MARK,
    STRAY_SUFFIX,
    ZOOKEEPER_DIRECTORY,
    LogDirectory,
    is_of_one_file,
    parse_future_name,
    parse_partition_name,
)
from .log_maintenance import LogMaintenance
from .log_table import LogTable
from .producer_table import ProducerLimits
from .recovery import LogLoader
from .recovery_notes import is_new_since_checkpoints, true_recovery_point

logger = logging.getLogger("pybroker.storage.log_loading")

Found = tuple[str, TopicPartition, bool]  # path, partition, whether it is a future replica

Run = Callable[[Iterable[Callable[[], None]]], None]


class Checkpointed(NamedTuple):
    """The values of a log in the checkpoints of its directory."""

    shown_recovery_point: int = 0
    recovery_point: int = 0  # the true one
    log_start_offset: int = 0
    high_watermark: int = 0
    first_dirty_offset: int | None = None


def _read_checkpointed(
    files: Files, directory: LogDirectory, path: str, key: TopicPartition
) -> Checkpointed:
    if _is_new(files, directory, path):
        return Checkpointed()
    said = directory.checkpointed
    shown = said[checkpoints.RECOVERY_POINT_FILE].get(key, 0)
    return Checkpointed(
        shown,
        true_recovery_point(files, path, shown),
        said[checkpoints.LOG_START_OFFSET_FILE].get(key, 0),
        said[checkpoints.HIGH_WATERMARK_FILE].get(key, 0),
        said[checkpoints.CLEANER_FILE].get(key),
    )


def _is_new(files: Files, directory: LogDirectory, path: str) -> bool:
    """Whether the checkpoints are of an earlier log of this name. After a clean stop they are not:
    a power cut may have brought the note back."""
    return not directory.cleanly_stopped and is_new_since_checkpoints(files, path)


class LogOpener:
    """Makes logs of the files in partition directories."""

    __slots__ = ("_config", "_producer_limits", "_random_below", "_wall", "files")

    def __init__(
        self,
        files: Files,
        config: LogManagerConfig,
        random_below: Callable[[int], int] | None,
        wall: WallClock,
        producer_limits: ProducerLimits,
    ) -> None:
        self.files = files
        self._producer_limits = producer_limits
        self._config = config
        self._random_below = random_below
        self._wall = wall

    def open(
        self,
        directory: LogDirectory,
        path: str,
        key: TopicPartition,
        config: LogConfig,
        now_ms: int,
        known: Checkpointed,
        *,
        clean: bool = True,
    ) -> Log:
        """Recover the log in a partition's directory; raises OSError and KafkaError."""
        parts = LogLoader(
            self.files,
            path,
            config,
            clean=clean,
            recovery_point=known.recovery_point,
            shown_recovery_point=known.shown_recovery_point,
            log_start_offset=known.log_start_offset,
            compacted_below=known.first_dirty_offset or 0,
            now_ms=now_ms,
            producer_limits=self._producer_limits,
            report=_Report(path),
        ).load()
        return Log(
            self.files,
            path,
            key[0],
            key[1],
            config,
            parts,
            directory.health,
            jitter=self._random_below,
            wall=self._wall,
            validate_fully=self._config.validate_fully,
        )


class LogLoading:
    """One load of all directories; the logs found are put into the table."""

    __slots__ = ("_deletion", "_files", "_maintenance", "_now_ms", "_opener", "_replaced", "_table")

    def __init__(
        self,
        opener: LogOpener,
        table: LogTable,
        maintenance: LogMaintenance,
        deletion: LogDeletion,
        now_ms: int,
    ) -> None:
        self._opener = opener
        self._files = opener.files
        self._table = table
        self._maintenance = maintenance
        self._deletion = deletion
        self._now_ms = now_ms
        self._replaced: set[TopicPartition] = set()  # deleted logs that bear the mark

    def load(
        self,
        broker_id: int,
        cluster_id: str,
        default_config: LogConfig,
        topic_configs: Mapping[str, LogConfig],
        run_all: Run,
    ) -> None:
        """Open all directories and load all logs in them; StartupError if that cannot be."""
        table = self._table
        for directory in table.directories:
            directory.open(broker_id, cluster_id, self._now_ms)
        table.check_any_online()
        for directory in table.directories:
            if directory.is_online:
                directory.read_checkpoints()
        found = [
            (directory, self._sort_out(directory))
            for directory in table.directories
            if directory.is_online
        ]
        self._promote(found)
        for directory, partitions in found:
            loads: list[Callable[[], None]] = []
            for path, key, is_future in partitions:
                kind = table.future if is_future else table.current
                if kind.homes.get(key) is directory and directory.is_online:
                    config = topic_configs.get(key[0], default_config)
                    loads.append(partial(self._load, directory, path, key, is_future, config))
            run_all(loads)
        table.check_any_online()

    # Finding the logs

    def _sort_out(self, directory: LogDirectory) -> list[Found]:
        """The logs of a directory: path, partition, and whether it is a future replica."""
        table = self._table
        found: list[Found] = []
        for name in directory.partition_names():
            path = os.path.join(directory.path, name)
            if name.endswith(DELETE_SUFFIX):
                self._maintenance.schedule_deletion(directory, path, self._now_ms)
                deleted = parse_partition_name(name.rpartition(".")[0])
                if deleted is not None and self._files.exists(os.path.join(path, REPLACED_MARK)):
                    self._replaced.add(deleted)
                continue
            future = parse_future_name(name)
            key = future or parse_partition_name(name)
            if key is None:
                if name in (ZOOKEEPER_DIRECTORY, REMOTE_INDEX_DIRECTORY):
                    continue
                why = "a KRaft broker has put it aside"
                if not name.endswith(STRAY_SUFFIX):
                    why = "a partition's directory is named topic-number"
                logger.warning("Leaving the directory %a alone: %s", path, why)
                continue
            homes = (table.current if future is None else table.future).homes
            other = homes.get(key)
            if other is None or (future is None and self._is_replaced(other, key)):
                homes[key] = directory
            elif future is not None or not self._is_replaced(directory, key):
                first = os.path.join(other.path, name)
                if future is None:
                    reason = (
                        f"it is in both {first} and {path}; stop the broker, remove the older one"
                    )
                    table.fail_partition(key, (first, path), reason)
                else:
                    self._drop_future(key, path, f"there is one in {other.path}, too")
                continue
            else:
                continue
            found.append((path, key, future is not None))
        return found

    def _promote(self, found: list[tuple[LogDirectory, list[Found]]]) -> None:
        """Complete moves of which a power cut has left the second rename and not the first: the
        disks of two directories do not wait for one another."""
        table = self._table
        for directory, partitions in found:
            for number, (path, key, is_future) in enumerate(partitions):
                is_complete = is_future and key in self._replaced
                is_home = table.future.homes.get(key) is directory
                if not (is_complete and is_home) or key in table.current.homes:
                    continue
                target = os.path.join(directory.path, f"{key[0]}-{key[1]}")
                logger.warning("%s has replaced a log that is deleted: it is %s", path, target)
                try:
                    self._files.rename(path, target)
                    self._files.sync_directory(directory.path)
                except OSError as error:
                    directory.fail(error)
                    break
                table.current.homes[key] = table.future.homes.pop(key)
                partitions[number] = target, key, False

    def _is_replaced(self, directory: LogDirectory, key: TopicPartition) -> bool:
        """Whether one of two directories of a partition has the mark; if so, delete it."""
        path = os.path.join(directory.path, f"{key[0]}-{key[1]}")
        if not self._files.exists(os.path.join(path, REPLACED_MARK)):
            return False
        target = f"{path}.{self._deletion.unique_id(self._now_ms)}{DELETE_SUFFIX}"
        logger.warning("%s has been replaced by a copy in another directory: deleting it", path)
        try:
            self._files.rename(path, target)
        except OSError as error:
            directory.fail(error)
        else:
            self._maintenance.schedule_deletion(directory, target, self._now_ms)
        return True

    def _drop_future(self, key: TopicPartition, path: str, reason: str) -> None:
        """A copy on its way to another directory that cannot be loaded."""
        logger.error("The copy %s is dropped, ask for the move again: %s", path, reason)
        homes = self._table.future.homes
        if homes[key].path == os.path.dirname(path):
            del homes[key]
        self._deletion.delete_unloaded(key, path, self._now_ms)

    # One partition

    def _load(
        self,
        directory: LogDirectory,
        path: str,
        key: TopicPartition,
        is_future: bool,
        config: LogConfig,
    ) -> None:
        """Load one partition; an error of the disk takes its directory offline."""
        if not directory.is_online or (not is_future and key in self._table.failed):
            return
        try:
            log = self._recover(directory, path, key, is_future, config)
        except OSError as error:
            if is_of_one_file(error):
                self._load_failed(key, path, is_future, str(error))
            else:
                directory.fail(error)
        except KafkaError as error:
            self._load_failed(key, path, is_future, error.message or error.code.name)
        else:
            (self._table.future if is_future else self._table.current).logs[key] = log

    def _recover(
        self,
        directory: LogDirectory,
        path: str,
        key: TopicPartition,
        is_future: bool,
        config: LogConfig,
    ) -> Log:
        files = self._files
        if not is_future:
            files.remove(os.path.join(path, REPLACED_MARK))
        known = _read_checkpointed(files, directory, path, key)
        is_new = _is_new(files, directory, path)
        if is_new or known.recovery_point < known.shown_recovery_point:
            self._maintenance.checkpoint_soon(directory)
        clean = directory.cleanly_stopped
        may_be_torn = not clean and known.recovery_point == 0
        topic_id, is_lost = _read_topic_id(files, path, may_be_torn=may_be_torn)
        log = self._opener.open(directory, path, key, config, self._now_ms, known, clean=clean)
        log.take_stored_topic_id(topic_id, is_lost=is_lost)
        log.update_high_watermark(known.high_watermark)
        log.first_dirty_offset = known.first_dirty_offset
        if log.unflushed_from >= 0:
            # A leader's HW would wait for the flush, and clients would get OFFSET_NOT_AVAILABLE
            # meanwhile.
            log.flush()
        return log

    def _load_failed(self, key: TopicPartition, path: str, is_future: bool, reason: str) -> None:
        if is_future:
            self._drop_future(key, path, reason)
            return
        advice = (
            f"{reason}. Other replicas serve it, if there are any. To get this one back, stop the "
            f"broker and restore the file, or remove {path} to have it copied anew"
        )
        self._table.fail_partition(key, (path,), advice)


def _read_topic_id(files: Files, path: str, *, may_be_torn: bool) -> tuple[bytes | None, bool]:
    """The topic id, and whether there was one that cannot be read.

    Damaged before its first sync, it is as good as absent: the controller will name the topic.
    """
    try:
        return checkpoints.read_partition_topic_id(files, path), False
    except checkpoints.CheckpointError as error:
        logger.warning("%s; the controller has to name the topic", error)
        return None, not may_be_torn


@dataclass(slots=True, frozen=True)
class _Report:
    path: str

    def __call__(self, message: str) -> None:
        logger.info("Loading %s: %s", self.path, message)
