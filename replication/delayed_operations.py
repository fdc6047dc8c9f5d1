"""The operations that wait in the purgatories, and when each of them is complete.

Delayed produce (acks=all, or a flush that the topic asks for). A partition of it is settled when
  A. this broker no longer hosts the partition, or its log directory is offline: that error;
  B. this broker is no longer its leader: NOT_LEADER_OR_FOLLOWER;
  C. the HW has reached the append and the ISR is large enough: success;
  D. the HW has reached it, but the ISR is smaller than min.insync.replicas by now:
     NOT_ENOUGH_REPLICAS_AFTER_APPEND;
  E. (acks=1) the log is flushed up to the append: success;
and the operation is complete when F. all its partitions are settled, or G. its time is over: what
is open gets REQUEST_TIMED_OUT (the records stay in the log).

Delayed fetch. It is complete, whatever the other partitions hold, when for one of them
  A. this broker is no longer its leader (or no replica at all);
  B. the partition is unknown here by now, or C. its log directory is offline;
  D. the client's leader epoch is fenced, or not known yet;
  E. the fetch offset is past the readable end (the log was truncated), or there is data and the
     offset is on an older segment than the active one;
  G. the fetcher's log diverges from ours by its last fetched epoch;
or when F. the partitions together hold `min_bytes`, or H. its time is over. What has changed in
one of these ways, or in its HW, is then read anew.

Delayed delete-records: a partition is settled when A. it is no longer led here (error), B. the
low watermark has reached the wanted offset; C. time over: REQUEST_TIMED_OUT with the low watermark.

Mirrors DelayedProduce, DelayedFetch and DelayedDeleteRecords. The classes here hold data and
decide; the replica manager finds them, reads for them and hands out their results.
"""

from collections.abc import Sequence

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.topics import TopicPartition
from .partition import Partition
from .purgatory import Operation
from .reader import check_readable, find_divergence, read_partition
from .throttle import UNLIMITED, ReplicationQuota
from .types import (
    ACKS_ALL,
    DeleteRecordsResult,
    DeleteRecordsResults,
    FetchEntry,
    FetchParams,
    FetchResults,
    ProduceResults,
)


class DelayedProduce(Operation):
    """A produce request that waits for its records to be replicated, or on disk."""

    __slots__ = ("open_keys", "required_acks", "results")

    def __init__(
        self,
        token: object,
        required_acks: int,
        results: ProduceResults,
        open_keys: set[TopicPartition],
    ) -> None:
        super().__init__(token)
        self.required_acks = required_acks
        self.results = results
        self.open_keys = open_keys

    def settle(self, key: TopicPartition, partition: Partition | None, missing: ErrorCode) -> bool:
        """Look at one partition anew; True if the whole operation is complete."""
        if key not in self.open_keys:
            return False
        result = self.results[key]
        if partition is None:  # Case A
            result.error_code = missing
        elif not partition.is_leader:  # Case B
            result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif self.required_acks == ACKS_ALL:
            if partition.log.high_watermark < result.required_offset:
                return False
            if len(partition.isr.maximal) < partition.effective_min_isr:  # Case D; else case C
                result.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        elif not partition.is_durable(result.required_offset):  # Case E when it is
            return False
        self.open_keys.discard(key)
        return not self.open_keys  # Case F

    def time_out(self) -> None:  # Case G
        for key in self.open_keys:
            self.results[key].error_code = ErrorCode.REQUEST_TIMED_OUT
        self.open_keys.clear()


class DelayedFetch(Operation):
    """What was read when it came is kept: in the end only what has changed is read anew."""

    __slots__ = (
        "changed", "entries", "index_of", "is_collected", "params", "results", "sizes",
        "total_bytes",
    )  # fmt: skip

    def __init__(
        self,
        token: object,
        params: FetchParams,
        entries: Sequence[FetchEntry],
        results: FetchResults,
        index_of: dict[TopicPartition, int],
    ) -> None:
        super().__init__(token)
        self.params = params
        self.entries = entries
        self.results = results
        self.index_of = index_of
        self.is_collected = False  # complete, and in `collected_fetches`
        # Those that cannot be waited for (unknown here) are looked up once more.
        self.changed = (
            {
                index
                for index, entry in enumerate(entries)
                if entry.topic is None or (entry.topic, entry.partition) not in index_of
            }
            if len(index_of) < len(entries)
            else set()
        )
        # Bytes each partition would return; only the partition that changed is looked at again.
        self.sizes = [len(data.records) if data.records else 0 for data in results]
        self.total_bytes = sum(self.sizes)

    def is_complete(
        self, key: TopicPartition, partition: Partition | None, quota: ReplicationQuota
    ) -> bool:
        """Look at the partition that changed."""
        index = self.index_of[key]
        self.changed.add(index)
        if partition is None:  # Cases B and C
            return True
        entry = self.entries[index]
        params = self.params
        try:
            check_readable(partition, entry, params)  # Cases A and D raise
            end_offset = partition.readable_end_offset(params.isolation)
            if entry.fetch_offset > end_offset:  # Case E
                return True
            if entry.last_fetched_epoch >= 0 and find_divergence(partition, entry):  # Case G
                return True
            if entry.fetch_offset == end_offset:
                return False
            if entry.fetch_offset < partition.log.segments.active.base_offset:  # Case E
                return True
            if params.is_from_follower and _must_wait(partition, params, quota):
                return False  # its records do not count for case F
            if params.min_bytes <= 1:  # Case F, without a read
                return True
            data = read_partition(partition, entry, params, entry.max_bytes, True)
        except KafkaError:
            return True
        size = len(data.records) if data.records else 0
        self.total_bytes += size - self.sizes[index]
        self.sizes[index] = size
        return self.total_bytes >= min(params.min_bytes, params.max_bytes)  # Case F


def _must_wait(partition: Partition, params: FetchParams, quota: ReplicationQuota) -> bool:
    """A throttled follower outside of the ISR, while the quota is exceeded."""
    return (
        quota.limit != UNLIMITED
        and params.replica_id not in partition.isr.committed
        and quota.throttles(
            partition.partition, partition.log.config.leader_replication_throttled_replicas
        )
        and quota.is_exceeded(0)
    )


class DelayedDeleteRecords(Operation):
    """A DeleteRecords that waits for all live replicas to have moved their log starts."""

    __slots__ = ("open_offsets", "results")

    def __init__(
        self,
        token: object,
        results: DeleteRecordsResults,
        open_offsets: dict[TopicPartition, int],
    ) -> None:
        super().__init__(token)
        self.results = results
        self.open_offsets = open_offsets

    def settle(self, key: TopicPartition, partition: Partition | None, missing: ErrorCode) -> bool:
        wanted = self.open_offsets.get(key)
        if wanted is None:
            return False
        if partition is None:  # Case A
            self.results[key] = DeleteRecordsResult(missing)
        elif not partition.is_leader:  # Case A
            self.results[key] = DeleteRecordsResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            low_watermark = partition.low_watermark()
            if low_watermark < wanted:
                self.results[key] = DeleteRecordsResult(
                    ErrorCode.REQUEST_TIMED_OUT, low_watermark
                )  # Case C, should nothing else come
                return False
            self.results[key] = DeleteRecordsResult(ErrorCode.NONE, low_watermark)  # Case B
        del self.open_offsets[key]
        return not self.open_offsets
