"""Reads partitions for fetches: at once, and again when a fetch has waited.

Invariants: no waiting operation is looked at here, and no follower makes progress: a read changes
counters, quotas and, if a disk fails in it, the hosted partitions; a fetch that has waited reads
anew only the changed partitions, whose earlier results no longer count.

A throttled follower that is not in the ISR gets no records while the leader's quota is exceeded,
and otherwise little more than the rest of the quota (in Kafka: all that it has asked for).

A consumer that asks for records of the remote tier gets none here. The first read of a request that
finds this notes it in `in_tier`, for `Fetches`; while the quota of such reads (KIP-956) is exceeded
no read does. A follower gets OFFSET_MOVED_TO_TIERED_STORAGE.

Mirrors ReplicaManager.readFromLog, handleOffsetOutOfRangeError. Leaves out the quotas of clients.
"""

from typing import NamedTuple

from ..protocol.apis.fetch import FetchResponsePartitionData
from ..protocol.errors import ErrorCode, KafkaError
from .delayed_operations import DelayedFetch
from .hosted_partitions import HostedPartitions
from .partition import Partition
from .reader import error_data, offsets_data, read_partition
from .replica_selector import ReplicaSelector
from .throttle import UNLIMITED, ReplicationQuota
from .types import FetchEntry, FetchParams, FetchResults, Isolation


class InTier(NamedTuple):
    """Records that a read has found to be in the remote tier."""

    partition: Partition
    offset: int
    max_bytes: int
    min_one_batch: bool


class FetchReader:
    __slots__ = (
        "_hosted",
        "_leader_quota",
        "_partitions",
        "in_tier",
        "replica_selector",
        "tier_quota",
    )

    def __init__(
        self,
        hosted: HostedPartitions,
        leader_quota: ReplicationQuota,
        replica_selector: ReplicaSelector | None,
    ) -> None:
        self._hosted = hosted
        self._partitions = hosted.partitions
        self._leader_quota = leader_quota
        # Names better replicas for consumers; None: they read from leaders.
        self.replica_selector = replica_selector
        # Of this broker's reads from the tier, if it has any.
        self.tier_quota: ReplicationQuota | None = None
        # The first records of the tier that the reads of a request have found.
        self.in_tier: InTier | None = None

    def take_in_tier(self) -> InTier | None:
        """The records that the reads since the last call need from the remote tier, if any."""
        found, self.in_tier = self.in_tier, None
        return found

    def read(
        self,
        params: FetchParams,
        entry: FetchEntry,
        remaining: int,
        min_one_batch: bool,
        now_ms: int,
    ) -> FetchResponsePartitionData:
        if entry.topic is None:
            return error_data(entry.partition, ErrorCode.UNKNOWN_TOPIC_ID)
        key = (entry.topic, entry.partition)
        partition = self._partitions.get(key)
        if partition is None:
            return error_data(entry.partition, self._hosted.missing_error(key))
        return self.read_hosted(partition, params, entry, remaining, min_one_batch, now_ms)

    def read_hosted(
        self,
        partition: Partition,
        params: FetchParams,
        entry: FetchEntry,
        remaining: int,
        min_one_batch: bool,
        now_ms: int,
    ) -> FetchResponsePartitionData:
        """Like `read`, for callers that have looked up the partition."""
        stats = partition.stats
        stats.fetch_requests += 1
        try:
            if params.client is not None and self.replica_selector is not None:
                preferred = self.replica_selector.select(partition, entry, params.client, now_ms)
                if preferred is not None:
                    data = offsets_data(partition)
                    data.preferred_read_replica = preferred
                    return data
            throttled = params.is_from_follower and self._is_throttled(partition)
            if (
                throttled
                and params.replica_id not in partition.isr.committed
                and self._leader_quota.is_exceeded(now_ms)
            ):
                remaining, min_one_batch = 0, False
            elif throttled and params.replica_id not in partition.isr.committed:
                remaining = min(remaining, self._leader_quota.piece(now_ms))
            data = read_partition(partition, entry, params, remaining, min_one_batch)
        except KafkaError as error:
            if (
                error.code is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
                and not params.is_from_follower
                and self.tier_quota is not None
            ):
                return self._from_tier(partition, params, entry, remaining, min_one_batch, now_ms)
            stats.failed_fetch_requests += 1
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._hosted.storage_failed(partition.key, error)
            data = error_data(entry.partition, error.code)
            if error.code is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
                data.high_watermark = partition.log.high_watermark
                data.log_start_offset = partition.log.log_start_offset
            return data
        if data.records:
            if params.is_from_follower:
                stats.replication_bytes_out += len(data.records)
                if throttled:
                    self._leader_quota.record(len(data.records), now_ms)
            else:
                stats.bytes_out += len(data.records)
        return data

    def _from_tier(
        self,
        partition: Partition,
        params: FetchParams,
        entry: FetchEntry,
        remaining: int,
        min_one_batch: bool,
        now_ms: int,
    ) -> FetchResponsePartitionData:
        quota = self.tier_quota
        assert quota is not None
        if self.in_tier is None and not quota.is_exceeded(now_ms):
            max_bytes = min(remaining, entry.max_bytes)
            self.in_tier = InTier(partition, entry.fetch_offset, max_bytes, min_one_batch)
        data = offsets_data(partition)
        if params.isolation is Isolation.READ_COMMITTED:
            data.aborted_transactions = []
        return data

    def read_again(self, operation: DelayedFetch) -> FetchResults:
        """The answer of a fetch that has waited; its progress was recorded when it came."""
        results, entries, params = operation.results, operation.entries, operation.params
        changed = operation.changed
        changed |= operation.unseen
        if not params.is_from_follower:
            operation.note_changes(self._partitions)
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
                self._take_back(params, entries[index], len(known))
            data = results[index] = self.read(params, entries[index], remaining, min_one_batch, 0)
            if data.records:
                remaining = max(0, remaining - len(data.records))
                min_one_batch = False
        self.in_tier = None  # the next fetch of the client waits for it
        return results

    def _take_back(self, params: FetchParams, entry: FetchEntry, size: int) -> None:
        """Records that were read and counted when the fetch came are now read anew, with others."""
        assert entry.topic is not None
        partition = self._partitions.get((entry.topic, entry.partition))
        if partition is None:
            return
        if params.is_from_follower:
            partition.stats.replication_bytes_out -= size
            if self._is_throttled(partition):
                self._leader_quota.record(-size, 0)
        else:
            partition.stats.bytes_out -= size

    def _is_throttled(self, partition: Partition) -> bool:
        """Whether this broker's replication of the partition counts for its quota as a leader."""
        quota = self._leader_quota
        return quota.limit != UNLIMITED and quota.throttles(
            partition.partition, partition.log.config.leader_replication_throttled_replicas
        )
