"""What a follower does to its log: append what came, follow the leader's offsets, truncate.

Invariants: a truncation is named in the log, loudly if it goes below the HW (only an unclean
election can ask for that); records are appended only at the log end; the HW never passes the own
log end. Whoever waits on the partition here (consumers that read from followers) is looked at.

Mirrors ReplicaFetcherThread.processPartitionData and truncate.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.messages.fetch import FetchResponsePartitionData
from ..storage.log import UnexpectedAppendOffset
from .follower import FollowerPartition, FollowerState, truncation_point
from .types import FlushNeeded

if TYPE_CHECKING:
    from .follower_fetcher import FollowerFetcher
    from .replica_manager import ReplicaManager

logger = logging.getLogger(__name__)


def take(
    fetcher: FollowerFetcher,
    state: FollowerPartition,
    data: FetchResponsePartitionData,
    now_ms: int,
) -> None:
    """The leader's answer to a fetch of one partition."""
    code = data.error_code
    if code:
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            state.move_to(FollowerState.FINDING_END)
            fetcher.moved(state)
        else:
            fetcher.leader_refuses(state, ErrorCode(code), now_ms)
        return
    state.succeeded()
    divergence = data.diverging_epoch
    if divergence.epoch >= 0:
        point = truncation_point(
            state.partition.log, divergence.epoch, divergence.end_offset, state.initial_offset
        )
        truncate(fetcher, state, point.offset, now_ms)
        return
    _append(fetcher, state, data, now_ms)


def _append(
    fetcher: FollowerFetcher,
    state: FollowerPartition,
    data: FetchResponsePartitionData,
    now_ms: int,
) -> None:
    partition = state.partition
    log = partition.log
    manager = fetcher.manager
    records = data.records
    if records:
        assert isinstance(records, memoryview)
        if log.log_end_offset != state.fetch_offset:
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"the log ends at {log.log_end_offset}, not at the fetched {state.fetch_offset}",
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
            if is_throttled(manager, state):
                manager.follower_quota.record(info.size_bytes, now_ms)
            end_offset = log.log_end_offset
            state.fetch_offset = end_offset
            state.last_fetched_epoch = log.leader_epochs.latest_epoch
            fetcher.moved(state)
            if info.flush_needed:
                fetcher.unflushed(state.key, end_offset)
                manager.effects.append(FlushNeeded(*state.key, end_offset, log))
    state.lag = max(0, data.high_watermark - state.fetch_offset)
    high_watermark, log_start_offset = log.high_watermark, log.log_start_offset
    partition.follow_leader_offsets(data.high_watermark, data.log_start_offset)
    if log.log_start_offset != log_start_offset:
        fetcher.moved(state)
    if log.high_watermark != high_watermark:
        manager.high_watermark_moved(state.key, partition)


def is_throttled(manager: ReplicaManager, state: FollowerPartition) -> bool:
    """Whether what is fetched for the partition counts for this broker's quota as a follower."""
    return manager.follower_quota.throttles(
        state.key[1], state.partition.log.config.follower_replication_throttled_replicas
    )


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


def truncate(fetcher: FollowerFetcher, state: FollowerPartition, offset: int, now_ms: int) -> None:
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
            fetcher.source_id, state.leader_epoch,
        )  # fmt: skip
    log.truncate_to(offset, now_ms)
    _truncated(fetcher, state)


def start_over(
    fetcher: FollowerFetcher, state: FollowerPartition, offset: int, now_ms: int
) -> None:
    """The leader's log starts behind the end of ours: nothing of ours is of use."""
    log = state.partition.log
    topic, partition = state.key
    logger.warning(
        "%s-%d ends at %d, before the start %d of its leader's log on broker %d: starting anew",
        topic, partition, log.log_end_offset, offset, fetcher.source_id,
    )  # fmt: skip
    log.truncate_fully_and_start_at(offset, now_ms)
    _truncated(fetcher, state)


def _truncated(fetcher: FollowerFetcher, state: FollowerPartition) -> None:
    state.fetch_from(state.partition.log.log_end_offset)
    fetcher.moved(state)
    fetcher.manager.check_waiting(state.key)
