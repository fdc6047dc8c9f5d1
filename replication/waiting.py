"""The operations that wait: their purgatories, their timers, and those that are answered.

Job: three purgatories (produce, fetch, delete records), keyed by (topic, partition). Whoever has
changed a partition says so here, and the operations that this completes get their results.

Invariants: an operation is answered once: either by the `Done` of its call, or by one Completion in
`completed`; whoever waits for a partition that was lost with its disk is looked at before the call
that found the failure is over. Nothing is called back.

Mirrors what Kafka's ReplicaManager and Partition do with DelayedOperationPurgatory
(tryCompleteDelayedRequests).
"""

from collections.abc import Iterable
from typing import TypeVar

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.topics import TopicPartition
from .collected_fetches import CollectedFetches
from .delayed_operations import DelayedDeleteRecords, DelayedFetch, DelayedProduce
from .fetch_reader import FetchReader
from .hosted_partitions import HostedPartitions
from .partition import Partition
from .purgatory import Purgatory
from .throttle import ReplicationQuota
from .types import Completion

SettledT = TypeVar("SettledT", DelayedProduce, DelayedDeleteRecords)


class WaitingOperations:
    __slots__ = (
        "_effects",
        "_hosted",
        "_leader_quota",
        "_partitions",
        "_reader",
        "collected",
        "completed",
        "deletes",
        "fetches",
        "produces",
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
        self._leader_quota = leader_quota
        # Answers for the driver to hand out; emptied but never replaced.
        self.completed = completed
        self.produces: Purgatory[DelayedProduce] = Purgatory("Produce", now_ms)
        self.fetches: Purgatory[DelayedFetch] = Purgatory("Fetch", now_ms)
        self.deletes: Purgatory[DelayedDeleteRecords] = Purgatory("DeleteRecords", now_ms)
        # Those of `fetches` that are complete, and wait for more to tell.
        self.collected = CollectedFetches()

    # A partition has changed

    def high_watermark_moved(self, key: TopicPartition, partition: Partition) -> None:
        if key in self.fetches.watched:
            self.check_fetches(key, partition)
        if key in self.produces.watched:
            self._settle(self.produces, key, partition)
        if key in self.deletes.watched:
            self._settle(self.deletes, key, partition)

    def check(self, key: TopicPartition) -> None:
        """The partition changed in some way (role, ISR, config, gone): look at all who wait."""
        partition = self._partitions.get(key)
        if key in self.produces.watched:
            self._settle(self.produces, key, partition)
        if key in self.fetches.watched:
            self.check_fetches(key, partition)
        if key in self.deletes.watched:
            self._settle(self.deletes, key, partition)

    def check_fetches(self, key: TopicPartition, partition: Partition | None) -> None:
        for operation in self.fetches.watchers(key):
            if operation.is_collected:
                operation.changed.add(operation.index_of[key])
            elif operation.is_waiting and operation.is_complete(key, partition, self._leader_quota):
                if self.collected.urgent_bytes and operation.params.is_from_follower:
                    self.collected.add(operation, self._effects)
                else:
                    self._answer_fetch(operation)

    def check_deletes(self, key: TopicPartition, partition: Partition | None) -> None:
        self._settle(self.deletes, key, partition)

    def _settle(
        self, purgatory: Purgatory[SettledT], key: TopicPartition, partition: Partition | None
    ) -> None:
        missing = ErrorCode.NONE if partition is not None else self._hosted.missing_error(key)
        for operation in purgatory.watchers(key):
            if operation.is_waiting and operation.settle(key, partition, missing):
                purgatory.remove(operation)
                self.completed.append(Completion(operation.token, operation.results))

    # A disk has failed

    def storage_failed(self, key: TopicPartition, error: KafkaError | None = None) -> None:
        """An operation on this partition said KAFKA_STORAGE_ERROR."""
        self._hosted.storage_failed(key, error)
        self.check_lost()

    def check_log_dirs(self) -> None:
        """Give up the partitions of directories that went offline."""
        self._hosted.give_up_failed_dirs()
        self.check_lost()

    def check_lost(self) -> None:
        """Whoever has read without those who wait says so afterwards."""
        lost = self._hosted.lost
        while lost:
            self.check(lost.pop(0))

    # Answers to fetches

    def _answer_fetch(self, operation: DelayedFetch) -> None:
        self.fetches.remove(operation)
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

    # Timers

    def tick(self, now_ms: int) -> None:
        """Answer the operations whose time is over."""
        self._time_out(
            self.produces.expire(now_ms), self.fetches.expire(now_ms), self.deletes.expire(now_ms)
        )

    def _time_out(
        self,
        produces: Iterable[DelayedProduce],
        fetches: Iterable[DelayedFetch],
        deletes: Iterable[DelayedDeleteRecords],
    ) -> None:
        for produce in produces:
            produce.time_out()
            self.completed.append(Completion(produce.token, produce.results))
        for fetch in fetches:
            self._fetch_is_over(fetch)
        for delete in deletes:
            self.completed.append(Completion(delete.token, delete.results))

    def next_deadline_ms(self) -> int | None:
        deadlines = [
            deadline_ms
            for deadline_ms in (
                self.produces.next_deadline_ms(),
                self.fetches.next_deadline_ms(),
                self.deletes.next_deadline_ms(),
            )
            if deadline_ms is not None
        ]
        return min(deadlines, default=None)
