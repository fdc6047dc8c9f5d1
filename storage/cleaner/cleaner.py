"""Clean one log: map the keys of its dirty part, then copy its segments without obsolete records.

Two passes over files that do not change: closed segments below the first unstable offset. The first
reads the dirty part into the offset map until its end or until the map is full; the second reads
all segments up to there, group by group, and writes each group as one `.cleaned` segment, synced to
disk. Putting that into the log is the caller's business (`swap`).

`pace` is called with the bytes read or written after each chunk: it may wait (the throttle), and
ends the cleaning by raising `CleaningAborted`.

Mirrors: Cleaner in LogCleaner.scala.
Leaves out: splitting segments whose offsets overflow (written by Kafka before 2.0).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.primitives import Buffer
from ...protocol.records.batch import BatchHeader, crc_is_valid, iter_records, records_block
from ...protocol.records.compression import MAX_DECOMPRESSED_BYTES
from ...protocol.records.loops.keys import scan_keys
from ...protocol.records.record import check_block
from ..batch_scan import scan_batches
from ..files import DataFile, Files
from ..log_config import LogConfig
from ..offset_index import OffsetIndex, index_path
from ..recovery_notes import note_gaps
from ..segment import CLEANED_SUFFIX, MAX_RELATIVE_OFFSET, Segment
from ..segment_reader import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from ..time_index import TimeIndex
from ..transaction_index import AbortedTransaction, TransactionIndex
from .batches import BatchFilter, Kept, emptied
from .offset_map import OffsetMap
from .plan import CleanedGroup, CleaningPlan, CleaningStats, SourceSegment
from .transactions import CleanedTransactions

Pace = Callable[[int], None]
_SYNC_BYTES = 32 << 20
# A swap renames the files of all sources in one go on the broker's loop, about 0.1 ms for each.
# Kafka has no such bound; here the next pass brings the rest together.
MAX_SOURCES = 64


class CleaningAborted(Exception):
    """The log was truncated or deleted, or the cleaner stops; nothing is wrong."""


def remove_leftovers(files: Files, directory: str) -> None:
    """Remove the files that an unfinished cleaning has left.

    A `.cleaned` file would make the next load take a finished swap behind it for an aborted one.
    """
    for name in files.list_directory(directory):
        if name.endswith(CLEANED_SUFFIX):
            files.remove(os.path.join(directory, name))


class Cleaner:
    __slots__ = (
        "_aborted",
        "_config",
        "_files",
        "_filter",
        "_map",
        "_pace",
        "_plan",
        "_producers",
        "_transactions",
        "stats",
    )

    def __init__(self, files: Files, plan: CleaningPlan, pace: Pace) -> None:
        self._files = files
        self._plan = plan
        self._pace = pace
        self._map = OffsetMap(plan.buffer_bytes, plan.load_factor)
        self._config = LogConfig.from_overrides(
            {
                "segment.bytes": str(plan.segment_bytes),
                "segment.index.bytes": str(plan.segment_index_bytes),
                "index.interval.bytes": str(plan.index_interval_bytes),
            },
            {},
        )
        self._filter = BatchFilter(self._map, plan.wall_ms, plan.delete_retention_ms)
        self._transactions = CleanedTransactions()
        self._producers = {entry.producer_id: entry for piece in plan.producers for entry in piece}
        self._aborted: list[tuple[int, list[AbortedTransaction]]] | None = None
        self.stats = CleaningStats()

    # First pass

    def build_map(self) -> int:
        """Read the dirty part; returns the end offset of this cleaning."""
        plan = self._plan
        remove_leftovers(self._files, plan.directory)
        transactions = CleanedTransactions()
        transactions.add_aborted(self._aborted_between(plan.first_dirty_offset, plan.end_offset))
        dirty = self._dirty_segments()
        for number, (base, size, _) in enumerate(dirty):
            if not self._map_segment(base, size, transactions):
                break
            following = dirty[number + 1][0] if number + 1 < len(dirty) else plan.end_offset
            self._map.latest_offset = following - 1
        self.stats.buffer_utilization = self._map.utilization
        return self._map.latest_offset + 1

    def _dirty_segments(self) -> list[SourceSegment]:
        first = self._plan.first_dirty_offset
        segments = self._plan.segments
        below = [number for number, segment in enumerate(segments) if segment[0] <= first]
        return segments[below[-1] if below else 0 :]

    def _map_segment(self, base: int, size: int, transactions: CleanedTransactions) -> bool:
        """False if the map became full."""
        start = self._plan.first_dirty_offset
        path = index_path(self._plan.directory, base, INDEX_SUFFIX)
        index = OffsetIndex(self._files, path, base, self._plan.segment_index_bytes)
        _, position = index.look_up(start)
        index.release()
        file = self._open_log_file(base)
        unpaced = 0
        for _, header, batch in scan_batches(file, position, size):
            unpaced += len(batch)
            if unpaced >= self._plan.io_buffer_bytes:
                self._pace(unpaced)
                unpaced = 0
            if header.is_control:
                transactions.on_control_batch(header, batch)
            elif not transactions.on_data_batch(header):
                _check_crc(batch, header, file)
                if not self._map_batch(batch, header, start):
                    return False
            if header.last_offset >= start:
                self._map.latest_offset = header.last_offset
        self._pace(unpaced)
        return True

    def _map_batch(self, batch: Buffer, header: BatchHeader, start: int) -> bool:
        if header.magic >= 2:
            if not header.record_count:
                return True
            block = records_block(batch, 0, header, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES)
            check_block(header.record_count, len(block), header.base_offset)
            keys, offsets = scan_keys(block, header.record_count, header.base_offset)
        else:
            keyed = [(r.key, r.offset) for r in iter_records(batch) if r.key is not None]
            keys, offsets = [key for key, _ in keyed], [offset for _, offset in keyed]
        if offsets and offsets[0] < start:
            skipped = sum(offset < start for offset in offsets)
            keys, offsets = keys[skipped:], offsets[skipped:]
        return self._map.put_all(keys, offsets)

    def _aborted_between(self, start: int, upper_bound: int) -> list[AbortedTransaction]:
        """Aborted transactions that overlap a range, from the indexes of all segments."""
        if self._aborted is None:
            self._aborted = self._read_transaction_indexes()
        found: list[AbortedTransaction] = []
        for number, (_, entries) in enumerate(self._aborted):
            if number + 1 < len(self._aborted) and self._aborted[number + 1][0] <= start:
                continue
            for entry in entries:
                if entry.last_offset >= start and entry.first_offset < upper_bound:
                    found.append(entry)
                if entry.last_stable_offset >= upper_bound:
                    return found
        return found

    def _read_transaction_indexes(self) -> list[tuple[int, list[AbortedTransaction]]]:
        bases = [base for base, _, _ in self._plan.segments] + self._plan.later_bases
        indexes = []
        for base in bases:
            path = index_path(self._plan.directory, base, TRANSACTION_INDEX_SUFFIX)
            indexes.append((base, TransactionIndex(self._files, path).entries))
        return indexes

    # Second pass

    def groups(self, end_offset: int) -> list[list[SourceSegment]]:
        """Neighbours that fit into one segment, by data, indexes and offsets."""
        plan = self._plan
        segments = [segment for segment in plan.segments if segment[0] < end_offset]
        grouped: list[list[SourceSegment]] = []
        data = offset_index = time_index = 0
        for number, segment in enumerate(segments):
            base, size, _ = segment
            offset_bytes = self._index_size(base, INDEX_SUFFIX, OffsetIndex.ENTRY_SIZE)
            time_bytes = self._index_size(base, TIME_INDEX_SUFFIX, TimeIndex.ENTRY_SIZE)
            last = number + 1 == len(segments)
            end = plan.end_offset if last else segments[number + 1][0]
            if (
                grouped
                and len(grouped[-1]) < MAX_SOURCES
                and data + size <= plan.segment_bytes
                and offset_index + offset_bytes <= plan.segment_index_bytes
                and time_index + time_bytes <= plan.segment_index_bytes
                and (size == 0 or end - 1 - grouped[-1][0][0] <= MAX_RELATIVE_OFFSET)
            ):
                grouped[-1].append(segment)
            else:
                grouped.append([segment])
                data = offset_index = time_index = 0
            data += size
            offset_index += offset_bytes
            time_index += time_bytes
        return grouped

    def _index_size(self, base: int, suffix: str, entry_size: int) -> int:
        path = index_path(self._plan.directory, base, suffix)
        size = self._files.size(path) if self._files.exists(path) else 0
        return size - size % entry_size

    def clean_groups(self, end_offset: int) -> Iterator[CleanedGroup]:
        """Write the new segments one after the other; each is complete when it is yielded."""
        clean_below = [s for s in self._plan.segments if s[0] < self._plan.first_dirty_offset]
        legacy_horizon_ms = 0
        if clean_below:
            legacy_horizon_ms = clean_below[-1][2] - self._plan.delete_retention_ms
        plan = self._plan
        borders = [base for base, _, _ in plan.segments if base >= end_offset]
        note_gaps(self._files, plan.directory, min([*borders, plan.end_offset]))
        for group in self.groups(end_offset):
            yield self._clean_group(group, legacy_horizon_ms)

    def _clean_group(self, group: list[SourceSegment], legacy_horizon_ms: int) -> CleanedGroup:
        base = group[0][0]
        directory = self._plan.directory
        target = Segment(
            self._files,
            directory,
            base,
            self._config,
            now_ms=self._plan.wall_ms,
            create=True,
            file_suffix=CLEANED_SUFFIX,
        )
        self._transactions.index = target.transaction_index
        writer = _Writer(target, self._plan.io_buffer_bytes, self._pace)
        for number, (source, size, modified_ms) in enumerate(group):
            end = group[number + 1][0] if number + 1 < len(group) else self._end_of(source, size)
            self._transactions.add_aborted(self._aborted_between(source, end))
            self._filter.keep_legacy_tombstones = modified_ms > legacy_horizon_ms
            self._clean_segment(source, size, writer)
        writer.flush()
        self._pace(0)
        target.become_inactive()
        target.sync()
        path = target.path
        self._files.set_modified_ms(path, group[-1][2])
        self._files.sync_directory(directory)
        self.stats.bytes_written += target.size
        return CleanedGroup(base, [source for source, _, _ in group], target.size)

    def _end_of(self, base: int, size: int) -> int:
        segment = Segment(
            self._files, self._plan.directory, base, self._config, now_ms=self._plan.wall_ms
        )
        segment.size = size
        end = segment.next_offset()
        segment.release()
        return end

    def _clean_segment(self, base: int, size: int, writer: _Writer) -> None:
        file = self._open_log_file(base)
        stats = self.stats
        unpaced = 0
        for _, header, batch in scan_batches(file, 0, size):
            unpaced += len(batch)
            if unpaced >= self._plan.io_buffer_bytes:
                self._pace(unpaced)
                unpaced = 0
            _check_crc(batch, header, file)
            kept = self._clean_batch(batch, header)
            stats.messages_read += kept.read
            stats.messages_written += kept.kept
            stats.invalid_messages += kept.invalid
            if kept.batch is not None:
                writer.add(kept.batch, kept.header)
        stats.bytes_read += size
        self._pace(unpaced)

    def _clean_batch(self, batch: Buffer, header: BatchHeader) -> Kept:
        if header.is_control:
            removable = self._transactions.on_control_batch(header, batch)
            discard = removable and (
                header.record_count == 0 or self._filter.is_past_horizon(header)
            )
            keep_empty = self._is_last_of_producer(header)
            if discard:
                return emptied(header, keep_empty=keep_empty)
            return self._filter.keep_marker(batch, header, removable=removable)
        discard = self._transactions.on_data_batch(header)
        keep_empty = header.has_producer_id and self._is_last_of_producer(header)
        if discard:
            return emptied(header, keep_empty=keep_empty)
        return self._filter.keep_data(batch, header, keep_empty=keep_empty)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether this batch carries the last sequence, or epoch, of an active producer."""
        last = self._producers.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _open_log_file(self, base: int) -> DataFile:
        return self._files.open(index_path(self._plan.directory, base, LOG_SUFFIX))


