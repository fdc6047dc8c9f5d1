"""How a log grows: the appends of a leader and of a follower, rolls, and the high watermark.

`AppendableLog` checks records (`validation`, `own_batches`, `old_formats`, `follower_batches`),
assigns their offsets, writes them to the active segment, and registers their producers and leader
epochs. It notes in the result whether a flush is due.

Invariants: offsets of appends are contiguous on a leader and grow on a follower. An unexpected
failure after an append has begun takes the directory offline (`LocalLog.append_broke`): nothing is
ever appended behind half an append. A failure before that has changed nothing.

Mirrors: UnifiedLog.append, appendAsLeader, appendAsFollower, roll, updateHighWatermark.
"""

from __future__ import annotations

from ..protocol import invariants
from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.primitives import Buffer
from ..protocol.records.batch import BatchHeader, iter_batch_headers
from . import recovery_notes
from .append_info import Append, AppendInfo, AppendOrigin
from .append_rules import MAGIC_V2, AppendRequest
from .descriptors import require_descriptors
from .follower_batches import (
    Batches,
    fitting_groups,
    info_of_batches,
    latest_header,
    read_follower_batches,
)
from .log_invariants import broken, check_append
from .message_format import NEWEST_RECORD_VERSION
from .old_formats import validate_with_old_format
from .own_batches import stamp_own_batch
from .producer_entry import BatchMetadata
from .producer_state import ProducerState
from .readable_log import ReadableLog
from .segment import MAX_RELATIVE_OFFSET, Segment
from .transaction_index import AbortedTransaction
from .validation import AppendInput, PreValidatedBatch, validate
from .verification import NOT_VERIFIED


