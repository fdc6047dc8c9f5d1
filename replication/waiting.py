"""The waiting operations: their purgatories, their timers and their answers.

Job: four purgatories (produce, fetch, remote fetch, delete records), keyed by (topic, partition).
Every change of a partition is reported here, and the operations that it completes get their
results.

Invariants: an operation is answered once: either by the `Done` of its call, or by one Completion in
`completed`; operations that wait for a partition lost with its disk are looked at before the call
that found the failure returns, or in `answer_more`. Nothing is called back. Of the fetches that are
due, MAX_ANSWERS_AT_ONCE are answered before the driver takes the completions; the others queue for
`answer_more`, each once. The effect of a change on produces is determined at once;
MAX_RESULTS_AT_ONCE of their answers leave at a time.

Mirrors the use of DelayedOperationPurgatory in Kafka's ReplicaManager and Partition
(tryCompleteDelayedRequests).
"""

from collections import deque
from typing import Final, TypeVar

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.invariants import BrokenInvariant
from ..protocol.topics import TopicPartition
from .collected_fetches import CollectedFetches
from .delayed_operations import (
    DelayedDeleteRecords,
    DelayedFetch,
    DelayedProduce,
    DelayedRemoteFetch,
)
from .fetch_purgatory import FetchPurgatory
from .fetch_reader import FetchReader
from .first_fetches import FirstFetches
from .hosted_partitions import HostedPartitions
from .partition import Partition
from .purgatory import KeyedPurgatory, Operation
from .throttle import ReplicationQuota
from .types import Completion, MoreToAnswer, RemoteRecords, ShareFetchesDue

# A fetch takes about 25 us to be read and answered.
MAX_ANSWERS_AT_ONCE: Final = 32
# A result that is known is answered in about 15 us.
MAX_RESULTS_AT_ONCE: Final = 200
# A look at one that is not complete, about 1 us.
MAX_LOOKS_AT_ONCE: Final = 1000
_MORE: Final = MoreToAnswer()

DelayedT = TypeVar("DelayedT", DelayedProduce, DelayedDeleteRecords)


