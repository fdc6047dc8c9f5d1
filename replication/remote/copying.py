"""Which segments of a log are copied to the remote tier, and how much is there already.

A segment is copied when it is rolled and all of it is below the last stable offset: the tier has
committed records only, and all transactions of theirs are decided. Copies follow one another in the
order of the log, from the highest offset in the tier on.

Mirrors: RemoteLogManager.RLMCopyTask.candidateLogSegments and copyLogSegment,
findHighestRemoteOffset, findLogStartOffset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple, Protocol

from ...protocol.errors import ErrorCode, KafkaError
from ...storage.log import Log
from ...storage.offset_index import index_path
from ...storage.producer_snapshot import CorruptSnapshot, decode_snapshot, encode_snapshot
from ...storage.remote.segments import (
    IMPORTED,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from ...storage.remote.storage_manager import LogSegmentData, RemoteStorageError
from ...storage.segment import SNAPSHOT_SUFFIX, Segment
from ...storage.segment_reader import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
)
from .lineage import Epochs, in_range, is_of_this_log, with_records


class KnownSegments(Protocol):
    """What is known of the segments in the tier; the remote log metadata manager."""

    def highest_offset(self, partition: TopicIdPartition, epoch: int) -> int | None: ...

    def segments(
        self, partition: TopicIdPartition, epoch: int | None = None
    ) -> list[RemoteLogSegmentMetadata]: ...


class Candidate(NamedTuple):
    """A segment to be copied, and the offset at which the next one begins."""

    segment: Segment
    next_offset: int


def highest_copied_offset(log: Log, partition: TopicIdPartition, known: KnownSegments) -> int:
    """The last offset of the log that is in the tier, by its newest epoch that has copies; -1 if
    there is none."""
    for epoch, _ in reversed(log.leader_epochs.entries):
        highest = known.highest_offset(partition, epoch)
        if highest is not None:
            _, end = log.end_offset_for_epoch(epoch)
            # A leader that was deposed may have copied records that were never committed.
            return min(highest, end - 1)
    return -1


def log_start_in_tier(log: Log, partition: TopicIdPartition, known: KnownSegments) -> int:
    """The first record that the tier has of the log; without any, the first that is only here.

    Copies begin at the log start, so whatever lies before them was deleted, and so were those that
    the tier has no more; a follower may not know that. A segment may begin before its first epoch,
    with deleted records. (Kafka takes the start of any segment with a known epoch.)
    """
    first = _first_in_tier(log, partition, known)
    if first is not None:
        return first
    return max(log.local_log_start_offset, highest_copied_offset(log, partition, known) + 1)


def first_readable(log: Log, partition: TopicIdPartition, known: KnownSegments) -> int:
    """The first record of the log that the tier or this broker has."""
    first = _first_in_tier(log, partition, known)
    local = log.local_log_start_offset
    return local if first is None else min(first, local)


def _first_in_tier(log: Log, partition: TopicIdPartition, known: KnownSegments) -> int | None:
    for epoch, _ in log.leader_epochs.entries:
        _, end = log.end_offset_for_epoch(epoch)
        for metadata in known.segments(partition, epoch):
            first = dict(metadata.segment_leader_epochs)[epoch]
            if metadata.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED and first < end:
                return first
    return None


def last_segment(segments: Iterable[RemoteLogSegmentMetadata]) -> RemoteLogSegmentMetadata | None:
    """The finished segment that ends the log of the newest leader that has copied."""
    finished = [one for one in segments if one.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED]
    return max(finished, key=reach, default=None)


def reach(segment: RemoteLogSegmentMetadata) -> tuple[int, int, bytes]:
    """How far a segment's log goes: its last leader epoch counts first."""
    return segment.segment_leader_epochs[-1][0], segment.end_offset, segment.segment_id.id


