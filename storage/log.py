"""One partition's log: its appends and its offsets.

The files are in `local` (`LocalLog`), the producers and their transactions in `producers`
(`LogProducers`); here are the offsets, the leader epochs, the topic id, and the checks of records
before an append.

Invariants: log start <= last stable offset <= high watermark <= log end; log start <= local log
start <= high watermark, and they differ only in a log with a remote tier; offsets of appends are
contiguous on a leader and grow on a follower; producers, epochs and segments end with the log
(`_check_offsets`, `_check_append`, `_check_all`). All methods belong to one thread, save `flush`,
which blocks and may run in a worker beside appends.

A log with a remote tier (KIP-405, `has_remote_tier`) keeps the segments from its local log start
on. The records from the log start to there are in the tier only: a read of them is
OFFSET_MOVED_TO_TIERED_STORAGE. Retention deletes a local segment only if the tier has it
(`highest_offset_in_remote_storage`) or if it is below the log start.

An unexpected failure after an append has begun takes the directory offline (`append_broke`):
nothing is ever appended behind half an append. A failure before that has changed nothing.

Mirrors: UnifiedLog.
Leaves out: copies to the tier and reads from it. Retention and compaction are in `retention` and
`cleaner`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..protocol import invariants
from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.invariants import BrokenInvariant
from ..protocol.primitives import Buffer
from ..protocol.records.batch import BatchHeader, iter_batch_headers
from ..protocol.topics import NEVER_TIERED
from ..protocol.wall_clock import WallClock
from . import log_lookup, recovery_notes
from .append_info import Append, AppendInfo, AppendOrigin, AppendRules
from .append_rules import MAGIC_V2, AppendRequest
from .descriptors import require_descriptors
from .directory_health import DirectoryHealth
from .files import EMPTY_SLICE, Files
from .follower_batches import (
    Batches,
    fitting_groups,
    info_of_batches,
    latest_header,
    read_follower_batches,
)
from .local_log import NOT_CUT, LocalLog, LogRead, Place
from .log_config import LogConfig
from .log_lookup import TimestampOffset
from .log_producers import LogProducers
from .message_format import NEWEST_RECORD_VERSION
from .old_formats import validate_with_old_format
from .own_batches import stamp_own_batch
from .partition_metadata import PartitionMetadata
from .producer_entry import BatchMetadata
from .producer_state import ProducerState
from .recovery import LogParts
from .segment import MAX_RELATIVE_OFFSET, Segment
from .segment_reader import BatchToSearch
from .transaction_index import AbortedTransaction
from .validation import AppendInput, PreValidatedBatch, validate
from .verification import NOT_VERIFIED


class Log:
    __slots__ = (
        "_metadata",
        "_oldest_unflushed",
        "config",
        "files",
        "first_dirty_offset",
        "has_remote_tier",
        "health",
        "high_watermark",
        "highest_offset_in_remote_storage",
        "is_new_since_checkpoints",
        "leader_epochs",
        "local",
        "log_end_offset",
        "log_start_offset",
        "name",
        "partition",
        "producers",
        "rules",
        "segments",
        "topic",
        "wall",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        topic: str,
        partition: int,
        config: LogConfig,
        parts: LogParts,
        health: DirectoryHealth,
        *,
        topic_id: bytes | None = None,
        jitter: Callable[[int], int] | None = None,
        validate_fully: bool = False,
        wall: WallClock | None = None,
    ) -> None:
        self.local = LocalLog(files, directory, (topic, partition), config, parts, health, jitter)
        # Fields of `local`, copied for fast access by appends and reads; only `set_config` replaces
        # one.
        self.config = config
        self.files = files
        self.health = health
        self.segments = self.local.segments
        self.name = self.local.name

        self.topic = topic
        self.partition = partition
        # Beside the `now_ms` of all calls: timestamps are its.
        self.wall = wall or WallClock()
        # The rules for appended batches; `set_config` replaces them.
        self.rules = AppendRules(config, self.name, validate_fully, self.wall)
        self._metadata = PartitionMetadata(files, topic_id)
        # Whether the checkpoints may be of an earlier log of this name; maintenance corrects it.
        self.is_new_since_checkpoints = recovery_notes.is_new_since_checkpoints(files, directory)

        # Whether old segments go to a remote tier; `set_config` changes it.
        self.has_remote_tier = config.remote_storage and topic not in NEVER_TIERED
        # The last offset that is known to be there; -1 until the remote log's tasks have looked.
        self.highest_offset_in_remote_storage = -1

        # The four offsets, smallest first; the last stable one follows from the producers.
        self.log_start_offset = parts.log_start_offset
        self.high_watermark = max(parts.log_start_offset, self.segments.first.base_offset)
        self.log_end_offset = parts.log_end_offset

        # No epoch begins above the log end; none at all while an old format is stored.
        self.leader_epochs = parts.leader_epochs
        if config.record_version < NEWEST_RECORD_VERSION:
            self.leader_epochs.clear()
        self.producers = LogProducers(self.local, parts.producer_state, parts.snapshots)

        # (offset, time) of an append; flushed if the recovery point has passed it.
        self._oldest_unflushed = (-1, 0)
        # Up to where the log is compacted; None if it never was.
        self.first_dirty_offset: int | None = None

    def __repr__(self) -> str:
        return (
            f"Log({self.name}, start={self.log_start_offset}, "
            f"hw={self.high_watermark}, end={self.log_end_offset})"
        )

    # Appending

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
                raise self._broken(f"an append of {first_offset} to {last_offset}")
            if invariants.THOROUGH:
                self._check_append()
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
            raise self._broken(f"an append to {last_offset} at {old_end}")
        if invariants.THOROUGH:
            self._check_append()
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

    # Invariants

    def _check_offsets(self) -> None:
        """The first invariant, after a change of one of the four offsets."""
        start, end = self.log_start_offset, self.log_end_offset
        if not start <= self.last_stable_offset <= self.high_watermark <= end:
            raise self._broken("log start <= LSO <= HW <= log end")
        if self.local_log_start_offset > self.high_watermark:
            raise self._broken("local log start <= HW")

    def _check_append(self) -> None:
        """A thorough check of the state that an append has changed."""
        self._check_offsets()
        end, known = self.log_end_offset, self.producer_state.map_end_offset
        if known != end:
            raise self._broken(f"the producers are known up to {known}, not to the log end")
        if self.leader_epochs.latest_start_offset >= end:
            raise self._broken(f"an epoch begins behind it: {self.leader_epochs.entries[-1]}")

    def _check_all(self) -> None:
        """Thorough: all that there is agrees, after segments or offsets have gone."""
        self._check_offsets()
        recovery_point, end = self.local.recovery_point, self.log_end_offset
        if recovery_point > end:
            raise self._broken(f"what is on disk ends at {recovery_point}, behind the log end")
        if self.leader_epochs.latest_start_offset > end:
            raise self._broken(f"an epoch begins behind it: {self.leader_epochs.entries[-1]}")
        # Only a remote tier has records below the first segment.
        start = self.local_log_start_offset if self.has_remote_tier else self.log_start_offset
        self.segments.check(start, end, self.name)
        if not self.producers.is_being_rebuilt:  # else at its end
            self.producers.known.check_all(self.name)

    def _broken(self, rule: str) -> BrokenInvariant:
        return BrokenInvariant(f"{rule}: {self!r}, LSO {self.last_stable_offset}")

    def _larger_than_segment(self, size: int) -> KafkaError:
        return KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {size} bytes in append to partition {self.name}, which "
            f"exceeds the maximum configured segment size of {self.config.segment_bytes}.",
        )

    def roll(self, now_ms: int, expected_next_offset: int = 0) -> Segment:
        """Begin a new segment at the log end, with a snapshot of the producers, or soon after."""
        self._finish_rebuild()
        segment = self.local.roll(max(expected_next_offset, self.log_end_offset), now_ms)
        try:
            self.producers.begin_segment(segment.base_offset)
        except OSError as error:
            self.local.fail("rolling", error)
        return segment

    # Flushing

    @property
    def recovery_point(self) -> int:
        """Everything below is on disk."""
        return self.local.recovery_point

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

    def flush_is_due(self, now_ms: int) -> bool:
        """flush.ms has passed since the oldest unflushed append; a rolled segment or a leader epoch
        waits."""
        if self.local.has_rolled_unflushed or self._has_notes:
            return True
        offset, since_ms = self._oldest_unflushed
        return offset >= self.local.recovery_point and now_ms - since_ms >= self.config.flush_ms

    def flush(self, up_to_offset: int | None = None) -> None:
        """Force everything below an offset (the log end) to disk. Blocks; any thread may call, one
        at a time."""
        local = self.local
        truncations = local.truncations  # before the log end is read: see `LocalLog`
        target = self.log_end_offset
        if up_to_offset is not None:
            # The requested offset may have been truncated before this flush began.
            target = min(target, up_to_offset)
        start = local.recovery_point
        if target <= start and not local.has_closed_segments and not self._has_notes:
            return
        try:
            local.note_wanted_cut()
            local.sync(start, target)
            self.producers.snapshots.sync(target)
            self._sync_metadata()
        except OSError as error:
            if local.is_closed:
                return
            local.fail("flushing", error)
        local.mark_flushed(truncations, target)

    @property
    def _has_notes(self) -> bool:
        """Whether a flush has something to write beside batches."""
        return (
            self.leader_epochs.needs_sync
            or self._metadata.needs_sync
            or self.local.wanted_cut != NOT_CUT
        )

    def _sync_metadata(self) -> None:
        """Before the recovery point moves: topic id and leader epochs. Blocks."""
        epochs_synced = self.leader_epochs.sync()
        if self._metadata.sync(self.local.directory) or epochs_synced:
            self.files.sync_directory(self.local.directory)

    # Reading

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
        end_offset = self.log_end_offset
        if not self.log_start_offset <= offset <= end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition {self.name}, but we only "
                f"have log segments in the range {self.log_start_offset} to {end_offset}.",
            )
        local = self.local
        if self.health.error is not None or local.is_closed:
            raise local.offline_error()
        if offset >= upper_bound_offset:
            return LogRead(offset, EMPTY_SLICE, False, [] if include_aborted else None)
        if offset < self.segments.first.base_offset:
            raise KafkaError(
                ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE,
                f"Offset {offset} of partition {self.name} is in the remote tier: its segments "
                f"here begin at {self.segments.first.base_offset}.",
            )
        return local.read(
            offset, max_bytes, upper_bound_offset, end_offset, min_one_batch, include_aborted
        )

    def place_of(self, offset: int) -> Place:
        """The place of the batch that holds `offset`, or of the next batch after it. Kafka carries
        such places along with offsets (LogOffsetMetadata)."""
        if self.health.error is not None or self.is_closed:
            raise self.local.offline_error()
        active = self.segments.active
        if offset >= self.log_end_offset:
            return active.base_offset, active.size
        return self.local.place_of(offset)

    def place_behind(self, offset: int) -> Place:
        """The place where the messages below `offset` end, which a roll does not change."""
        if self.health.error is not None or self.is_closed:
            raise self.local.offline_error()
        active = self.segments.active
        if offset >= self.log_end_offset and active.size:
            return active.base_offset, active.size
        return self.local.place_behind(offset)

    def batches_at_or_after(self, timestamp: int) -> Iterator[BatchToSearch]:
        """The batches, in order, that may hold the first message at or after a timestamp."""
        return log_lookup.batches_at_or_after(self.segments, timestamp, self.log_start_offset)

    def latest_batches(self) -> Iterator[BatchToSearch]:
        """The batches that may hold the first message with the largest timestamp."""
        return log_lookup.latest_batches(self.segments)

    def offset_for_timestamp(self, timestamp: int) -> TimestampOffset | None:
        """The first message at or after a time (ListOffsets)."""
        return log_lookup.search(self.batches_at_or_after(timestamp), self.name)

    def offset_of_max_timestamp(self) -> TimestampOffset | None:
        """The first message that has the largest timestamp (ListOffsets -3)."""
        return log_lookup.search(self.latest_batches(), self.name)

    def legacy_segment_offsets_before(
        self, timestamp: int, max_count: int, now_ms: int
    ) -> list[int]:
        """Segment base offsets that were last written before a time (ListOffsets v0)."""
        return log_lookup.legacy_offsets_before(
            self.segments,
            self.log_start_offset,
            self.log_end_offset,
            timestamp,
            max_count,
            self.wall.at_ms(now_ms),
        )

    # Offsets and epochs

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def local_log_start_offset(self) -> int:
        """The first offset whose records are here; those below it are in the remote tier."""
        return max(self.log_start_offset, self.segments.first.base_offset)

    @property
    def only_local(self) -> list[Segment]:
        """The segments that the remote tier does not have, as far as is known."""
        highest = self.highest_offset_in_remote_storage
        return [segment for segment in self.segments if segment.base_offset >= highest]

    def update_highest_offset_in_remote_storage(self, offset: int) -> None:
        """Note that the tier has all committed records up to `offset`; never less than before."""
        if self.has_remote_tier and offset > self.highest_offset_in_remote_storage:
            self.highest_offset_in_remote_storage = offset

    @property
    def first_unstable_offset(self) -> int | None:
        unstable = self.producers.known.first_unstable_offset
        return None if unstable is None else max(unstable, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        unstable = self.producers.known.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    @property
    def latest_epoch(self) -> int | None:
        epoch = self.leader_epochs.latest_epoch
        return None if epoch < 0 else epoch

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers; (-1, -1) if unknown."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    def assign_epoch_start(self, epoch: int, start_offset: int) -> None:
        """This broker became leader of `epoch`, or a batch of it is at `start_offset`."""
        if self.config.record_version < NEWEST_RECORD_VERSION:
            return
        self.leader_epochs.assign(epoch, start_offset)

    def update_high_watermark(self, high_watermark: int) -> int:
        """Set the high watermark, bounded by the log's ends; returns the new value."""
        bounded = min(max(high_watermark, self.local_log_start_offset), self.log_end_offset)
        self.high_watermark = bounded
        self.producers.known.high_watermark_updated(bounded)
        if self.log_start_offset > bounded:  # bounded by the log end; and the LSO is bounded by it
            raise self._broken("log start <= LSO <= HW <= log end")
        return bounded

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Forget the messages below `offset` (DeleteRecords, or the leader has)."""
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.name} "
                f"since it is larger than the high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        self.producers.move_log_start(offset)
        self._check_offsets()
        if invariants.THOROUGH:
            self._check_all()
        return True

    # Truncating

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Drop all messages at and above `offset`; False if there are none. CutNotNoted: nothing
        is dropped before the next flush.

        A batch that holds `offset` is dropped as a whole and the log ends before it, so that the
        next append is contiguous. (In Kafka the log ends at `offset`, with a hole.)
        """
        assert offset >= 0
        local = self.local
        require_descriptors(self.files, f"truncating {self.name}")
        try:
            if offset >= self.log_end_offset:
                self.leader_epochs.truncate_from_end(self.log_end_offset)
                return False
            if self.segments.first.base_offset > offset:
                self._truncate_below_segments(offset, now_ms)
                return True
            end = local.end_below(offset)
            if end < self.log_start_offset <= offset:
                self.truncate_fully_and_start_at(self.log_start_offset, now_ms)
                return True
            self._begin_truncation(end)
            local.truncate_to(end)
            self.log_end_offset = end
            local.end_truncation()
            self.leader_epochs.truncate_from_end(end)
            self.log_start_offset = min(end, self.log_start_offset)
        except OSError as error:
            local.fail("truncating", error)
        # Snapshots above the end are gone before anything is appended.
        self.producers.truncate_to(end, self.log_start_offset)
        if end < self.high_watermark:
            # The earlier producers know too little of transactions below it for the LSO.
            self._finish_rebuild()
        self.update_high_watermark(self.high_watermark)
        if invariants.THOROUGH:
            self._check_all()
        return True

    def _truncate_below_segments(self, offset: int, now_ms: int) -> None:
        """Restart the log at `offset`, below all that is here. The remote tier still has records
        below it, and the epochs lead to them. (Kafka forgets the epochs and raises the log start.)
        """
        start = self.log_start_offset
        epochs = [entry for entry in self.leader_epochs.entries if entry[1] < offset]
        kept = epochs if start < offset else []
        self.truncate_fully_and_start_at(offset, now_ms, min(start, offset), kept)

    def _begin_truncation(self, offset: int) -> None:
        self.local.require_note(offset)
        self.producers.stop_rebuild()
        self.local.begin_truncation(offset)
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, offset)

    # The producers after a truncation

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

    def truncate_fully_and_start_at(
        self,
        offset: int,
        now_ms: int = 0,
        log_start_offset: int | None = None,
        epochs: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Drop everything and restart the log at `offset`, with the `epochs` of earlier records;
        CutNotNoted as for `truncate_to`."""
        local = self.local
        require_descriptors(self.files, f"truncating {self.name}")
        try:
            self._begin_truncation(offset)
            local.restart_at(offset, now_ms)
            self.leader_epochs.restore(epochs)
            self.producers.restart_at(offset)
        except OSError as error:
            local.fail("truncating", error)
        self.log_start_offset = offset if log_start_offset is None else log_start_offset
        self.log_end_offset = offset
        local.end_truncation()
        self.update_high_watermark(offset)
        if invariants.THOROUGH:
            self._check_all()

    def restart_behind_tier(
        self,
        offset: int,
        log_start_offset: int,
        epochs: Sequence[tuple[int, int]],
        snapshot: bytes,
        now_ms: int,
    ) -> None:
        """Drop everything and restart the log at `offset`; the remote tier has the records below
        it. `epochs` and the `snapshot` of the producers at `offset` are from there.

        A crash must not leave the log there without epochs: a leader would take the records of the
        earlier ones for those of another history, so the epochs are forced to disk here: no batch
        of the log has them, and a flush may come too late. An empty log has no others to lose.
        """
        try:
            if not self.size_bytes:
                self.leader_epochs.restore(epochs)
                self._sync_metadata()
            self.truncate_fully_and_start_at(offset, now_ms, log_start_offset, epochs)
            self.leader_epochs.truncate_from_start(log_start_offset)
            self._sync_metadata()
            self.producers.restore(offset, snapshot)
        except OSError as error:
            self.local.fail("rebuilding from the remote tier", error)
        if invariants.THOROUGH:
            self._check_all()

    # Segments that go

    def delete_segments(self, segments: Sequence[Segment], now_ms: int) -> None:
        """Delete the oldest segments, and with them all snapshots below the next one."""
        if not self.producers.has_failed:
            self._finish_rebuild()
        try:
            if len(segments) == len(self.segments):
                self.roll(now_ms)
            following = self.segments.after(segments[-1])
            assert following is not None
            # The offset first: a look-up of an older offset must not find a gap.
            if not self.has_remote_tier:
                self.maybe_increment_log_start_offset(following.base_offset)
            elif self.high_watermark < following.base_offset:
                raise self._broken(f"segments below {following.base_offset} are to go")
            for segment in segments:
                self.local.remove(segment)
            self.producers.snapshots.delete_below(following.base_offset)
            if invariants.THOROUGH:
                self._check_all()
        except OSError as error:
            self.local.fail("deleting segments", error)

    def replace_segments(self, base_offset: int, sources: Sequence[Segment], now_ms: int) -> None:
        """Replace `sources` by the segment that a cleaning made of them."""
        require_descriptors(self.files, f"replacing segments of {self.name}")
        self._finish_rebuild()
        try:
            self.local.replace_segments(base_offset, sources, now_ms)
            if invariants.THOROUGH:
                self._check_all()
            for source in sources:
                if source.base_offset != base_offset:
                    self.producers.replaced_segment(source.base_offset)
        except OSError as error:
            self.local.fail("replacing segments", error)

    # Life cycle

    @property
    def directory(self) -> str:
        return self.local.directory

    @property
    def is_closed(self) -> bool:
        return self.local.is_closed

    @property
    def topic_id(self) -> bytes | None:
        return self._metadata.topic_id

    @property
    def is_topic_id_lost(self) -> bool:
        """Whether there was one that cannot be read: it may be of an earlier topic of the name."""
        return self._metadata.is_lost

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Name the topic in `partition.metadata`; the next flush forces that to disk."""
        assert self.topic_id in (None, topic_id), f"{self.name} has another topic id"
        try:
            was_flushed = self.recovery_point > 0
            self._metadata.assign(self.local.directory, topic_id, was_flushed=was_flushed)
        except OSError as error:
            self.local.fail("writing partition.metadata", error)

    def take_stored_topic_id(self, topic_id: bytes | None, *, is_lost: bool = False) -> None:
        """Set the topic id read from `partition.metadata`, which may never have been forced to
        disk."""
        self._metadata.take_stored(topic_id, is_lost=is_lost)

    def set_config(self, config: LogConfig) -> None:
        """Set the config, even if the disk is broken: the next use of the log reports that."""
        self.config = config
        self.has_remote_tier = config.remote_storage and self.topic not in NEVER_TIERED
        self.rules = AppendRules(config, self.name, self.rules.validate_fully, self.wall)
        self.local.set_config(config)
        if config.record_version < NEWEST_RECORD_VERSION:
            # Batches below v2 have no leader epochs: followers truncate to the high watermark.
            self.leader_epochs.clear()

    def close(self) -> None:
        """Snapshot the producers and trim all files; the caller flushed before. There is no
        recovery after a clean stop, so all files and their names are forced to disk."""
        if self.is_closed:
            return
        try:
            self._sync_metadata()
            if not self.producers.has_failed:
                self._finish_rebuild()
            if self.producers.close():
                self.local.note_new_file()
            self.local.sync_names()
            self.local.close()
        except OSError as error:
            self.local.fail("closing", error)

    def release(self) -> None:
        """Release the files of an offline or deleted log."""
        self.producers.stop_rebuild()
        self.local.release()

    def rename_for_delete(self, name: str) -> str:
        """Give the directory a name that ends in `-delete`; the log takes no more requests."""
        self.producers.stop_rebuild()
        self.local.release()
        self.local.rename(name)
        return self.local.directory

    def move(self, name: str) -> None:
        """Give the partition directory another name and go on in it; no flush may be under way."""
        self.local.move(name)
        self.producers.snapshots.moved_to(self.local.directory)
        self.leader_epochs.moved_to(self.local.directory)
