"""Delete old segments of a log: by log start offset, by size, by time.

Rules: oldest first, and the first segment that stays ends the search; nothing at or above the high
watermark is deleted; an empty active segment stays, an active segment with only old messages is
deleted after a new one has been rolled. Size and time count with `cleanup.policy=delete` only; a
segment wholly below the log start offset (DeleteRecords) is deleted in any case. At equal size or
age a segment stays.

A log with a remote tier has the limits local.retention.bytes and local.retention.ms for its own
segments, and a segment that the tier does not have stays, unless it is below the log start. An
active segment that exceeds a limit is rolled, so that it can be copied.

Age is the wall clock's time less a record's timestamp. In the first interval after a jump of that
clock (`WallClock.rests`) nothing is deleted by age.

For logs with `cleanup.policy=delete` maintenance calls `delete_old_segments`, for compacted
logs (`compact,delete` too) the cleaner calls it between its cleanings. It runs on the loop, as all
that changes a log does, and renames files; they are unlinked later, in a thread
(`LocalLog.take_deleted_files`).

Mirrors: UnifiedLog.deleteOldSegments, LocalLog.deletableSegments.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

from .log import Log
from .segment import Segment

NO_LIMIT = 1 << 31
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS_MS = (("days", 86_400_000), ("hours", 3_600_000), ("minutes", 60_000), ("seconds", 1000))

logger = logging.getLogger("pybroker.storage.retention")


def delete_old_segments(
    log: Log, now_ms: int, limit: int = NO_LIMIT, *, interval_ms: int = 0
) -> int:
    """Delete the segments that exceed the log's limits; returns their number.

    At most `limit` at once: if so many were deleted, call again. `interval_ms`: the interval of the
    calls.
    """
    count = delete_segments_below_start(log, now_ms, limit)
    if log.has_remote_tier and not log.leader_epochs.is_on_disk:
        # The epochs say where in the tier a record is, and recovery finds in the batches only those
        # of local segments. (Kafka's are on disk before the first record of the epoch.)
        log.leader_epochs.ask_for_sync()
        _roll_for_tier(log, now_ms, by_age=not log.wall.rests(now_ms, interval_ms))
    elif log.config.delete:
        count += _delete(log, now_ms, _breaching_size(log), limit - count)
        is_clock_good = not log.wall.rests(now_ms, interval_ms)
        if is_clock_good:
            count += _delete_old(log, now_ms, limit - count)
        _roll_for_tier(log, now_ms, by_age=is_clock_good)
    return count


def why_deleted(log: Log, now_ms: int) -> Iterator[tuple[Segment, str]]:
    """The segments that `delete_old_segments` would take now, each with its rule."""
    for segment in _below_start(log):
        yield segment, f"below the log start offset, {log.log_start_offset}"
    if log.config.delete:
        for segment in _breaching_size(log):
            limit = f"{_local(log)}retention.bytes, {log.config.local_retention_bytes}"
            yield segment, f"the log is larger than {limit}"
        for segment in _breaching_time(log, log.wall.at_ms(now_ms)):
            limit = f"{_local(log)}retention.ms, {log.config.local_retention_ms}"
            yield segment, f"older than {limit}"


def delete_segments_below_start(log: Log, now_ms: int, limit: int = NO_LIMIT) -> int:
    """Delete only segments wholly below the log start offset; returns their number."""
    return _delete(log, now_ms, _below_start(log), limit)


def _delete(log: Log, now_ms: int, breaching: Iterator[Segment], limit: int) -> int:
    chosen = list(islice(breaching, limit))
    if not chosen:
        return 0
    log.delete_segments(chosen, now_ms)
    return len(chosen)


def _delete_old(log: Log, now_ms: int, limit: int) -> int:
    """Delete by time, and log the reason: records with old timestamps are deleted soon after their
    append."""
    wall_ms = log.wall.at_ms(now_ms)
    too_old = list(islice(_breaching_time(log, wall_ms), limit))
    if not too_old:
        return 0
    newest_ms = max(segment.largest_timestamp for segment in too_old)
    count = _delete(log, now_ms, iter(too_old), limit)
    retention_ms = log.config.local_retention_ms
    logger.info(
        "%s: deleted %d old segment%s, up to offset %d: their newest record is of %s (%d), %s old;"
        " %sretention.ms is %d (%s)",
        log.name,
        count,
        "" if count == 1 else "s",
        log.local_log_start_offset,
        date_text(newest_ms),
        newest_ms,
        age_text(wall_ms - newest_ms),
        _local(log),
        retention_ms,
        age_text(retention_ms),
    )
    return count


def date_text(timestamp_ms: int) -> str:
    """A record's timestamp as readable text; any value from a producer is accepted."""
    try:
        return (_EPOCH + timedelta(milliseconds=timestamp_ms)).strftime("%Y-%m-%d %H:%M:%S UTC")
    except OverflowError:
        return "no date"


def age_text(duration_ms: int) -> str:
    """In the largest unit of which there are two or more."""
    for unit, unit_ms in _UNITS_MS:
        if duration_ms >= 2 * unit_ms:
            return f"{duration_ms // unit_ms} {unit}"
    return f"{duration_ms} ms"


def _local(log: Log) -> str:
    return "local." if log.has_remote_tier else ""


def _roll_for_tier(log: Log, now_ms: int, *, by_age: bool) -> None:
    """Roll the active segment if it exceeds a local limit, so that it can be copied."""
    active, config = log.segments.active, log.config
    if not log.has_remote_tier or not active.size or log.log_end_offset > log.high_watermark:
        return
    is_old = (
        by_age
        and config.local_retention_ms >= 0
        and log.wall.at_ms(now_ms) - active.largest_timestamp > config.local_retention_ms
    )
    if is_old or config.local_retention_bytes == 0:
        log.roll(now_ms)


def _deletable(log: Log) -> Iterator[tuple[Segment, int]]:
    """Segments from the oldest on, each with the offset at which it ends, as far as allowed."""
    high_watermark = log.high_watermark
    in_tier = log.highest_offset_in_remote_storage
    for segment, following in pairwise(log.segments):
        end = following.base_offset
        if end > high_watermark:
            return
        if log.has_remote_tier and end > in_tier + 1 and end > log.log_start_offset:
            return
        yield segment, end
    active, end = log.segments.active, log.log_end_offset
    if active.size and end <= high_watermark and not log.has_remote_tier:
        yield active, end


def _below_start(log: Log) -> Iterator[Segment]:
    start = log.log_start_offset
    for segment, end in _deletable(log):
        # The active segment has no successor that could begin at the log start.
        if end > start or segment is log.segments.active:
            return
        yield segment


def _breaching_size(log: Log) -> Iterator[Segment]:
    if log.config.local_retention_bytes < 0:
        return
    excess = log.size_bytes - log.config.local_retention_bytes
    if excess < 0:
        return
    for segment, _ in _deletable(log):
        excess -= segment.size
        if excess < 0:
            return
        yield segment


def _breaching_time(log: Log, wall_ms: int) -> Iterator[Segment]:
    retention_ms = log.config.local_retention_ms
    if retention_ms < 0:
        return
    for segment, _ in _deletable(log):
        if wall_ms - segment.largest_timestamp <= retention_ms:
            return
        yield segment
