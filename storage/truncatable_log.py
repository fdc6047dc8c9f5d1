"""How a log shrinks: its log start grows, it is truncated, and segments go.

`TruncatableLog` drops messages at the end (a follower's truncation, a restart at another offset)
and at the beginning (DeleteRecords, retention), and replaces segments that the cleaner has
compacted.

In a log with a remote tier retention deletes a local segment only if the tier has it
(`highest_offset_in_remote_storage`) or if it is below the log start.

Invariants: those of `log_invariants` hold after each method, of the offsets always, of everything
else where checks are thorough. A truncation below the recovery point on disk is refused
(`CutNotNoted`) until a flush has noted it.

Mirrors: UnifiedLog.truncateTo, truncateFullyAndStartAt, maybeIncrementLogStartOffset,
replaceSegments.
Leaves out: which segments go, see `retention` and `cleaner`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..protocol import invariants
from ..protocol.errors import ErrorCode, KafkaError
from .appendable_log import AppendableLog
from .descriptors import require_descriptors
from .leader_epochs import from_start
from .local_log import EpochsNotOnDisk
from .log_invariants import broken, check_all, check_offsets
from .segment import Segment


class TruncatableLog(AppendableLog):
    __slots__ = ()

    # The log start

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
        check_offsets(self)
        if invariants.THOROUGH:
            check_all(self)
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
            self._limit_highest_remote_offset(end)
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
            check_all(self)
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
        self._limit_highest_remote_offset(offset)
        local.end_truncation()
        self.update_high_watermark(offset)
        if invariants.THOROUGH:
            check_all(self)

    def restart_behind_tier(
        self,
        offset: int,
        log_start_offset: int,
        epochs: Sequence[tuple[int, int]],
        snapshot: bytes,
        now_ms: int,
    ) -> None:
        """Drop everything and restart the log at `offset`; the remote tier has the records below
        it. `epochs` and the `snapshot` of the producers at `offset` are from there. FlushFirst:
        nothing has changed, try again after the next flush.

        A crash must not leave the log there without epochs: a leader would take the records of the
        earlier ones for those of another history. An empty log has no others to lose: a flush
        forces them to disk before the restart. Any other log has its own until it restarts: the
        next flush is to come before anything is appended (`needs_flush_of_epochs`), and after a
        crash before it, the leader finds the log to be of another history, and it restarts again.
        """
        self.local.require_note(offset)
        known = from_start(epochs, log_start_offset)
        if not self.size_bytes and not self.leader_epochs.is_on_disk_ahead(known):
            raise EpochsNotOnDisk(self.name, offset)
        try:
            self.truncate_fully_and_start_at(offset, now_ms, log_start_offset, known)
            self.producers.restore(offset, snapshot)
        except OSError as error:
            self.local.fail("rebuilding from the remote tier", error)
        if not self.leader_epochs.is_on_disk:
            self.leader_epochs.ask_for_sync()
        if invariants.THOROUGH:
            check_all(self)

    @property
    def needs_flush_of_epochs(self) -> bool:
        """Whether nothing is to be appended before the next flush."""
        return self.leader_epochs.needs_sync

    def _sync_metadata(self) -> None:
        """Before the recovery point moves: topic id and leader epochs. Blocks."""
        epochs_synced = self.leader_epochs.sync()
        if self._metadata.sync(self.local.directory) or epochs_synced:
            self.files.sync_directory(self.local.directory)

    # The remote tier

    def update_highest_offset_in_remote_storage(self, offset: int) -> None:
        """Note that the tier has all committed records up to `offset`; only a truncation takes that
        back. (In Kafka nothing does: what is appended after a truncation may then be deleted before
        it is copied.)"""
        if self.has_remote_tier and offset > self.highest_offset_in_remote_storage:
            self.highest_offset_in_remote_storage = offset

    def _limit_highest_remote_offset(self, end: int) -> None:
        """The tier may have had the records that are cut now; it does not have those to come."""
        highest = self.highest_offset_in_remote_storage
        self.highest_offset_in_remote_storage = min(highest, end - 1)

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
                raise broken(self, f"segments below {following.base_offset} are to go")
            for segment in segments:
                self.local.remove(segment)
            self.producers.snapshots.delete_below(following.base_offset)
            if invariants.THOROUGH:
                check_all(self)
        except OSError as error:
            self.local.fail("deleting segments", error)

    def replace_segments(self, base_offset: int, sources: Sequence[Segment], now_ms: int) -> None:
        """Replace `sources` by the segment that a cleaning made of them."""
        require_descriptors(self.files, f"replacing segments of {self.name}")
        self._finish_rebuild()
        try:
            self.local.replace_segments(base_offset, sources, now_ms)
            if invariants.THOROUGH:
                check_all(self)
            for source in sources:
                if source.base_offset != base_offset:
                    self.producers.replaced_segment(source.base_offset)
        except OSError as error:
            self.local.fail("replacing segments", error)
