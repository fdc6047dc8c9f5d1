"""What a log is besides its data path: its parts, its offsets, its life cycle, its failures.

Invariants: log start <= last stable offset <= high watermark <= log end; everything below
`recovery_point` is on disk. An I/O error takes the whole log directory offline (`health`): from
then on every operation of its logs is KAFKA_STORAGE_ERROR.

Mirrors: UnifiedLog (offsets, closing, renaming), LogDirFailureChannel.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from ..protocol.errors import ErrorCode, KafkaError
from . import checkpoints, recovery_notes
from .checkpoints import TopicPartition
from .descriptors import OutOfDescriptors, require_descriptors
from .files import Files, is_out_of_descriptors
from .log_config import PRODUCER_ID_EXPIRATION_MS, LogConfig
from .message_format import NEWEST_RECORD_VERSION
from .offset_index import index_path
from .recovery import LogParts
from .segment import CLEANED_SUFFIX, FILE_SUFFIXES, SWAP_SUFFIX, Segment

logger = logging.getLogger(__name__)

NOT_CUT = 2**63 - 1
_MAX_FILE_NAME = 255


def delete_name(topic: str, partition: int, unique_id: str) -> str:
    """The name of a partition's directory that is to be deleted; a long topic is cut."""
    suffix = f"-{partition}.{unique_id}-delete"
    return topic[: _MAX_FILE_NAME - len(suffix)] + suffix


