"""The segments of one partition directory: rolling, reading, flushing, cutting, renaming.

`LocalLog` knows the files and how much of them is on disk. `Log` above knows the offsets that count
(log start, high watermark, log end), their producers and their leader epochs.

Invariants: base offsets of segments grow, and there is always an active one; everything below
`recovery_point` is on disk. An I/O error takes the whole log directory offline (`health`): from
then on every operation of its logs is KAFKA_STORAGE_ERROR. All of it belongs to one thread, save
`sync` and `mark_flushed`: a flush blocks and may run in a worker beside appends.

The begin and the end of a truncation both make the flushes under way void: the bytes that a flush
has synced may have been replaced meanwhile. A truncation below a recovery point that the checkpoint
shows is refused (`CutNotNoted`) until a flush has noted it on disk: it would have to wait for that.

Mirrors: LocalLog; its logEndOffset is in `Log`, beside the offsets that it bounds.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, NoReturn

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.invariants import BrokenInvariant
from ..protocol.topics import TopicPartition
from . import log_lookup, recovery_notes
from .descriptors import OutOfDescriptors, require_descriptors
from .directory_health import DirectoryHealth, UnreadableSegment
from .files import EMPTY_SLICE, OF_ONE_FILE, Files, FileSlice, is_out_of_descriptors
from .log_config import LogConfig
from .offset_index import index_path
from .recovery import LogParts
from .roll_pace import RollPace
from .segment import CLEANED_SUFFIX, SWAP_SUFFIX, Segment
from .segment_reader import FILE_SUFFIXES
from .transaction_index import AbortedTransaction

logger: Final = logging.getLogger("pybroker.storage.local_log")

NOT_CUT: Final = 2**63 - 1
READING: Final = "reading"

# (base offset of a segment, position in it): in the order of the log.
Place = tuple[int, int]


class FlushFirst(KafkaError):
    """A change of the log is refused until its next flush has forced something to disk."""


class CutNotNoted(FlushFirst):
    """A truncation is refused until the next flush of the log, which notes it."""

    def __init__(self, name: str, offset: int) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{name} is cut at {offset} once that is noted on disk; it can be tried again",
        )


class EpochsNotOnDisk(FlushFirst):
    """A restart behind the remote tier is refused until the next flush, which forces its leader
    epochs to disk."""

    def __init__(self, name: str, offset: int) -> None:
        super().__init__(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"{name} restarts at {offset} once its epochs are on disk; it can be tried again",
        )


class LogRead(NamedTuple):
    """The result of a read; the bytes are still in the file."""

    start_offset: int
    records: FileSlice
    first_batch_incomplete: bool = False
    aborted_transactions: list[AbortedTransaction] | None = None


class LocalLog:
    __slots__ = (
        "_closed_segments",
        "_deleted_files",
        "_flushed",
        "_has_unreadable_file",
        "_is_home_unsynced",
        "_is_unsynced",
        "_jitter",
        "_lowest_cuts",
        "_noted_cut",
        "_place",
        "_recovery_floor",
        "_truncated",
        "config",
        "directory",
        "files",
        "flush_due_offset",
        "health",
        "is_closed",
        "key",
        "name",
        "roll_pace",
        "segments",
        "truncations",
        "wanted_cut",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        key: TopicPartition,
        config: LogConfig,
        parts: LogParts,
        health: DirectoryHealth,
        jitter: Callable[[int], int] | None,
    ) -> None:
        self.files = files
        self.directory = directory  # renamed when the log is deleted or moved
        self.key = key
        self.name = f"{key[0]}-{key[1]}"
        self.config = config
        self.health = health
        self.segments = parts.segments
        self.is_closed = False  # for good; the segments' files may be gone
        self._jitter = jitter
        self.roll_pace = RollPace()
        self._has_unreadable_file = False  # and that was logged
        # Renamed to `.deleted`, to be removed after file.delete.delay.ms.
        self._deleted_files: list[str] = []

        # Begun or ended so far, two for each.
        self.truncations = 0
        # (truncations before it, offset) of the last flush, which a worker thread writes.
        self._flushed = (0, parts.recovery_point)
        # On disk regardless of flushes; at most the offset of the last truncation.
        self._recovery_floor = parts.recovery_point
        # Below it are segments that were rolled; flushes take the recovery point there.
        self.flush_due_offset = parts.recovery_point
        # Rolled, their indexes not forced to disk yet; a flush takes them from here.
        self._closed_segments: list[Segment] = []
        for segment in parts.segments:
            segment.watch(health.fail)

        # Whether names may not be on disk: of files in the directory, and that of the directory.
        # An earlier process may have left them so.
        self._is_unsynced = True
        self._is_home_unsynced = True
        # The last place in the active segment: offset, truncations before it, segment, position.
        self._place = (-1, 0, 0, 0)

        # The lowest cut to note by the next flush; NOT_CUT: there is none.
        self.wanted_cut = NOT_CUT
        # (low, high) of the note on disk as this process wrote it; recovery points in between are
        # not believed.
        self._noted_cut = (NOT_CUT, 0)
        # Since the last call: whether there was a truncation; the lowest offset cut, by watcher.
        self._truncated = False
        self._lowest_cuts: dict[str, int] = {}

    # Reading

    def read(
        self,
        offset: int,
        max_bytes: int,
        upper_bound_offset: int,
        end_offset: int,
        min_one_batch: bool,
        include_aborted: bool,
    ) -> LogRead:
        """Batches from the one that holds `offset` on, below `upper_bound_offset`; the log ends
        at `end_offset`."""
        aborted: list[AbortedTransaction] | None = [] if include_aborted else None
        segments = self.segments
        try:
            segment = segments.floor(offset)
            while segment is not None:
                limit = (
                    segment.size
                    if upper_bound_offset >= end_offset
                    else self._readable_end(segment, upper_bound_offset)
                )
                found = segment.read(offset, max_bytes, limit, min_one_batch=min_one_batch)
                if found is not None:
                    if include_aborted:
                        aborted = log_lookup.aborted_transactions(
                            segments, segment, offset, found, end_offset
                        )
                    incomplete = (
                        not min_one_batch
                        and found.size >= max_bytes
                        and segment.first_batch_is_cut(found)
                    )
                    return LogRead(offset, found, incomplete, aborted)
                segment = segments.after(segment)
        except OSError as error:
            self.fail(READING, error)
        return LogRead(offset, EMPTY_SLICE, False, aborted)

    def place_of(self, offset: int) -> Place:
        """Like `Log.place_of`, for an offset below the log end."""
        segment = self.segments.floor(offset)
        assert segment is not None
        return self._place_in(segment, offset)

    def place_behind(self, offset: int) -> Place:
        """Like `Log.place_behind`."""
        segments = self.segments
        segment = segments.floor(offset - 1)
        if segment is None:
            return segments.first.base_offset, 0
        following = segments.after(segment)
        if following is not None and offset >= following.base_offset:
            return segment.base_offset, segment.size
        return self._place_in(segment, offset)

    def _place_in(self, segment: Segment, offset: int) -> Place:
        kept = self._place  # many ask for the same one
        if kept[0] == offset and kept[1] == self.truncations and kept[2] == segment.base_offset:
            return kept[2], kept[3]
        try:
            position = segment.position_of(offset)
        except OSError as error:
            self.fail(READING, error)
        if position is None:
            position = segment.size
        if segment.is_active:  # others may be cleaned
            self._place = offset, self.truncations, segment.base_offset, position
        return segment.base_offset, position

    def _readable_end(self, segment: Segment, upper_bound_offset: int) -> int:
        """The position in `segment` at which the upper bound lies."""
        if not segment.is_active:
            following = self.segments.after(segment)
            if following is not None and upper_bound_offset >= following.base_offset:
                return segment.size
        position = segment.position_of(upper_bound_offset)
        return segment.size if position is None else position

    # Writing

    def roll(self, base_offset: int, now_ms: int) -> Segment:
        """Begin a new segment at the log end."""
        require_descriptors(self.files, f"beginning a segment of {self.name}")
        active = self.segments.active
        bound_ms = self.config.segment_jitter_ms
        jitter_ms = self._jitter(bound_ms) if self._jitter and bound_ms else 0
        try:
            if active.base_offset == base_offset:
                if active.size:
                    raise BrokenInvariant(f"{self.name}: {active} holds data, and is to begin anew")
                self.remove(active)
            else:
                active.become_inactive()
                self._closed_segments.append(active)
            segment = self._create(base_offset, now_ms, jitter_ms)
        except OSError as error:
            self.fail("rolling", error)
        self.flush_due_offset = base_offset
        return segment

    def _create(self, base_offset: int, now_ms: int, jitter_ms: int = 0) -> Segment:
        segment = Segment(
            self.files,
            self.directory,
            base_offset,
            self.config,
            now_ms=now_ms,
            jitter_ms=jitter_ms,
            create=True,
        )
        segment.watch(self.health.fail)
        self.segments.add(segment)
        self._is_unsynced = True
        return segment

    def append_failed(self, segment: Segment, size_before: int, error: OSError) -> NoReturn:
        """Cut off the remains of a failed write, so that no torn batch stays; then go offline."""
        try:
            segment.undo_append(size_before)
        except OSError as undo_error:
            error.add_note(f"cutting off the partial write failed too: {undo_error}")
        self.fail("appending", error)

    def append_broke(self, error: Exception) -> NoReturn:
        """Handle an unexpected failure after an append had begun: the data file, the offsets and
        the producers may disagree. The directory goes offline, as for a failing disk; its recovery
        rebuilds all of them from the data."""
        if not isinstance(error, OSError):
            logger.error("An append to %s broke off", self.name, exc_info=error)
            error = OSError(f"an append broke off: {error!r}")
        self.fail("appending", error)

    def set_config(self, config: LogConfig) -> None:
        self.config = config
        for segment in self.segments:
            segment.index_interval_bytes = config.index_interval_bytes

    # Flushing

    @property
    def recovery_point(self) -> int:
        """Everything below is on disk. A flush that met a truncation does not count."""
        truncations, offset = self._flushed
        floor = self._recovery_floor
        return max(offset, floor) if truncations == self.truncations else floor

    @property
    def has_rolled_unflushed(self) -> bool:
        """Whether a rolled segment waits to be flushed, or the indexes of one."""
        return self.flush_due_offset > self.recovery_point or bool(self._closed_segments)

    @property
    def has_closed_segments(self) -> bool:
        """Whether there are rolled segments that no flush has taken since."""
        return bool(self._closed_segments)

    def sync(self, start: int, target: int) -> None:
        """Force the offsets from `start` to `target` to disk. Blocks; any thread may call."""
        segments = self.segments.covering(start, target)
        for segment in segments:
            segment.sync()
        # A flush before it was rolled left the indexes of the then active segment out.
        while self._closed_segments:
            segment = self._closed_segments.pop()
            try:
                segment.sync()
            except OSError:
                self._closed_segments.append(segment)
                raise
        self.sync_names()

    def note_new_file(self) -> None:
        """Note that there may be a new file; the next flush forces its name to disk."""
        self._is_unsynced = True

    def sync_names(self) -> None:
        """Force created, renamed and removed names to disk: a segment that was cut off must not
        come back, either. Blocks.

        (Kafka syncs the directory when a new segment is flushed.)
        """
        if self._is_unsynced:
            self._is_unsynced = False
            try:
                self.files.sync_directory(self.directory)
            except OSError:
                self._is_unsynced = True
                raise
        if self._is_home_unsynced:
            self._is_home_unsynced = False
            try:
                self.files.sync_directory(self.health.path)
            except OSError:
                self._is_home_unsynced = True
                raise

    def mark_flushed(self, truncations: int, offset: int) -> None:
        """Note that everything below `offset` is on disk, unless there were more than `truncations`
        since."""
        before, flushed = self._flushed
        self._flushed = truncations, max(flushed, offset) if before == truncations else offset

    def took_over(self, flushed: int) -> None:
        """Note that this log has replaced another one, which was on disk up to `flushed`. Its new
        name is not on disk yet, so no higher recovery point is valid before the next flush."""
        self._recovery_floor = min(self.recovery_point, flushed)
        self.truncations += 2  # flushes under way are void

    # Cutting

    def require_note(self, offset: int) -> None:
        """Raises CutNotNoted, before anything has been changed, unless the log may be cut there."""
        shown = max(self.health.recovery_points_on_disk(self.key))
        low, high = self._noted_cut
        if offset < shown and not low <= offset < shown <= high:
            self.wanted_cut = min(self.wanted_cut, offset)
            raise CutNotNoted(self.name, offset)

    def note_wanted_cut(self) -> None:
        """Note the cut that was refused. Blocks; any thread may call, one at a time."""
        wanted = self.wanted_cut
        if wanted == NOT_CUT:
            return
        shown = self.health.recovery_points_on_disk(self.key)
        noted = recovery_notes.note_cut(self.files, self.directory, wanted, shown)
        if noted is not None:
            self._noted_cut = noted
        if self.wanted_cut == wanted:
            self.wanted_cut = NOT_CUT

    def begin_truncation(self, offset: int) -> None:
        """Prepare to replace the log from `offset` on; flushes under way and checkpoints of the
        recovery point become void."""
        self.require_note(offset)
        self._recovery_floor = min(self.recovery_point, offset)
        self.truncations += 1
        self._truncated = True
        for watcher, lowest in self._lowest_cuts.items():
            self._lowest_cuts[watcher] = min(lowest, offset)
        self.flush_due_offset = min(self.flush_due_offset, offset)

    def end_truncation(self) -> None:
        """The log has its new end; a flush that saw the old one is void too."""
        self.truncations += 1

    def end_below(self, offset: int) -> int:
        """The end offset of the last batch that lies wholly below `offset`."""
        holder = self.segments.floor(offset)
        assert holder is not None
        return holder.end_below(offset)

    def truncate_to(self, offset: int) -> None:
        """Within a truncation: drop everything from `offset` on, the end of a batch."""
        for segment in self.segments.from_base(offset + 1):
            self.remove(segment)
        self.segments.active.truncate_to(offset, self.config)

    def restart_at(self, offset: int, now_ms: int) -> None:
        """Within a truncation: drop everything and restart the log at `offset`."""
        for segment in self.segments:
            self.remove(segment)
        self._create(offset, now_ms)

    def take_truncated(self) -> bool:
        """Whether the log was truncated since the last call: its checkpoints must be written."""
        truncated, self._truncated = self._truncated, False
        return truncated

    def watch_cuts(self, watcher: str) -> int:
        """Start, or restart, noting truncations; returns the previous `lowest_cut`."""
        lowest = self._lowest_cuts.get(watcher, NOT_CUT)
        self._lowest_cuts[watcher] = NOT_CUT
        return lowest

    def lowest_cut(self, watcher: str) -> int:
        """The lowest offset of a truncation since `watch_cuts`."""
        return self._lowest_cuts[watcher]

    # Segments that go

    def remove(self, segment: Segment) -> None:
        """Take a segment out of the log; its files go after file.delete.delay.ms."""
        self.segments.remove(segment)
        self._deleted_files += segment.mark_deleted()
        self._is_unsynced = True

    def replace_segments(self, base_offset: int, sources: Sequence[Segment], now_ms: int) -> None:
        """Put the segment that lies ready in `.cleaned` files into the place of `sources`.

        In the order of Kafka: after a crash between two renames, a load drops the new segment while
        some of its files are `.cleaned`, and completes the swap from then on.
        """
        self._rename_files(base_offset, CLEANED_SUFFIX, SWAP_SUFFIX)
        for source in sources:
            self._deleted_files += source.mark_deleted()
        self._rename_files(base_offset, SWAP_SUFFIX, "")
        cleaned = Segment(self.files, self.directory, base_offset, self.config, now_ms=now_ms)
        cleaned.watch(self.health.fail)
        self.segments.replace(sources, cleaned)
        self._is_unsynced = True

    def _rename_files(self, base_offset: int, old_suffix: str, new_suffix: str) -> None:
        """Rename those of a segment's four files that exist."""
        for suffix in FILE_SUFFIXES:
            path = index_path(self.directory, base_offset, suffix)
            if self.files.exists(path + old_suffix):
                self.files.rename(path + old_suffix, path + new_suffix)

    def take_deleted_files(self) -> list[str]:
        """The files taken out of the log since the last call, to be deleted later."""
        deleted, self._deleted_files = self._deleted_files, []
        return deleted

    # Life cycle

    def close(self) -> None:
        """Trim all files; the caller flushed before."""
        for segment in self.segments:
            segment.close()
        self.is_closed = True

    def release(self) -> None:
        """Release the files of an offline or deleted log."""
        self.is_closed = True
        for segment in self.segments:
            segment.release()

    def rename(self, name: str) -> None:
        target = os.path.join(os.path.dirname(self.directory), name)
        try:
            self.files.rename(self.directory, target)
        except OSError as error:
            self.fail("renaming", error)
        self.directory = target

    def move(self, name: str) -> None:
        """Give the directory another name and go on in it; no flush may be under way."""
        self.rename(name)
        self._is_home_unsynced = True
        for segment in self.segments:
            segment.moved_to(self.directory)

    # Failures

    def fail(self, doing: str, error: OSError) -> NoReturn:
        """Take the directory offline, unless only descriptors are wanting; raises KafkaError."""
        failure: KafkaError
        if is_out_of_descriptors(error):
            failure = OutOfDescriptors(f"{doing} to {self.name}")
        elif doing == READING and error.errno in OF_ONE_FILE:
            failure = UnreadableSegment(f"{error}, a segment of {self.name}")
            if not self._has_unreadable_file:
                logger.error("%s; the rest of the partition is served", failure.message)
                self._has_unreadable_file = True
        else:
            self.health.fail(error)
            failure = KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"Error while {doing} to {self.name} in dir {self.health.path}: {error}",
            )
        failure.__cause__ = error  # which `from` does not set where this is compiled
        raise failure

    def offline_error(self) -> KafkaError:
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"The log for partition {self.name} in dir {self.health.path} is offline",
        )
