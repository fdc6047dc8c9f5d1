"""Which remote segments expire: by size and time of both tiers, by the log start, by lost epochs.

Segments are looked at epoch by epoch of the leader's log, oldest first; the first one of this log
that stays ends the search. They are deleted in the order of their offsets: in the log of another
leader, whose start lies before them, they leave no hole. The log start moves behind a segment
before the segment is deleted, so that no consumer is sent to a segment that is gone. It also moves
to the first record that can be read: a deposed leader, which did not know that it was one, may have
deleted what lies before it.
(With Kafka a consumer that begins with the first record gets OFFSET_OUT_OF_RANGE until retention
has passed these records here, too.)

An orphan is a copy that was never finished: its broker was killed, or could not write its metadata.
It is deleted ORPHAN_AGE_MS after its beginning, when the tier has its offsets from other copies, or
the log start has passed them. A deposed leader that is still at it then finds that its copy is
deleted. (Kafka leaves orphans until the log start passes them.) A deletion that was begun and not
finished is taken up.

Mirrors: RemoteLogManager.RLMExpirationTask, RemoteLogRetentionHandler.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from typing import NamedTuple

from ...storage.log import Log
from ...storage.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from .copying import KnownSegments, first_readable
from .lineage import Epochs, is_of_this_log, with_records

ORPHAN_AGE_MS = 600_000
PIECE = 256  # segments at a time; a millisecond

_STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED
_FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
_DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED


class Expiry(NamedTuple):
    """What one look at the tier decides."""

    log_start_offset: int | None  # to move the log start to, before anything is deleted
    expired: list[RemoteLogSegmentMetadata]  # by start offset
    segment_count: int  # with metadata in the tier
    size_bytes: int


def look(
    log: Log,
    partition: TopicIdPartition,
    known: KnownSegments,
    being_copied: Collection[RemoteLogSegmentId],
    wall_ms: int,
    *,
    by_age: bool,
) -> Generator[None, None, Expiry]:
    """Decide for one partition; without `by_age` no record is too old (the clock has jumped).

    Other tasks may run at each yield: a partition may have ten thousand segments. What is being
    copied at the beginning, or later, is left alone.
    """
    all_segments = known.segments(partition)
    copying = frozenset(being_copied)
    epochs = with_records(log.leader_epochs.entries)
    look = _Look(log, partition, known, epochs, wall_ms if by_age else None)
    yield from look.measure()
    expired, foreign, seen = [], [], set()
    for number, metadata in enumerate(look.in_order()):
        if number % PIECE == 0:
            yield
        if metadata.segment_id in copying or metadata.segment_id in being_copied:
            break
        if metadata.state is _DELETED or metadata.segment_id in seen:
            continue
        seen.add(metadata.segment_id)
        is_breached, is_this_log = look.verdict(metadata)
        if is_breached:
            expired.append(metadata)
        elif is_this_log:
            break
        elif metadata.state is not _STARTED:
            foreign.append(metadata)
    if look.new_start is not None:
        expired += [one for one in foreign if look.is_behind(one, look.new_start)]
    chosen = {metadata.segment_id for metadata in expired}
    yield
    orphans = [
        metadata
        for metadata in all_segments
        if metadata.state is not _FINISHED
        and metadata.segment_id not in chosen
        and metadata.segment_id not in copying
        and (metadata.state is _DELETING or (by_age and _is_orphan(log, metadata, wall_ms)))
    ]
    chosen |= {metadata.segment_id for metadata in orphans}
    yield
    entries = log.leader_epochs.entries
    # A log whose epochs do not reach back to its start does not know all of its own.
    is_complete = bool(entries) and entries[0][1] <= log.log_start_offset
    first_epoch = entries[0][0] if is_complete else -1
    unreferenced = [
        metadata
        for metadata in all_segments
        if metadata.segment_leader_epochs[-1][0] < first_epoch
        and metadata.state is not _DELETED
        and metadata.segment_id not in chosen
    ]
    yield
    expired = sorted([*expired, *orphans, *unreferenced], key=_start_offset)
    yield
    new_start = max(look.new_start or 0, first_readable(log, partition, known))
    return Expiry(
        new_start if new_start > log.log_start_offset else None,
        expired,
        len(all_segments),
        sum(metadata.segment_size_bytes for metadata in all_segments),
    )


class _Look:
    """One look: the limits, and how much is still above the size limit."""

    __slots__ = ("_epochs", "_excess", "_known", "_log", "_old_ms", "_partition", "new_start")

    def __init__(
        self,
        log: Log,
        partition: TopicIdPartition,
        known: KnownSegments,
        epochs: Epochs,
        wall_ms: int | None,
    ) -> None:
        self._log = log
        self._partition = partition
        self._known = known
        self._epochs = epochs
        config = log.config
        self._old_ms: int | None = None
        if wall_ms is not None and config.retention_ms >= 0:
            self._old_ms = wall_ms - config.retention_ms
        self._excess = 0
        self.new_start: int | None = None

    def in_order(self) -> list[RemoteLogSegmentMetadata]:
        return [
            metadata
            for epoch, _ in self._epochs
            for metadata in self._known.segments(self._partition, epoch)
        ]

    def measure(self) -> Iterator[None]:
        """Find what is above the size limit of both tiers: segments that are in both count once."""
        log = self._log
        limit = log.config.retention_bytes
        if limit < 0:
            return
        size = sum(segment.size for segment in log.only_local)
        seen = set()
        for number, metadata in enumerate(self.in_order()):
            if number % PIECE == 0:
                yield
            if (
                metadata.state is _FINISHED
                and metadata.segment_id not in seen
                and is_of_this_log(metadata, log.log_end_offset, self._epochs)
            ):
                seen.add(metadata.segment_id)
                size += metadata.segment_size_bytes
        self._excess = size - limit

    def is_behind(self, metadata: RemoteLogSegmentMetadata, start: int) -> bool:
        """Whether a log that starts at `start` has nothing of the segment, of any lineage."""
        if metadata.end_offset >= start:
            return False
        first, _ = next((one for one in reversed(self._epochs) if one[1] <= start), self._epochs[0])
        return all(epoch <= first for epoch, _ in metadata.segment_leader_epochs)

    def verdict(self, metadata: RemoteLogSegmentMetadata) -> tuple[bool, bool]:
        """(whether the segment expires, whether it is of this log)."""
        log, epochs = self._log, self._epochs
        if self.is_behind(metadata, log.log_start_offset):
            return True, False
        if not is_of_this_log(metadata, log.log_end_offset, epochs):
            return False, False
        if metadata.state is _STARTED:
            return False, False  # it holds nothing, and ends no search
        if metadata.state is _DELETING:
            return True, False  # of an orphan: another copy may have its records
        size = metadata.segment_size_bytes
        is_old = self._old_ms is not None and metadata.max_timestamp_ms <= self._old_ms
        is_excess = not is_old and self._excess > 0 and size <= self._excess
        if is_old or is_excess:
            self._excess = max(0, self._excess - size)
            self.new_start = max(self.new_start or 0, metadata.end_offset + 1)
        return is_old or is_excess, True


def _start_offset(metadata: RemoteLogSegmentMetadata) -> int:
    return metadata.start_offset


def _is_orphan(log: Log, metadata: RemoteLogSegmentMetadata, wall_ms: int) -> bool:
    return (
        metadata.state is _STARTED
        and metadata.end_offset
        <= max(log.highest_offset_in_remote_storage, log.log_start_offset - 1)
        and wall_ms - metadata.event_timestamp_ms >= ORPHAN_AGE_MS
    )
