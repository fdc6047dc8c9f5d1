"""What one partition's log holds, and the questions that change nothing.

`ReadableLog` has all fields of a log: its files (`local`), its producers (`producers`), its leader
epochs, its topic id and its four offsets. Each of the classes above it adds what changes them:
`AppendableLog`, `TruncatableLog` and `Log`, which is the one that others use.

A log with a remote tier (KIP-405, `has_remote_tier`) keeps the segments from its local log start
on. The records from the log start to there are in the tier only: a read of them is
OFFSET_MOVED_TO_TIERED_STORAGE.

Invariants: those of the offsets are in `log_invariants`. All methods belong to one thread.

Mirrors: the reading methods of UnifiedLog.
Leaves out: reads from the remote tier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.topics import NEVER_TIERED
from ..protocol.wall_clock import WallClock
from . import log_lookup, recovery_notes
from .append_info import AppendRules
from .directory_health import DirectoryHealth
from .files import EMPTY_SLICE, Files
from .local_log import LocalLog, LogRead, Place
from .log_config import LogConfig
from .log_lookup import TimestampOffset
from .log_producers import LogProducers
from .message_format import NEWEST_RECORD_VERSION
from .partition_metadata import PartitionMetadata
from .recovery import LogParts
from .segment import Segment
from .segment_reader import BatchToSearch


class ReadableLog:
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

    @property
    def first_unstable_offset(self) -> int | None:
        unstable = self.producers.known.transactions.first_unstable_offset
        return None if unstable is None else max(unstable, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        unstable = self.producers.known.transactions.first_unstable_offset
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

    # Files and names

    @property
    def recovery_point(self) -> int:
        """Everything below is on disk."""
        return self.local.recovery_point

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
