"""The operations that wait in the purgatories, and when each of them is complete.

Delayed produce (acks=all, or a flush that the topic asks for). A partition of it is complete when
  A. this broker no longer hosts the partition, or its log directory is offline: that error;
  B. this broker is no longer its leader: NOT_LEADER_OR_FOLLOWER;
  C. the HW has reached the append and the ISR is large enough: success;
  D. the HW has reached it, but the ISR is smaller than min.insync.replicas by now:
     NOT_ENOUGH_REPLICAS_AFTER_APPEND. As in Kafka, the ISR with joining replicas (`maximal`) counts
     here, for the HW waits for those, too; before an append the agreed one (`committed`) counts;
  E. (acks=1) the log is flushed up to the append: success;
and the operation is complete when F. all its partitions are complete, or G. its time is over: its
open partitions get REQUEST_TIMED_OUT (the records stay in the log).

Delayed fetch. One partition completes it, independently of the others, when
  A. this broker no longer leads the partition (or hosts no replica of it);
  B. the partition is unknown here by now, or C. its log directory is offline;
  D. the client's leader epoch is fenced, or not known yet;
  E. the fetch offset is past the readable end (the log was truncated) or before the log start, or
     there is data and the offset is on an older segment than the readable end;
  G. the fetcher's log diverges from ours by its last fetched epoch;
or when F. the partitions together hold `min_bytes`, each up to its own limit, or H. its time is
over. Partitions that have changed in one of these ways, or in their HW, are then read anew.

Delayed remote fetch, for records that are in the remote tier. It is complete when
  A. this broker does not host the partition any more;
  B. the records have been read, or that has failed;
  C. its time is over.
Without B the partition has no records in the answer. The other partitions have their
records of its arrival in all cases.

Delayed delete-records: a partition is complete when A. it is no longer led here (error), B. the
low watermark has reached the wanted offset; C. time over: REQUEST_TIMED_OUT with the low watermark.

Mirrors DelayedProduce, DelayedFetch, DelayedRemoteFetch and DelayedDeleteRecords. The classes here
hold data and decide; the replica manager finds them, reads for them and hands out their results.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ..protocol.apis.fetch import AbortedTransaction
from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.invariants import BrokenInvariant
from ..protocol.topics import TopicPartition
from ..storage.files import FileSlice
from ..storage.local_log import Place
from .partition import Partition
from .purgatory import Operation
from .reader import check_readable, error_data, find_divergence
from .throttle import UNLIMITED, ReplicationQuota
from .types import (
    ACKS_ALL,
    DeleteRecordsResult,
    DeleteRecordsResults,
    FetchEntry,
    FetchParams,
    FetchResults,
    Isolation,
    ProduceResults,
)

NOWHERE: Final = (-1, 0)  # before every place


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
        # ACKS_ALL, or 1 where a flush is waited for; never 0.
        self.required_acks = required_acks
        # Of all partitions of the request; those that wait have no error yet.
        self.results = results
        # Partitions that are not complete: `check_partition` and `time_out` remove them.
        self.open_keys = open_keys

    def check_partition(
        self, key: TopicPartition, partition: Partition | None, missing: ErrorCode
    ) -> bool:
        """Check one partition again; True if the whole operation is complete."""
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
        end = -1 if partition is None else partition.log.log_end_offset
        if not result.error_code and result.required_offset > end:
            raise BrokenInvariant(
                f"{result.required_offset} is acknowledged, the log ends at {end}"
            )
        self.open_keys.discard(key)
        return not self.open_keys  # Case F

    def time_out(self) -> None:  # Case G
        for key in self.open_keys:
            self.results[key].error_code = ErrorCode.REQUEST_TIMED_OUT
        self.open_keys.clear()


class DelayedFetch(Operation):
    """A fetch that waits; it keeps its first results and reads anew only the changed partitions.

    The number of bytes to fetch is a difference of places in the log and needs no read.
    """

    __slots__ = (
        "changed", "due", "ends", "entries", "index_of", "is_collected", "is_in_lines", "is_queued",
        "number", "params", "results", "sizes", "starts", "total_bytes", "unseen", "wanted_bytes",
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
        # More than the response may hold can not be waited for.
        self.wanted_bytes = min(params.min_bytes, params.max_bytes)
        self.is_collected = False  # complete, and in `collected_fetches`
        # Partitions unknown here cannot be waited for: they are looked up once more.
        self.changed = (
            {
                index
                for index, entry in enumerate(entries)
                if entry.topic is None or (entry.topic, entry.partition) not in index_of
            }
            if len(index_of) < len(entries)
            else set()
        )
        # Since the last look, partitions that have changed; it is to be looked at if `is_queued`.
        self.unseen: set[int] = set()
        self.is_queued = False
        # Bytes each partition would return.
        self.sizes = [len(data.records) if data.records else 0 for data in results]
        self.total_bytes = sum(self.sizes)
        # By index: where it begins to read, and the readable end that was last looked at.
        self.starts: dict[int, Place] = {}
        self.ends: dict[int, Place] = {}
        # State for `fetch_purgatory`.
        self.number = 0
        self.is_in_lines = False
        self.due: dict[int, tuple[int, int, int, DelayedFetch]] = {}

    def is_complete(
        self, partitions: Mapping[TopicPartition, Partition], quota: ReplicationQuota
    ) -> bool:
        """Look at the partitions that have changed, or may have if it stands in lines."""
        unseen, self.unseen = self.unseen, set()
        self.changed |= unseen
        indexes = self.index_of.values() if self.is_in_lines else unseen
        for index in indexes:
            entry = self.entries[index]
            assert entry.topic is not None
            partition = partitions.get((entry.topic, entry.partition))
            if self._is_completed_by(index, partition, quota):
                self.changed.add(index)
                return True
        return self.total_bytes >= self.wanted_bytes  # Case F

    def has_enough(
        self, partitions: Mapping[TopicPartition, Partition], quota: ReplicationQuota
    ) -> bool:
        """Whether it need not wait at all. Its first read is measured by places, too."""
        if self.params.is_from_follower or self.wanted_bytes <= 1:
            return False
        for key, index in self.index_of.items():
            if self._is_completed_by(index, partitions[key], quota):
                return False  # the next look at the partition finds the reason
        return self.total_bytes >= self.wanted_bytes

    def _is_completed_by(
        self, index: int, partition: Partition | None, quota: ReplicationQuota
    ) -> bool:
        """Whether one partition completes it; otherwise its bytes are counted."""
        self.ends[index] = NOWHERE
        if partition is None:  # Cases B and C
            return True
        entry, params = self.entries[index], self.params
        try:
            check_readable(partition, entry, params)  # raises in case `A` or `D`
            end_offset = partition.readable_end_offset(params.isolation)
            fetch_offset = entry.fetch_offset
            log = partition.log
            if fetch_offset > end_offset or fetch_offset < log.log_start_offset:  # Case E
                return True
            if entry.last_fetched_epoch >= 0 and find_divergence(partition, entry):  # Case G
                return True
            if fetch_offset < log.segments.first.base_offset:
                return False  # it waits for the quota of the remote tier, until its time is over
            is_at_end = fetch_offset == end_offset
            if params.is_from_follower and (is_at_end or _must_wait(partition, params, quota)):
                return False  # its records do not count for case F
            if self.wanted_bytes <= 1:  # Case F, without looking where that is
                return not is_at_end
            end = self.ends[index] = log.place_behind(end_offset)
            start = self.starts.get(index)
            if start is None:
                start = self.starts[index] = log.place_of(fetch_offset)
            if start[0] < end[0] <= fetch_offset:
                start = self.starts[index] = end[0], 0  # it has waited where a segment ended
        except KafkaError:
            return True
        if is_at_end:
            return False
        if start[0] != end[0]:  # Case E
            return True
        size = min(end[1] - start[1], max(entry.max_bytes, 1))
        if size != self.sizes[index]:
            self.changed.add(index)
            self.total_bytes += size - self.sizes[index]
            self.sizes[index] = size
        return False

    def note_changes(self, partitions: Mapping[TopicPartition, Partition]) -> None:
        """Before the answer: find changes that a consumer must learn and that no look has
        covered."""
        changed, results = self.changed, self.results
        # An answer does not contain the log end at the arrival of the fetch.
        reads_to_log_end = self.params.isolation is Isolation.LOG_END
        for key, index in self.index_of.items():
            if index in changed:
                continue
            partition, data = partitions.get(key), results[index]
            if (
                reads_to_log_end
                or partition is None
                or data.high_watermark != partition.log.high_watermark
                or data.last_stable_offset != partition.log.last_stable_offset
                or data.log_start_offset != partition.log.log_start_offset
            ):
                changed.add(index)


class DelayedRemoteFetch(Operation):
    """A fetch that waits for records from the remote tier, with all other results."""

    __slots__ = ("index", "partition", "results")

    def __init__(
        self, token: object, partition: Partition, results: FetchResults, index: int
    ) -> None:
        super().__init__(token)
        self.partition = partition  # whose records it waits for
        self.results = results
        self.index = index  # of the partition in the results

    def take(self, records: FileSlice, aborted: list[AbortedTransaction]) -> None:  # Case B
        data = self.results[self.index]
        data.records = records
        if data.aborted_transactions is not None:
            data.aborted_transactions = aborted

    def fail(self, error: ErrorCode) -> None:  # Case B
        self.results[self.index] = error_data(self.results[self.index].partition_index, error)


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

    def check_partition(
        self, key: TopicPartition, partition: Partition | None, missing: ErrorCode
    ) -> bool:
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
                )  # Case C, unless another result follows
                return False
            self.results[key] = DeleteRecordsResult(ErrorCode.NONE, low_watermark)  # Case B
        del self.open_offsets[key]
        return not self.open_offsets