class DirectoryHealth:
    """What all logs of a directory share: whether it is online, and what its checkpoints may
    show."""

    __slots__ = ("_checkpoints", "error", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.error: OSError | None = None
        # Of each file the last two: the newer one may not be on disk yet.
        self._checkpoints: dict[str, list[Mapping[TopicPartition, int]]] = {
            name: [{}, {}] for name in checkpoints.OFFSET_FILES
        }

    def fail(self, error: OSError) -> None:
        if is_out_of_descriptors(error):
            logger.warning("%s: no fault of log directory %s", error, self.path)
        elif self.error is None:
            self.error = error

    def note_checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """These are about to be written; what was given before is on disk."""
        self._checkpoints[name] = [self._checkpoints[name][1], offsets]

    def recovery_points_on_disk(self, key: TopicPartition) -> list[int]:
        """What the checkpoint may show of a log: one of these."""
        return [
            offsets.get(key, 0) for offsets in self._checkpoints[checkpoints.RECOVERY_POINT_FILE]
        ]

    def may_be_checkpointed(self, key: TopicPartition) -> bool:
        """Whether a checkpoint on disk may say anything of a log of this name."""
        return any(
            key in offsets for last_two in self._checkpoints.values() for offsets in last_two
        )


class LogState:
    __slots__ = (
        "_closed_segments",
        "_flushed",
        "_is_gaps_note_unsynced",
        "_jitter",
        "_lowest_cuts",
        "_oldest_unflushed",
        "_recovery_floor",
        "_topic_id_unsynced",
        "_truncated",
        "_truncations",
        "config",
        "directory",
        "doomed_files",
        "files",
        "first_dirty_offset",
        "flush_due_offset",
        "health",
        "high_watermark",
        "is_closed",
        "is_new_since_checkpoints",
        "is_topic_id_lost",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "name",
        "partition",
        "producer_expiration_ms",
        "producer_state",
        "segments",
        "snapshots",
        "topic",
        "topic_id",
        "validate_fully",
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
        producer_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        validate_fully: bool = False,
    ) -> None:
        self.files = files
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.name = f"{topic}-{partition}"
        self.topic_id = topic_id
        # Whether the checkpoints may speak of an earlier log of this name; the upkeep mends that.
        self.is_new_since_checkpoints = recovery_notes.is_new_since_checkpoints(files, directory)
        # Whether there was one that cannot be read: the log may be of an earlier topic of the name.
        self.is_topic_id_lost = False
        self.config = config
        self.health = health
        self.validate_fully = validate_fully
        self.producer_expiration_ms = producer_expiration_ms
        self.segments = parts.segments
        self.leader_epochs = parts.leader_epochs
        if config.record_version < NEWEST_RECORD_VERSION:
            self.leader_epochs.clear()
        self.producer_state = parts.producer_state
        self.snapshots = parts.snapshots
        self.log_start_offset = parts.log_start_offset
        self.log_end_offset = parts.log_end_offset
        self._recovery_floor = parts.recovery_point
        # (truncations before it, offset) of the last flush, which a worker thread writes.
        self._flushed = (0, parts.recovery_point)
        self.high_watermark = parts.log_start_offset
        self.flush_due_offset = parts.recovery_point
        self.doomed_files: list[str] = []
        self.is_closed = False
        self._is_gaps_note_unsynced = parts.is_gaps_note_unsynced
        self._jitter = jitter
        self._topic_id_unsynced = False
        self._truncations = 0
        # Rolled, their indexes not forced to disk yet; a flush takes them from here.
        self._closed_segments: list[Segment] = []
        self._truncated = False
        self._lowest_cuts: dict[str, int] = {}
        # (offset, time) of an append; flushed if the recovery point has passed it.
        self._oldest_unflushed = (-1, 0)
        # Up to where the log is compacted; None if it never was.
        self.first_dirty_offset: int | None = None

    def __repr__(self) -> str:
        return (
            f"Log({self.name}, start={self.log_start_offset}, "
            f"hw={self.high_watermark}, end={self.log_end_offset})"
        )

    # -- offsets ---------------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def recovery_point(self) -> int:
        """Everything below is on disk. A flush that met a truncation does not count."""
        truncations, offset = self._flushed
        floor = self._recovery_floor
        return max(offset, floor) if truncations == self._truncations else floor

    @property
    def unflushed_from(self) -> int:
        """Where the messages begin that flush.messages wants on disk by now; -1: there are none."""
        recovery_point = self.recovery_point
        owes = self.log_end_offset - recovery_point >= self.config.flush_messages
        return recovery_point if owes else -1

    def _begin_truncation(self, offset: int) -> None:
        """What is at and above `offset` is about to be replaced; flushes under way are void, and
        so are checkpoints of the recovery point."""
        shown = self.health.recovery_points_on_disk((self.topic, self.partition))
        recovery_notes.note_cut(self.files, self.directory, offset, shown)
        self._recovery_floor = min(self.recovery_point, offset)
        if self.first_dirty_offset is not None:
            self.first_dirty_offset = min(self.first_dirty_offset, offset)
        self._truncations += 1
        self._truncated = True
        for watcher, lowest in self._lowest_cuts.items():
            self._lowest_cuts[watcher] = min(lowest, offset)
        self.flush_due_offset = min(self.flush_due_offset, offset)

    def _end_truncation(self, offset: int) -> None:
        """The log ends at `offset` now; a flush that saw the old end is void too."""
        self.log_end_offset = offset
        self._truncations += 1

    def take_truncated(self) -> bool:
        """Whether the log was truncated since the last call: its checkpoints must be written."""
        truncated, self._truncated = self._truncated, False
        return truncated

    def watch_cuts(self, watcher: str) -> int:
        """Begin, or begin anew, to note truncations; returns the `lowest_cut` of before."""
        lowest = self._lowest_cuts.get(watcher, NOT_CUT)
        self._lowest_cuts[watcher] = NOT_CUT
        return lowest

    def lowest_cut(self, watcher: str) -> int:
        """Where truncations have cut deepest since `watch_cuts`."""
        return self._lowest_cuts[watcher]

    @property
    def first_unstable_offset(self) -> int | None:
        unstable = self.producer_state.first_unstable_offset
        return None if unstable is None else max(unstable, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        unstable = self.producer_state.first_unstable_offset
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
        try:
            self.leader_epochs.assign(epoch, start_offset)
        except OSError as error:
            self._fail("writing the leader epochs", error)

    def update_high_watermark(self, high_watermark: int) -> int:
        """Set the high watermark, bounded by the log's ends; returns what it is now."""
        bounded = min(max(high_watermark, self.log_start_offset), self.log_end_offset)
        self.high_watermark = bounded
        self.producer_state.high_watermark_updated(bounded)
        return bounded

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Forget what is below `offset` (DeleteRecords, or the leader did)."""
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.name} "
                f"since it is larger than the high watermark {self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        try:
            self.leader_epochs.truncate_from_start(offset)
        except OSError as error:
            self._fail("raising the log start offset", error)
        self.producer_state.log_start_offset_updated(offset)
        self.snapshots.refresh_last(offset)
        return True

    def _forget_epochs_of_old_formats(self) -> None:
        """Batches below v2 have no leader epochs: followers go by the high watermark.

        A config is not refused for a broken disk; whoever uses the log next is told.
        """
        if self.config.record_version < NEWEST_RECORD_VERSION:
            try:
                self.leader_epochs.clear()
            except OSError as error:
                self.health.fail(error)

    # -- compaction ------------------------------------------------------------------------

    def replace_segments(self, base_offset: int, sources: Sequence[Segment], now_ms: int) -> None:
        """Put the segment that lies ready in `.cleaned` files into the place of `sources`.

        In the order of Kafka: after a crash between two renames, a load drops the new segment while
        some of its files are `.cleaned`, and completes the swap from then on.
        """
        require_descriptors(self.files, f"replacing segments of {self.name}")
        try:
            for suffix in FILE_SUFFIXES:
                path = index_path(self.directory, base_offset, suffix)
                if self.files.exists(path + CLEANED_SUFFIX):
                    self.files.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
            for source in sources:
                self.doomed_files += source.mark_deleted()
                if (
                    source.base_offset != base_offset
                    and source.base_offset in self.snapshots.offsets
                ):
                    self.snapshots.delete(source.base_offset)
            for suffix in FILE_SUFFIXES:
                path = index_path(self.directory, base_offset, suffix)
                if self.files.exists(path + SWAP_SUFFIX):
                    self.files.rename(path + SWAP_SUFFIX, path)
            cleaned = Segment(self.files, self.directory, base_offset, self.config, now_ms=now_ms)
        except OSError as error:
            self._fail("replacing segments", error)
        self.segments.replace(sources, cleaned)

    # -- life cycle ------------------------------------------------------------------------

    def assign_topic_id(self, topic_id: bytes) -> None:
        """Name the topic in `partition.metadata`; the next flush forces that to disk."""
        assert self.topic_id in (None, topic_id), f"{self.name} has another topic id"
        if self.topic_id is None:
            try:
                checkpoints.write_partition_topic_id(
                    self.files, self.directory, topic_id, sync=self.recovery_point > 0
                )
            except OSError as error:
                self._fail("writing partition.metadata", error)
            self.topic_id = topic_id
            self.is_topic_id_lost = False
            self._topic_id_unsynced = self.recovery_point == 0

    def take_stored_topic_id(self, topic_id: bytes | None, *, is_lost: bool = False) -> None:
        """What `partition.metadata` said; whether that was ever forced to disk is not known."""
        self.topic_id = topic_id
        self.is_topic_id_lost = is_lost
        self._topic_id_unsynced = topic_id is not None

    def _sync_metadata(self) -> None:
        """Before the recovery point moves: topic id and leader epochs. Blocks."""
        epochs_synced = self.leader_epochs.sync()
        if self._topic_id_unsynced:
            path = os.path.join(self.directory, checkpoints.PARTITION_METADATA_FILE)
            self.files.open(path).sync()
            self._topic_id_unsynced = False
        elif not epochs_synced:
            return
        self.files.sync_directory(self.directory)

    def set_config(self, config: LogConfig) -> None:
        self.config = config
        self._forget_epochs_of_old_formats()
        for segment in self.segments:
            segment.index_interval_bytes = config.index_interval_bytes

    def close(self) -> None:
        """Snapshot the producers and trim all files; the caller flushed before."""
        if self.is_closed:
            return
        try:
            self.leader_epochs.flush()
            self._sync_metadata()
            if self.producer_state.map_end_offset > self.snapshots.last_snapshot_offset:
                self.snapshots.take(self.producer_state)
                self.snapshots.sync(self.producer_state.map_end_offset)
            for segment in self.segments:
                segment.close()
        except OSError as error:
            self._fail("closing", error)
        self.is_closed = True

    def release(self) -> None:
        """Let go of the files of an offline or deleted log."""
        self.is_closed = True
        for segment in self.segments:
            segment.release()

    def rename_for_delete(self, unique_id: str) -> str:
        """Rename the directory to `...-delete`; the log takes no more requests."""
        self.release()
        return self._rename(delete_name(self.topic, self.partition, unique_id))

    def move(self, name: str) -> None:
        """Give the partition directory another name and go on in it; no flush may be under way."""
        directory = self._rename(name)
        for segment in self.segments:
            segment.moved_to(directory)
        self.snapshots.moved_to(directory)
        self.leader_epochs.moved_to(directory)

    def _rename(self, name: str) -> str:
        target = os.path.join(os.path.dirname(self.directory), name)
        try:
            self.files.rename(self.directory, target)
        except OSError as error:
            self._fail("renaming", error)
        self.directory = target
        return target

    # -- failures --------------------------------------------------------------------------

    def _fail(self, doing: str, error: OSError) -> NoReturn:
        if is_out_of_descriptors(error):
            raise OutOfDescriptors(f"{doing} to {self.name}") from error
        self.health.fail(error)
        raise KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"Error while {doing} to {self.name} in dir {self.health.path}: {error}",
        ) from error

    def _offline(self) -> KafkaError:
        return KafkaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"The log for partition {self.name} in dir {self.health.path} is offline",
        )
