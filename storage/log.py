"""One partition's log: appending, rolling, flushing, reading, truncating.

Invariants: base offsets of segments grow; offsets of appends are contiguous on a leader and grow
on a follower. All methods belong to one thread, save `flush`, which blocks and may run in a worker
beside appends.

Mirrors: UnifiedLog, LocalLog.
Leaves out: tiered storage. Retention and compaction are in `retention` and `cleaner`.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.records.batch import BatchHeader
from . import log_lookup, recovery_notes
from .append_info import (
    AppendInfo,
    AppendOrigin,
    InvalidRecords,
    RecordError,
    UnexpectedAppendOffset,
)
from .append_rules import MAGIC_V2
from .descriptors import LEFT_BY_SEGMENTS, require_descriptors
from .files import EMPTY_SLICE, ByteBuffer, FileSlice
from .follower_batches import Batches, fitting_groups, read_follower_batches
from .log_base import DirectoryHealth, LogState
from .old_format_log import append_old_format
from .producer_state import BatchMetadata
from .recovery import rebuild_producer_state
from .segment import MAX_RELATIVE_OFFSET, Segment
from .transaction_index import AbortedTransaction
from .validation import Sent, validate
from .verification import VerificationGuard

__all__ = [
    "AppendInfo",
    "AppendOrigin",
    "DirectoryHealth",
    "InvalidRecords",
    "Log",
    "LogRead",
    "RecordError",
    "UnexpectedAppendOffset",
]


class LogRead(NamedTuple):
    """What a read found; the bytes are still in the file."""

    start_offset: int
    records: FileSlice
    first_batch_incomplete: bool = False
    aborted_transactions: list[AbortedTransaction] | None = None


class Log(LogState):
    __slots__ = ()

    # -- appending -------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: Sent,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        request_version: int | None = None,
        guard: VerificationGuard | None = None,
    ) -> AppendInfo:
        """Check one batch (or an old message set), assign its offsets and append it.

        With a `guard`, a batch that begins a transaction must be verified by it (KIP-890).
        """
        if self.health.error is not None or self.is_closed:
            raise self._offline()
        next_offset = self.log_end_offset
        config = self.config
        if config.record_version < MAGIC_V2:
            return append_old_format(self, records, leader_epoch, now_ms, origin, request_version)
        valid = validate(
            records,
            config,
            next_offset,
            leader_epoch,
            now_ms,
            origin,
            request_version,
            self.name,
            self.validate_fully,
        )
        if valid is None:
            return AppendInfo(-1, -1, -1, -1, -1, self.log_start_offset, 0, 0)
        records, header, converted = valid
        last_offset = next_offset + header.last_offset_delta
        state = self.producer_state
        if header.producer_id >= 0:
            if header.is_control:  # an abort may need a file for the transaction index
                require_descriptors(self.files, f"ending a transaction in {self.name}")
            duplicate = state.check(header, records, origin, self.name, guard)
            if duplicate is not None:
                return self._duplicate(duplicate, len(records))
        size = len(records)
        if size > config.segment_bytes:
            raise self.larger_than_segment(size)
        epochs = self.leader_epochs
        if leader_epoch != epochs.latest_epoch:
            self.assign_epoch_start(leader_epoch, next_offset)
        max_timestamp = header.max_timestamp
        segment = self.segments.active
        rolled = segment.should_roll(config, size, max_timestamp, last_offset, now_ms)
        if rolled:
            segment = self.roll(now_ms, next_offset)
        before = segment.size
        try:
            segment.append(records, next_offset, last_offset, max_timestamp)
        except OSError as error:
            self._append_failed(segment, before, error)
        self.log_end_offset = last_offset + 1
        if header.producer_id >= 0:
            self._apply_producer(segment, header, next_offset, records)
        state.map_end_offset = last_offset + 1
        appended_at = now_ms if config.log_append_time else -1
        start = self.log_start_offset
        info = AppendInfo(
            next_offset, last_offset, max_timestamp, last_offset, appended_at, start, size
        )
        info.rolled = rolled
        info.converted_count = converted
        if config.flushes_itself:
            self.note_unflushed(info, now_ms)
        return info

    def append_as_follower(self, records: ByteBuffer, *, now_ms: int) -> AppendInfo:
        """Append what the leader sent, with its offsets and epochs."""
        if self.health.error is not None or self.is_closed:
            raise self._offline()
        batches = read_follower_batches(records, self.log_end_offset, self.name)
        if not batches:
            return AppendInfo(-1, -1, -1, -1, -1, self.log_start_offset, 0, 0)
        rolled = False
        data = memoryview(records)
        for group in fitting_groups(batches, self.config.segment_bytes):
            start = group[0][0]
            end = group[-1][0] + group[-1][1].size_in_bytes
            if start:
                group = [(position - start, header) for position, header in group]
            rolled |= self.append_group(data[start:end], group, now_ms)
        size = batches[-1][0] + batches[-1][1].size_in_bytes
        info = self.info_of(batches, batches[0][1].base_offset, size)
        info.rolled = rolled
        if self.config.flushes_itself:
            self.note_unflushed(info, now_ms)
        return info

    def info_of(self, batches: Batches, first_offset: int, size: int) -> AppendInfo:
        """Of batches that have just been appended."""
        best = max(batches, key=_max_timestamp)[1]
        return AppendInfo(
            first_offset,
            self.log_end_offset - 1,
            best.max_timestamp,
            best.last_offset,
            -1,
            self.log_start_offset,
            size,
            len(batches),
        )

    def append_group(self, data: memoryview, batches: Batches, now_ms: int) -> bool:
        """Append batches that go into one segment; whether that is a new one."""
        for _, header in batches:
            if header.producer_id >= 0 and header.is_control:
                require_descriptors(self.files, f"ending a transaction in {self.name}")
            if header.magic >= 2:
                self.assign_epoch_start(header.partition_leader_epoch, header.base_offset)
            else:
                self.leader_epochs.clear()
        last_offset = batches[-1][1].last_offset
        max_timestamp = max(batches, key=_max_timestamp)[1].max_timestamp
        segment = self.segments.active
        rolled = segment.should_roll(self.config, len(data), max_timestamp, last_offset, now_ms)
        if rolled:
            # A gap is put inside of the segment, where it fits: segments follow one another.
            fits = last_offset - self.log_end_offset <= MAX_RELATIVE_OFFSET
            base = self.log_end_offset if fits else batches[0][1].base_offset
            segment = self.roll(now_ms, base)
        before = segment.size
        try:
            segment.append_all(data, batches)
        except OSError as error:
            self._append_failed(segment, before, error)
        self.log_end_offset = last_offset + 1
        for position, header in batches:
            if header.producer_id >= 0:
                batch = data[position : position + header.size_in_bytes]
                self._apply_producer(segment, header, header.base_offset, batch)
        self.producer_state.map_end_offset = last_offset + 1
        return rolled

    def _apply_producer(
        self, segment: Segment, header: BatchHeader, base_offset: int, batch: ByteBuffer
    ) -> None:
        aborted = self.producer_state.apply(header, base_offset, batch, header.max_timestamp)
        if aborted is not None:
            try:
                segment.append_aborted_transaction(aborted)
            except OSError as error:
                self._fail("writing the transaction index", error)

    def _duplicate(self, batch: BatchMetadata, size: int) -> AppendInfo:
        return AppendInfo(
            batch.first_offset,
            batch.last_offset,
            batch.timestamp,
            batch.last_offset,
            batch.timestamp,
            self.log_start_offset,
            size,
            duplicate=True,
        )

    def note_unflushed(self, info: AppendInfo, now_ms: int) -> None:
        config = self.config
        recovery_point = self.recovery_point
        if self._oldest_unflushed[0] < recovery_point:
            self._oldest_unflushed = info.first_offset, now_ms
        if (
            self.log_end_offset - recovery_point >= config.flush_messages
            or now_ms - self._oldest_unflushed[1] >= config.flush_ms
        ):
            info.flush_needed = True

    def flush_is_due(self, now_ms: int) -> bool:
        """flush.ms has passed since the oldest unflushed append, or a rolled segment waits."""
        recovery_point = self.recovery_point
        if self.flush_due_offset > recovery_point or self._closed_segments:
            return True
        offset, since_ms = self._oldest_unflushed
        return offset >= recovery_point and now_ms - since_ms >= self.config.flush_ms

    # -- rolling and flushing --------------------------------------------------------------

    def roll(self, now_ms: int, expected_next_offset: int = 0) -> Segment:
        """Begin a new segment at the log end."""
        doing = f"beginning a segment of {self.name}"
        require_descriptors(self.files, doing, leaving=LEFT_BY_SEGMENTS)
        base = max(expected_next_offset, self.log_end_offset)
        active = self.segments.active
        bound_ms = self.config.segment_jitter_ms
        jitter_ms = self._jitter(bound_ms) if self._jitter and bound_ms else 0
        try:
            if active.base_offset == base:
                assert active.size == 0, "a segment with this base offset holds data"
                self.segments.remove(active)
                self.doomed_files += active.mark_deleted()
            else:
                if self._is_gaps_note_unsynced:
                    recovery_notes.sync_gaps(self.files, self.directory)
                    self._is_gaps_note_unsynced = False
                active.become_inactive()
                self._closed_segments.append(active)
            segment = Segment(
                self.files,
                self.directory,
                base,
                self.config,
                now_ms=now_ms,
                jitter_ms=jitter_ms,
                create=True,
            )
            self.segments.add(segment)
            self.producer_state.map_end_offset = base
            self.snapshots.take(self.producer_state)
        except OSError as error:
            self._fail("rolling", error)
        self.flush_due_offset = base
        return segment

    def flush(self, up_to_offset: int | None = None) -> None:
        """Force everything below an offset (the log end) to disk. Blocks; any thread may call."""
        truncations = self._truncations
        target = self.log_end_offset
        if up_to_offset is not None:
            # What was asked for may have been truncated before this flush began.
            target = min(target, up_to_offset)
        start = self.recovery_point
        if target <= start and not self._closed_segments:
            return
        try:
            self._sync_range(start, target)
        except OSError as error:
            if self.is_closed:
                return
            self._fail("flushing", error)
        before, offset = self._flushed
        self._flushed = truncations, max(offset, target) if before == truncations else target

    def _sync_range(self, start: int, target: int) -> None:
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
        if any(segment.base_offset >= start for segment in segments):
            self.files.sync_directory(self.directory)
            if start == 0:
                self.files.sync_directory(self.health.path)
        self.snapshots.sync(target)
        self._sync_metadata()

    # -- reading ---------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        upper_bound_offset: int,
        min_one_batch: bool = True,
        include_aborted: bool = False,
    ) -> LogRead:
        """Batches from the one that holds `offset` on, below `upper_bound_offset`."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition {self.name}, but we only "
                f"have log segments in the range {self.log_start_offset} to "
                f"{self.log_end_offset}.",
            )
        if self.health.error is not None or self.is_closed:
            raise self._offline()
        aborted: list[AbortedTransaction] | None = [] if include_aborted else None
        if offset >= upper_bound_offset:
            return LogRead(offset, EMPTY_SLICE, False, aborted)
        try:
            segment = self.segments.floor(offset)
            while segment is not None:
                limit = self._readable_end(segment, upper_bound_offset)
                found = segment.read(offset, max_bytes, limit, min_one_batch=min_one_batch)
                if found is not None:
                    if include_aborted:
                        aborted = log_lookup.aborted_transactions(
                            self.segments, segment, offset, found, self.log_end_offset
                        )
                    incomplete = (
                        not min_one_batch
                        and found.size >= max_bytes
                        and segment.first_batch_is_cut(found)
                    )
                    return LogRead(offset, found, incomplete, aborted)
                segment = self.segments.after(segment)
        except OSError as error:
            self._fail("reading", error)
        return LogRead(offset, EMPTY_SLICE, False, aborted)

    def _readable_end(self, segment: Segment, upper_bound_offset: int) -> int:
        """The position in `segment` at which the upper bound lies."""
        if upper_bound_offset >= self.log_end_offset:
            return segment.size
        following = self.segments.after(segment)
        if following is not None and upper_bound_offset >= following.base_offset:
            return segment.size
        position = segment.position_of(upper_bound_offset)
        return segment.size if position is None else position

    def offset_for_timestamp(self, timestamp: int) -> log_lookup.TimestampOffset | None:
        """The first message at or after a time (ListOffsets)."""
        return log_lookup.offset_for_timestamp(self, timestamp)

    def offset_of_max_timestamp(self) -> log_lookup.TimestampOffset | None:
        """The first message that has the largest timestamp (ListOffsets -3)."""
        return log_lookup.offset_of_max_timestamp(self)

    def legacy_segment_offsets_before(
        self, timestamp: int, max_count: int, now_ms: int
    ) -> list[int]:
        """Segment base offsets that were last written before a time (ListOffsets v0)."""
        return log_lookup.legacy_segment_offsets_before(self, timestamp, max_count, now_ms)

    # -- truncating and deleting -----------------------------------------------------------

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Drop all messages at and above `offset`; False if there are none.

        A batch that holds `offset` goes as a whole and the log ends before it, so that what is
        appended next follows on. (In Kafka it ends at `offset`: with a hole.)
        """
        assert offset >= 0
        require_descriptors(self.files, f"truncating {self.name}")
        try:
            if offset >= self.log_end_offset:
                self.leader_epochs.truncate_from_end(self.log_end_offset)
                return False
            if self.segments.first.base_offset > offset:
                self.truncate_fully_and_start_at(offset, now_ms)
                return True
            holder = self.segments.floor(offset)
            assert holder is not None
            end = holder.end_below(offset)
            if end < self.log_start_offset <= offset:
                self.truncate_fully_and_start_at(self.log_start_offset, now_ms)
                return True
            offset = end
            self._begin_truncation(offset)
            for segment in self.segments.from_base(offset + 1):
                self._doom(segment)
            active = self.segments.active
            active.truncate_to(offset, self.config)
            self._end_truncation(offset)
            self.leader_epochs.truncate_from_end(offset)
            self.log_start_offset = min(offset, self.log_start_offset)
            memory = self.producer_state.memory()
            rebuild_producer_state(
                self.producer_state,
                self.snapshots,
                self.segments,
                self.log_start_offset,
                offset,
                now_ms=now_ms,
                expiration_ms=self.producer_expiration_ms,
            )
            self.producer_state.recall(memory)
        except OSError as error:
            self._fail("truncating", error)
        # Also without a change: of the transactions just read again, most are replicated.
        self.update_high_watermark(self.high_watermark)
        return True

    def truncate_fully_and_start_at(
        self, offset: int, now_ms: int = 0, log_start_offset: int | None = None
    ) -> None:
        """Drop everything and begin anew at `offset`."""
        require_descriptors(self.files, f"truncating {self.name}")
        try:
            self._begin_truncation(offset)
            for segment in self.segments:
                self._doom(segment)
            self.segments.add(
                Segment(self.files, self.directory, offset, self.config, now_ms=now_ms, create=True)
            )
            self.leader_epochs.clear()
            self.snapshots.delete_all()
            self.producer_state.clear(offset)
            self.snapshots.take(self.producer_state)
        except OSError as error:
            self._fail("truncating", error)
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        self._end_truncation(offset)
        self.update_high_watermark(offset)

    def _doom(self, segment: Segment) -> None:
        """Take a segment out of the log; its files go after file.delete.delay.ms."""
        self.segments.remove(segment)
        self.doomed_files += segment.mark_deleted()

    def take_doomed_files(self) -> list[str]:
        doomed, self.doomed_files = self.doomed_files, []
        return doomed

    def _append_failed(self, segment: Segment, size_before: int, error: OSError) -> NoReturn:
        """Cut off what a failed write left, so that no torn batch stays; then go offline."""
        try:
            segment.undo_append(size_before)
        except OSError as undo_error:
            error.add_note(f"cutting off the partial write failed too: {undo_error}")
        self._fail("appending", error)

    def larger_than_segment(self, size: int) -> KafkaError:
        return KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {size} bytes in append to partition {self.name}, which "
            f"exceeds the maximum configured segment size of {self.config.segment_bytes}.",
        )


def _max_timestamp(entry: tuple[int, BatchHeader]) -> int:
    return entry[1].max_timestamp
