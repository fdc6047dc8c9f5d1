"""Looking up in one segment of a log: by offset, by timestamp, and reading batches.

`SegmentReader` is the part of a segment that changes nothing on disk: its data file, opened when it
is needed, and the look-ups through its indexes. `segment.Segment` adds appends and everything else
that changes the files.

The active segment has its data file open. The data file of any other segment is opened for a read,
and released when others need its descriptor (`storage.kept_open`). Another thread may release it,
so each method reads the field once. An answer on its way to a client holds its file open; if there
is no descriptor for that, it holds a copy, no longer than necessary.

Invariants: a look-up inside of a batch returns the whole batch; an index entry counts only if the
data confirms it. `recent` remembers where the last appended batches begin, so that tailing readers
need neither the index nor a scan.

Mirrors: the reading methods of LogSegment.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ..protocol.errors import KafkaError
from ..protocol.records.batch import NO_TIMESTAMP, BatchHeader, iter_records
from ..protocol.records.layout import HEADER_SIZE
from .batch_scan import (
    SCAN_CHUNK,
    LookUp,
    Readable,
    batch_size_at,
    batch_size_in,
    find_in,
    scan_headers,
)
from .files import EMPTY_SLICE, CopiedRange, DataFile, Files, FileSlice
from .kept_open import dispose
from .log_config import LogConfig
from .offset_index import OffsetIndex, index_path
from .time_index import TimeIndex
from .transaction_index import TransactionIndex

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
FILE_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

logger: Final = logging.getLogger("pybroker.storage.segment")

# Reads of up to so much are found and read at once, beginning at an index entry. These lie
# index.interval.bytes apart, 4096 as a rule, and the batch at one of them may be as large again.
SMALL_READ_BYTES: Final = 8 * 1024
_READ_AHEAD_BYTES: Final = 6 * 1024


class BatchToSearch(NamedTuple):
    """A batch that is to be searched for the first message at or after a time; or no bytes, in
    which there is none."""

    data: bytes
    timestamp: int
    starting_offset: int
    leader_epoch: int

    def search(self) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch). Slow if the batch is large."""
        if not self.data:
            return None
        for record in iter_records(self.data):
            if record.timestamp >= self.timestamp and record.offset >= self.starting_offset:
                return record.timestamp, record.offset, self.leader_epoch
        return None


