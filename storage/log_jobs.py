"""The blocking work of storage as objects: checkpoint writes and deletions.

A job holds all its inputs, so that it can run in a worker thread beside the loop.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.topics import TopicPartition
from . import checkpoints
from .files import is_out_of_descriptors
from .log import Log
from .log_directory import REPLACED_MARK, LogDirectory, is_of_one_file
from .producer_entry import FrozenProducers
from .recovery_notes import NEW_FILE

logger = logging.getLogger("pybroker.storage.log_jobs")


class Job(NamedTuple):
    """Work that blocks, for a worker thread. It reports failures to its directory's health; an
    OSError for want of a descriptor means: retry the job."""

    name: str
    run: Callable[[], None]


def _recovery_point(log: Log) -> int | None:
    return log.recovery_point


def _high_watermark(log: Log) -> int | None:
    return log.high_watermark


def _log_start_offset(log: Log) -> int | None:
    """Only offsets that differ from the first segment's name. A start that the file of leader
    epochs does not know yet would be taken for a damaged number; without that file none is noted.
    """
    start = log.log_start_offset
    if log.leader_epochs.needs_sync:
        known = log.leader_epochs.checkpointed_start_offset
        if known < 0:
            return None
        start = min(start, known)
    return start if log.has_remote_tier or start > log.segments.first.base_offset else None


def _first_dirty_offset(log: Log) -> int | None:
    return log.first_dirty_offset


CHECKPOINTED: Mapping[str, Callable[[Log], int | None]] = {
    checkpoints.RECOVERY_POINT_FILE: _recovery_point,
    checkpoints.LOG_START_OFFSET_FILE: _log_start_offset,
    checkpoints.HIGH_WATERMARK_FILE: _high_watermark,
    checkpoints.CLEANER_FILE: _first_dirty_offset,
}


def run_serially(jobs: Iterable[Callable[[], None]]) -> None:
    for job in jobs:
        job()


@dataclass(slots=True, frozen=True)
class WriteCheckpoint:
    directory: LogDirectory
    name: str
    offsets: Mapping[TopicPartition, int]

    def __call__(self) -> None:
        self.directory.write_checkpoint(self.name, self.offsets)


@dataclass(slots=True, frozen=True)
class NoteWallClock:
    """Store the wall clock's time for the next start, which compares it with its own wall clock."""

    directory: LogDirectory
    wall_ms: int
    sync: bool

    def __call__(self) -> None:
        if not self.directory.is_online:
            return
        try:
            checkpoints.write_wall_clock(
                self.directory.files, self.directory.path, self.wall_ms, sync=self.sync
            )
        except OSError as error:
            self.directory.fail(error)


@dataclass(slots=True, frozen=True)
class SyncSwaps:
    """Make the segments that a cleaning has put into a log durable."""

    log: Log

    def __call__(self) -> None:
        log = self.log
        try:
            log.files.sync_directory(log.directory)
        except OSError as error:
            if is_out_of_descriptors(error):
                raise
            if not log.is_closed:  # deleted meanwhile
                log.health.fail(error)


@dataclass(slots=True, frozen=True)
class WriteSnapshot:
    """Write a snapshot of producers to its file; `finish_snapshot` makes it count."""

    log: Log
    frozen: FrozenProducers

    def __call__(self) -> None:
        self.log.producers.write_snapshot(self.frozen)


@dataclass(slots=True, frozen=True)
class PrepareSwap:
    """Flush a future replica and mark the log that it replaces; KafkaError if a disk fails."""

    log: Log
    future: Log

    def __call__(self) -> None:
        self.future.flush()
        log = self.log
        try:
            # Not by a rename: a move that was called off may be doing the same.
            log.files.open(os.path.join(log.directory, REPLACED_MARK), create=True).sync()
            log.files.sync_directory(log.directory)
            # An earlier log of this name must not be back, without the mark.
            log.files.sync_directory(log.health.path)
        except OSError as error:
            if log.is_closed:
                return  # deleted meanwhile
            log.health.fail(error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


@dataclass(slots=True, frozen=True)
class ForgetNew:
    """The checkpoints have been written since this log was made."""

    directory: LogDirectory
    log: Log

    def __call__(self) -> None:
        log = self.log
        if not self.directory.is_online:
            return
        try:
            log.files.remove(os.path.join(log.directory, NEW_FILE))
            log.is_new_since_checkpoints = False
        except OSError as error:
            self.directory.fail(error)


@dataclass(slots=True, frozen=True)
class Delete:
    """Remove a file or a directory that no log uses any more."""

    directory: LogDirectory
    path: str

    def __call__(self) -> None:
        files = self.directory.files
        try:
            if files.is_directory(self.path):
                files.remove_tree(self.path)
            else:
                files.remove(self.path)
        except OSError as error:
            if not is_of_one_file(error):
                self.directory.fail(error)
            else:
                logger.warning("%a cannot be deleted, which is left to you: %s", self.path, error)