class _Writer:
    """Gathers batches and appends them to a segment many at a time."""

    __slots__ = ("_batches", "_data", "_limit", "_pace", "_segment", "_unsynced")

    def __init__(self, segment: Segment, limit: int, pace: Pace) -> None:
        self._segment = segment
        self._limit = limit
        self._pace = pace
        self._data = bytearray()
        self._batches: list[tuple[int, BatchHeader]] = []
        self._unsynced = 0

    def add(self, batch: Buffer, header: BatchHeader) -> None:
        self._batches.append((len(self._data), header))
        self._data += batch
        if len(self._data) >= self._limit:
            self.flush()

    def flush(self) -> None:
        size = len(self._data)
        if not size:
            return
        self._segment.append_all(self._data, self._batches)
        self._data = bytearray()
        self._batches = []
        self._unsynced += size
        if self._unsynced >= _SYNC_BYTES:
            # Little by little: one large flush at the end would stall the broker's own writes.
            self._segment.log_file.sync()
            self._unsynced = 0
        self._pace(size)


def _check_crc(batch: Buffer, header: BatchHeader, file: DataFile) -> None:
    """A damaged batch must not get a new, right CRC. Apache Kafka's cleaner does not look."""
    if not crc_is_valid(batch, 0, header):
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"The batch at offset {header.base_offset} in {file.path} has a wrong CRC",
        )
