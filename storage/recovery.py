"""Load a partition directory: tidy up, check indexes, recover after a crash, rebuild producers.

Damage costs what it holds: indexes, snapshots and leader epochs are rebuilt from the batches; a log
start above all offsets is ignored. Files with names that no file of a log has are left alone.
Damage that cannot be repaired is a KafkaError or an OSError of this partition alone.

After an unclean stop every segment from the recovery point on is read batch by batch (size, CRC,
growing offsets); its indexes are rebuilt; the first invalid batch and everything behind it are cut
off. A segment that ends below the next one's base lost its tail at the edge of a batch: Kafka keeps
such a hole in the log; we cut there, so that the rest is a prefix of the log and replicas stay
alike. Only compaction makes such gaps legitimately, and it notes their extent first. (A follower of
a compacted log has its gaps inside of segments.)

Mirrors: LogLoader, LogSegment.recover.
Beyond Kafka: it takes the log directory or the whole broker down for damage like this.
Leaves out: splitting segments whose offsets overflow (written by Kafka before 2.0).
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.records.batch import crc_is_valid
from .batch_scan import scan_batches, scan_headers
from .checkpoints import LEADER_EPOCH_FILE, CheckpointError
from .files import Files
from .interrupted_swap import Report, finish_interrupted_swap, segment_files
from .leader_epochs import UNDEFINED_EPOCH, LeaderEpochCache
from .log_config import LogConfig
from .producer_rebuild import rebuild_producer_state
from .producer_snapshot import SnapshotStore
from .producer_state import ProducerState
from .producer_table import ProducerLimits
from .recovery_notes import gaps_below, note_cut, note_no_gaps, write_gaps
from .segment import MAX_RELATIVE_OFFSET, Segment
from .segment_reader import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from .segments import Segments

_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)


class LogParts(NamedTuple):
    """The result of loading a partition directory."""

    segments: Segments
    leader_epochs: LeaderEpochCache
    producer_state: ProducerState
    snapshots: SnapshotStore
    log_start_offset: int
    log_end_offset: int
    recovery_point: int


class LogLoader:
    """One load of one partition directory."""

    __slots__ = (
        "batch_epoch",
        "clean",
        "compacted_below",
        "config",
        "directory",
        "epochs",
        "epochs_lost",
        "files",
        "log_start",
        "now_ms",
        "producer_limits",
        "recovered_state",
        "recovery_point",
        "report",
        "segments",
        "shown_recovery_point",
        "snapshots",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        config: LogConfig,
        *,
        clean: bool,
        recovery_point: int,
        shown_recovery_point: int,
        log_start_offset: int,
        now_ms: int,
        report: Report,
        producer_limits: ProducerLimits | None = None,
        compacted_below: int = 0,
    ) -> None:
        self.files = files
        self.directory = directory
        self.config = config
        self.clean = clean
        self.recovery_point = recovery_point
        self.shown_recovery_point = shown_recovery_point
        self.log_start = log_start_offset
        self.compacted_below = compacted_below
        self.now_ms = now_ms
        self.producer_limits = producer_limits
        self.report = report
        self.segments = Segments()
        self.batch_epoch = -1  # of the batch recovered last; no later one has a lower one
        self.epochs_lost = False
        self.epochs = self._read_epochs()
        self.snapshots = SnapshotStore(files, directory)
        # Of the segment recovered last: it knows more batches of a producer than its snapshot.
        self.recovered_state: ProducerState | None = None

    def load(self) -> LogParts:
        finish_interrupted_swap(self.files, self.directory, self.report)
        self._open_segments()
        self._check_log_start()
        self._check_indexes()
        if not self.clean:
            self._recover_unflushed()
        log_end = self._log_end()
        if self.epochs_lost:
            self._find_epochs()
        self.segments.active.become_active(self.config)
        if not self.clean:
            self.segments.active.note_unforced_cut()
        recovery_point = log_end if self.clean else min(self.recovery_point, log_end)
        if recovery_point < self.recovery_point:
            note_cut(self.files, self.directory, recovery_point, [self.shown_recovery_point])
        self.epochs.truncate_from_end(log_end)
        first = self.segments.first.base_offset
        # Records below the first segment are in the remote tier, if the log has one.
        log_start = self.log_start if self.config.remote_storage else max(self.log_start, first)
        self.epochs.truncate_from_start(log_start)
        if not self.clean:
            self._restore_first_epochs(log_start)
        if recovery_point > 0:
            self.epochs.sync_from_now_on()
        if self.epochs.needs_sync:
            self.epochs.sync()
        self.snapshots.delete_strays(self.segments.base_offsets)
        state = self._producer_state(log_start, log_end)
        self._vouch_for_gaps(log_end)
        return LogParts(
            self.segments,
            self.epochs,
            state,
            self.snapshots,
            log_start,
            log_end,
            recovery_point,
        )

    def _producer_state(self, log_start: int, log_end: int) -> ProducerState:
        """The state that recovery has built up to the log end, else one rebuilt from the newest
        snapshot.

        A crash leaves producers with several batches that are in the log and not yet answered: they
        send all of them again, and each must be recognized as a duplicate, not only the last one.
        """
        state = self.recovered_state
        if (
            state is not None
            and state.map_end_offset == log_end
            and log_start <= self.segments.active.base_offset
        ):
            return state
        state = ProducerState(self.producer_limits)
        rebuild_producer_state(
            state,
            self.snapshots,
            self.segments,
            log_start,
            log_end,
            reload_from_clean_shutdown=self.clean,
            report=self.report,
        )
        return state

    def _restore_first_epochs(self, log_start: int) -> None:
        """Records below the first known epoch were deleted, but the crash took the new log start.

        The answer to a follower that asks for an older epoch must not let it keep records of a
        later epoch of ours. (Kafka does not restore them; batches of old formats have no epoch.)
        """
        entries = self.epochs.entries
        if not entries or entries[0][1] <= log_start:
            return
        found: dict[int, int] = {}
        for segment in self.segments.covering(log_start, entries[0][1]):
            for _, header in scan_headers(segment.log_file, 0, segment.size):
                if header.base_offset >= entries[0][1]:
                    break
                if header.last_offset >= log_start and header.partition_leader_epoch >= 0:
                    start = max(header.base_offset, log_start)
                    found.setdefault(header.partition_leader_epoch, start)
        self.epochs.prepend(sorted(found.items()))

    def _read_epochs(self) -> LeaderEpochCache:
        """Epochs that cannot be read are in the batches."""
        path = os.path.join(self.directory, LEADER_EPOCH_FILE)
        try:
            is_there = self.files.exists(path)
            self.epochs_lost = not is_there or self.files.size(path) == 0
            if is_there and self.epochs_lost:
                self.report(f"{path} is damaged: it is empty; reading the epochs from the log")
            return LeaderEpochCache(self.files, self.directory)
        except CheckpointError as error:
            self.report(f"{error}; reading the epochs from the log")
            self.epochs_lost = True
            return LeaderEpochCache(self.files, self.directory, anew=True)

    def _find_epochs(self) -> None:
        """Read the epochs from the batches; batches of old formats have none, and end them.

        An epoch whose first batches were compacted away begins at the first one that is left.
        """
        self.epochs.clear()
        for segment in self.segments:
            for _, header in scan_headers(segment.log_file, 0, segment.size):
                if header.magic < 2:
                    self.epochs.clear()
                elif header.partition_leader_epoch > self.epochs.latest_epoch:
                    self.epochs.assign(header.partition_leader_epoch, header.base_offset)

    def _check_log_start(self) -> None:
        """A log start that the leader epochs do not know is a damaged number.

        Raising the log start raises the first epoch's start with it, before any checkpoint is
        written. A crash may bring deleted records back; a wrong digit must not delete any.
        """
        entries = self.epochs.entries
        if not self.epochs_lost and entries and entries[0][1] < self.log_start:
            self._distrust_log_start(entries[0][1])
        elif self.epochs_lost and not self.clean and len(self.segments):
            first = self.segments.first
            if first.base_offset < self.log_start and _has_epochs(first):
                self._distrust_log_start(first.base_offset)

    def _distrust_log_start(self, first_offset: int) -> None:
        self.report(
            f"the log start offset {self.log_start} of its checkpoint is wrong: the first leader "
            f"epoch begins at {first_offset}"
        )
        self.log_start = first_offset

    # Segments

    def _open_segments(self) -> None:
        names = set(segment_files(self.files, self.directory))
        for name in sorted(names):
            stem, suffix = os.path.splitext(name)
            if suffix in _INDEX_SUFFIXES and stem + LOG_SUFFIX not in names:
                self.report(f"found an orphaned index file {name}, with no corresponding log file")
                self.files.remove(os.path.join(self.directory, name))
            elif suffix == LOG_SUFFIX:
                self._open_segment(int(stem))

    def _open_segment(self, base_offset: int) -> None:
        self.segments.add(
            Segment(self.files, self.directory, base_offset, self.config, now_ms=self.now_ms)
        )

    def _check_indexes(self) -> None:
        """Rebuild indexes that cannot be trusted, save where recovery does so anyway.

        The segment before those may have been flushed while it was active, without its indexes, and
        then rolled: its indexes are checked as a whole after a power cut.
        """
        checked = Segments()
        found, self.segments = self.segments, checked
        first = found.floor(self.recovery_point)
        recovered_from = first.base_offset if first is not None else 0
        for segment in found:
            skip = not self.clean and segment.base_offset >= recovered_from
            following = found.after(segment)
            thorough = not self.clean and following is first
            problem = None if skip else segment.index_problem(thorough=thorough)
            if problem is not None:
                self.report(f"{segment.path}: {problem}; rebuilding its indexes")
                self._recover(segment, following)
            checked.add(segment)

    def _recover(self, segment: Segment, following: Segment | None) -> bool:
        """Rebuild a segment's indexes and cut off invalid data; whether there was any.

        A batch that reaches into the following segment was truncated before that segment began, and
        the truncation was not forced to disk. A batch with a lower epoch than the batch before it
        was truncated with its segment.
        """
        state = self._state_before(segment)
        segment.reset_indexes(self.config)
        valid = 0
        expected = segment.base_offset
        limit = MAX_RELATIVE_OFFSET + expected + 1
        is_followed = following is not None and following.base_offset < limit
        if following is not None:
            limit = min(limit, following.base_offset)
        goes_on = False
        try:
            for position, header, batch in scan_batches(segment.log_file, 0, segment.size):
                last = header.last_offset
                if last >= limit and is_followed:
                    self.report(f"{segment.path}: the next segment begins at {limit}")
                    goes_on = True
                    break
                in_range = expected <= last < limit
                if header.magic >= 2:
                    epoch = header.partition_leader_epoch
                    in_range &= header.base_offset >= expected and epoch >= self.batch_epoch
                if not in_range:
                    self.report(f"{segment.path}: offsets at position {position} are not in order")
                    break
                if not crc_is_valid(batch, 0, header):
                    self.report(f"{segment.path}: wrong CRC at {position}")
                    break
                segment.index_batch(position, header)
                if header.magic < 2:
                    self.epochs.confirm(UNDEFINED_EPOCH, header.base_offset, last)
                else:
                    self.batch_epoch = epoch
                    self.epochs.confirm(epoch, header.base_offset, last)
                    if header.producer_id >= 0:
                        aborted = state.apply(
                            header, header.base_offset, batch, header.max_timestamp
                        )
                        if aborted is not None:
                            segment.append_aborted_transaction(aborted)
                valid = position + len(batch)
                expected = last + 1
        except KafkaError as error:
            self.report(f"{segment.path}: {error.message}")
        cut = segment.finish_recovery(valid)
        if segment.transaction_index.entries:
            # The index was cleared and rebuilt, and a loss of its entries could not be noticed.
            # Everything below the recovery point counts as flushed, so no later flush would sync
            # it.
            segment.transaction_index.sync()
            self.files.sync_directory(self.directory)
        if cut:
            self.report(f"{segment.path}: cut {cut} bytes behind position {valid}")
            segment.sync_data()  # after a clean stop it would not be cut again
        state.map_end_offset = expected
        self.snapshots.take_soon(state)
        self.recovered_state = state
        return cut > 0 and not goes_on

    def _state_before(self, segment: Segment) -> ProducerState:
        """The producers at the start of the segment: from the recovery of the segment before, or
        read again."""
        state = self.recovered_state
        if state is not None and state.map_end_offset == segment.base_offset:
            return state
        state = ProducerState(self.producer_limits)
        rebuild_producer_state(
            state,
            self.snapshots,
            self.segments,
            self.log_start,
            segment.base_offset,
            report=self.report,
        )
        return state

    def _recover_unflushed(self) -> None:
        first = self.segments.floor(self.recovery_point)
        start = first.base_offset if first is not None else 0
        pending = self.segments.from_base(start)
        before = self.segments.floor(start - 1)
        if before is not None and first is not None and _end_of(before) > start:
            self.report(
                f"{before.path} goes on beyond the next segment's base offset; truncating it"
            )
            self._recover(before, first)
        noted = gaps_below(self.files, self.directory)
        while pending:
            segment = pending.pop(0)
            cut = self._recover(segment, pending[0] if pending else None)
            if not cut and pending and not self._may_have_gaps(pending[0].base_offset, noted):
                cut = self._ends_below(segment, pending[0].base_offset)
            if cut:
                for later in pending:
                    self.report(f"deleting segment {later.base_offset} behind the cut")
                    self._discard(later)
                return

    def _may_have_gaps(self, offset: int, noted: int | None) -> bool:
        """Below `offset`; the cleaner has noted how far. Gaps stay when compaction is taken off.

        Apache Kafka's cleaner leaves no note and writes its checkpoint at last: it may have been
        ended anywhere, in its first cleaning too.
        """
        if offset <= self.compacted_below:
            return True
        return self.config.compact if noted is None else offset <= noted

    def _vouch_for_gaps(self, log_end: int) -> None:
        """Begin to note the gaps that compaction leaves; a new log has none."""
        if not self.config.compact or gaps_below(self.files, self.directory) is not None:
            return
        if len(self.segments) == 1 and not self.segments.active.size:
            note_no_gaps(self.files, self.directory)
        else:
            write_gaps(self.files, self.directory, log_end)

    def _ends_below(self, segment: Segment, base_offset: int) -> bool:
        end = segment.next_offset()
        if end < base_offset:
            self.report(f"{segment.path} ends at {end}, below the next segment's base offset")
        return end < base_offset

    def _discard(self, segment: Segment) -> None:
        self.segments.remove(segment)
        for path in segment.mark_deleted():
            self.files.remove(path)

    def _log_end(self) -> int:
        """The log end; a log that ends below its start offset is dropped.

        Such a log lost, in a crash, records that were deleted already. After a clean stop, or if
        the leader epochs do not confirm the log start, that number is damaged.
        """
        if len(self.segments):
            log_end, position = self.segments.active.end()
            if self.clean and position != self.segments.active.size:
                raise KafkaError(
                    ErrorCode.CORRUPT_MESSAGE,
                    f"{self.segments.active.path} is damaged: no whole batch is at byte "
                    f"{position}, and {self.segments.active.size - position} bytes follow",
                )
            if log_end >= self.log_start:
                return log_end
            first = self.segments.first.base_offset
            if self.clean or (self.epochs_lost and log_end > first):
                self.report(
                    f"the log start offset {self.log_start} of its checkpoint is wrong: the log "
                    f"ends at {log_end}"
                )
                self.log_start = 0
                return log_end
            self.report(
                f"deleting all segments: the log end {log_end} is below the log start "
                f"{self.log_start}"
            )
            for segment in self.segments:
                self._discard(segment)
            self.epochs.clear()
            self.snapshots.delete_all()
        self.segments.add(
            Segment(
                self.files,
                self.directory,
                self.log_start,
                self.config,
                now_ms=self.now_ms,
                create=True,
            )
        )
        return self.log_start


def _end_of(segment: Segment) -> int:
    """The offset after its last message; beyond all of them if that cannot be read."""
    try:
        return segment.next_offset()
    except KafkaError:
        return segment.base_offset + MAX_RELATIVE_OFFSET + 1


def _has_epochs(segment: Segment) -> bool:
    """Whether its first batch is a good one, and not of an old format."""
    try:
        found = next(iter(scan_headers(segment.log_file, 0, segment.size)), None)
    except KafkaError:
        return False
    return found is not None and found[1].magic >= 2