class AppendableLog(ReadableLog):
    __slots__ = ()

    # By a leader

    def append_as_leader(
        self, records: AppendInput, leader_epoch: int, append: Append
    ) -> AppendInfo:
        """Check one batch (or an old message set), assign its offsets and append it."""
        if self.health.error is not None or self.local.is_closed:
            raise self.local.offline_error()
        if self.producers.is_being_rebuilt:
            self.producers.rebuild_for_append(self.log_start_offset, self.high_watermark)
        config = self.config
        if config.record_version < MAGIC_V2:
            return self._append_old_format(records, leader_epoch, append)
        first_offset, now_ms = self.log_end_offset, append.now_ms
        is_clients = append.origin is AppendOrigin.CLIENT
        if not is_clients and type(records) is bytearray:
            own = stamp_own_batch(records, config, first_offset, leader_epoch)
            if own is not None:
                if own.producer_id >= 0:
                    duplicate = self._check_producer(own, records, append)
                    if duplicate is not None:
                        return duplicate
                return self._append_batch(records, own, first_offset, leader_epoch, now_ms)
        valid = validate(records, self.rules, append, first_offset, leader_epoch)
        if valid is None:
            return AppendInfo.of_nothing(self.log_start_offset)
        data, header, converted = valid
        if header.producer_id >= 0:
            duplicate = self._check_producer(header, data, append)
            if duplicate is not None:
                return duplicate
        info = self._append_batch(data, header, first_offset, leader_epoch, now_ms)
        info.converted_count = converted
        if invariants.THOROUGH and is_clients:
            self.producer_state.check_sequence(header.producer_id, self.name)
        return info

    def _check_producer(
        self, header: BatchHeader, data: Buffer, append: Append
    ) -> AppendInfo | None:
        """The answer for a batch that is in the log already; KafkaError if it may not be."""
        if header.is_control:  # an abort may need a file for the transaction index
            require_descriptors(self.files, f"ending a transaction in {self.name}")
        guards = append.guards
        guard = None if guards is None else guards.get(self.local.key, NOT_VERIFIED)
        earlier = self.producers.known.check(
            header,
            data,
            append.origin,
            self.name,
            guard,
            append.now_ms,
            append.transaction_version,
        )
        return None if earlier is None else self._duplicate(earlier, len(data))

    def _append_batch(
        self,
        data: Buffer,
        header: BatchHeader,
        first_offset: int,
        leader_epoch: int,
        now_ms: int,
    ) -> AppendInfo:
        """Append a batch that is good and has its offsets."""
        config, state, size = self.config, self.producers.known, len(data)
        if size > config.segment_bytes:
            raise self._larger_than_segment(size)
        _, _, _, _, _, _, last_offset_delta, _, max_timestamp, producer_id, _, _, _ = header
        last_offset = first_offset + last_offset_delta
        try:
            if leader_epoch != self.leader_epochs.latest_epoch:
                self.assign_epoch_start(leader_epoch, first_offset)
            segment = self.segments.active
            pace = self.local.roll_pace
            rolled = segment.should_roll(config, size, max_timestamp, last_offset, now_ms, pace)
            if rolled:
                segment = self.roll(now_ms, first_offset)
            before = segment.size
            try:
                segment.append(data, first_offset, last_offset, max_timestamp)
            except OSError as error:
                self.local.append_failed(segment, before, error)
            self.log_end_offset = last_offset + 1
            if producer_id >= 0:
                aborted = state.apply(header, first_offset, data, max_timestamp, now_ms)
                if aborted is not None:
                    self._index_aborted(segment, aborted)
            state.map_end_offset = last_offset + 1
            if not self.log_start_offset <= self.high_watermark <= first_offset <= last_offset:
                raise broken(self, f"an append of {first_offset} to {last_offset}")
            if invariants.THOROUGH:
                check_append(self)
        except KafkaError:
            raise
        except Exception as error:
            self.local.append_broke(error)
        appended_at = max_timestamp if config.log_append_time else -1
        start = self.log_start_offset
        info = AppendInfo(
            first_offset, last_offset, max_timestamp, last_offset, appended_at, start, size
        )
        info.rolled = rolled
        if config.flushes_itself:
            self.note_unflushed(info, now_ms)
        return info

    def _append_old_format(
        self, records: AppendInput, leader_epoch: int, append: Append
    ) -> AppendInfo:
        """Append to a log that stores v0 or v1: it has no leader epochs and no producers, and each
        entry of a set is indexed separately."""
        config, first_offset, now_ms = self.config, self.log_end_offset, append.now_ms
        if isinstance(records, PreValidatedBatch):
            records = records.source
        request = AppendRequest(self.rules, append, first_offset, leader_epoch)
        valid = validate_with_old_format(records, request)
        if valid is None:
            return AppendInfo.of_nothing(self.log_start_offset)
        data, converted = valid
        if len(data) > config.segment_bytes:
            raise self._larger_than_segment(len(data))
        batches = list(iter_batch_headers(data))
        rolled = self._append_group(memoryview(data), batches, now_ms)
        info = info_of_batches(batches, first_offset, self.log_start_offset, len(data))
        info.log_append_time = request.stamp_ms if config.log_append_time else -1
        info.rolled = rolled
        info.converted_count = converted
        if config.flushes_itself:
            self.note_unflushed(info, now_ms)
        return info

    # By a follower

    def append_as_follower(self, records: Buffer, *, now_ms: int) -> AppendInfo:
        """Append the leader's batches, with their offsets and epochs."""
        if self.health.error is not None or self.local.is_closed:
            raise self.local.offline_error()
        batches = read_follower_batches(records, self.log_end_offset, self.name)
        if not batches:
            return AppendInfo.of_nothing(self.log_start_offset)
        rolled = False
        data = memoryview(records)
        for group in fitting_groups(batches, self.config.segment_bytes):
            start = group[0][0]
            end = group[-1][0] + group[-1][1].size_in_bytes
            if start:
                group = [(position - start, header) for position, header in group]
            rolled |= self._append_group(data[start:end], group, now_ms)
        size = batches[-1][0] + batches[-1][1].size_in_bytes
        info = info_of_batches(batches, batches[0][1].base_offset, self.log_start_offset, size)
        info.rolled = rolled
        if self.config.flushes_itself:
            self.note_unflushed(info, now_ms)
        return info

    def _append_group(self, data: memoryview, batches: Batches, now_ms: int) -> bool:
        """Append batches that go into one segment; whether that is a new one."""
        try:
            return self._write_group(data, batches, now_ms)
        except KafkaError:
            raise
        except Exception as error:
            self.local.append_broke(error)

    def _write_group(self, data: memoryview, batches: Batches, now_ms: int) -> bool:
        for _, header in batches:
            if header.producer_id >= 0 and header.is_control:
                require_descriptors(self.files, f"ending a transaction in {self.name}")
            if header.magic >= 2:
                self.assign_epoch_start(header.partition_leader_epoch, header.base_offset)
            else:
                self.leader_epochs.clear()
        last_offset = batches[-1][1].last_offset
        max_timestamp = latest_header(batches).max_timestamp
        segment = self.segments.active
        pace = self.local.roll_pace
        rolled = segment.should_roll(
            self.config, len(data), max_timestamp, last_offset, now_ms, pace
        )
        if rolled:
            # A gap is put inside of the segment, where it fits: segments follow one another.
            fits = last_offset - self.log_end_offset <= MAX_RELATIVE_OFFSET
            base = self.log_end_offset if fits else batches[0][1].base_offset
            if not fits:  # recovery would take it for a tail that was lost
                recovery_notes.note_gaps(self.files, self.directory, base)
            segment = self.roll(now_ms, base)
        before = segment.size
        try:
            segment.append_all(data, batches)
        except OSError as error:
            self.local.append_failed(segment, before, error)
        old_end, self.log_end_offset = self.log_end_offset, last_offset + 1
        for position, header in batches:
            if header.producer_id >= 0:
                batch = data[position : position + header.size_in_bytes]
                self._apply_producer(segment, header, batch, now_ms)
        self.producer_state.map_end_offset = last_offset + 1
        if not self.log_start_offset <= self.high_watermark <= old_end <= last_offset:
            raise broken(self, f"an append to {last_offset} at {old_end}")
        if invariants.THOROUGH:
            check_append(self)
        return rolled

    def _apply_producer(
        self, segment: Segment, header: BatchHeader, batch: Buffer, now_ms: int
    ) -> None:
        aborted = self.producer_state.apply(
            header, header.base_offset, batch, header.max_timestamp, now_ms
        )
        if aborted is not None:
            self._index_aborted(segment, aborted)

    def _index_aborted(self, segment: Segment, aborted: AbortedTransaction) -> None:
        try:
            segment.append_aborted_transaction(aborted)
            self.local.note_new_file()
        except OSError as error:
            self.local.fail("writing the transaction index", error)

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

    def _larger_than_segment(self, size: int) -> KafkaError:
        return KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {size} bytes in append to partition {self.name}, which "
            f"exceeds the maximum configured segment size of {self.config.segment_bytes}.",
        )

    # Segments, epochs and the high watermark

    def roll(self, now_ms: int, expected_next_offset: int = 0) -> Segment:
        """Begin a new segment at the log end, with a snapshot of the producers, or soon after."""
        self._finish_rebuild()
        segment = self.local.roll(max(expected_next_offset, self.log_end_offset), now_ms)
        try:
            self.producers.begin_segment(segment.base_offset)
        except OSError as error:
            self.local.fail("rolling", error)
        return segment

    def assign_epoch_start(self, epoch: int, start_offset: int) -> None:
        """This broker became leader of `epoch`, or a batch of it is at `start_offset`."""
        if self.config.record_version < NEWEST_RECORD_VERSION:
            return
        self.leader_epochs.assign(epoch, start_offset)

    def update_high_watermark(self, high_watermark: int) -> int:
        """Set the high watermark, bounded by the log's ends; returns the new value."""
        bounded = min(max(high_watermark, self.local_log_start_offset), self.log_end_offset)
        self.high_watermark = bounded
        self.producers.known.transactions.high_watermark_updated(bounded)
        if self.log_start_offset > bounded:  # bounded by the log end; and the LSO is bounded by it
            raise broken(self, "log start <= LSO <= HW <= log end")
        return bounded

    # The producers

    @property
    def producer_state(self) -> ProducerState:
        """The producers as of the log end; a rebuild under way is finished first."""
        self._finish_rebuild()
        return self.producers.known

    def rebuild_some(self) -> bool:
        """Continue the rebuild of the producers, for a fraction of a millisecond at most; whether
        it is complete. The caller that truncates a log of many producers calls it before
        appending."""
        return self.producers.rebuild_some(self.log_start_offset, self.high_watermark)

    def _finish_rebuild(self) -> None:
        while self.producers.is_being_rebuilt:
            self.rebuild_some()

    # Flushes that are due

    @property
    def unflushed_from(self) -> int:
        """The offset from which flush.messages demands a flush by now; -1: no flush is due."""
        recovery_point = self.local.recovery_point
        owes = self.log_end_offset - recovery_point >= self.config.flush_messages
        return recovery_point if owes else -1

    def note_unflushed(self, info: AppendInfo, now_ms: int) -> None:
        """After an append to a topic with flush.messages or flush.ms: note in `info` whether a
        flush is due."""
        config = self.config
        recovery_point = self.local.recovery_point
        if self._oldest_unflushed[0] < recovery_point:
            self._oldest_unflushed = info.first_offset, now_ms
        if (
            self.log_end_offset - recovery_point >= config.flush_messages
            or now_ms - self._oldest_unflushed[1] >= config.flush_ms
        ):
            info.flush_needed = True
