"""Replicas that move from one log directory of this broker to another (KIP-113).

Job: a second log of the partition, its future replica, is filled from the first one until both end
at the same offset; then it takes the first one's place. `alter_log_dirs` sets the directories of
replicas, `resume` continues the moves that a restart has interrupted, `next_step` returns the next
step of a move: read a piece of the log (in a thread, then `copied`), make the copy durable (in a
thread, then `prepared`), flush it (in a thread), pause, or end.

Invariants: the copy is a prefix of the log: every cut of the log is applied to the copy before
anything is added to it, and a piece that was read before such a cut is dropped; the last small
piece and the swap are one step, so that nothing can be appended in between; the copy is flushed
before it counts.

Mirrors ReplicaManager.alterReplicaLogDirs, ReplicaAlterLogDirsThread and
Partition.maybeReplaceCurrentWithFutureReplica. Beyond Kafka: the flush.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.topics import TopicPartition
from ..storage.append_info import UnexpectedAppendOffset
from ..storage.files import FileSlice
from ..storage.local_log import NOT_CUT, CutNotNoted
from ..storage.log import Log
from ..storage.log_directory import is_future_name_too_long
from ..storage.log_producers import PIECES_FOR_APPENDS
from .follower import truncation_point
from .hosted_partitions import HostedPartitions, Move
from .partition import Partition
from .throttle import UNLIMITED, ReplicationQuota
from .types import FlushNeeded
from .waiting import WaitingOperations

logger = logging.getLogger("pybroker.replication.log_dir_moves")

# The loop appends a piece at once: thousands of small batches in it would hold others up.
PIECE_BYTES = 1 << 18
# A piece of up to this size, the last one, is read on the spot: it has just been written.
LAST_PIECE_BYTES = 1 << 16
OVER_QUOTA_WAIT_MS = 100
CUT_WATCHER = "copy"


@dataclass(slots=True, frozen=True)
class Read:
    """Do `read_piece` in a thread, then pass its bytes to `copied`."""

    piece: FileSlice


@dataclass(slots=True, frozen=True)
class Prepare:
    """Make the copy durable in a thread, then call `prepared`."""

    run: Callable[[], None]


@dataclass(slots=True, frozen=True)
class Flush:
    """Flush the copy in a thread: its cut is noted with that."""

    run: Callable[[], None]


@dataclass(slots=True, frozen=True)
class Pause:
    """More than the quota allows has been copied, or the producers of the copy are being rebuilt
    after a cut: time for others."""

    wait_ms: int


@dataclass(slots=True, frozen=True)
class Over:
    """The end of a move: the copy has replaced the log, or the move was cancelled."""


Step = Read | Prepare | Flush | Pause | Over


class LogDirMoves:
    """The moves of a broker, and the quota that they share."""

    __slots__ = ("_hosted", "_waiting", "active", "quota")

    def __init__(self, hosted: HostedPartitions, waiting: WaitingOperations) -> None:
        self._hosted = hosted
        self._waiting = waiting
        # The dict of `hosted`, which drops those whose disk fails.
        self.active = hosted.moving
        self.quota = ReplicationQuota(hosted.config.broker_id)

    @property
    def max_lag(self) -> int:
        return max((move.lag for move in self.active.values()), default=0)

    # Requests

    def alter_log_dirs(
        self, wanted: Mapping[TopicPartition, str], now_ms: int
    ) -> dict[TopicPartition, ErrorCode]:
        """Move these replicas to these directories; a code for each."""
        results = {}
        for key, path in wanted.items():
            try:
                results[key] = self._alter(key, path, now_ms)
            except KafkaError as error:
                results[key] = error.code
                if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                    self._waiting.check_log_dirs()
        return results

    def _alter(self, key: TopicPartition, path: str, now_ms: int) -> ErrorCode:
        logs = self._hosted.log_manager
        if is_future_name_too_long(*key):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        directory = next((d for d in logs.directories if d.path == path), None)
        if directory is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if not directory.is_online or key in self._hosted.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if logs.future_directory_of(*key) not in (None, path) and key in self._hosted.partitions:
            logger.info("%s-%d is not moved to %s any more", *key, logs.future_directory_of(*key))
            self.cancel(key)
            logs.delete_future_log(*key, now_ms)
        logs.prefer_directory(*key, path)
        partition = self._hosted.partitions.get(key)
        if partition is None:
            error = self._hosted.missing_error(key)
            if error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                return ErrorCode.REPLICA_NOT_AVAILABLE
            return error
        if path in (logs.directory_of(*key), logs.future_directory_of(*key)):
            return ErrorCode.NONE
        logs.create_future_log(*key, path, self._hosted.config_for(key[0]), now_ms)
        self._begin(partition, now_ms)
        return ErrorCode.NONE

    def resume(self, keys: Iterable[TopicPartition], now_ms: int) -> None:
        """These partitions have a role now: continue moves that an earlier run of this broker
        began."""
        logs = self._hosted.log_manager
        for key in keys:
            partition = self._hosted.partitions.get(key)
            if partition is None or key in self.active:
                continue
            if logs.future_directory_of(*key) == logs.directory_of(*key):
                logs.delete_future_log(*key, now_ms)  # its log was lost and made anew right there
            elif logs.future_log(*key) is not None:
                self._begin(partition, now_ms)

    def cancel(self, key: TopicPartition) -> None:
        """Copy no further."""
        self.active.pop(key, None)

    def _begin(self, partition: Partition, now_ms: int) -> None:
        future = self._hosted.log_manager.future_log(*partition.key)
        assert future is not None
        logger.info(
            "Moving %s from %s to %s", future.name, partition.log.health.path, future.health.path
        )
        partition.log.local.watch_cuts(CUT_WATCHER)
        future.first_dirty_offset = partition.log.first_dirty_offset
        self.active[partition.key] = Move(partition, future)

    # Step by step

    def next_step(self, move: Move, now_ms: int) -> Step:
        """The next step of the move; KafkaError if one of the logs cannot be read or written."""
        try:
            return self._next_step(move, now_ms)
        except CutNotNoted:
            return Flush(move.future.flush)

    def _next_step(self, move: Move, now_ms: int) -> Step:
        quota = self.quota
        while self.active.get(move.key) is move:
            if not move.agrees:
                _agree(move.partition.log, move.future, now_ms)
                move.agrees = True
            if quota.limit != UNLIMITED and quota.is_exceeded(now_ms):
                return Pause(OVER_QUOTA_WAIT_MS)
            log, future = move.partition.log, move.future
            _follow_cuts(log, future, now_ms)
            if not _is_rebuilt(future):
                return Pause(0)
            if future.log_end_offset == log.log_end_offset:
                _follow_offsets(log, future)
                if not move.is_prepared:
                    return Prepare(self._hosted.log_manager.preparation(*move.key))
                self._swap(move, now_ms)
                return Over()
            end_offset = log.log_end_offset
            piece = log.read(
                future.log_end_offset,
                min(PIECE_BYTES, quota.piece(now_ms)),
                upper_bound_offset=end_offset,
            ).records
            if len(piece) > LAST_PIECE_BYTES:
                return Read(piece)
            if len(piece):
                self._add(move, read_piece(move, piece), now_ms)
            else:  # the last messages were compacted away
                future.log_end_offset = future.producers.known.map_end_offset = end_offset
        return Over()

    def copied(self, move: Move, data: bytes, now_ms: int) -> None:
        """A piece has been read; KafkaError as for `next_step`."""
        if self.active.get(move.key) is not move:
            return
        if move.partition.log.local.lowest_cut(CUT_WATCHER) == NOT_CUT:
            with contextlib.suppress(CutNotNoted):  # the next step meets it again
                self._add(move, data, now_ms)

    def failed(self, move: Move, error: KafkaError) -> None:
        """A step has raised this: without its disk, or with damaged records, the move is over."""
        logger.error("Moving %s to %s failed: %s", move.future.name, move.future.health.path, error)
        if self.active.get(move.key) is move:
            self.cancel(move.key)
        self._waiting.check_log_dirs()

    def _add(self, move: Move, data: bytes, now_ms: int) -> None:
        log, future = move.partition.log, move.future
        if not data:
            return
        try:
            info = future.append_as_follower(data, now_ms=now_ms)
        except UnexpectedAppendOffset as error:
            if future.log_start_offset != future.log_end_offset:
                raise
            # The log starts inside of its first batch, which comes as a whole.
            future.truncate_fully_and_start_at(error.first_offset, now_ms)
            info = future.append_as_follower(data, now_ms=now_ms)
        _follow_offsets(log, future)
        quota = self.quota
        if quota.limit != UNLIMITED:
            quota.record(info.size_bytes, now_ms)

    def _swap(self, move: Move, now_ms: int) -> None:
        self.cancel(move.key)
        log = self._hosted.log_manager.replace_with_future(*move.key, now_ms)
        partition = move.partition
        partition.replace_log(log)
        logger.info("%s has moved to %s", log.name, log.health.path)
        if log.config.flushes_itself:
            # Operations that wait for a flush of the old log now wait for this flush.
            self._hosted.effects.append(FlushNeeded(*move.key, log.log_end_offset, log))
        self._waiting.check_log_dirs()  # the old directory may have failed in the end
        self._waiting.check(move.key)


def _is_rebuilt(future: Log) -> bool:
    """Do a part of the rebuild of the producers after a cut; whether it is complete."""
    for _ in range(PIECES_FOR_APPENDS):
        if not future.producers.is_being_rebuilt:
            return True
        future.rebuild_some()
    return not future.producers.is_being_rebuilt


def _agree(log: Log, future: Log, now_ms: int) -> None:
    """Cut records that are not in the log from the copy of an earlier run, by the leader epochs of
    both."""
    is_final = False
    while not is_final and future.log_end_offset > future.log_start_offset:
        epoch, end_offset = log.end_offset_for_epoch(future.leader_epochs.latest_epoch)
        offset, is_final = truncation_point(future, epoch, end_offset, future.high_watermark)
        future.truncate_to(offset, now_ms)
    if future.log_end_offset > log.log_end_offset:
        future.truncate_to(log.log_end_offset, now_ms)


def read_piece(move: Move, piece: FileSlice) -> bytes:
    """The bytes of a piece. Blocks."""
    try:
        return piece.read()
    except OSError as error:
        move.partition.log.health.fail(error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


def prepared(move: Move) -> None:
    """The step `Prepare` is done."""
    move.is_prepared = True


def _follow_cuts(log: Log, future: Log, now_ms: int) -> None:
    cut = log.local.lowest_cut(CUT_WATCHER)
    if cut < future.log_end_offset:
        future.truncate_to(cut, now_ms)
    log.local.watch_cuts(CUT_WATCHER)
    if future.log_end_offset < log.log_start_offset:
        future.truncate_fully_and_start_at(log.log_start_offset, now_ms)


def _follow_offsets(log: Log, future: Log) -> None:
    future.update_high_watermark(min(log.high_watermark, future.log_end_offset))
    future.maybe_increment_log_start_offset(min(log.log_start_offset, future.high_watermark))
