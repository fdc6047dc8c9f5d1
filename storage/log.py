"""One partition's log: its flushes, its config and its life cycle, over everything else it does.

A log is built in layers, each a class of its own file: `ReadableLog` has the fields and answers
questions, `AppendableLog` grows, `TruncatableLog` shrinks, and `Log` is what others use. The files
are in `local` (`LocalLog`), the producers and their transactions in `producers` (`LogProducers`).

Invariants: those of `log_invariants` for the offsets. All methods belong to one thread, save
`flush`, which blocks and may run in a worker beside appends.

Mirrors: UnifiedLog.
Leaves out: copies to the remote tier and reads from it. Retention and compaction are in `retention`
and `cleaner`.
"""

from __future__ import annotations

from ..protocol.topics import NEVER_TIERED
from .append_info import AppendRules
from .local_log import NOT_CUT
from .log_config import LogConfig
from .message_format import NEWEST_RECORD_VERSION
from .truncatable_log import TruncatableLog


class Log(TruncatableLog):
    __slots__ = ()

    # Flushing

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

    # Topic id and config

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

    # The end

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
