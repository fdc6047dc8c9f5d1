"""One segment of a log: a data file and its three indexes.

Look-ups and reads are in `segment_reader`; here are the changes: appends, cuts, the end of a
segment's life.

Invariants: `size` is the end of the last complete append, regardless of bytes behind it in the
file; offsets of a segment differ from its base by less than 2^31.

Mirrors: LogSegment.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from ..protocol.primitives import Buffer
from ..protocol.records.batch import NO_TIMESTAMP, BatchHeader
from .files import Files, is_out_of_descriptors
from .log_config import LogConfig
from .roll_pace import RollPace
from .segment_reader import (
    FILE_SUFFIXES,
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    SegmentReader,
)
from .transaction_index import AbortedTransaction

SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"

MAX_RELATIVE_OFFSET: Final = 2**31 - 1
_RECENT_LIMIT: Final = 128


class Segment(SegmentReader):
    __slots__ = (
        "_bytes_since_index_entry",
        "_indexes_full",
        "_is_cut",
        "_rolling_timestamp",
        "created_ms",
        "index_interval_bytes",
        "is_deleted",
        "jitter_ms",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        now_ms: int,
        jitter_ms: int = 0,
        create: bool = False,
        file_suffix: str = "",
    ) -> None:
        super().__init__(
            files, directory, base_offset, config, create=create, file_suffix=file_suffix
        )
        # index.interval.bytes of its topic, which `LocalLog.set_config` keeps up.
        self.index_interval_bytes = config.index_interval_bytes
        # By the monotonic clock; of a segment that was loaded, the time of loading.
        self.created_ms = now_ms
        # How much earlier than segment.ms it is rolled, at most segment.jitter.ms; never changes.
        self.jitter_ms = jitter_ms
        # The segment was taken out of its log, and its files have `.deleted` names; final.
        self.is_deleted = False
        # Appended since the last entry of the offset index.
        self._bytes_since_index_entry = 0
        # The largest one of the first batch; None: not read yet, or there is no batch.
        self._rolling_timestamp: int | None = None
        # An index has no room for another entry: the next append rolls.
        self._indexes_full = False
        self._is_cut = False  # and that was not forced to disk yet
        if create:
            if config.preallocate:
                self.log_file.truncate(config.segment_bytes)
            self.become_active(config)

    def moved_to(self, directory: str) -> None:
        """The partition's directory has another name; open files are open as before."""
        self.directory = directory
        self._name_files()

    def _name_files(self) -> None:
        self.offset_index.path = self._path(INDEX_SUFFIX)
        self.time_index.path = self._path(TIME_INDEX_SUFFIX)
        self.transaction_index.path = self._path(TRANSACTION_INDEX_SUFFIX)

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size={self.size})"

    # Appending

    def append(self, data: Buffer, first_offset: int, last_offset: int, max_timestamp: int) -> None:
        """Write one batch; on an error nothing of it counts."""
        position = self.size
        self.log_file.write_at(data, position)
        size = len(data)
        self.size = position + size
        self._note_batch(position, size, first_offset, last_offset, max_timestamp)

    def append_all(self, data: Buffer, batches: list[tuple[int, BatchHeader]]) -> None:
        """Write several batches at once, (position in data, header) each; index each of them."""
        start = self.size
        self.log_file.write_at(data, start)
        self.size = start + len(data)
        for relative, header in batches:
            self.index_batch(start + relative, header)

    def _note_batch(
        self,
        position: int,
        size: int,
        first_offset: int,
        last_offset: int,
        timestamp: int,
    ) -> None:
        """Keep the indexes, the largest timestamp and `recent` up with a batch."""
        maximum = self._max_timestamp
        if maximum is None:
            maximum = self.max_timestamp
        if timestamp > maximum:
            self._max_timestamp = timestamp
            self._max_offset = last_offset
        since_entry = self._bytes_since_index_entry
        is_due = since_entry > self.index_interval_bytes
        if is_due and self._add_index_entries(last_offset, position):
            since_entry = 0
        self._bytes_since_index_entry = since_entry + size
        recent = self._recent
        recent[first_offset] = position
        if len(recent) > 2 * _RECENT_LIMIT:
            self._forget_older_half()

    def _forget_older_half(self) -> None:
        """Drop half of `recent`: cheaper than dropping the oldest entry at each append."""
        self._recent = dict(islice(self._recent.items(), _RECENT_LIMIT, None))

    def _add_index_entries(self, last_offset: int, position: int) -> bool:
        """False: not now; they are not needed for each batch."""
        try:
            if not self.offset_index.is_full:
                self.offset_index.append(last_offset, position)
                self.time_index.maybe_append(self.max_timestamp, self._max_offset)
                self._indexes_full = self.offset_index.is_full or self.time_index.is_full
        except OSError as error:
            if not is_out_of_descriptors(error):
                raise
            return False
        return True

    def undo_append(self, size: int) -> None:
        """Cut off the remains of a failed write behind `size`; may fail itself."""
        self.log_file.truncate(size)
        self.size = size

    def append_aborted_transaction(self, entry: AbortedTransaction) -> None:
        self.transaction_index.append(entry)

    # Conditions for rolling

    def should_roll(
        self,
        config: LogConfig,
        incoming_size: int,
        max_timestamp: int,
        last_offset: int,
        now_ms: int,
        pace: RollPace,
    ) -> bool:
        """Full, out of relative offsets, or old: by its messages' timestamps, or by the clock
        if they have none; as often as `pace` allows."""
        size = self.size
        if size > config.segment_bytes - incoming_size and size:
            return True
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        if self._indexes_full:
            return True
        if not size:
            return False
        first = self._rolling_timestamp
        if first is None:
            first = self.first_batch_timestamp
        waited_ms = max_timestamp - first if first >= 0 else now_ms - self.created_ms
        if waited_ms <= config.max_segment_ms - self.jitter_ms:
            return False
        return pace.allows(size, now_ms)

    @property
    def first_batch_timestamp(self) -> int:
        """Of the first batch its largest timestamp, or -1; for a segment that is not empty."""
        if self._rolling_timestamp is None:
            header = self._header_at(0)
            self._rolling_timestamp = NO_TIMESTAMP if header is None else header.max_timestamp
        return self._rolling_timestamp

    # Shrinking, closing

    def truncate_to(self, offset: int, config: LogConfig) -> int:
        """Drop the batch that holds `offset` and all behind it; returns the bytes dropped."""
        position = self.position_of(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self.become_active(config)
        dropped = 0
        if position is not None:
            dropped = self.size - position
            self.cut_to(position)
        self._max_timestamp = None
        self._reload_max_timestamp()
        return dropped

    def cut_to(self, size: int) -> None:
        """Cut the data file; indexes are the caller's business."""
        self._is_cut = True
        self.log_file.truncate(size)
        self.size = size
        self._recent.clear()
        self._bytes_since_index_entry = 0
        if size == 0:
            self._rolling_timestamp = None

    def become_active(self, config: LogConfig) -> None:
        """Grow the indexes to their full size, and keep the data file open."""
        if not self.is_active:
            self.is_active = True
            self._set_file(None)  # `KeptOpen` must not count the active segment's file
            self._set_file(self.log_file)
        self.offset_index.open_for_append(config.segment_index_bytes)
        self.time_index.open_for_append(config.segment_index_bytes)
        self._indexes_full = self.offset_index.is_full or self.time_index.is_full

    def become_inactive(self) -> None:
        """Close the time index with the largest timestamp and trim all files."""
        self.time_index.maybe_append(self.max_timestamp, self._max_offset, closing=True)
        self.offset_index.trim()
        self.time_index.trim()
        file = self.log_file
        file.truncate(self.size)
        self._recent.clear()
        self.is_active = False
        if not self._files.keep_open(self, file):
            self._set_file(None)

    def close(self) -> None:
        """Trim the files and force to disk the parts not synced while the segment was active.
        Blocks."""
        if self.is_active:
            self.become_inactive()
            if self._is_cut:
                self.sync_data()
            self.offset_index.sync()
            self.time_index.sync()
        self.transaction_index.sync()  # a truncation is followed by no flush
        self.transaction_index.release()
        if self._has_damaged_index:
            self.offset_index.remove()  # the next load rebuilds it

    def release(self) -> None:
        """Release all files without touching them."""
        self.is_active = False
        self._set_file(None)
        self.offset_index.release()
        self.time_index.release()
        self.transaction_index.release()

    def sync(self) -> None:
        """Force to disk; while the segment is active its indexes are left out, since recovery
        rebuilds them. Blocks; safe beside appends."""
        try:
            self.sync_data()
            self.transaction_index.sync()
        except FileNotFoundError:
            if self.is_deleted:
                return
            raise
        if not self.is_active:
            self.offset_index.sync()
            self.time_index.sync()

    def note_unforced_cut(self) -> None:
        """An earlier process may have cut the data file, and not forced that to disk."""
        self._is_cut = True

    def sync_data(self) -> None:
        """Force the data file to disk. Blocks."""
        self._is_cut = False
        try:
            self.log_file.sync()
        except OSError:
            self._is_cut = True
            raise

    # Rebuilding

    def reset_indexes(self, config: LogConfig) -> None:
        self.offset_index.reset(config.segment_index_bytes)
        self.time_index.reset(config.segment_index_bytes)
        self.transaction_index.reset()
        self._max_timestamp, self._max_offset = NO_TIMESTAMP, self.base_offset
        self._bytes_since_index_entry = 0
        self._recent.clear()
        self._has_damaged_index = False

    def index_batch(self, position: int, header: BatchHeader) -> None:
        """Index a batch that is in the file."""
        self._note_batch(
            position,
            header.size_in_bytes,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
        )

    def finish_recovery(self, valid_bytes: int) -> int:
        """Cut off the bytes behind the last valid batch; returns their number."""
        cut = self.size - valid_bytes
        if cut:
            recent = dict(self._recent)
            self.cut_to(valid_bytes)
            self._recent = recent
        self.offset_index.trim()
        self.time_index.maybe_append(self.max_timestamp, self._max_offset, closing=True)
        self.time_index.trim()
        return cut

    def index_problem(self, *, thorough: bool = False) -> str | None:
        """Why the indexes cannot be trusted, None if they can."""
        if not self._files.exists(self.offset_index.path):
            return f"{self.offset_index.path} is missing"
        if self.size and not self._files.exists(self.time_index.path):
            return f"{self.time_index.path} is missing"
        grows = not thorough or self.offset_index.grows(self.size)
        if not grows or not self.offset_index.is_sane():
            return f"{self.offset_index.path} is damaged"
        grows = not thorough or self.time_index.grows()
        if not grows or not self.time_index.is_sane():
            return f"{self.time_index.path} is damaged"
        if not self.transaction_index.is_sane(self.base_offset):
            return f"{self.transaction_index.path} is damaged"
        return None

    # Deleting

    def file_names(self) -> list[str]:
        """The files of this segment that exist."""
        names = []
        for suffix in FILE_SUFFIXES:
            path = self._path(suffix)
            if self._files.exists(path):
                names.append(path)
        return names

    def mark_deleted(self) -> list[str]:
        """Rename the files to `.deleted`; readers that have them open, or still come, read on."""
        paths = self.file_names()
        self.is_deleted = True
        self.release()
        for path in paths:
            self._files.rename(path, path + DELETED_SUFFIX)
        self._file_suffix += DELETED_SUFFIX
        self._name_files()
        return [path + DELETED_SUFFIX for path in paths]
