"""A follower's changes of its log: append records, follow the leader's offsets, truncate.

Invariants: a truncation is logged, as a warning below the HW (only an unclean election can cause
that); records are appended only at the log end; the HW never passes the own log end. Fetches that
wait on the partition (consumers that read from followers) are looked at.

If the leader has the next record in the remote tier only, the log restarts behind the tier's
records (`rebuild_from_tier`), with the epochs and the producers that are stored there.

Mirrors ReplicaFetcherThread.processPartitionData and truncate, TierStateMachine.
"""

import logging
from collections.abc import Iterator

from ..protocol.apis.fetch import FetchResponsePartitionData
from ..protocol.errors import ErrorCode, KafkaError
from ..storage.append_info import UnexpectedAppendOffset
from ..storage.descriptors import OutOfDescriptors
from ..storage.local_log import FlushFirst
from ..storage.log import Log
from .follower import FollowerPartition, FollowerState, truncation_point
from .follower_table import FollowerTable
from .replica_manager import ReplicaManager
from .types import FlushNeeded, TierState

logger = logging.getLogger("pybroker.replication.follower_appends")


class FollowerAppends:
    __slots__ = ("_manager", "_table", "_to_rebuild")

    def __init__(self, manager: ReplicaManager, table: FollowerTable) -> None:
        self._manager = manager
        self._table = table
        # Logs that were cut: of very many producers, all are read again.
        self._to_rebuild: list[tuple[FollowerPartition, Log]] = []

    def take(self, state: FollowerPartition, data: FetchResponsePartitionData, now_ms: int) -> None:
        """The leader's answer to a fetch of one partition."""
        code = data.error_code
        if code:
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                state.move_to(FollowerState.FINDING_END)
                self._table.moved(state)
            elif (
                code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
                and state.partition.log.has_remote_tier
            ):
                state.leader_log_start = max(data.log_start_offset, 0)
                state.move_to(FollowerState.FINDING_LOCAL_START)
                self._table.moved(state)
            else:
                self._table.leader_refuses(state, ErrorCode(code), now_ms)
            return
        state.succeeded()
        divergence = data.diverging_epoch
        if divergence.epoch >= 0:
            point = truncation_point(
                state.partition.log, divergence.epoch, divergence.end_offset, state.initial_offset
            )
            self.truncate(state, point.offset, now_ms)
            return
        self._append(state, data, now_ms)

    def _append(
        self, state: FollowerPartition, data: FetchResponsePartitionData, now_ms: int
    ) -> None:
        partition = state.partition
        log = partition.log
        manager, table = self._manager, self._table
        records = data.records
        if records:
            assert isinstance(records, memoryview)
            if log.log_end_offset != state.fetch_offset:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"the log ends at {log.log_end_offset}, "
                    f"not at the fetched {state.fetch_offset}",
                )
            try:
                info = partition.append_as_follower(
                    records, leader_epoch=state.leader_epoch, now_ms=now_ms
                )
            except UnexpectedAppendOffset as error:
                if not _starts_inside(error, state, data.log_start_offset):
                    raise
                # The leader's log starts inside of its first batch, which comes as a whole.
                log.truncate_fully_and_start_at(error.first_offset, now_ms)
                info = partition.append_as_follower(
                    records, leader_epoch=state.leader_epoch, now_ms=now_ms
                )
            if info.size_bytes:
                partition.stats.replication_bytes_in += info.size_bytes
                if self.is_throttled(state):
                    manager.follower_quota.record(info.size_bytes, now_ms)
                end_offset = log.log_end_offset
                state.fetch_offset = end_offset
                state.last_fetched_epoch = log.leader_epochs.latest_epoch
                table.moved(state)
                if info.flush_needed:
                    table.wait_for_flush(state.key, end_offset)
                    manager.effects.append(FlushNeeded(*state.key, end_offset, log))
        state.lag = max(0, data.high_watermark - state.fetch_offset)
        high_watermark, log_start_offset = log.high_watermark, log.log_start_offset
        partition.follow_leader_offsets(data.high_watermark, data.log_start_offset)
        if log.log_start_offset != log_start_offset:
            table.moved(state)
        if log.high_watermark != high_watermark:
            manager.waiting.high_watermark_moved(state.key, partition)

    def is_throttled(self, state: FollowerPartition) -> bool:
        """Whether bytes fetched for it count for this broker's quota as a follower."""
        return self._manager.follower_quota.throttles(
            state.key[1], state.partition.log.config.follower_replication_throttled_replicas
        )

    def truncate(self, state: FollowerPartition, offset: int, now_ms: int) -> None:
        """Cut the log and fetch from there."""
        log = state.partition.log
        topic, partition = state.key
        end_offset = log.log_end_offset
        if offset < end_offset:
            below = offset < log.high_watermark
            logger.log(
                logging.WARNING if below else logging.INFO,
                "Truncating %s-%d from %d to %d%s to follow broker %d (leader epoch %d)",
                topic, partition, end_offset, offset,
                f", below its high watermark {log.high_watermark}," if below else "",
                self._table.source_id, state.leader_epoch,
            )  # fmt: skip
        self.cut(state, offset, now_ms)
        self._truncated(state)

    def cut(self, state: FollowerPartition, offset: int, now_ms: int) -> None:
        """Cut the log; `rebuild` is to follow before anything is appended to it."""
        state.partition.log.truncate_to(offset, now_ms)
        self._to_rebuild.append((state, state.partition.log))

    def rebuild(self, now_ms: int) -> Iterator[None]:
        """Build the producers of logs that were cut anew, in pieces."""
        cut = self._to_rebuild
        while cut:
            state, log = cut[-1]
            try:
                while not log.rebuild_some():
                    yield
            except KafkaError as error:
                self._table.trouble(state, error, now_ms)
            cut.pop()

    def start_over(self, state: FollowerPartition, offset: int, now_ms: int) -> None:
        """Start anew at `offset`: the leader's log starts behind the end of ours."""
        log = state.partition.log
        topic, partition = state.key
        logger.warning(
            "%s-%d ends at %d, before the start %d of its leader's log "
            "on broker %d: the log restarts there",
            topic, partition, log.log_end_offset, offset, self._table.source_id,
        )  # fmt: skip
        log.truncate_fully_and_start_at(offset, now_ms)
        self._to_rebuild.append((state, log))
        self._truncated(state)

    def rebuild_from_tier(
        self, state: FollowerPartition, found: TierState | None, now_ms: int
    ) -> None:
        """Restart the log behind the tier's records; None: their state cannot be read now."""
        log = state.partition.log
        if found is None:
            state.fetch_from(log.log_end_offset)
            self._table.delay(state, now_ms)
            return
        log_start = min(max(log.log_start_offset, state.leader_log_start), found.next_offset)
        logger.info(
            "%s-%d restarts at %d, behind the remote tier; its leader's log starts at %d",
            *state.key, found.next_offset, state.leader_log_start,
        )  # fmt: skip
        try:
            log.restart_behind_tier(
                found.next_offset, log_start, found.epochs, found.snapshot, now_ms
            )
        except (FlushFirst, OutOfDescriptors):
            state.fetch_from(log.log_end_offset)  # nothing has changed: begin again, later
            raise
        if log.needs_flush_of_epochs:
            self._table.wait_for_flush(state.key, log.log_end_offset)
            self._manager.effects.append(FlushNeeded(*state.key, log.log_end_offset, log))
        self._to_rebuild.append((state, log))
        state.succeeded()
        self._truncated(state)

    def _truncated(self, state: FollowerPartition) -> None:
        state.fetch_from(state.partition.log.log_end_offset)
        self._table.moved(state)
        self._manager.waiting.check(state.key)


def _starts_inside(
    error: UnexpectedAppendOffset, state: FollowerPartition, leader_start_offset: int
) -> bool:
    """Whether the batch holds the leader's log start, with nothing of ours worth keeping before it.

    Kafka gives the partition up if our log has records; they are all deleted on the leader.
    """
    log = state.partition.log
    end_offset = log.log_end_offset
    is_over = log.log_start_offset == end_offset or leader_start_offset >= end_offset
    return is_over and error.first_offset < end_offset <= error.last_offset
