"""The periodic work on all logs of a broker: checkpoints, flushes, retention, deletion of files.

`tick` returns blocking work as jobs: the caller runs them one after the other in a worker thread.
The flushes (`due_flushes`) are for the flusher of appends, so that no two flushes of a log meet.
`retain` takes old segments out of the logs on the caller's loop: it yields to the loop after each
step, and jobs delete the files later. `look_after_producers` yields to the loop likewise.

All times are of the monotonic clock; work that compares timestamps (retention, expiry of producers
that were only read from disk) pauses in the first interval after a jump of the wall clock.

Mirrors: the scheduled tasks of LogManager, whose retention and expiry of producers take the wall
clock for true at any time.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Iterable, Iterator

from ..protocol.errors import KafkaError
from ..protocol.topics import TopicPartition
from ..protocol.wall_clock import WallClock
from .checkpoints import (
    CLEANER_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
)
from .log import Log
from .log_config import LogManagerConfig
from .log_directory import LogDirectory
from .log_jobs import (
    CHECKPOINTED,
    Delete,
    ForgetNew,
    Job,
    NoteWallClock,
    SyncSwaps,
    WriteCheckpoint,
    WriteSnapshot,
)
from .log_table import LogTable
from .producer_state import ProducerState
from .producer_table import ProducerLimits
from .retention import delete_old_segments, delete_segments_below_start

logger = logging.getLogger("pybroker.storage.log_maintenance")

# Segments of one log that one step of `retain` deletes, and logs that it examines.
SEGMENTS_PER_STEP = 4
LOGS_PER_STEP = 64
# How often the wall clock is noted for the next start, while it is trusted.
WALL_CLOCK_INTERVAL_MS = 5_000
# Producers written to a snapshot in one step, and steps in one tick (each second): half a
# millisecond a step, and a twentieth of the time.
SNAPSHOT_ROWS_PER_STEP = 500
SNAPSHOT_STEPS_PER_TICK = 100

_AFTER_INITIAL_DELAY = (
    RECOVERY_POINT_FILE,
    LOG_START_OFFSET_FILE,
    "producer expiry",
    "retention",
)


class LogMaintenance:
    __slots__ = (
        "_cleaned",
        "_config",
        "_deletions",
        "_given_away",
        "_next_run",
        "_producer_limits",
        "_snapshots",
        "_table",
        "_unchecked",
        "_wall",
    )

    def __init__(
        self,
        table: LogTable,
        config: LogManagerConfig,
        wall: WallClock,
        producer_limits: ProducerLimits,
    ) -> None:
        self._table = table
        self._wall = wall
        self._producer_limits = producer_limits
        self._snapshots: Iterator[Job | None] | None = None  # a look at all logs that is under way
        self._config = config
        # The producers of deleted logs, to be freed in pieces.
        self._given_away: list[ProducerState] = []
        self._deletions: list[tuple[int, LogDirectory, str]] = []  # due ms, where, path
        self._unchecked: set[str] = set()  # directories whose checkpoints must be written soon
        self._cleaned: list[Log] = []  # compacted further than their checkpoint says
        self._next_run: dict[str, int] = {}  # of a periodic task: when it is due, ms

    def begin(self, now_ms: int) -> None:
        """The logs are loaded."""
        config = self._config
        first = now_ms + config.initial_task_delay_ms
        self._next_run = dict.fromkeys(_AFTER_INITIAL_DELAY, first)
        # Not delayed as the other jobs: it only begins with the first roles in Kafka.
        first = now_ms + config.high_watermark_checkpoint_interval_ms
        self._next_run[HIGH_WATERMARK_FILE] = first

    def free_producers(self, states: Iterable[ProducerState]) -> None:
        """Free the producers of a deleted log, a number of them at a time."""
        self._given_away += states

    def schedule_deletion(self, directory: LogDirectory, path: str, due_ms: int) -> None:
        """Remove a file or a directory when its time has come."""
        self._deletions.append((due_ms, directory, path))

    def checkpoint_soon(self, directory: LogDirectory) -> None:
        """Mark the checkpoints of `directory` as outdated, so that they are written soon."""
        self._unchecked.add(directory.path)

    def cleaned(self, log: Log) -> None:
        """Note that `log` was compacted further, for its directory's checkpoint."""
        self._cleaned.append(log)

    # Due work

    def tick(self, now_ms: int) -> list[Job]:
        """The blocking work that is due; run the jobs in order, one at a time."""
        # A power cut must not undo a compaction that the checkpoint records.
        jobs = [Job(f"sync {log.name}", SyncSwaps(log)) for log in self._cleaned]
        jobs += self._due_checkpoint_jobs(now_ms)
        jobs += self.wall_clock_jobs(now_ms)
        return jobs + self._deletion_jobs(now_ms)

    def due_flushes(self, now_ms: int) -> list[Log]:
        """The logs to flush, each by one thread at a time."""
        return [log for log in self._table.current.online() if log.flush_is_due(now_ms)]

    def wall_clock_jobs(self, now_ms: int) -> list[Job]:
        """To note the wall clock for the next start, if that is due and the clock is trusted."""
        if self._wall.rests(now_ms, 0):
            return []
        is_first = "wall clock" not in self._next_run
        if not self._is_due("wall clock", now_ms, WALL_CLOCK_INTERVAL_MS):
            return []
        wall_ms = self._wall.at_ms(now_ms)
        return [
            Job("note the wall clock", NoteWallClock(directory, wall_ms, is_first))
            for directory in self._table.online_directories()
        ]

    def _due_checkpoint_jobs(self, now_ms: int) -> list[Job]:
        """At most one job for each file: `recovery_points_on_disk` knows only the last two
        contents."""
        config = self._config
        intervals_ms = {
            RECOVERY_POINT_FILE: config.flush_offset_checkpoint_interval_ms,
            LOG_START_OFFSET_FILE: config.flush_start_offset_checkpoint_interval_ms,
            HIGH_WATERMARK_FILE: config.high_watermark_checkpoint_interval_ms,
        }
        unchecked, self._unchecked = self._unchecked, set()
        unchecked |= {
            log.health.path for log in self._table.current.online() if log.local.take_truncated()
        }
        cleaned, self._cleaned = {log.health.path for log in self._cleaned}, []
        jobs: list[Job] = []
        for name in CHECKPOINTED:
            only = unchecked | cleaned if name == CLEANER_FILE else unchecked
            if name in intervals_ms and self._is_due(name, now_ms, intervals_ms[name]):
                jobs += self.checkpoint_jobs(name)
            elif only:
                jobs += self.checkpoint_jobs(name, only)
        return jobs + self.new_log_jobs(unchecked)

    def new_log_jobs(self, only: Collection[str]) -> list[Job]:
        """The jobs to run after all checkpoints of these directories have been written, which now
        have the values of logs that replaced deleted ones."""
        return [
            Job(f"end the newness of {log.name}", ForgetNew(directory, log))
            for directory in self._table.online_directories()
            if directory.path in only
            for log in self._table.logs_in(directory)
            if log.is_new_since_checkpoints
        ]

    def _is_due(self, name: str, now_ms: int, interval_ms: int) -> bool:
        if now_ms < self._next_run.get(name, 0):
            return False
        self._next_run[name] = now_ms + interval_ms
        return True

    def checkpoint_jobs(self, name: str, only: Collection[str] | None = None) -> list[Job]:
        """A replica that is moved here has its offsets in the checkpoints of its new directory."""
        jobs = []
        for directory in self._table.online_directories():
            if only is not None and directory.path not in only:
                continue
            offsets: dict[TopicPartition, int] = {}
            for log in self._table.logs_in(directory):
                offset = CHECKPOINTED[name](log)
                if offset is not None:
                    offsets[log.topic, log.partition] = offset
            for key in self._table.failed_in(directory):
                # Kept until its files are repaired.
                said = directory.checkpointed[name].get(key)
                if said is not None:
                    offsets[key] = said
            directory.health.note_checkpoint(name, offsets)
            jobs.append(Job(f"write {name}", WriteCheckpoint(directory, name, offsets)))
        return jobs

    def _deletion_jobs(self, now_ms: int) -> list[Job]:
        for kind in (self._table.current, self._table.future):
            for log in kind.online():
                deleted = log.local.take_deleted_files()
                if deleted:
                    directory = kind.homes[log.topic, log.partition]
                    due_ms = now_ms + log.config.file_delete_delay_ms
                    self._deletions += [(due_ms, directory, path) for path in deleted]
        due = [entry for entry in self._deletions if entry[0] <= now_ms]
        if due:
            self._deletions = [entry for entry in self._deletions if entry[0] > now_ms]
        return [Job(f"delete {path}", Delete(directory, path)) for _, directory, path in due]

    # Producers

    def look_after_producers(self, now_ms: int) -> Iterator[Job | None]:
        """Forget idle producers, and write due snapshots of logs with many; other tasks may run at
        each step. The caller must run a job before it asks for the next step."""
        for _ in self._expire_producers(now_ms):
            yield None
        while self._given_away:
            if self._given_away[-1].release_some():
                self._given_away.pop()
            yield None
        for _ in range(SNAPSHOT_STEPS_PER_TICK):
            if self._snapshots is None:
                self._snapshots = self._write_snapshots(now_ms)
            try:
                step = next(self._snapshots)
            except StopIteration:
                self._snapshots = None
                return
            yield step

    def _expire_producers(self, now_ms: int) -> Iterator[None]:
        config = self._config
        interval_ms = config.producer_id_expiration_check_interval_ms
        if not self._is_due("producer expiry", now_ms, interval_ms):
            return
        wall_ms = self._wall.comparable_ms(now_ms, interval_ms)
        expiration_ms = config.producer_id_expiration_ms
        for log in self._table.current.online():
            for _ in log.producers.known.expire(now_ms, wall_ms, expiration_ms):
                yield

    def _write_snapshots(self, now_ms: int) -> Iterator[Job | None]:
        """Write the snapshots of all logs for which one is due; also count the producers of all
        logs."""
        count = 0
        for kind in (self._table.current, self._table.future):
            for number, log in enumerate(kind.online()):
                if number % LOGS_PER_STEP == 0:
                    yield None
                with contextlib.suppress(KafkaError):  # an append to this log raises it again
                    while not log.rebuild_some():
                        yield None
                count += len(log.producers.known.entries)
                if log.is_closed or not log.producers.snapshots.is_due(now_ms):
                    continue
                frozen = log.producers.snapshots.begin(now_ms)
                while not frozen.encode(SNAPSHOT_ROWS_PER_STEP):
                    yield None
                if not frozen.is_over:
                    yield Job(f"write a snapshot of {log.name}", WriteSnapshot(log, frozen))
                log.producers.finish_snapshot(frozen)
        self._producer_limits.is_broker_full = count >= self._producer_limits.of_broker

    # Retention

    def retain_soon(self) -> None:
        """The next call of `retain` does not wait for its interval."""
        self._next_run.pop("retention", None)

    def retain(self, now_ms: int) -> Iterator[None]:
        """Delete old segments where that is due; others may have their turn at each step.

        Not those of compacted logs: the cleaner does both with them, one after the other.
        """
        interval_ms = self._config.retention_check_interval_ms
        if not self._is_due("retention", now_ms, interval_ms):
            return
        for number, log in enumerate(self._table.current.online()):
            if number % LOGS_PER_STEP == 0:
                yield
            while not log.config.compact and (
                _delete_some(log, now_ms, interval_ms) == SEGMENTS_PER_STEP
            ):
                yield
        for log in self._table.future.online():
            while (
                _delete_some(log, now_ms, interval_ms, only_below_start=True) == SEGMENTS_PER_STEP
            ):
                yield


def _delete_some(log: Log, now_ms: int, interval_ms: int, only_below_start: bool = False) -> int:
    producers = log.producers
    if log.is_closed or log.health.error is not None:
        return 0
    if producers.is_being_rebuilt and not producers.has_failed:
        return 0  # it reads the segments; the next interval comes
    try:
        if only_below_start:
            return delete_segments_below_start(log, now_ms, SEGMENTS_PER_STEP)
        return delete_old_segments(log, now_ms, SEGMENTS_PER_STEP, interval_ms=interval_ms)
    except KafkaError as error:
        logger.error("Old segments of %s are not deleted: %s", log.name, error.message)
        return 0