class SegmentReader:
    __slots__ = (
        "_file",
        "_file_suffix",
        "_files",
        "_has_damaged_index",
        "_max_offset",
        "_max_timestamp",
        "_on_broken",
        "_recent",
        "base_offset",
        "directory",
        "is_active",
        "is_listed",
        "offset_index",
        "size",
        "time_index",
        "transaction_index",
        "was_used",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        create: bool,
        file_suffix: str,
    ) -> None:
        self._files = files
        self._file_suffix = file_suffix
        self.directory = directory
        self.base_offset = base_offset
        if create:
            for suffix in FILE_SUFFIXES:
                files.remove(self._path(suffix))
        # The last one of its log: its indexes have their full size, its file is open.
        self.is_active = False
        # Always set while the segment is active; None: not open.
        self._file: DataFile | None = None
        self._on_broken: Callable[[OSError], None] | None = None
        self.is_listed = False  # these two are of `storage.kept_open`
        self.was_used = False
        # Bytes: where the next batch goes. The file may be longer, but not shorter.
        self.size = 0
        if create:
            self._file = files.open(self.path, create=True)
            self.is_active = True
        else:
            self.size = files.size(self.path)
        index_bytes = config.segment_index_bytes
        self.offset_index = OffsetIndex(files, self._path(INDEX_SUFFIX), base_offset, index_bytes)
        self.time_index = TimeIndex(files, self._path(TIME_INDEX_SUFFIX), base_offset, index_bytes)
        self.transaction_index = TransactionIndex(files, self._path(TRANSACTION_INDEX_SUFFIX))
        # The largest one, and the last offset of its batch; None: not read since the load or a cut.
        self._max_timestamp: int | None = NO_TIMESTAMP if create else None
        self._max_offset = base_offset
        # Positions by first offset, of appends of this process; of an inactive segment: none.
        self._recent: dict[int, int] = {}
        self._has_damaged_index = False

    # The data file

    @property
    def log_file(self) -> DataFile:
        """The data file. It stays open while it is referenced; OSError if it cannot be opened."""
        file = self._file
        if file is None:
            file = self._files.open(self.path)
            file.on_broken = self._on_broken
            if self.is_active or self._files.keep_open(self, file):
                self._set_file(file)
        self.was_used = True
        return file

    def watch(self, on_broken: Callable[[OSError], None]) -> None:
        """Have `on_broken` called when a read of the data file fails since the disk is broken."""
        self._on_broken = on_broken
        if self._file is not None:
            self._file.on_broken = on_broken

    def _set_file(self, file: DataFile | None) -> None:
        before, self._file = self._file, file
        dispose(before)

    def release_file(self) -> None:
        """Release the data file, which is opened again when it is needed; callable from any
        thread."""
        if not self.is_active:
            self._set_file(None)

    @property
    def path(self) -> str:
        """Of the data file."""
        return self._path(LOG_SUFFIX)

    def _path(self, suffix: str) -> str:
        return index_path(self.directory, self.base_offset, suffix) + self._file_suffix

    # Offsets

    def position_of(self, offset: int) -> int | None:
        """The position of the batch that holds `offset`, or of the next batch after it."""
        position = self._recent.get(offset)
        return self._find(offset, LookUp(self.log_file)) if position is None else position

    def _find(self, offset: int, file: Readable) -> int | None:
        """`position_of` for offsets that are not recent."""
        start = self._start_below(offset, file)
        for position, header in scan_headers(file, start, self.size):
            if header.last_offset >= offset:
                return position
        return None

    def _start_below(self, offset: int, file: Readable | None = None) -> int:
        """The position of a batch at or before `offset`, from the nearest index entry that the data
        confirms.

        Kafka trusts its indexes, and skips records if a digit in one is wrong.
        """
        for entry_offset, position in self.offset_index.entries_below(offset):
            if entry_offset <= offset and self._is_confirmed(entry_offset, position, file):
                return position
        return 0

    def _is_confirmed(self, offset: int, position: int, file: Readable | None = None) -> bool:
        """Whether the batch at the position of an index entry can be the batch that the entry
        means."""
        header = self._header_at(position, file)
        if header is not None and self.base_offset <= header.base_offset <= offset:
            return True
        self._distrust(self.offset_index.path)
        return False

    def _header_at(self, position: int, file: Readable | None = None) -> BatchHeader | None:
        if not 0 <= position < self.size:
            return None
        try:
            return next(scan_headers(file or self.log_file, position, self.size), (0, None))[1]
        except KafkaError:
            return None

    def _distrust(self, path: str) -> None:
        if not self._has_damaged_index:
            logger.warning("%s is damaged: reading without it; it is rebuilt after a stop", path)
            self._has_damaged_index = True

    def read(
        self, offset: int, max_bytes: int, max_position: int, *, min_one_batch: bool
    ) -> FileSlice | None:
        """The bytes from the batch of `offset` on; None if that lies behind this segment."""
        data = self.log_file
        file: Readable = data
        start = self._recent.get(offset)
        if max_bytes <= SMALL_READ_BYTES:
            found = self._read_small(data, offset, start, max_bytes, max_position, min_one_batch)
            if found is not None:
                return self._held(found)
        if start is None:
            file = LookUp(data)
            start = self._find(offset, file)
            if start is None:
                return None
        available = max_position - start
        if available <= 0:
            return EMPTY_SLICE
        size = available
        if max_bytes < available:
            size = max_bytes
            if min_one_batch:
                size = min(available, max(size, batch_size_at(file, start)))
            if size <= 0:
                return EMPTY_SLICE
        if self._file is None and size > SMALL_READ_BYTES:
            first = batch_size_at(file, start)
            if first > SMALL_READ_BYTES and not min_one_batch:
                return EMPTY_SLICE
            size = min(size, max(first, SMALL_READ_BYTES))
        return self._held(FileSlice(data, start, size))

    def _held(self, found: FileSlice) -> FileSlice:
        """A slice of the data file, or a copy if the file cannot be kept open for it."""
        if self._file is not None or not found.size:
            return found
        copied = found.read()
        file = CopiedRange(found.file.path, copied, found.position)
        return FileSlice(file, found.position, len(copied), copied)

    def _read_small(
        self,
        data: DataFile,
        offset: int,
        start: int | None,
        max_bytes: int,
        max_position: int,
        min_one_batch: bool,
    ) -> FileSlice | None:
        """Like `read`, but with one system call; None if one is not enough.

        `start` is the position of the batch, if it is known.
        """
        if start is None:
            begin, highest, ahead = 0, offset, _READ_AHEAD_BYTES
            for entry_offset, position in self.offset_index.entries_below(offset):
                begin, highest = position, entry_offset
                break
        else:
            begin, highest, ahead = start, offset, 0
        if max_bytes < HEADER_SIZE or not 0 <= begin < self.size:
            return None
        chunk = data.read_at(min(max_bytes + ahead, self.size - begin), begin)
        relative = find_in(chunk, offset, self.base_offset, highest)
        if relative < 0:
            return None
        begin += relative
        batch_size = batch_size_in(chunk, relative)
        if begin + batch_size > self.size:
            return None
        available = max_position - begin
        if available <= 0:
            return EMPTY_SLICE
        size = available
        if max_bytes < available:
            size = max_bytes
            if min_one_batch:
                size = min(available, max(size, batch_size))
        held = chunk[relative : relative + size]
        return FileSlice(data, begin, size, held if len(held) == size else b"")

    def first_batch_is_cut(self, found: FileSlice) -> bool:
        """Whether a slice ends inside of its first batch."""
        return bool(found.size) and batch_size_at(self.log_file, found.position) > found.size

    def next_offset(self) -> int:
        """The offset after the last message."""
        return self.end()[0]

    def end(self) -> tuple[int, int]:
        """The offset after the last message, and the position after it, by scanning from the last
        index entry. The position is that of the file's end unless the file is damaged."""
        end = self._start_below(self.offset_index.last_offset)
        result = self.base_offset
        for position, header in scan_headers(self.log_file, end, self.size, SCAN_CHUNK):
            if header.base_offset < result:
                break
            result = header.next_offset
            end = position + header.size_in_bytes
        return result, end

    def end_below(self, offset: int) -> int:
        """The end offset of the last batch that lies wholly below `offset`."""
        start = self._start_below(offset - 1)
        result = self.base_offset
        for _, header in scan_headers(self.log_file, start, self.size):
            if header.last_offset >= offset:
                break
            result = header.next_offset
        return result

    def batches_at_or_after(self, timestamp: int, starting_offset: int) -> Iterator[BatchToSearch]:
        """The batches from `starting_offset` on that may hold a message late enough."""
        file = self.log_file
        offset = self._offset_before(timestamp)
        start = self._start_below(max(offset, starting_offset))
        for position, header in scan_headers(file, start, self.size, SCAN_CHUNK):
            if header.max_timestamp >= timestamp and header.last_offset >= starting_offset:
                batch = file.read_at(header.size_in_bytes, position)
                yield BatchToSearch(
                    batch, timestamp, starting_offset, header.partition_leader_epoch
                )

    def _offset_before(self, timestamp: int) -> int:
        """An offset up to which no message is later than `timestamp`: that of the nearest entry of
        the time index which the data confirms."""
        for entry_timestamp, offset in self.time_index.entries_below(timestamp):
            if entry_timestamp <= timestamp and self._is_time_confirmed(entry_timestamp, offset):
                return offset
        return self.base_offset

    def _is_time_confirmed(self, timestamp: int, offset: int) -> bool:
        """Whether the batch of an entry's offset has its timestamp as the largest one."""
        position = self.position_of(offset)
        header = None if position is None else self._header_at(position)
        return header is not None and header.max_timestamp == timestamp

    def latest_batches(self) -> Iterator[BatchToSearch]:
        """The batches that may hold a message with the largest timestamp."""
        target = self.max_timestamp
        if target < 0:
            return
        file = self.log_file
        start = self._start_below(self._max_offset)
        for position, header in scan_headers(file, start, self.size, SCAN_CHUNK):
            if header.max_timestamp == target:
                batch = file.read_at(header.size_in_bytes, position)
                yield BatchToSearch(batch, target, 0, header.partition_leader_epoch)

    def upper_bound_offset(self, position: int) -> int | None:
        """The first indexed offset at or behind a position, if the index knows one."""
        entry = self.offset_index.first_at_or_after(position)
        return entry[0] if entry is not None and self._is_confirmed(*entry) else None

    # Timestamps

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp so far (-1: none), from the time index after a load."""
        if self._max_timestamp is None:
            self._reload_max_timestamp()
        assert self._max_timestamp is not None
        return self._max_timestamp

    @property
    def offset_of_max_timestamp(self) -> int:
        _ = self.max_timestamp
        return self._max_offset

    @property
    def modified_ms(self) -> int:
        return self._files.modified_ms(self.path)

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp, or the file's time if no message has one."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms

    def _reload_max_timestamp(self) -> None:
        """Read the largest timestamp: batches behind the last index entry need not be in the time
        index.

        No segment may be deleted as too old because of a damaged entry: then all batches are read.
        """
        best, best_offset = self.time_index.last_timestamp, self.time_index.last_offset
        start = self._start_below(self.offset_index.last_offset)
        if self.time_index.entries and not self._is_time_confirmed(best, best_offset):
            best, best_offset, start = NO_TIMESTAMP, self.base_offset, 0
        with contextlib.suppress(KafkaError):  # nothing is known behind damaged data
            for _, header in scan_headers(self.log_file, start, self.size, SCAN_CHUNK):
                if header.max_timestamp > best:
                    best, best_offset = header.max_timestamp, header.last_offset
        self._max_timestamp, self._max_offset = best, best_offset
