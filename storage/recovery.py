"""Load a partition directory: tidy up, check indexes, recover after a crash, rebuild producers.

After an unclean stop every segment from the recovery point on is read batch by batch (size, CRC,
growing offsets); its indexes are rebuilt; the first invalid batch and all behind it are cut off.
A segment that ends below the next one's base lost its tail on a batch's edge: there Kafka goes on
with a hole in the log; we cut, so that what is left is a prefix and replicas stay alike. Only
compaction makes such gaps rightly, and says before how far. (A follower of a compacted log has its
gaps inside of segments.)

Mirrors: LogLoader, LogSegment.recover, UnifiedLog.rebuildProducerState.
Leaves out: splitting segments whose offsets overflow (written by Kafka before 2.0).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from protocol.errors import KafkaError
from protocol.records.batch import crc_is_valid
from storage.batch_scan import scan_batches, scan_headers
from storage.checkpoints import LEADER_EPOCH_FILE, CheckpointError
from storage.files import Files
from storage.leader_epochs import LeaderEpochCache
from storage.log_config import LogConfig
from storage.producer_snapshot import SnapshotStore
from storage.producer_state import ProducerState
from storage.recovery_notes import gaps_below, note_cut
from storage.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    MAX_RELATIVE_OFFSET,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
)
from storage.segments import Segments

_INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
Report = Callable[[str], None]


class LogParts(NamedTuple):
    """What loading a partition directory finds."""

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
        "clean",
        "compacted_below",
        "config",
        "directory",
        "epochs",
        "expiration_ms",
        "files",
        "log_start",
        "now_ms",
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
        expiration_ms: int,
        report: Report,
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
        self.expiration_ms = expiration_ms
        self.report = report
        self.segments = Segments()
        self.epochs = self._read_epochs()
        self.snapshots = SnapshotStore(files, directory)
        # Of the segment recovered last: it knows more batches of a producer than its snapshot.
        self.recovered_state: ProducerState | None = None

    def load(self) -> LogParts:
        self._finish_interrupted_swap()
        self._open_segments()
        self._check_indexes()
        if not self.clean:
            self._recover_unflushed()
        log_end = self._log_end()
        self.segments.active.become_active(self.config)
        recovery_point = log_end if self.clean else min(self.recovery_point, log_end)
        if recovery_point < self.recovery_point:
            note_cut(self.files, self.directory, recovery_point, [self.shown_recovery_point])
        self.epochs.truncate_from_end(log_end, flush=False)
        log_start = max(self.log_start, self.segments.first.base_offset)
        self.epochs.truncate_from_start(self.log_start, flush=False)
        if not self.clean:
            self._restore_first_epochs(log_start)
        if recovery_point > 0:
            self.epochs.sync_from_now_on()
        self.epochs.flush()
        self.snapshots.delete_strays(self.segments.base_offsets)
        state = self._producer_state(log_start, log_end)
        return LogParts(
            self.segments, self.epochs, state, self.snapshots, log_start, log_end, recovery_point
        )

    def _producer_state(self, log_start: int, log_end: int) -> ProducerState:
        """What recovery has read to the log end, else by the newest snapshot.

        A crash leaves producers with several batches that are in the log and not yet answered: they
        send all of them again, and each must be known as a duplicate, not only the last one.
        """
        state = self.recovered_state
        if (
            state is not None
            and state.map_end_offset == log_end
            and log_start <= self.segments.active.base_offset
        ):
            return state
        state = ProducerState()
        rebuild_producer_state(
            state,
            self.snapshots,
            self.segments,
            log_start,
            log_end,
            now_ms=self.now_ms,
            expiration_ms=self.expiration_ms,
            reload_from_clean_shutdown=self.clean,
            report=self.report,
        )
        return state

    def _restore_first_epochs(self, log_start: int) -> None:
        """Records below the first known epoch were deleted, but the crash took the new log start.

        Followers that ask for an older epoch must not be told to keep what is ours of a later one.
        (Kafka goes on without; batches of old formats have no epoch and stay so.)
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
        """A file that was never forced to disk may be damaged; all epochs are in the log then."""
        try:
            return LeaderEpochCache(self.files, self.directory)
        except CheckpointError as error:
            if self.clean or self.recovery_point > 0:
                raise
            self.report(f"{error}; reading the epochs from the log")
            self._remove(LEADER_EPOCH_FILE)
            return LeaderEpochCache(self.files, self.directory)

    # -- files left by an interrupted cleaner or deletion ----------------------------------

    def _finish_interrupted_swap(self) -> None:
        """Drop half-made files; complete a swap whose new segments are all there."""
        names = self.files.list_directory(self.directory)
        cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
        lowest_cleaned = min((offset_of_file(name) for name in cleaned), default=None)
        swaps = []
        for name in names:
            if name.endswith(DELETED_SUFFIX) or name in cleaned:
                self._remove(name)
            elif name.endswith(SWAP_SUFFIX):
                if lowest_cleaned is not None and offset_of_file(name) >= lowest_cleaned:
                    self._remove(name)
                else:
                    swaps.append(name)
        if swaps:
            self._replace_swapped(swaps)

    def _replace_swapped(self, swaps: list[str]) -> None:
        low, high = None, -1
        for name in swaps:
            if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
                base = offset_of_file(name)
                low = base if low is None else min(low, base)
                high = max(high, self._next_offset_of(name, base))
        for name in self.files.list_directory(self.directory):
            if name in swaps or low is None or not name[:1].isdigit():
                continue
            if low <= offset_of_file(name) < high and not name.endswith(SNAPSHOT_SUFFIX):
                self.report(f"deleting {name}, which was compacted but not deleted yet")
                self._remove(name)
        for name in swaps:
            source = os.path.join(self.directory, name)
            self.files.rename(source, source.removesuffix(SWAP_SUFFIX))

    def _next_offset_of(self, name: str, base: int) -> int:
        file = self.files.open(os.path.join(self.directory, name))
        result = base
        for _, header, _batch in scan_batches(file, 0, file.size()):
            result = header.next_offset
        return result

    def _remove(self, name: str) -> None:
        self.files.remove(os.path.join(self.directory, name))

    # -- segments --------------------------------------------------------------------------

    def _open_segments(self) -> None:
        names = set(self.files.list_directory(self.directory))
        for name in sorted(names):
            stem, suffix = os.path.splitext(name)
            if not stem.isdigit():
                continue
            if suffix in _INDEX_SUFFIXES and stem + LOG_SUFFIX not in names:
                self.report(f"found an orphaned index file {name}, with no corresponding log file")
                self._remove(name)
            elif suffix == LOG_SUFFIX:
                self._open_segment(int(stem))

    def _open_segment(self, base_offset: int) -> None:
        self.segments.add(
            Segment(self.files, self.directory, base_offset, self.config, now_ms=self.now_ms)
        )

    def _check_indexes(self) -> None:
        """Rebuild indexes that cannot be trusted, save where recovery does so anyway."""
        checked = Segments()
        found, self.segments = self.segments, checked
        first = found.floor(self.recovery_point)
        recovered_from = first.base_offset if first is not None else 0
        for segment in found:
            skip = not self.clean and segment.base_offset >= recovered_from
            problem = None if skip else segment.index_problem()
            if problem is not None:
                self.report(f"segment {segment.base_offset}: {problem}; rebuilding its indexes")
                self._recover(segment)
            checked.add(segment)

    def _recover(self, segment: Segment) -> int:
        """Rebuild a segment's indexes, cut off what is invalid; returns the bytes cut."""
        state = ProducerState()
        rebuild_producer_state(
            state,
            self.snapshots,
            self.segments,
            self.log_start,
            segment.base_offset,
            now_ms=self.now_ms,
            expiration_ms=self.expiration_ms,
            report=self.report,
        )
        segment.reset_indexes(self.config)
        valid = 0
        expected = segment.base_offset
        try:
            for position, header, batch in scan_batches(segment.log_file, 0, segment.size):
                last = header.last_offset
                in_range = expected <= last and last - segment.base_offset <= MAX_RELATIVE_OFFSET
                if not in_range or (header.magic >= 2 and header.base_offset < expected):
                    self.report(
                        f"segment {segment.base_offset}: offsets at position {position} "
                        f"are not in order"
                    )
                    break
                if not crc_is_valid(batch, 0, header):
                    self.report(f"segment {segment.base_offset}: wrong CRC at {position}")
                    break
                segment.index_batch(position, header)
                if header.magic >= 2:
                    epoch = header.partition_leader_epoch
                    if epoch > self.epochs.latest_epoch:
                        # A known epoch may have begun before this segment.
                        self.epochs.assign(epoch, header.base_offset, flush=False)
                    if header.producer_id >= 0:
                        aborted = state.apply(
                            header, header.base_offset, batch, header.max_timestamp
                        )
                        if aborted is not None:
                            segment.append_aborted_transaction(aborted)
                valid = position + len(batch)
                expected = last + 1
        except KafkaError as error:
            self.report(f"segment {segment.base_offset}: {error.message}")
        cut = segment.finish_recovery(valid)
        if cut:
            self.report(f"segment {segment.base_offset}: cut {cut} bytes behind position {valid}")
        state.map_end_offset = expected
        self.snapshots.take(state)
        self.recovered_state = state
        return cut

    def _recover_unflushed(self) -> None:
        first = self.segments.floor(self.recovery_point)
        start = first.base_offset if first is not None else 0
        pending = self.segments.from_base(start)
        noted = gaps_below(self.files, self.directory) if len(pending) > 1 else 0
        while pending:
            segment = pending.pop(0)
            cut = self._recover(segment) > 0
            if not cut and pending and not self._may_have_gaps(pending[0].base_offset, noted):
                cut = self._ends_below(segment, pending[0].base_offset)
            if cut:
                for later in pending:
                    self.report(f"deleting segment {later.base_offset} behind the cut")
                    self._discard(later)
                return

    def _may_have_gaps(self, offset: int, noted: int) -> bool:
        """Below `offset`; the cleaner has noted how far. Gaps stay when compaction is taken off.

        Apache Kafka's cleaner leaves no note and writes its checkpoint at last: where that is above
        the note, Kafka may have been ended on its way further up.
        """
        if offset <= max(noted, self.compacted_below):
            return True
        return self.config.compact and noted < self.compacted_below

    def _ends_below(self, segment: Segment, base_offset: int) -> bool:
        end = segment.next_offset()
        if end < base_offset:
            self.report(f"segment {segment.base_offset} ends at {end}, below the next one's base")
        return end < base_offset

    def _discard(self, segment: Segment) -> None:
        self.segments.remove(segment)
        for path in segment.mark_deleted():
            self.files.remove(path)

    def _log_end(self) -> int:
        """The log end; a log that ends below its start offset is dropped."""
        if len(self.segments):
            log_end = self.segments.active.next_offset()
            if log_end >= self.log_start:
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


