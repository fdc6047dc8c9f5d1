"""Fetching from several partitions under one limit, for consumers and followers.

Invariants: partitions are read in the order of the entries; the first with data gives at least one
batch regardless of limits (Fetch v3+), later ones stay within the rest; a follower's fetch is
progress only if its offset was in range, its log does not diverge and it is a replica.

If a consumer asks for records that are in the remote tier only, the answer waits for those of the
first such partition, and has none of the others; what it waits for is the effect RemoteRead.

Mirrors ReplicaManager.fetchMessages, processRemoteFetch and Partition.fetchRecords, as far as they
concern followers' progress.
"""

from collections.abc import Sequence

from mypy_extensions import mypyc_attr

from ..protocol.apis.fetch import FetchResponsePartitionData
from ..protocol.errors import ErrorCode
from ..protocol.topics import TopicPartition
from .delayed_operations import DelayedFetch, DelayedRemoteFetch
from .fetch_reader import FetchReader, InTier
from .hosted_partitions import HostedPartitions
from .partition import Partition
from .reader import error_data
from .types import (
    ZERO_TOPIC_ID,
    Done,
    FetchEntry,
    FetchParams,
    FetchResults,
    Isolation,
    Parked,
    RemoteRead,
)
from .waiting import WaitingOperations


@mypyc_attr(allow_interpreted_subclasses=True)
class Fetches:
    __slots__ = ("_collected", "_deletes", "_effects", "_partitions", "_reader", "_waiting")

    def __init__(
        self, hosted: HostedPartitions, reader: FetchReader, waiting: WaitingOperations
    ) -> None:
        self._partitions = hosted.partitions
        self._effects = hosted.effects
        self._reader = reader
        self._waiting = waiting
        self._collected = waiting.collected
        self._deletes = waiting.deletes

    def fetch(
        self, token: object, params: FetchParams, entries: Sequence[FetchEntry], now_ms: int
    ) -> Done[FetchResults] | Parked:
        reader = self._reader
        results, size, is_urgent = self._read(params, entries, now_ms)
        found = reader.take_in_tier()
        if found is not None:
            return self._wait_for_tier(token, params, entries, results, found, now_ms)
        # More than the response may hold can not be waited for.
        is_enough = size >= min(params.min_bytes, params.max_bytes)
        collected = self._collected
        if (
            is_urgent
            or params.max_wait_ms <= 0
            or (is_enough and not (params.is_from_follower and collected.paces))
            or size >= collected.urgent_bytes > 0
        ):
            return Done(results)
        index_of: dict[TopicPartition, int] = {}
        for index, entry in enumerate(entries):
            if entry.topic is None:
                continue
            partition = self._partitions.get((entry.topic, entry.partition))
            if partition is None:
                continue
            if size and entry.fetch_offset < partition.log.segments.active.base_offset:
                return Done(results)  # Case E of a delayed fetch: this slice cannot grow.
            index_of[entry.topic, entry.partition] = index
        if not index_of:
            return Done(results)
        operation = DelayedFetch(token, params, entries, results, index_of)
        if operation.has_enough(self._partitions, self._waiting.leader_quota):
            return Done(results)
        wait_ms = params.max_wait_ms
        first_fetches = self._waiting.first_fetches
        if first_fetches.awaited and params.is_from_follower:
            wait_ms = first_fetches.wait_ms(params.replica_id, wait_ms, now_ms)
        self._waiting.fetches.watch(operation, index_of, now_ms + wait_ms)
        if is_enough:
            collected.add(operation, self._effects)
        return Parked(operation)

    def _wait_for_tier(
        self,
        token: object,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        results: FetchResults,
        found: InTier,
        now_ms: int,
    ) -> Parked:
        partition, offset, max_bytes, min_one_batch = found
        index = next(
            index
            for index, entry in enumerate(entries)
            if (entry.topic, entry.partition) == partition.key
        )
        operation = DelayedRemoteFetch(token, partition, results, index)
        wait_ms = self._waiting.remote_fetch_max_wait_ms
        self._waiting.remote_fetches.watch(operation, (partition.key,), now_ms + wait_ms)
        self._effects.append(
            RemoteRead(
                operation,
                partition.key,
                offset,
                max_bytes,
                min_one_batch,
                params.strict_limit,
                params.isolation is Isolation.READ_COMMITTED,
                wait_ms,
            )
        )
        return Parked(operation)

    def _read(
        self, params: FetchParams, entries: Sequence[FetchEntry], now_ms: int
    ) -> tuple[FetchResults, int, bool]:
        """(results, their bytes, whether one of them must be answered now).

        An unknown topic is no reason to answer early, or a client that asks for it would spin; all
        other errors, divergence and a preferred replica are.
        """
        results: FetchResults = []
        remaining = params.max_bytes
        total = 0
        is_urgent = False
        min_one_batch = not params.strict_limit
        is_from_follower = params.is_from_follower
        for entry in entries:
            if (
                is_from_follower
                and entry.topic is not None
                and (partition := self._partitions.get((entry.topic, entry.partition))) is not None
            ):
                idle = self._idle(partition, params, entry, now_ms)
                if idle is not None:
                    results.append(idle)
                    continue
                data = self._read_for_follower(
                    partition, params, entry, remaining, min_one_batch, now_ms
                )
            else:
                data = self._reader.read(params, entry, remaining, min_one_batch, now_ms)
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
        if is_urgent:
            self._waiting.check_lost()
        return results, total, is_urgent

    def _idle(
        self, partition: Partition, params: FetchParams, entry: FetchEntry, now_ms: int
    ) -> FetchResponsePartitionData | None:
        """The last answer to a follower once more, if it had all and nothing has changed since.

        Most partitions of most followers' fetches are like that: this is their short way.
        """
        data = entry.latest
        if (
            data is None
            or data.error_code
            or data.records
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
            or replica.log_start_offset != entry.log_start_offset
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

    def _read_for_follower(
        self,
        partition: Partition,
        params: FetchParams,
        entry: FetchEntry,
        remaining: int,
        min_one_batch: bool,
        now_ms: int,
    ) -> FetchResponsePartitionData:
        """Read, and record the fetch as progress: the follower has all before its offset."""
        replica = partition.remotes.get(params.replica_id)
        if replica is None and partition.is_leader:
            return _refused(partition, entry)
        leader_end_offset = partition.durable_end_offset
        data = self._reader.read_hosted(partition, params, entry, remaining, min_one_batch, now_ms)
        if replica is None or data.error_code or data.diverging_epoch.epoch >= 0:
            return data
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
            self._effects.append(proposal)
        if moved:
            self._waiting.high_watermark_moved(partition.key, partition)
        elif partition.key in self._deletes.watched:
            self._waiting.check_deletes(partition.key, partition)
        data.high_watermark = partition.log.high_watermark
        data.last_stable_offset = partition.log.last_stable_offset
        return data


def _refused(partition: Partition, entry: FetchEntry) -> FetchResponsePartitionData:
    """The error for a fetcher that is no replica. If it names our epoch it may try again: either
    side may be behind."""
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    if entry.current_leader_epoch >= 0:
        error = partition.check_epoch(entry.current_leader_epoch) or ErrorCode.UNKNOWN_LEADER_EPOCH
    partition.stats.fetch_requests += 1
    partition.stats.failed_fetch_requests += 1
    return error_data(entry.partition, error)
