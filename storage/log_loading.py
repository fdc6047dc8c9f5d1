"""Loading all logs of a broker when it starts: what each sub-directory is, and what becomes of it.

A partition is loaded, a `-delete` directory removed, a `-future` one (a replica on its way to this
directory) loaded as such; anything else is left alone and told. A partition in two directories is
in neither, unless one of them carries the mark that it has been replaced: then a crash came between
the two renames that end a move, and the marked one is deleted.

Invariant: what is wrong with the files of one partition makes that partition offline, in one log
line that names the file; only an error of the disk makes the directory offline.

Mirrors: LogManager.loadLogs and loadLog. Beyond Kafka: the mark (Kafka wants one of the two
directories deleted by hand); partitions fail alone (Kafka's directory goes offline, or the broker
ends, for a damaged file or a strange name).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..protocol.errors import KafkaError
from . import checkpoints
from .checkpoints import TopicPartition
from .files import Files
from .log import Log
from .log_config import LogConfig
from .log_directory import (
    DELETE_SUFFIX,
    REPLACED_MARK,
    STRAY_SUFFIX,
    LogDirectory,
    is_of_one_file,
    parse_future_name,
    parse_partition_name,
)
from .recovery import LogLoader
from .recovery_notes import is_new_since_checkpoints, true_recovery_point

if TYPE_CHECKING:
    from .log_manager import LogManager

logger = logging.getLogger(__name__)

Run = Callable[[Iterable[Callable[[], None]]], None]


class Checkpointed(NamedTuple):
    """What the checkpoints of a directory say of a log."""

    shown_recovery_point: int = 0
    recovery_point: int = 0  # the true one
    log_start_offset: int = 0
    high_watermark: int = 0
    first_dirty_offset: int | None = None


def _read_checkpointed(
    files: Files, directory: LogDirectory, path: str, key: TopicPartition
) -> Checkpointed:
    if is_new_since_checkpoints(files, path):
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


def load_directories(
    manager: LogManager, now_ms: int, topic_configs: Mapping[str, LogConfig], run_all: Run
) -> None:
    """Open all directories and load all logs in them; StartupError if that cannot be."""
    for directory in manager.directories:
        directory.open(manager.broker_id, manager.cluster_id, now_ms)
    manager.check_online()
    for directory in manager.directories:
        if directory.is_online:
            directory.read_checkpoints()
    loads = [
        (directory, _sort_out(manager, directory, now_ms))
        for directory in manager.directories
        if directory.is_online
    ]
    for directory, found in loads:
        jobs: list[Callable[[], None]] = []
        for path, key, is_future in found:
            home = (manager.future_homes if is_future else manager.homes).get(key)
            if home is directory and directory.is_online:
                config = topic_configs.get(key[0], manager.default_config)
                jobs.append(_Load(manager, directory, path, key, is_future, config, now_ms))
        run_all(jobs)
    manager.check_online()


def _sort_out(
    manager: LogManager, directory: LogDirectory, now_ms: int
) -> list[tuple[str, TopicPartition, bool]]:
    """The logs of a directory: path, partition, and whether it is a future replica."""
    found = []
    for name in directory.partition_names():
        path = os.path.join(directory.path, name)
        if name.endswith(DELETE_SUFFIX):
            manager.upkeep.doom(directory, path, now_ms)
            continue
        future = parse_future_name(name)
        key = future or parse_partition_name(name)
        if key is None:
            why = "a KRaft broker has put it aside"
            if not name.endswith(STRAY_SUFFIX):
                why = "its name is not that of a partition (topic-number)"
            logger.warning("Leaving the directory %a alone: %s", path, why)
            continue
        homes = manager.homes if future is None else manager.future_homes
        other = homes.get(key)
        if other is None or (future is None and _is_replaced(manager, other, key, now_ms)):
            homes[key] = directory
        elif future is not None or not _is_replaced(manager, directory, key, now_ms):
            first = os.path.join(other.path, name)
            if future is None:
                reason = f"it is in both {first} and {path}; stop the broker, remove the older one"
                manager.failed_to_load(key, (first, path), reason)
            else:
                manager.drop_future(key, path, f"there is one in {other.path}, too", now_ms)
            continue
        else:
            continue
        found.append((path, key, future is not None))
    return found


def _is_replaced(
    manager: LogManager, directory: LogDirectory, key: TopicPartition, now_ms: int
) -> bool:
    """Of one of two directories of a partition: whether it bears the mark; then it goes."""
    files = manager.files
    path = os.path.join(directory.path, f"{key[0]}-{key[1]}")
    if not files.exists(os.path.join(path, REPLACED_MARK)):
        return False
    target = f"{path}.{manager.unique_id(now_ms)}{DELETE_SUFFIX}"
    logger.warning("%s has been replaced by a copy in another directory: deleting it", path)
    try:
        files.rename(path, target)
    except OSError as error:
        directory.fail(error)
    else:
        manager.upkeep.doom(directory, target, now_ms)
    return True


def open_log(
    manager: LogManager,
    directory: LogDirectory,
    path: str,
    key: TopicPartition,
    config: LogConfig,
    now_ms: int,
    known: Checkpointed,
    *,
    clean: bool = True,
) -> Log:
    """Recover what is in a partition's directory; OSError and KafkaError as they come."""
    expiration_ms = manager.config.producer_id_expiration_ms
    parts = LogLoader(
        manager.files,
        path,
        config,
        clean=clean,
        recovery_point=known.recovery_point,
        shown_recovery_point=known.shown_recovery_point,
        log_start_offset=known.log_start_offset,
        compacted_below=known.first_dirty_offset or 0,
        now_ms=now_ms,
        expiration_ms=expiration_ms,
        report=_Report(path),
    ).load()
    return Log(
        manager.files,
        path,
        key[0],
        key[1],
        config,
        parts,
        directory.health,
        jitter=manager.random_below,
        producer_expiration_ms=expiration_ms,
        validate_fully=manager.config.validate_fully,
    )