class WaitingOperations:
    __slots__ = (
        "_completions",
        "_due",
        "_effects",
        "_hosted",
        "_is_more_announced",
        "_partitions",
        "_reader",
        "collected",
        "completed",
        "deletes",
        "fetches",
        "first_fetches",
        "leader_quota",
        "produces",
        "remote_fetch_max_wait_ms",
        "remote_fetches",
        "shared",
    )

    def __init__(
        self,
        hosted: HostedPartitions,
        reader: FetchReader,
        leader_quota: ReplicationQuota,
        completed: list[Completion],
        now_ms: int,
    ) -> None:
        self._hosted = hosted
        self._partitions = hosted.partitions
        self._effects = hosted.effects
        self._reader = reader
        self.leader_quota = leader_quota
        # Answers for the driver to hand out; emptied but never replaced.
        self.completed = completed
        self.produces: KeyedPurgatory[DelayedProduce] = KeyedPurgatory("Produce", now_ms)
        self.fetches = FetchPurgatory(hosted.partitions, now_ms)
        self.first_fetches = FirstFetches(hosted.partitions)
        self.remote_fetches: KeyedPurgatory[DelayedRemoteFetch] = KeyedPurgatory(
            "RemoteFetch", now_ms
        )
        self.remote_fetch_max_wait_ms = hosted.config.remote_fetch_max_wait_ms
        self.deletes: KeyedPurgatory[DelayedDeleteRecords] = KeyedPurgatory("DeleteRecords", now_ms)
        # Fetches to look at, oldest first; `_is_more_announced`: the driver knows that
        # `answer_more` is due.
        self._due: deque[DelayedFetch] = deque()
        # Results of produces and deletes that are known, and not in `completed` yet.
        self._completions: deque[Completion] = deque()
        self._is_more_announced = False
        # The partitions for which members of share groups wait; the driver adds and removes them.
        self.shared: set[TopicPartition] = set()
        # Complete operations of `fetches` that are held for more records.
        self.collected = CollectedFetches()

    # A partition has changed

    def high_watermark_moved(self, key: TopicPartition, partition: Partition) -> None:
        # Nothing is looked up in an empty purgatory: compiled code would make a tuple of the key.
        if self.fetches.watched:
            self.check_fetches(key, partition)
        if self.produces.watched and key in self.produces.watched:
            self._check_partition(self.produces, key, partition)
        if self.deletes.watched and key in self.deletes.watched:
            self._check_partition(self.deletes, key, partition)
        if self.shared and key in self.shared:
            self._effects.append(ShareFetchesDue(*key))

    def check(self, key: TopicPartition) -> None:
        """The partition changed in some way (role, ISR, config, gone): look at all waiting
        operations."""
        partition = self._partitions.get(key)
        if key in self.produces.watched:
            self._check_partition(self.produces, key, partition)
        if key in self.fetches.watched:
            self._look(key, self.fetches.watchers(key))
        if key in self.deletes.watched:
            self._check_partition(self.deletes, key, partition)
        if partition is None and key in self.remote_fetches.watched:
            for operation in self.remote_fetches.watchers(key):
                self._answer_remote_fetch(operation)
        if key in self.shared:
            self._effects.append(ShareFetchesDue(*key))

    def check_fetches(self, key: TopicPartition, partition: Partition) -> None:
        """The partition has more records, or more of them may be read."""
        watchers = self.fetches.watched.get(key)
        if watchers is not None:
            self._look(key, self.fetches.due(watchers, partition))

    def appended(
        self, key: TopicPartition, partition: Partition, first_offset: int, now_ms: int
    ) -> None:
        """A leader has appended, and the high watermark waits for followers."""
        if self.fetches.watched:
            self.check_fetches(key, partition)
        if first_offset == partition.leader_epoch_start_offset:
            self._await_first_fetches(partition, now_ms)

    def _await_first_fetches(self, partition: Partition, now_ms: int) -> None:
        """The partition has the first records of its epoch: followers that do not ask for it yet
        can do so now."""
        for broker_id in self.first_fetches.expect(partition, now_ms):
            for operation in self.fetches.of_follower(broker_id):
                self._answer_fetch(operation)

    def _look(self, key: TopicPartition, operations: list[DelayedFetch]) -> None:
        """At once, as long as not too many are completed."""
        for operation in operations:
            if not operation.is_waiting:
                continue
            if operation.is_collected:
                operation.changed.add(operation.index_of[key])
                continue
            operation.unseen.add(operation.index_of[key])
            if operation.is_queued:
                continue
            if len(self.completed) < MAX_ANSWERS_AT_ONCE:
                self._look_at(operation)
            else:
                operation.is_queued = True
                self._due.append(operation)
        if self._due:
            self._announce_more()

    def _look_at(self, operation: DelayedFetch) -> None:
        if not operation.is_complete(self._partitions, self.leader_quota):
            self.fetches.rearm(operation)
        elif self.collected.urgent_bytes and operation.params.is_from_follower:
            self.collected.add(operation, self._effects)
        else:
            self._answer_fetch(operation)

    def _announce_more(self) -> None:
        if not self._is_more_announced:
            self._is_more_announced = True
            self._effects.append(_MORE)

    def answer_more(self, now_ms: int) -> bool:
        """Continue with due operations; True if more are left."""
        self._move_completed()
        due = self._due
        for _ in range(min(len(due), MAX_LOOKS_AT_ONCE)):
            if len(self.completed) >= MAX_ANSWERS_AT_ONCE:
                break
            operation = due.popleft()
            operation.is_queued = False
            if operation.is_waiting:
                self._look_at(operation)
        self._expire(now_ms)
        self._is_more_announced = bool(due) or bool(self._completions) or self._is_overdue(now_ms)
        return self._is_more_announced

    def check_deletes(self, key: TopicPartition, partition: Partition | None) -> None:
        self._check_partition(self.deletes, key, partition)

    def _check_partition(
        self, purgatory: KeyedPurgatory[DelayedT], key: TopicPartition, partition: Partition | None
    ) -> None:
        missing = ErrorCode.NONE if partition is not None else self._hosted.missing_error(key)
        for operation in purgatory.watchers(key):
            if operation.is_waiting and operation.check_partition(key, partition, missing):
                if not purgatory.remove(operation):
                    raise BrokenInvariant(f"{operation.token!r} is answered twice")
                self._completions.append(Completion(operation.token, operation.results))
        if self._completions:
            self._move_completed()
            if self._completions:
                self._announce_more()

    def _move_completed(self) -> None:
        completions, completed = self._completions, self.completed
        while completions and len(completed) < MAX_RESULTS_AT_ONCE:
            completed.append(completions.popleft())

    # A disk has failed

    def storage_failed(self, key: TopicPartition, error: KafkaError | None = None) -> None:
        """An operation on this partition failed with KAFKA_STORAGE_ERROR."""
        self._hosted.storage_failed(key, error)
        self.check_lost()

    def check_log_dirs(self) -> None:
        """Remove the partitions of directories that went offline."""
        self._hosted.drop_failed_dirs()
        self.check_lost()

    def check_lost(self) -> None:
        """Look at the operations of lost partitions; called after a read that has not done so."""
        lost = self._hosted.lost
        while lost:
            self.check(lost.pop(0))

    # Answers to fetches

    def _answer_fetch(self, operation: DelayedFetch) -> None:
        if not self.fetches.remove(operation):
            raise BrokenInvariant(f"{operation.token!r} is answered twice")
        self._fetch_is_over(operation)

    def _fetch_is_over(self, operation: DelayedFetch) -> None:
        results = self._reader.read_again(operation)
        if self._hosted.lost:
            self.check_lost()
        self.completed.append(Completion(operation.token, results))

    def answer_followers(self) -> None:
        """Answer the followers' fetches that were collected; one may have timed out meanwhile."""
        for operation in self.collected.take():
            if operation.is_waiting:
                self._answer_fetch(operation)

    # Records of the remote tier

    def remote_read(self, operation: Operation, result: RemoteRecords | ErrorCode) -> None:
        """The effect RemoteRead is done; its operation may have been answered meanwhile."""
        assert isinstance(operation, DelayedRemoteFetch)
        if not operation.is_waiting:
            return
        if isinstance(result, ErrorCode):
            operation.fail(result)
        else:
            operation.take(result.records, result.aborted)
            operation.partition.stats.bytes_out += len(result.records)
        self._answer_remote_fetch(operation)

    def _answer_remote_fetch(self, operation: DelayedRemoteFetch) -> None:
        self.remote_fetches.remove(operation)
        self._completions.append(Completion(operation.token, operation.results))
        self._move_completed()
        if self._completions:
            self._announce_more()

    # On behalf of waiting clients

    def answer_now(self, operation: Operation) -> None:
        """A fetch is answered with the available records, as if its time were over. Other
        operations continue to wait."""
        if isinstance(operation, DelayedFetch) and operation.is_waiting:
            self._answer_fetch(operation)

    def cancel(self, operation: Operation) -> None:
        """Forget the operation: it gets no answer, and the work that it waits for continues."""
        if isinstance(operation, DelayedFetch):
            self.fetches.remove(operation)
        elif isinstance(operation, DelayedRemoteFetch):
            self.remote_fetches.remove(operation)
        elif isinstance(operation, DelayedProduce):
            self.produces.remove(operation)
        elif isinstance(operation, DelayedDeleteRecords):
            self.deletes.remove(operation)

    # Timers

    def tick(self, now_ms: int) -> None:
        """Answer the operations whose time is over."""
        self._expire(now_ms)
        if self._is_overdue(now_ms):
            self._announce_more()

    def _expire(self, now_ms: int) -> None:
        completed = self.completed
        for produce in self.produces.expire(now_ms, MAX_ANSWERS_AT_ONCE - len(completed)):
            produce.time_out()
            completed.append(Completion(produce.token, produce.results))
        for fetch in self.fetches.expire(now_ms, MAX_ANSWERS_AT_ONCE - len(completed)):
            self._fetch_is_over(fetch)
        for remote in self.remote_fetches.expire(now_ms, MAX_ANSWERS_AT_ONCE - len(completed)):
            completed.append(Completion(remote.token, remote.results))
        for delete in self.deletes.expire(now_ms, MAX_ANSWERS_AT_ONCE - len(completed)):
            completed.append(Completion(delete.token, delete.results))

    def _is_overdue(self, now_ms: int) -> bool:
        next_ms = self.next_deadline_ms()
        return next_ms is not None and next_ms <= now_ms

    def next_deadline_ms(self) -> int | None:
        deadlines = [
            deadline_ms
            for deadline_ms in (
                self.produces.next_deadline_ms(),
                self.fetches.next_deadline_ms(),
                self.remote_fetches.next_deadline_ms(),
                self.deletes.next_deadline_ms(),
            )
            if deadline_ms is not None
        ]
        return min(deadlines, default=None)
