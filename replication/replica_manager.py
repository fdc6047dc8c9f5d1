"""All replicas of this broker, and the one way in for append, fetch, offsets and leadership.

Job: find the partition, do the work, and see which waiting operations it has completed. Operations
that wait stand in three purgatories (produce, fetch, delete records), keyed by (topic, partition).

Invariants: an operation is answered once: either by the `Done` of its call, or by one Completion
in `completed`, which the shell takes with `take_completed` after every call. Work for the shell
(fsync, ISR changes) collects in `effects` the same way. Nothing is called back, nothing here waits,
and no object on this path refers back to its owner.

The hot path (one partition, acks=1 or a leader without followers) is a dict look-up, the append,
the HW, and one look-up a purgatory to see that nobody waits.

Mirrors Kafka's ReplicaManager. LeaderAndIsr and StopReplica are in leadership.py, offset queries
in offsets.py, the ISR's round trip in isr.py, questions about producers in producers.py. Leaves
out tiered storage and future replicas.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.messages.replication import LeaderAndIsrRequest, StopReplicaRequest
from ..storage.descriptors import OutOfDescriptors
from ..storage.log import AppendOrigin
from ..storage.log_config import LogConfig
from ..storage.log_manager import LogManager
from ..storage.validation import Sent
from ..storage.verification import NOT_VERIFIED, VerificationGuard
from . import fetching, leadership, offsets
from .collected_fetches import CollectedFetches
from .delayed_operations import DelayedDeleteRecords, DelayedFetch, DelayedProduce
from .log_dir_moves import LogDirMoves
from .metadata_cache import MetadataCache
from .partition import Partition
from .purgatory import Purgatory
from .replica_selector import ReplicaSelector
from .throttle import ReplicationQuota
from .types import (
    ACKS_ALL,
    UNKNOWN_OFFSET,
    AlterIsr,
    Completion,
    DeleteRecordsResults,
    Done,
    Effect,
    FailedLogDir,
    FetchEntry,
    FetchParams,
    FetchResults,
    FlushNeeded,
    IsrChangeCounts,
    LeadershipResult,
    Parked,
    PartitionKey,
    ProduceResult,
    ProduceResults,
    RefusedRole,
    ReplicaConfig,
    StopResult,
    TopicStats,
)

# Append errors that Kafka answers without the log start offset.
_WITHOUT_OFFSETS = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class ReplicaManager:
    __slots__ = (
        "broker_epoch",
        "collected",
        "completed",
        "config",
        "config_for",
        "controller_epoch",
        "converted_bytes",
        "deletes",
        "effects",
        "fetches",
        "follower_quota",
        "isr_changes",
        "leader_quota",
        "log_manager",
        "metadata",
        "moves",
        "offline",
        "partitions",
        "produces",
        "refused",
        "replica_selector",
        "topic_stats",
    )

    def __init__(
        self,
        config: ReplicaConfig,
        log_manager: LogManager,
        metadata: MetadataCache,
        config_for: Callable[[str], LogConfig],
        *,
        now_ms: int,
        replica_selector: ReplicaSelector | None = None,
    ) -> None:
        self.config = config
        self.log_manager = log_manager
        self.metadata = metadata
        self.config_for = config_for
        self.replica_selector = replica_selector
        self.broker_epoch = -1
        self.controller_epoch = -1
        self.partitions: dict[PartitionKey, Partition] = {}
        self.offline: set[PartitionKey] = set()
        # Roles that wait for file descriptors: see leadership.
        self.refused: dict[PartitionKey, RefusedRole] = {}
        self.topic_stats: dict[str, TopicStats] = {}
        self.produces: Purgatory[DelayedProduce] = Purgatory("Produce", now_ms)
        self.fetches: Purgatory[DelayedFetch] = Purgatory("Fetch", now_ms)
        self.deletes: Purgatory[DelayedDeleteRecords] = Purgatory("DeleteRecords", now_ms)
        # The size of all batches that were built anew for a produce.
        self.converted_bytes = 0
        self.isr_changes = IsrChangeCounts()
        self.leader_quota = ReplicationQuota(config.broker_id)
        self.follower_quota = ReplicationQuota(config.broker_id)
        self.moves = LogDirMoves(config.broker_id)
        self.completed: list[Completion] = []
        self.effects: list[Effect] = []
        self.collected = CollectedFetches()

    # -- what the shell takes -----------------------------------------------------------------

    def take_completed(self) -> list[Completion]:
        completed, self.completed = self.completed, []
        return completed

    def take_effects(self) -> list[Effect]:
        effects, self.effects = self.effects, []
        return effects

    # -- look-up ------------------------------------------------------------------------------

    def missing_error(self, key: PartitionKey) -> ErrorCode:
        """Why a partition cannot be found here."""
        if key in self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.metadata.partition_state(*key) is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def stats_of(self, topic: str) -> TopicStats:
        stats = self.topic_stats.get(topic)
        if stats is None:
            stats = self.topic_stats[topic] = TopicStats()
        return stats

    # -- produce ------------------------------------------------------------------------------

    def append(
        self,
        token: object,
        required_acks: int,
        timeout_ms: int,
        entries: Mapping[PartitionKey, Sent],
        now_ms: int,
        request_version: int | None = None,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        *,
        internal_topics_allowed: bool = True,
        guards: Mapping[PartitionKey, VerificationGuard] | None = None,
    ) -> Done[ProduceResults] | Parked:
        """Append to partitions. With `guards`, batches that begin a transaction must be verified by
        the guard of their partition (see producers.py)."""
        results: ProduceResults = {}
        open_keys: set[PartitionKey] | None = None
        for key, records in entries.items():
            if not internal_topics_allowed and key[0] in self.config.internal_topics:
                results[key] = ProduceResult(ErrorCode.INVALID_TOPIC_EXCEPTION)
                continue
            guard = None if guards is None else guards.get(key, NOT_VERIFIED)
            result = self.append_one(
                key, records, required_acks, now_ms, request_version, origin, guard
            )
            results[key] = result
            if result.is_open:
                if open_keys is None:
                    open_keys = {key}
                else:
                    open_keys.add(key)
        if open_keys is not None and not self.partitions.keys() >= open_keys:
            # The disk of one failed while the next one was appended to.
            for key in open_keys - self.partitions.keys():
                results[key].error_code = ErrorCode.KAFKA_STORAGE_ERROR
                open_keys.discard(key)
        if not open_keys:
            return Done(results)
        return self.wait_for_append(token, required_acks, timeout_ms, results, open_keys, now_ms)

    def wait_for_append(
        self,
        token: object,
        required_acks: int,
        timeout_ms: int,
        results: ProduceResults,
        open_keys: set[PartitionKey],
        now_ms: int,
    ) -> Parked:
        """Park a produce until its open partitions are settled."""
        operation = DelayedProduce(token, required_acks, results, open_keys)
        # With acks=1 only our own disk is waited for, which answers or fails: no deadline.
        deadline_ms = now_ms + timeout_ms if required_acks == ACKS_ALL else None
        self.produces.watch(operation, open_keys, deadline_ms)
        return Parked(operation)

    def append_one(
        self,
        key: PartitionKey,
        records: Sent,
        required_acks: int,
        now_ms: int,
        request_version: int | None,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
    ) -> ProduceResult:
        """Append to one partition; `is_open` says that the result has to wait."""
        partition = self.partitions.get(key)
        if partition is None:
            if self.metadata.contains(key[0]):
                # Names that nobody created are not counted: they would grow without a limit.
                self.stats_of(key[0]).failed_produce_requests += 1
            return ProduceResult(self.missing_error(key))
        stats = partition.stats
        stats.produce_requests += 1
        try:
            info = partition.append_as_leader(
                records, required_acks == ACKS_ALL, now_ms, origin, request_version, guard
            )
        except KafkaError as error:
            stats.failed_produce_requests += 1
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self.storage_failed(key, error)
            return _failed_append(error, partition)
        required_offset = info.last_offset + 1
        if info.size_bytes and not info.duplicate:
            stats.bytes_in += info.size_bytes
            stats.messages_in += required_offset - info.first_offset
            if info.flush_needed:
                self.effects.append(FlushNeeded(*key, required_offset, partition.log))
            if info.converted_count:
                stats.produce_message_conversions += info.converted_count
                self.converted_bytes += info.size_bytes
            if partition.maybe_advance_high_watermark(now_ms):
                self.high_watermark_moved(key, partition)
            elif self.fetches.has_watchers(key):
                self._check_fetches(key, partition)
            if self.collected.operations:
                self.collected.appended(info.size_bytes, self.effects)
        result = ProduceResult(
            ErrorCode.NONE,
            info.first_offset,
            info.log_append_time,
            info.log_start_offset,
            required_offset,
        )
        if required_acks == ACKS_ALL:
            if partition.log.high_watermark < required_offset:
                result.is_open = True
            elif len(partition.isr.maximal) < partition.effective_min_isr:
                result.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        elif required_acks:
            result.is_open = not partition.is_durable(required_offset)
        return result

    # -- fetch: see fetching.py -----------------------------------------------------------------

    def fetch(
        self, token: object, params: FetchParams, entries: Sequence[FetchEntry], now_ms: int
    ) -> Done[FetchResults] | Parked:
        return fetching.fetch(self, token, params, entries, now_ms)

    # -- waiting operations -------------------------------------------------------------------

    def high_watermark_moved(self, key: PartitionKey, partition: Partition) -> None:
        if self.fetches.has_watchers(key):
            self._check_fetches(key, partition)
        if self.produces.has_watchers(key):
            self._check_produces(key, partition)
        if self.deletes.has_watchers(key):
            self.check_deletes(key, partition)

    def check_waiting(self, key: PartitionKey) -> None:
        """The partition changed in some way (role, ISR, config, gone): look at all who wait."""
        partition = self.partitions.get(key)
        if self.produces.has_watchers(key):
            self._check_produces(key, partition)
        if self.fetches.has_watchers(key):
            self._check_fetches(key, partition)
        if self.deletes.has_watchers(key):
            self.check_deletes(key, partition)

    def _check_produces(self, key: PartitionKey, partition: Partition | None) -> None:
        missing = ErrorCode.NONE if partition is not None else self.missing_error(key)
        for operation in self.produces.watchers(key):
            if operation.is_waiting and operation.settle(key, partition, missing):
                self.produces.remove(operation)
                self.completed.append(Completion(operation.token, operation.results))

    def _check_fetches(self, key: PartitionKey, partition: Partition | None) -> None:
        for operation in self.fetches.watchers(key):
            if operation.is_collected:
                operation.changed.add(operation.index_of[key])
            elif operation.is_waiting and operation.is_complete(key, partition, self.leader_quota):
                if self.collected.urgent_bytes and operation.params.is_from_follower:
                    self.collected.add(operation, self.effects)
                else:
                    self._answer_fetch(operation)

    def _answer_fetch(self, operation: DelayedFetch) -> None:
        self.fetches.remove(operation)
        results = fetching.read_again(self, operation)
        self.completed.append(Completion(operation.token, results))

    def answer_followers(self) -> None:
        """Answer the followers' fetches that were collected; one may have timed out meanwhile."""
        for operation in self.collected.take():
            if operation.is_waiting:
                self._answer_fetch(operation)

    def check_deletes(self, key: PartitionKey, partition: Partition | None) -> None:
        missing = ErrorCode.NONE if partition is not None else self.missing_error(key)
        for operation in self.deletes.watchers(key):
            if operation.is_waiting and operation.settle(key, partition, missing):
                self.deletes.remove(operation)
                self.completed.append(Completion(operation.token, operation.results))

    def tick(self, now_ms: int) -> None:
        """Answer the operations whose time is over."""
        self._time_out(
            self.produces.expire(now_ms), self.fetches.expire(now_ms), self.deletes.expire(now_ms)
        )

    def restart_timers(self, now_ms: int) -> None:
        """The wall clock went back: answer all that waits now, rather than hours late.

        Produces that wait for the local disk only have no deadline; they go on waiting.
        """
        produces = self.produces.restart(now_ms)
        for produce in produces:
            if produce.required_acks != ACKS_ALL:
                self.produces.watch(produce, produce.open_keys, None)
        timed_out = [produce for produce in produces if produce.required_acks == ACKS_ALL]
        self._time_out(timed_out, self.fetches.restart(now_ms), self.deletes.restart(now_ms))

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
            self.completed.append(Completion(fetch.token, fetching.read_again(self, fetch)))
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

    # -- reports from the shell ---------------------------------------------------------------

    def flushed(self, topic: str, partition: int, offset: int, now_ms: int) -> None:
        """The log is on disk up to `offset`."""
        key = (topic, partition)
        replica = self.partitions.get(key)
        if replica is None:
            return
        replica.flushed(offset)
        if replica.is_leader:
            replica.maybe_advance_high_watermark(now_ms)
        self.check_waiting(key)

    def storage_failed(self, key: PartitionKey, error: KafkaError | None = None) -> None:
        """An operation on this partition said KAFKA_STORAGE_ERROR."""
        if isinstance(error, OutOfDescriptors):
            return  # the disk is as good as before
        self.offline.add(key)
        self.check_log_dirs()

    def check_log_dirs(self) -> None:
        """Give up the partitions of directories that went offline, as Kafka does."""
        for directory, lost in self.log_manager.take_newly_offline():
            self.offline.update(lost)
            for key in lost:
                self.partitions.pop(key, None)
            self.moves.drop_failed()
            self.effects.append(FailedLogDir(directory, tuple(lost)))
            for key in lost:
                self.check_waiting(key)

    def isr_altered(
        self,
        proposal: AlterIsr,
        error: ErrorCode,
        isr: Iterable[int],
        partition_epoch: int,
        now_ms: int,
    ) -> None:
        """The controller's answer to an AlterIsr effect."""
        key = (proposal.topic, proposal.partition)
        partition = self.partitions.get(key)
        if partition is None or not partition.is_leader:
            return
        before = len(partition.isr.committed)
        again = partition.isr_altered(proposal, error, frozenset(isr), partition_epoch)
        self.isr_changes.count(len(partition.isr.committed) - before, error)
        if again is not None:
            self.effects.append(again)
        elif partition.maybe_advance_high_watermark(now_ms):
            self.high_watermark_moved(key, partition)

    def maybe_shrink_isr(self, now_ms: int) -> None:
        for partition in self.partitions.values():
            proposal = partition.propose_isr_shrink(now_ms)
            if proposal is not None:
                self.effects.append(proposal)

    def apply_topic_config(self, topic: str, config: LogConfig, now_ms: int) -> None:
        for key, partition in list(self.partitions.items()):
            if key[0] == topic:
                partition.log.set_config(config)
                future = self.log_manager.future_log(*key)
                if future is not None:
                    future.set_config(config)
                partition.config_changed()
                if partition.is_leader:
                    partition.maybe_advance_high_watermark(now_ms)
                self.check_waiting(key)

    # -- leadership and offsets: see the modules ----------------------------------------------

    def become_leader_or_follower(
        self, request: LeaderAndIsrRequest, now_ms: int
    ) -> LeadershipResult:
        return leadership.become_leader_or_follower(self, request, now_ms)

    def stop_replicas(self, request: StopReplicaRequest, now_ms: int) -> StopResult:
        return leadership.stop_replicas(self, request, now_ms)

    def list_offset(
        self,
        key: PartitionKey,
        query: offsets.OffsetQuery,
        searched: offsets.Searched | None = None,
    ) -> offsets.OffsetAnswer:
        return offsets.list_offset(self, key, query, searched)

    def end_offset_for_epoch(
        self, key: PartitionKey, current_leader_epoch: int, epoch: int
    ) -> tuple[ErrorCode, int, int]:
        return offsets.end_offset_for_epoch(self, key, current_leader_epoch, epoch)

    def delete_records(
        self,
        token: object,
        wanted: Mapping[PartitionKey, int],
        timeout_ms: int,
        now_ms: int,
    ) -> Done[DeleteRecordsResults] | Parked:
        return offsets.delete_records(self, token, wanted, timeout_ms, now_ms)


def _failed_append(error: KafkaError, partition: Partition) -> ProduceResult:
    record_errors = getattr(error, "record_errors", ())
    if record_errors:
        partition.stats.invalid_record_batches += 1
    log_start_offset = partition.log.log_start_offset
    if error.code in _WITHOUT_OFFSETS:
        log_start_offset = UNKNOWN_OFFSET
    return ProduceResult(
        error.code,
        log_start_offset=log_start_offset,
        error_message=error.message,
        record_errors=record_errors,
    )
