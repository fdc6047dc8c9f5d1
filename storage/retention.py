"""Which segments of a log are too old to be kept: by log start offset, by size, by time.

Rules: oldest first, and the first segment that stays ends the search; nothing at or above the high
watermark goes; an empty active segment stays, one that holds only old messages goes too, after a
new one has been rolled. Size and time count with `cleanup.policy=delete` only; what is wholly below
the log start offset (DeleteRecords) goes in any case. At equal size or age a segment stays.

For logs with `cleanup.policy=delete` the broker's upkeep calls `delete_old_segments`, for those
that are compacted (`compact,delete` too) the cleaner calls it between its cleanings. It belongs to
the thread of the log, and renames files; unlinking them comes later (`Log.take_doomed_files`).

Mirrors: UnifiedLog.deleteOldSegments, LocalLog.deletableSegments. Leaves out tiered storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise

from protocol.errors import ErrorCode, KafkaError
from storage.log import Log
from storage.segment import Segment

NO_LIMIT = 1 << 31


def delete_old_segments(log: Log, now_ms: int, limit: int = NO_LIMIT) -> int:
    """Delete the segments that the log's configs do not want any more; returns how many.

    `limit` many at once: when that many went, ask again.
    """
    count = delete_segments_below_start(log, now_ms, limit)
    if log.config.delete:
        count += _delete(log, now_ms, _breaching_size(log), limit - count)
        count += _delete(log, now_ms, _breaching_time(log, now_ms), limit - count)
    return count


def delete_segments_below_start(log: Log, now_ms: int, limit: int = NO_LIMIT) -> int:
    """Delete only what lies wholly below the log start offset; returns how many segments."""
    return _delete(log, now_ms, _below_start(log), limit)


def _delete(log: Log, now_ms: int, breaching: Iterator[Segment], limit: int) -> int:
    doomed = list(islice(breaching, limit))
    if not doomed:
        return 0
    try:
        if len(doomed) == len(log.segments):
            log.roll(now_ms)
        following = log.segments.after(doomed[-1])
        assert following is not None
        # First the offset: whoever looks an older one up must not find a gap.
        log.maybe_increment_log_start_offset(following.base_offset)
        for segment in doomed:
            log.segments.remove(segment)
            log.doomed_files += segment.mark_deleted()
            if segment.base_offset in log.snapshots.offsets:
                log.snapshots.delete(segment.base_offset)
    except OSError as error:
        log.health.fail(error)
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"Error while deleting segments of {log.name}: {error}"
        ) from error
    return len(doomed)


def _deletable(log: Log) -> Iterator[tuple[Segment, int]]:
    """Segments from the oldest on, each with the offset at which it ends, as far as allowed."""
    high_watermark = log.high_watermark
    for segment, following in pairwise(log.segments):
        if following.base_offset > high_watermark:
            return
        yield segment, following.base_offset
    active, end = log.segments.active, log.log_end_offset
    if active.size and end <= high_watermark:
        yield active, end


def _below_start(log: Log) -> Iterator[Segment]:
    start = log.log_start_offset
    for segment, end in _deletable(log):
        # The active segment has no successor that could begin at the log start.
        if end > start or segment is log.segments.active:
            return
        yield segment


def _breaching_size(log: Log) -> Iterator[Segment]:
    if log.config.retention_bytes < 0:
        return
    excess = log.size_bytes - log.config.retention_bytes
    if excess < 0:
        return
    for segment, _ in _deletable(log):
        excess -= segment.size
        if excess < 0:
            return
        yield segment


def _breaching_time(log: Log, now_ms: int) -> Iterator[Segment]:
    retention_ms = log.config.retention_ms
    if retention_ms < 0:
        return
    for segment, _ in _deletable(log):
        if now_ms - segment.largest_timestamp <= retention_ms:
            return
        yield segment
