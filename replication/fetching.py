"""Fetching from several partitions under one limit, for consumers and followers.

Invariants: partitions are read in the order of the entries; the first that has data gives at least
one batch whatever the limits (Fetch v3+), later ones keep to what is left; a follower's fetch is
progress only if its offset was in range, its log does not diverge and it is a replica.

A throttled follower that is not in the ISR gets no records while the leader's quota is exceeded.

Mirrors ReplicaManager.fetchMessages / readFromLog. Leaves out the quotas of clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.messages.fetch import FetchResponsePartitionData
from .delayed_operations import DelayedFetch
from .partition import Partition
from .reader import error_data, offsets_data, read_partition
from .throttle import UNLIMITED
from .types import (
    ZERO_TOPIC_ID,
    Done,
    FetchEntry,
    FetchParams,
    FetchResults,
    Parked,
    PartitionKey,
)

if TYPE_CHECKING:
    from .replica_manager import ReplicaManager


def fetch(
    manager: ReplicaManager,
    token: object,
    params: FetchParams,
    entries: Sequence[FetchEntry],
    now_ms: int,
) -> Done[FetchResults] | Parked:
    results, size, is_urgent = _read(manager, params, entries, now_ms)
    # More than the response may hold can not be waited for.
    is_enough = size >= min(params.min_bytes, params.max_bytes)
    collected = manager.collected
    if (
        is_urgent
        or params.max_wait_ms <= 0
        or (is_enough and not (params.is_from_follower and collected.paces))
        or size >= collected.urgent_bytes > 0
    ):
        return Done(results)
    index_of: dict[PartitionKey, int] = {}
    for index, entry in enumerate(entries):
        if entry.topic is None:
            continue
        partition = manager.partitions.get((entry.topic, entry.partition))
        if partition is None:
            continue
        if size and entry.fetch_offset < partition.log.segments.active.base_offset:
            return Done(results)  # Case E of a delayed fetch: this slice cannot grow.
        index_of[entry.topic, entry.partition] = index
    if not index_of:
        return Done(results)
    operation = DelayedFetch(token, params, entries, results, index_of)
    manager.fetches.watch(operation, index_of, now_ms + params.max_wait_ms)
    if is_enough:
        collected.add(operation, manager.effects)
    return Parked(operation)


def read_again(manager: ReplicaManager, operation: DelayedFetch) -> FetchResults:
    """The answer of a fetch that has waited; its progress was recorded when it came."""
    results, entries, params = operation.results, operation.entries, operation.params
    changed = operation.changed
    remaining = params.max_bytes
    min_one_batch = not params.strict_limit
    if operation.total_bytes:
        for index, data in enumerate(results):
            if data.records and index not in changed:
                remaining = max(0, remaining - len(data.records))
                min_one_batch = False
    for index in sorted(changed):
        known = results[index].records
        if known:
            _take_back(manager, params, entries[index], len(known))
        data = results[index] = _read_one(
            manager, params, entries[index], remaining, min_one_batch, 0, record_progress=False
        )
        if data.records:
            remaining = max(0, remaining - len(data.records))
            min_one_batch = False
    return results


def _take_back(manager: ReplicaManager, params: FetchParams, entry: FetchEntry, size: int) -> None:
    """Records that were read and counted when the fetch came are read anew, with those after."""
    assert entry.topic is not None
    partition = manager.partitions.get((entry.topic, entry.partition))
    if partition is None:
        return
    if params.is_from_follower:
        partition.stats.replication_bytes_out -= size
        if _is_throttled(manager, partition):
            manager.leader_quota.record(-size, 0)
    else:
        partition.stats.bytes_out -= size


def _read(
    manager: ReplicaManager,
    params: FetchParams,
    entries: Sequence[FetchEntry],
    now_ms: int,
) -> tuple[FetchResults, int, bool]:
    """(results, their bytes, whether one of them must be answered now).

    A topic that nobody knows is no reason to answer early, or a client that asks for one would
    spin; all other errors, divergence and a preferred replica are.
    """
    results: FetchResults = []
    remaining = params.max_bytes
    total = 0
    is_urgent = False
    min_one_batch = not params.strict_limit
    is_from_follower = params.is_from_follower
    for entry in entries:
        if is_from_follower:
            idle = _idle(manager, params, entry, now_ms)
            if idle is not None:
                results.append(idle)
                continue
        data = _read_one(
            manager, params, entry, remaining, min_one_batch, now_ms, record_progress=True
        )
        results.append(data)
        entry.latest = data
        if data.records:
            size = len(data.records)
            total += size
            remaining = max(0, remaining - size)
            min_one_batch = False
        elif (
            (
                data.error_code
                and data.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                and data.error_code != ErrorCode.UNKNOWN_TOPIC_ID
            )
            or data.diverging_epoch.epoch >= 0
            or data.preferred_read_replica >= 0
        ):
            is_urgent = True
    return results, total, is_urgent


def _idle(
    manager: ReplicaManager, params: FetchParams, entry: FetchEntry, now_ms: int
) -> FetchResponsePartitionData | None:
    """The last answer to a follower once more, if it had all and nothing has changed since.

    Most partitions of most followers' fetches are like that: this is their short way.
    """
    data = entry.latest
    if data is None or data.error_code or data.records or entry.topic is None:
        return None
    partition = manager.partitions.get((entry.topic, entry.partition))
    if (
        partition is None
        or not partition.is_leader
        or entry.current_leader_epoch != partition.leader_epoch
        or entry.topic_id not in (partition.topic_id, ZERO_TOPIC_ID)
    ):
        return None
    log = partition.log
    end_offset = log.log_end_offset
    replica = partition.remotes.get(params.replica_id)
    if (
        replica is None
        or replica.broker_epoch != params.replica_epoch
        or entry.fetch_offset != end_offset
        or replica.log_end_offset != end_offset
        or replica.last_fetch_leader_end_offset != end_offset
        or data.high_watermark != log.high_watermark
        or data.log_start_offset != log.log_start_offset
        or data.diverging_epoch.epoch >= 0
        or params.replica_id not in partition.isr.committed
        or log.health.error is not None
    ):
        return None
    partition.stats.fetch_requests += 1
    replica.is_still_caught_up(now_ms)
    return data


def _read_one(
    manager: ReplicaManager,
    params: FetchParams,
    entry: FetchEntry,
    remaining: int,
    min_one_batch: bool,
    now_ms: int,
    *,
    record_progress: bool,
) -> FetchResponsePartitionData:
    if entry.topic is None:
        return error_data(entry.partition, ErrorCode.UNKNOWN_TOPIC_ID)
    key = (entry.topic, entry.partition)
    partition = manager.partitions.get(key)
    if partition is None:
        return error_data(entry.partition, manager.missing_error(key))
    stats = partition.stats
    stats.fetch_requests += 1
    leader_end_offset = partition.durable_end_offset
    try:
        if params.client is not None and manager.replica_selector is not None:
            preferred = manager.replica_selector.select(partition, entry, params.client, now_ms)
            if preferred is not None:
                data = offsets_data(partition)
                data.preferred_read_replica = preferred
                return data
        if record_progress and params.is_from_follower:
            _check_is_replica(partition, entry, params)
        throttled = params.is_from_follower and _is_throttled(manager, partition)
        if (
            throttled
            and params.replica_id not in partition.isr.committed
            and manager.leader_quota.is_exceeded(now_ms)
        ):
            remaining, min_one_batch = 0, False
        data = read_partition(partition, entry, params, remaining, min_one_batch)
    except KafkaError as error:
        stats.failed_fetch_requests += 1
        if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            manager.storage_failed(key, error)
        return error_data(entry.partition, error.code)
    if params.is_from_follower:
        if data.records:
            stats.replication_bytes_out += len(data.records)
            if throttled:
                manager.leader_quota.record(len(data.records), now_ms)
        if record_progress and data.diverging_epoch.epoch < 0:
            _follower_fetched(manager, partition, entry, params, leader_end_offset, now_ms)
            data.high_watermark = partition.log.high_watermark
    elif data.records:
        stats.bytes_out += len(data.records)
    return data


def _is_throttled(manager: ReplicaManager, partition: Partition) -> bool:
    """Whether this broker's replication of the partition counts for its quota as a leader."""
    quota = manager.leader_quota
    return quota.limit != UNLIMITED and quota.throttles(
        partition.partition, partition.log.config.leader_replication_throttled_replicas
    )


def _check_is_replica(partition: Partition, entry: FetchEntry, params: FetchParams) -> None:
    if partition.is_leader and params.replica_id not in partition.remotes:
        # Which side is behind? With an epoch it agrees on all else, so it may try again.
        if entry.current_leader_epoch >= 0:
            error = partition.check_epoch(entry.current_leader_epoch)
            raise KafkaError(error or ErrorCode.UNKNOWN_LEADER_EPOCH)
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _follower_fetched(
    manager: ReplicaManager,
    partition: Partition,
    entry: FetchEntry,
    params: FetchParams,
    leader_end_offset: int,
    now_ms: int,
) -> None:
    replica = partition.remotes[params.replica_id]
    key = partition.key
    moved = partition.update_follower(
        replica,
        entry.fetch_offset,
        entry.log_start_offset,
        leader_end_offset,
        params.replica_epoch,
        now_ms,
    )
    proposal = partition.propose_isr_expansion(replica)
    if proposal is not None:
        manager.effects.append(proposal)
    if moved:
        manager.high_watermark_moved(key, partition)
    elif manager.deletes.has_watchers(key):
        manager.check_deletes(key, partition)
