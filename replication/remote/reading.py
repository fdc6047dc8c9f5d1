"""Where an offset lies in the remote tier, and reading from the segment that holds it.

`segment_at` decides on the loop. The other functions read a remote segment as a file
(`RemoteSegmentFile`), so that the walks over batches are those of local segments. They block, and
run in worker threads; only where all bytes are in memory already they run on the loop
(`NotInMemory`).

Records are not copied on their way from the store to the socket, as far as one range that was read
has them: a slice of it is sent. It keeps the whole range in memory until then.

Mirrors: RemoteLogManager.read, lookupTimestamp, findOffsetByTimestamp.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from ...protocol.primitives import Buffer
from ...protocol.records.batch import iter_batch_headers
from ...storage.batch_scan import SCAN_CHUNK, batch_size_at, scan_headers
from ...storage.files import CopiedRange, FileSlice
from ...storage.log import Log
from ...storage.log_lookup import TimestampOffset
from ...storage.producer_snapshot import CorruptSnapshot, decode_snapshot
from ...storage.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from ...storage.remote.storage_manager import (
    IndexType,
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RemoteStorageManager,
)
from ...storage.segment_reader import BatchToSearch
from .copying import KnownSegments
from .lineage import is_of_this_log, with_records

NONE_IS_OPEN: Final = 2**63 - 1
# Records up to so many bytes are copied, to keep nothing else in memory.
COPIED_BYTES: Final = 32 * 1024
# Where a read goes on behind a piece, at most so many bytes are joined, but for a larger batch:
# more would hold the loop.
JOINED_BYTES: Final = 1024 * 1024


class FindsSegments(KnownSegments, Protocol):
    def segment(
        self, partition: TopicIdPartition, epoch: int, offset: int
    ) -> RemoteLogSegmentMetadata | None: ...


def segment_at(
    log: Log, partition: TopicIdPartition, known: FindsSegments, offset: int
) -> RemoteLogSegmentMetadata | None:
    """The remote segment that holds an offset of the log."""
    epoch = log.leader_epochs.epoch_for_offset(offset)
    return None if epoch is None else known.segment(partition, epoch, offset)


def segment_behind(
    log: Log, partition: TopicIdPartition, known: KnownSegments, offset: int
) -> RemoteLogSegmentMetadata | None:
    """The next remote segment of the log, if none holds `offset`.

    A leader that was deposed may have deleted records while this leader does not know of it: they
    are a hole in its log, which consumers pass as they pass one of a compacted log. (Kafka answers
    OFFSET_OUT_OF_RANGE; a consumer that then begins with the first record never passes.)
    """
    epochs = with_records(log.leader_epochs.entries)
    first = log.leader_epochs.epoch_for_offset(offset)
    for epoch, _ in epochs:
        if first is None or epoch < first:
            continue
        segments = known.segments(partition, epoch)
        behind = bisect_right(segments, offset, key=_start_offset)
        for metadata in segments[behind:]:
            is_finished = metadata.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
            if is_finished and is_of_this_log(metadata, log.log_end_offset, epochs):
                return metadata
    return None


def _start_offset(metadata: RemoteLogSegmentMetadata) -> int:
    return metadata.start_offset


def end_of_valid(log: Log, metadata: RemoteLogSegmentMetadata, offset: int) -> int | None:
    """Where the segment's records from `offset` on cease to be those of the log; None: they do not.

    A leader that was deposed uncleanly has copied records that were never committed, behind those
    of the same epoch that were. (Kafka reads on into them.)
    """
    epochs = with_records(log.leader_epochs.entries)
    epoch = log.leader_epochs.epoch_for_offset(offset)
    if epoch is None or is_of_this_log(metadata, log.log_end_offset, epochs):
        return None
    return log.end_offset_for_epoch(epoch)[1]


def segment_by_time(
    log: Log, partition: TopicIdPartition, known: KnownSegments, timestamp: int, start_offset: int
) -> RemoteLogSegmentMetadata | None:
    """The first remote segment of the log that has a record at or after both."""
    entries = log.leader_epochs.entries
    epochs = with_records(entries)
    first = log.leader_epochs.epoch_for_offset(start_offset)
    for epoch, _ in entries:
        if first is None or epoch < first:
            continue
        for metadata in known.segments(partition, epoch):
            if (
                metadata.max_timestamp_ms >= timestamp
                and metadata.end_offset >= start_offset
                and metadata.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
                and is_of_this_log(metadata, log.log_end_offset, epochs)
            ):
                return metadata
    return None


def first_open_offset(store: RemoteStorageManager, metadata: RemoteLogSegmentMetadata) -> int:
    """The first offset of the transactions that are open at the end of a segment, as the snapshot
    of its producers has them; NONE_IS_OPEN, and 0 if that cannot be read. Blocks."""
    try:
        snapshot = bytes(store.fetch_index(metadata, IndexType.PRODUCER_SNAPSHOT))
        producers = decode_snapshot(snapshot)
    except (CorruptSnapshot, RemoteResourceNotFoundError):
        return 0
    starts = (one.current_txn_first_offset for one in producers)
    return min((start for start in starts if start >= 0), default=NONE_IS_OPEN)


class Ahead(NamedTuple):
    """Bytes of a segment that are being read ahead of its reader, or are in memory already."""

    start: int
    end: int
    wait: Callable[[], Buffer]  # blocks until they are there; raises what their read has raised
    data: Buffer | None = None  # those that are in memory


class NotInMemory(Exception):
    """A read that must not block would have to: for bytes that are on their way, or for the store
    (None)."""

    def __init__(self, ahead: Ahead | None) -> None:
        super().__init__(ahead)
        self.ahead = ahead


@lru_cache(maxsize=1024)
def _path_of(segment_id: RemoteLogSegmentId) -> str:
    return f"remote segment {segment_id}"


class RemoteSegmentFile:
    """A remote segment with the methods of a file that walks over batches need; they block. Bytes
    that are read `ahead` come from there, all others from the store: unless it is for reads
    `in_memory` alone, which raise NotInMemory instead of blocking."""

    __slots__ = ("_ahead", "_in_memory", "_metadata", "_store", "bytes_read", "path")

    def __init__(
        self,
        store: RemoteStorageManager,
        metadata: RemoteLogSegmentMetadata,
        ahead: Sequence[Ahead] = (),
        *,
        in_memory: bool = False,
    ) -> None:
        self._store = store
        self._metadata = metadata
        self._ahead = ahead
        self._in_memory = in_memory
        self.path = _path_of(metadata.segment_id)
        self.bytes_read = 0  # from the store

    def end_ahead(self, position: int) -> int:
        """Where the bytes end that are read ahead in one piece with those at a position; 0 if these
        are not."""
        return max((one.end for one in self._ahead if one.start <= position < one.end), default=0)

    def read_at(self, size: int, position: int) -> bytes:
        return bytes(self.read(size, position))

    def read(self, size: int, position: int) -> Buffer:
        """Like `read_at`; bytes that are in memory in one piece are not copied."""
        end = min(position + size, self._metadata.segment_size_bytes)
        parts: list[Buffer] = []
        while position < end:
            found = next((one for one in self._ahead if one.start <= position < one.end), None)
            if found is not None:
                until = min(end, found.end)
                parts.append(self._of(found)[position - found.start : until - found.start])
            else:
                if self._in_memory:
                    raise NotInMemory(None)
                starts = (one.start for one in self._ahead if position < one.start < end)
                until = min(starts, default=end)
                parts.append(self.read_range(position, until))
                self.bytes_read += until - position
            position = until
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _of(self, ahead: Ahead) -> memoryview:
        if ahead.data is not None:
            return memoryview(ahead.data)
        if self._in_memory:
            raise NotInMemory(ahead)
        return memoryview(ahead.wait())

    def read_range(self, start: int, end: int) -> Buffer:
        """From the store, as it gives them."""
        data = self._store.fetch_log_segment(self._metadata, start, end)
        if len(data) != end - start:  # against its contract
            raise RemoteStorageError(
                f"{self.path} was read from {start} to {start + len(data)}, not to {end}"
            )
        return data


class ReadRange(NamedTuple):
    """Bytes of a remote segment, from the beginning of a batch on; the last one may be cut."""

    records: FileSlice
    first_offset: int  # of the first batch


def read_batches(
    file: RemoteSegmentFile,
    size: int,
    position: int,
    offset: int,
    max_bytes: int,
    *,
    min_one_batch: bool,
    strict_limit: bool,
    end_offset: int | None = None,
) -> ReadRange | None:
    """Read from the batch that holds `offset`, or the next one, on; the segment has `size` bytes,
    and the batch is at `position` or behind it. None if the segment has nothing more below
    `end_offset`, or no batch fits. Less than `max_bytes` where that spares a copy. Blocks, or
    raises NotInMemory."""
    within = _Window(file, max(max_bytes, SCAN_CHUNK))
    batches = scan_headers(within, position, size)
    found = next((one for one in batches if one[1].last_offset >= offset), None)
    if found is None:
        return None
    start, header = found
    batch_size = batch_size_at(within, start)
    if batch_size > max_bytes and not min_one_batch and not strict_limit:
        return None
    wanted = max(max_bytes, batch_size if min_one_batch else 0)
    end = min(start + wanted, size)
    least = max(batch_size, min(wanted, JOINED_BYTES) // 2)
    held = within.take(start, end, min(start + least, end))
    if end_offset is not None:
        held = _below(held, end_offset)
        if not held:
            return None
    if len(held) <= COPIED_BYTES:
        held = bytes(held)
    records = FileSlice(CopiedRange(file.path, held, start), start, len(held), held)
    return ReadRange(records, header.base_offset)


def _below(held: Buffer, end_offset: int) -> Buffer:
    """The whole batches that end below an offset."""
    end = 0
    for position, header in iter_batch_headers(held):
        if header.last_offset >= end_offset:
            break
        end = position + header.size_in_bytes
    return held[:end]


class _Window:
    """A part of the segment at a time, at least so large, since the store takes a while for each.
    Of bytes that are read ahead a small part is enough for the headers."""

    __slots__ = ("_chunk", "_file", "_least", "_start", "path")

    def __init__(self, file: RemoteSegmentFile, least_bytes: int) -> None:
        self.path = file.path
        self._file = file
        self._least = least_bytes
        self._chunk: Buffer = b""
        self._start = 0

    def read_at(self, size: int, position: int) -> bytes:
        begin = position - self._start
        if begin < 0 or begin + size > len(self._chunk):
            end_ahead = self._file.end_ahead(position)
            least = end_ahead - position if end_ahead else self._least
            self._chunk = self._file.read(max(size, least), position)
            self._start, begin = position, 0
        return bytes(self._chunk[begin : begin + size])

    def take(self, start: int, end: int, least_end: int) -> Buffer:
        """The bytes from `start`, in the part which was read last, to `end`; or to the end of what
        is in one piece, if that is not before `least_end`; or some joined bytes."""
        held = self._chunk[start - self._start : end - self._start]
        if start + len(held) >= least_end:
            return held
        end = min(end, max(least_end, start + JOINED_BYTES))
        return b"".join((held, self._file.read(end - start - len(held), start + len(held))))


def search_by_time(
    file: RemoteSegmentFile, size: int, position: int, timestamp: int, start_offset: int
) -> TimestampOffset | None:
    """The first record at or after both, from a position on. Blocks."""
    for at, header in scan_headers(file, position, size, SCAN_CHUNK):
        if header.max_timestamp < timestamp or header.last_offset < start_offset:
            continue
        data = file.read_at(batch_size_at(file, at), at)
        epoch = header.partition_leader_epoch
        found = BatchToSearch(data, timestamp, start_offset, epoch).search()
        if found is not None:
            return TimestampOffset(*found)
    return None