def start_of(
    segments: Iterable[RemoteLogSegmentMetadata], last: RemoteLogSegmentMetadata, epochs: Epochs
) -> int:
    """The first offset in the tier of the log that ends with `last` and has these epochs."""
    of_this_log = with_records(epochs)
    starts = [
        one.start_offset
        for one in segments
        if one.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        and is_of_this_log(one, last.end_offset + 1, of_this_log)
    ]
    return max(epochs[0][1], min(starts, default=last.start_offset))


def candidates(log: Log, copied_offset: int) -> Iterator[Candidate]:
    """The segments to copy now, oldest first, behind `copied_offset`.

    The log start is ahead of that after DeleteRecords, and in a log that gets its tier late.
    """
    stable = log.last_stable_offset
    from_offset = max(copied_offset + 1, log.log_start_offset)
    for segment, following in pairwise(log.segments):
        if following.base_offset > stable:
            return
        if following.base_offset > from_offset:
            yield Candidate(segment, following.base_offset)


def metadata_of(
    log: Log, candidate: Candidate, segment_id: RemoteLogSegmentId, broker_id: int, wall_ms: int
) -> RemoteLogSegmentMetadata:
    """The metadata of a copy that begins."""
    segment, next_offset = candidate
    return RemoteLogSegmentMetadata(
        segment_id,
        segment.base_offset,
        next_offset - 1,
        segment.largest_timestamp,
        broker_id,
        wall_ms,
        segment.size,
        tuple(in_range(log.leader_epochs.entries, segment.base_offset, next_offset)),
    )


def epochs_of(checkpoint: bytes) -> list[tuple[int, int]]:
    """The epochs in the checkpoint of a copy. RemoteStorageError if it is none."""
    try:
        version, count, *lines = checkpoint.decode().splitlines()
        epochs = [(int(epoch), int(start)) for epoch, start in (line.split() for line in lines)]
        if int(version) == 0 and int(count) == len(epochs) and epochs == sorted(set(epochs)):
            return epochs
    except ValueError:
        pass
    raise RemoteStorageError(f"a damaged leader epoch checkpoint in the tier: {checkpoint!r:.100}")


def producers_of(segment: RemoteLogSegmentMetadata, snapshot: bytes) -> bytes:
    """The producers at the end of a copy, for the log behind it. RemoteStorageError if the
    snapshot is none.

    Of a lost cluster only those with an open transaction stay, whose outcome is unknown. The ids of
    all are given again in this cluster, to producers that begin anew: sequences are forgotten.
    """
    if segment.broker_id != IMPORTED:
        return snapshot
    try:
        producers = decode_snapshot(snapshot)
    except CorruptSnapshot as error:
        raise RemoteStorageError(f"a damaged producer snapshot in the tier: {error}") from error
    are_open = [one for one in producers if one.current_txn_first_offset >= 0]
    for one in are_open:
        one.batches.clear()
    return encode_snapshot(are_open)


def data_of(log: Log, candidate: Candidate) -> LogSegmentData:
    """The files of a copy. KafkaError without the snapshot of the producers at the segment's end:
    that of many producers is written a little later than the segment is rolled."""
    segment, next_offset = candidate
    files, directory, base = log.files, log.directory, segment.base_offset
    snapshot = index_path(directory, next_offset, SNAPSHOT_SUFFIX)
    if not files.exists(snapshot):
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR, f"{snapshot} is not written yet; it is part of a copy"
        )
    transactions = index_path(directory, base, TRANSACTION_INDEX_SUFFIX)
    epochs = in_range(log.leader_epochs.entries, -1, next_offset)
    return LogSegmentData(
        index_path(directory, base, LOG_SUFFIX),
        index_path(directory, base, INDEX_SUFFIX),
        index_path(directory, base, TIME_INDEX_SUFFIX),
        transactions if files.exists(transactions) else None,
        snapshot,
        "".join(
            ["0\n", f"{len(epochs)}\n", *(f"{epoch} {start}\n" for epoch, start in epochs)]
        ).encode(),
    )