def _read_topic_id(
    manager: LogManager, path: str, *, may_be_torn: bool
) -> tuple[bytes | None, bool]:
    """The topic id, and whether there was one that cannot be read.

    Damaged before its first sync, it is as good as absent: the controller will name the topic.
    """
    try:
        return checkpoints.read_partition_topic_id(manager.files, path), False
    except checkpoints.CheckpointError as error:
        logger.warning("%s; the controller has to name the topic", error)
        return None, not may_be_torn


@dataclass(slots=True, frozen=True)
class _Report:
    path: str

    def __call__(self, message: str) -> None:
        logger.info("Loading %s: %s", self.path, message)


@dataclass(slots=True, frozen=True)
class _Load:
    """Load one partition; an error of the disk takes its directory offline."""

    manager: LogManager
    directory: LogDirectory
    path: str
    key: TopicPartition
    is_future: bool
    config: LogConfig
    now_ms: int

    def __call__(self) -> None:
        directory = self.directory
        if not directory.is_online or not self.manager.is_to_be_loaded(self.key, self.is_future):
            return
        try:
            self._load()
        except OSError as error:
            if is_of_one_file(error):
                self._failed(str(error))
            else:
                directory.fail(error)
        except KafkaError as error:
            self._failed(error.message or error.code.name)

    def _failed(self, reason: str) -> None:
        if self.is_future:
            self.manager.drop_future(self.key, self.path, reason, self.now_ms)
            return
        advice = (
            f"{reason}. Other replicas serve it, if there are any. To get this one back, stop the "
            f"broker and restore the file, or remove {self.path} to have it copied anew"
        )
        self.manager.failed_to_load(self.key, (self.path,), advice)

    def _load(self) -> None:
        manager, directory, path, key = self.manager, self.directory, self.path, self.key
        if not self.is_future:
            manager.files.remove(os.path.join(path, REPLACED_MARK))
        known = _read_checkpointed(manager.files, directory, path, key)
        is_new = is_new_since_checkpoints(manager.files, path)
        if is_new or known.recovery_point < known.shown_recovery_point:
            manager.upkeep.checkpoint_soon(directory)
        clean = directory.cleanly_stopped
        may_be_torn = not clean and known.recovery_point == 0
        topic_id, is_lost = _read_topic_id(manager, path, may_be_torn=may_be_torn)
        log = open_log(manager, directory, path, key, self.config, self.now_ms, known, clean=clean)
        log.take_stored_topic_id(topic_id, is_lost=is_lost)
        log.update_high_watermark(known.high_watermark)
        log.first_dirty_offset = known.first_dirty_offset
        if log.unflushed_from >= 0:
            # A leader's HW would wait for it, and clients be told OFFSET_NOT_AVAILABLE meanwhile.
            log.flush()
        manager.loaded(key, log, is_future=self.is_future)
