"""Choose the log to clean next and the range, and swap the result in. Runs on the broker's loop.

- Never cleaned: the active segment, anything at or above the last stable offset, segments younger
  than min.compaction.lag.ms. Of the rest the dirtiest log is next, if its dirty share is above
  min.cleanable.dirty.ratio or its oldest dirty batch older than max.compaction.lag.ms.
- A cleaning is void once its log was deleted, moved, closed, or truncated below the end of the
  cleaning; no result of a void cleaning is put into a log. Kafka waits for a cleaning to stop
  before it truncates; here the two meet on one loop, at the swap.
- The end of the cleaned part is kept in the log (`first_dirty_offset`) and written to the
  directory's `cleaner-offset-checkpoint`; a truncation lowers it.

Mirrors: LogCleanerManager, LogToClean, PreCleanStats.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from ...protocol.errors import KafkaError
from ...protocol.topics import TopicPartition
from ..config_def import LONG_MAX
from ..log import Log
from ..log_manager import LogManager
from ..retention import delete_old_segments
from .cleaner import CleaningAborted
from .plan import CleanedGroup, CleaningPlan, LastRecord

logger = logging.getLogger("pybroker.storage.cleaner.manager")

SEGMENTS_PER_STEP = 16
CUT_WATCHER = "cleaner"


# Producers in one piece for the cleaner's process; takes a millisecond.
PRODUCERS_AT_ONCE = 1_000


@dataclass(slots=True, frozen=True)
class CleanerSettings:
    """The broker configs of one cleaner."""

    buffer_bytes: int = 128 << 20
    load_factor: float = 0.9
    io_buffer_bytes: int = 1 << 18


@dataclass(slots=True)
class Candidate:
    """A log with its dirty part [first dirty offset, end offset)."""

    log: Log
    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int  # by how much max.compaction.lag.ms is exceeded

    @property
    def ratio(self) -> float:
        return self.cleanable_bytes / (self.clean_bytes + self.cleanable_bytes)

    @property
    def is_due(self) -> bool:
        if self.delay_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.ratio > self.log.config.min_cleanable_dirty_ratio


@dataclass(slots=True)
class Cleaning:
    """One log on its way through a cleaner."""

    log: Log
    plan: CleaningPlan

    @property
    def key(self) -> TopicPartition:
        return self.log.topic, self.log.partition


class CleanerManager:
    def __init__(self, logs: LogManager, now_ms: int) -> None:
        self._logs = logs
        self._running: dict[TopicPartition, Cleaning] = {}
        # By log directory: partitions that could not be cleaned; until the broker starts again.
        self.uncleanable: dict[str, set[TopicPartition]] = {}
        self._wanted: set[TopicPartition] = set()  # to be cleaned, however little of it is dirty
        self.max_dirty_ratio = 0.0
        self.max_delay_ms = 0
        self.last_run_ms = now_ms

    # Choosing

    def choose(self, now_ms: int, settings: CleanerSettings) -> Cleaning | None:
        """The dirtiest log that is due, from now on being cleaned."""
        self.last_run_ms = now_ms
        self._forget_deleted()
        candidates = []
        for log in self._logs.logs():
            if log.config.compact and not self._is_barred(log):
                candidate = self._consider(log, now_ms)
                if candidate is not None:
                    candidates.append(candidate)
        self.max_dirty_ratio = max((c.ratio for c in candidates), default=0.0)
        # Lags and delete horizons compare timestamps.
        rests = self._logs.wall.rests(now_ms, 0)
        due = [c for c in candidates if (c.is_due and not rests) or self._wants(c)]
        if not due:
            return None
        self.max_delay_ms = max(candidate.delay_ms for candidate in candidates)
        chosen = max(due, key=_ratio)
        log = chosen.log
        try:
            cleaning = Cleaning(log, make_plan(chosen, now_ms, settings))
        except OSError as error:
            log.health.fail(error)
            return None
        log.local.watch_cuts(CUT_WATCHER)
        self._running[cleaning.key] = cleaning
        return cleaning

    def want(self, key: TopicPartition) -> None:
        """Request one cleaning of this log, as soon as any part of it can be cleaned."""
        self._wanted.add(key)

    def is_wanted(self, key: TopicPartition) -> bool:
        """Whether the log has not been cleaned since `want`."""
        return key in self._wanted

    def _wants(self, candidate: Candidate) -> bool:
        key = candidate.log.topic, candidate.log.partition
        return key in self._wanted and candidate.cleanable_bytes > 0

    def _consider(self, log: Log, now_ms: int) -> Candidate | None:
        try:
            return consider(log, now_ms)
        except OSError as error:
            log.health.fail(error)
        except KafkaError as error:
            self._mark(log, error.message)
        return None

    def _mark(self, log: Log, reason: str) -> None:
        key = log.topic, log.partition
        self.uncleanable.setdefault(log.health.path, set()).add(key)
        logger.warning(
            "Unexpected error when cleaning %s; it is marked as uncleanable: %s", log.name, reason
        )

    def _is_barred(self, log: Log) -> bool:
        """Cleaned already, not to be cleaned, or on its way to another directory: a copy that is
        half cleaned would never be cleaned whole."""
        key = log.topic, log.partition
        return (
            key in self._running
            or key in self.uncleanable.get(log.health.path, ())
            or self._logs.future_log(*key) is not None
        )

    def _forget_deleted(self) -> None:
        """Forget deleted partitions: a new partition of the same name may be cleaned."""
        for path, keys in list(self.uncleanable.items()):
            here = {key for key in keys if self._logs.directory_of(*key) == path}
            if here:
                self.uncleanable[path] = here
            else:
                del self.uncleanable[path]

    # While a log is cleaned

    def is_void(self, cleaning: Cleaning) -> bool:
        log, plan = cleaning.log, cleaning.plan
        return (
            self._logs.get_log(*cleaning.key) is not log
            or self._logs.future_log(*cleaning.key) is not None
            or log.is_closed
            or log.directory != plan.directory
            or log.local.lowest_cut(CUT_WATCHER) < plan.end_offset
            or log.log_start_offset >= plan.end_offset
        )

    def swap(self, cleaning: Cleaning, group: CleanedGroup, now_ms: int) -> None:
        """Put a new segment into the log. CleaningAborted if that is not to be."""
        log = cleaning.log
        if self.is_void(cleaning):
            raise CleaningAborted
        wanted = set(group.sources)
        sources = [segment for segment in log.segments if segment.base_offset in wanted]
        if len(sources) != len(wanted) or log.segments.active in sources:
            raise CleaningAborted
        log.replace_segments(group.base_offset, sources, now_ms)

    def finished(self, cleaning: Cleaning, end_offset: int) -> None:
        """Note the end of a cleaning whose whole result is in the log, which is clean up to
        `end_offset`."""
        if not self.is_void(cleaning):
            cleaning.log.first_dirty_offset = end_offset
        self._wanted.discard(cleaning.key)
        self.ended(cleaning)

    def failed(self, cleaning: Cleaning, reason: str) -> None:
        """A log that cannot be cleaned is left alone from now on."""
        if not self.is_void(cleaning):
            self._mark(cleaning.log, reason)
        self.ended(cleaning)

    def ended(self, cleaning: Cleaning) -> None:
        """Done, aborted or failed: the log may be chosen again."""
        if self._running.get(cleaning.key) is cleaning:
            del self._running[cleaning.key]

    # Retention of compacted logs

    def retain(self, now_ms: int) -> Iterator[None]:
        """Delete old segments of compacted logs that are not being cleaned, in small steps."""
        for log in self._logs.logs():
            if not log.config.compact:
                continue
            yield
            while _may_retain(log) and not self._is_barred(log):
                try:
                    if delete_old_segments(log, now_ms, SEGMENTS_PER_STEP) < SEGMENTS_PER_STEP:
                        break
                except KafkaError as error:
                    logger.error("Old segments of %s are not deleted: %s", log.name, error.message)
                    break
                yield

    # Metrics

    def uncleanable_count(self, path: str) -> int:
        return len(self.uncleanable.get(path, ()))

    def uncleanable_bytes(self, path: str, now_ms: int) -> int:
        total = 0
        for key in self.uncleanable.get(path, ()):
            log = self._logs.get_log(*key)
            candidate = self._consider(log, now_ms) if log is not None else None
            total += candidate.cleanable_bytes if candidate is not None else 0
        return total


def _may_retain(log: Log) -> bool:
    return not log.is_closed and log.health.error is None


def _ratio(candidate: Candidate) -> float:
    return candidate.ratio


def consider(log: Log, now_ms: int) -> Candidate | None:
    """The part of a log that could be cleaned; None if it is empty. Corrects an impossible
    checkpoint."""
    start = log.log_start_offset
    dirty = start if log.first_dirty_offset is None else log.first_dirty_offset
    if not start <= dirty <= log.log_end_offset:
        if dirty > log.log_end_offset or not log.config.delete:
            logger.warning(
                "%s: the cleaner's checkpoint %d is outside of the log; starting at %d",
                log.name,
                dirty,
                start,
            )
        dirty = log.first_dirty_offset = start
    segments = log.segments
    active = segments.active
    wall_ms = log.wall.at_ms(now_ms)
    bound = min(log.last_stable_offset, active.base_offset, _lag_bound(log, dirty, wall_ms))
    bound = max(bound, dirty)
    uncleanable = segments.covering(bound, active.base_offset)
    end = (uncleanable[0] if uncleanable else active).base_offset
    clean_bytes = sum(segment.size for segment in segments.covering(-1, dirty))
    cleanable_bytes = sum(segment.size for segment in segments.covering(min(dirty, end), end))
    if clean_bytes + cleanable_bytes == 0:
        return None
    delay_ms = _compaction_delay(log, dirty, wall_ms)
    return Candidate(log, dirty, end, clean_bytes, cleanable_bytes, delay_ms)


def _lag_bound(log: Log, dirty: int, wall_ms: int) -> int:
    """The first dirty segment with a message that is younger than min.compaction.lag.ms."""
    active = log.segments.active
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in log.segments.covering(dirty, active.base_offset):
            if segment.largest_timestamp > wall_ms - lag_ms:
                return segment.base_offset
    return active.base_offset


def _compaction_delay(log: Log, dirty: int, wall_ms: int) -> int:
    """By how much the oldest dirty segment has outlived max.compaction.lag.ms."""
    lag_ms = log.config.max_compaction_lag_ms
    if lag_ms == LONG_MAX:
        return 0
    segments = log.segments.covering(dirty, log.segments.active.base_offset)
    stamps = [s.first_batch_timestamp for s in segments if s.size]
    oldest = min((stamp for stamp in stamps if stamp > 0), default=LONG_MAX)
    return max(wall_ms - lag_ms - oldest, 0)


class LastRecords:
    """The last records of a log's producers, in pieces, each piece as it is when it is read.

    A producer that changed after the plan was made has written above the range to clean.
    """

    __slots__ = ("_log",)

    def __init__(self, log: Log) -> None:
        self._log = log

    def __iter__(self) -> Iterator[list[LastRecord]]:
        log = self._log
        while not log.rebuild_some():
            yield []
        entries = list(log.producer_state.entries.values())
        for start in range(0, len(entries), PRODUCERS_AT_ONCE):
            yield [
                LastRecord(entry.producer_id, entry.last_data_offset, entry.epoch)
                for entry in entries[start : start + PRODUCERS_AT_ONCE]
            ]


def make_plan(candidate: Candidate, now_ms: int, settings: CleanerSettings) -> CleaningPlan:
    """The data with which a process can clean the log without the manager."""
    log, end = candidate.log, candidate.end_offset
    config = log.config
    below = [segment for segment in log.segments if segment.base_offset < end]
    return CleaningPlan(
        name=log.name,
        directory=log.directory,
        first_dirty_offset=candidate.first_dirty_offset,
        end_offset=end,
        wall_ms=log.wall.stamp_ms(now_ms),
        segments=[(s.base_offset, s.size, s.modified_ms) for s in below],
        later_bases=[base for base in log.segments.base_offsets if base >= end],
        producers=LastRecords(log),
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        delete_retention_ms=config.delete_retention_ms,
        buffer_bytes=settings.buffer_bytes,
        load_factor=settings.load_factor,
        io_buffer_bytes=settings.io_buffer_bytes,
    )
