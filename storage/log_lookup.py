"""Look-ups in the segments of a log by time, and the aborted transactions of a range of offsets.

Mirrors: UnifiedLog.fetchOffsetByTimestamp, legacyFetchOffsetsBefore,
LocalLog.addAbortedTransactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..protocol.errors import ErrorCode, KafkaError, ProtocolError
from .files import FileSlice
from .segment import Segment
from .segment_reader import BatchToSearch
from .segments import Segments
from .transaction_index import AbortedTransaction

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
# The largest timestamp of a segment is in its files after a start, so it is slow to get. After so
# many segments the caller gets an empty batch: it lets other tasks run between batches.
SEGMENTS_PER_TURN = 16
NOTHING = BatchToSearch(b"", 0, 0, 0)


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


def batches_at_or_after(
    segments: Segments, timestamp: int, log_start_offset: int
) -> Iterator[BatchToSearch]:
    """The batches, in order, that may hold the first message at or after `timestamp` and log start.

    Apache Kafka ends the search if the first segment that is late enough has such messages only
    below the log start; here the search continues in the next segments.
    """
    for number, segment in enumerate(segments, 1):
        if segment.largest_timestamp >= timestamp:
            yield from segment.batches_at_or_after(timestamp, log_start_offset)
        elif number % SEGMENTS_PER_TURN == 0:
            yield NOTHING


def latest_batches(segments: Segments) -> Iterator[BatchToSearch]:
    """The batches that may hold the first message with the largest timestamp of all segments."""
    latest = segments.first
    for number, segment in enumerate(segments, 1):
        if segment.max_timestamp > latest.max_timestamp:
            latest = segment
        if number % SEGMENTS_PER_TURN == 0:
            yield NOTHING
    yield from latest.latest_batches()


def search(batches: Iterable[BatchToSearch], name: str) -> TimestampOffset | None:
    """The first match in the batches, or None; `name` is the log's, for the error."""
    try:
        for batch in batches:
            found = batch.search()
            if found is not None:
                return TimestampOffset(*found)
    except ProtocolError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{error} in {name}") from None
    return None


def legacy_offsets_before(
    segments: Segments,
    log_start_offset: int,
    log_end_offset: int,
    timestamp: int,
    max_count: int,
    wall_ms: int,
) -> list[int]:
    """Base offsets (and the log end) last written at or before a time, newest first."""
    times = [(max(s.base_offset, log_start_offset), s.modified_ms) for s in segments]
    if segments.active.size > 0:
        times.append((log_end_offset, wall_ms))
    if timestamp == LATEST_TIMESTAMP:
        newest = len(times) - 1
    elif timestamp == EARLIEST_TIMESTAMP:
        newest = 0
    else:
        newest = len(times) - 1
        while newest >= 0 and times[newest][1] > timestamp:
            newest -= 1
    chosen = [times[index][0] for index in range(newest, -1, -1)][:max_count]
    return sorted(chosen, reverse=True)


def aborted_transactions(
    segments: Segments, segment: Segment, offset: int, found: FileSlice, log_end_offset: int
) -> list[AbortedTransaction]:
    """The aborted transactions that a read_committed consumer must drop from `found`, a read from
    `offset` on."""
    result: list[AbortedTransaction] = []
    upper = None
    current: Segment | None = segment
    while current is not None:
        index = current.transaction_index
        if index.entries:
            if upper is None:  # most logs have no aborted transactions, and need no look-up
                upper = _end_of(segments, segment, found, log_end_offset)
            entries, complete = index.collect(offset, upper)
            result += entries
            if complete:
                break
        current = segments.after(current)
    return result


def _end_of(segments: Segments, segment: Segment, found: FileSlice, log_end_offset: int) -> int:
    """An offset at or behind the end of `found`, as near as the index has one."""
    upper = segment.upper_bound_offset(found.position + found.size)
    if upper is not None:
        return upper
    following = segments.after(segment)
    return log_end_offset if following is None else following.base_offset