def offset_of_file(name: str) -> int:
    return int(name.split(".", 1)[0])


def rebuild_producer_state(
    state: ProducerState,
    snapshots: SnapshotStore,
    segments: Segments,
    log_start_offset: int,
    last_offset: int,
    *,
    now_ms: int,
    expiration_ms: int,
    reload_from_clean_shutdown: bool = False,
    report: Report | None = None,
) -> None:
    """Bring `state` to `last_offset`: newest snapshot at or below it, then read the log on."""
    bases = segments.base_offsets
    wanted = {*bases[-2:], last_offset}
    if not snapshots.offsets and reload_from_clean_shutdown:
        for offset in sorted(wanted):
            state.map_end_offset = offset
            snapshots.take(state)
        return
    snapshots.delete_outside(log_start_offset, last_offset)
    problem = snapshots.load_newest(state, log_start_offset, now_ms, expiration_ms)
    if problem is not None and report is not None:
        report(f"dropped producer snapshots: {problem}")
    for segment in segments.covering(state.map_end_offset, last_offset):
        start = max(segment.base_offset, state.map_end_offset, log_start_offset)
        state.map_end_offset = start
        if segment.base_offset in wanted:
            snapshots.take(state)
        _replay(state, segment, start, last_offset)
    state.map_end_offset = last_offset
    snapshots.take(state)


def _replay(state: ProducerState, segment: Segment, start: int, last_offset: int) -> None:
    """Apply the batches of [start, last_offset) of one segment."""
    position = segment.position_of(start)
    if position is None:
        return
    for _, header, batch in scan_batches(segment.log_file, position, segment.size):
        if header.base_offset >= last_offset:
            return
        if header.producer_id >= 0 and header.last_offset >= start:
            state.apply(header, header.base_offset, batch, header.max_timestamp)
        state.map_end_offset = header.next_offset
