"""The transaction coordinator of one broker, as a pure state machine.

Mirrors Kafka's TransactionCoordinator with TransactionStateManager. The runtime passes in requests
with an opaque token, outcomes of appends and markers, producer ids, loads and ticks, and performs
the effects from `take_effects` after each call, in order: `Reply(token, result)`,
`Append(append_id, partition, batch, timeout_ms)`, `SendMarkers(job)`,
`AllocateProducerId(attempt)`. Requests that only read are answered by a return value.

Invariants: every token of `init_producer_id`, `add_partitions` and `end_transaction` is replied to
exactly once, if every Append gets its `appended` and every AllocateProducerId its
`producer_id_allocated`. A transition is visible only after the log has it. A transaction whose end
is decided in the log gets its markers, by this coordinator or the next. A partition is loading,
owned or neither.

The parts: `producers` (InitProducerId), `ending` (EndTxn, markers, completion), this file (life
cycle, loading, partitions of transactions, timeouts and expiry, descriptions). The handlers
authorize, and check that partitions exist. `version` gives the finalized transaction.version: 1
brings flexible records, 2 the raise of the epoch with each end (KIP-890, part 2), for aborts of the
coordinator's own; requests of clients have the version of their client. Rules: SEMANTICS 15.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from ...protocol.apis.describe_transactions import (
    DescribeTransactionsResponseTopicData,
    DescribeTransactionsResponseTransactionState,
)
from ...protocol.apis.list_transactions import (
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
)
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ...protocol.wall_clock import WallClock
from .core import (
    Attempt,
    Core,
    Effect,
    EndAttempt,
    EndResult,
    Found,
    InitAttempt,
    MarkerJob,
    OwnedPartition,
    TransactionConfig,
)
from .ending import Ending
from .loader import PartitionLoad
from .metadata import RAISES_EPOCHS, TransactionMetadata
from .producers import Producers
from .records import transaction_tombstone
from .states import (
    EXPIRING,
    PREPARED,
    STATES_BY_LABEL,
    TransactionState,
)

logger = logging.getLogger("pybroker.coordinator.transaction.transaction_coordinator")

TOMBSTONE_BATCH_BYTES = 16_384


class TransactionCoordinator:
    """All transactional ids whose partition of `__transaction_state` this broker leads."""

    __slots__ = ("_abort_check_ms", "_core", "_ending", "_expiry_check_ms", "_producers")

    def __init__(
        self,
        config: TransactionConfig,
        wall: WallClock | None = None,
        version: Callable[[], int] = lambda: 0,
    ) -> None:
        """`wall` beside the `now_ms` of all calls; without one they are the same."""
        self._core = Core(config, wall, version)
        self._ending = Ending(self._core)
        self._producers = Producers(self._core, self._ending)
        self._abort_check_ms: int | None = None
        self._expiry_check_ms: int | None = None

    def take_effects(self) -> list[Effect]:
        """Remove and return the effects of the calls since the last time, in order."""
        return self._core.take_effects()

    # Life cycle

    def start(self, partition_count: int, now_ms: int) -> None:
        """Begin to serve; `partition_count` is that of the topic, made or to be made."""
        assert partition_count > 0
        core = self._core
        core.partition_count = partition_count
        core.is_active = True
        self._abort_check_ms = now_ms + core.config.abort_timed_out_interval_ms
        self._expiry_check_ms = now_ms + core.config.remove_expired_interval_ms

    def stop(self) -> None:
        """Stop serving; waiting requests stay unanswered, since their connections are closed."""
        self._core.is_active = False
        self._abort_check_ms = self._expiry_check_ms = None

    def partition_for(self, transactional_id: str) -> int:
        """The partition of the topic that owns the transactional id."""
        return self._core.partition_for(transactional_id)

    def next_deadline_ms(self) -> int | None:
        """When `tick` is needed next."""
        deadlines = (self._abort_check_ms, self._expiry_check_ms, self._core.next_retry_ms())
        return min((at_ms for at_ms in deadlines if at_ms is not None), default=None)

    def is_due_before(self, at_ms: float) -> bool:
        """Whether `tick` is needed before `at_ms`."""
        deadline_ms = self.next_deadline_ms()
        return deadline_ms is not None and deadline_ms < at_ms

    def tick(self, now_ms: int) -> None:
        """Retries, and the periodic checks for timed-out transactions and expired ids."""
        core = self._core
        core.run_retries(now_ms)
        if self._abort_check_ms is not None and self._abort_check_ms <= now_ms:
            self._abort_check_ms = now_ms + core.config.abort_timed_out_interval_ms
            self._abort_timed_out(now_ms)
        if self._expiry_check_ms is not None and self._expiry_check_ms <= now_ms:
            self._expiry_check_ms = now_ms + core.config.remove_expired_interval_ms
            for owner in core.owned.values():
                self._expire(owner, now_ms)

    def appended(self, append_id: int, error: ErrorCode, now_ms: int) -> None:
        """The outcome of an Append."""
        self._core.take_completion(append_id)(error, now_ms)

    # Loading and unloading

    def begin_load(self, partition: int, epoch: int) -> PartitionLoad | None:
        """This broker leads the partition in `epoch`: fill the returned load, then `finish_load`.

        None: nothing to load, since this epoch or a later one is known. State of an earlier epoch
        is dropped: the markers of a coordinator carry its epoch.
        """
        core = self._core
        known = core.partition_epochs.get(partition, epoch)
        is_served = partition in core.owned or partition in core.loading
        if epoch < known or (epoch == known and is_served):
            return None
        core.partition_epochs[partition] = epoch
        self._drop(partition)
        load = PartitionLoad(partition, epoch)
        core.loading[partition] = load
        return load

    def is_loading(self, load: PartitionLoad) -> bool:
        """Whether the load is still needed."""
        return self._core.loading.get(load.partition) is load

    def finish_load(self, load: PartitionLoad, now_ms: int) -> None:
        """Take over the ids read. If the partition was unloaded meanwhile, nothing happens."""
        core = self._core
        if not self.is_loading(load):
            return
        del core.loading[load.partition]
        owner = OwnedPartition(load.partition, load.epoch, load.transactions())
        core.owned[load.partition] = owner
        for metadata in owner.transactions.values():
            self._ending.resume(Found(owner, metadata), now_ms)

    def abandon_load(self, load: PartitionLoad) -> None:
        """Drop the load of a partition that could not be read: it is not served here (Kafka serves
        the part that it has read)."""
        if self.is_loading(load):
            del self._core.loading[load.partition]

    def unload(self, partition: int, epoch: int | None) -> None:
        """This broker does not lead the partition any more (since `epoch`, if it is known).

        Requests that wait for appends are answered with the outcome of these.
        """
        if epoch is not None:
            if epoch < self._core.partition_epochs.get(partition, epoch):
                return
            self._core.partition_epochs[partition] = epoch
        self._drop(partition)

    def _drop(self, partition: int) -> None:
        self._core.loading.pop(partition, None)
        owner = self._core.owned.pop(partition, None)
        if owner is not None:
            self._ending.forget(owner.transactions)

    # Requests of producers

    def init_producer_id(self, attempt: InitAttempt, now_ms: int) -> None:
        """InitProducerId with a transactional id; answered with an InitResult."""
        self._producers.init(attempt, None, now_ms)

    def producer_id_allocated(
        self, attempt: Attempt, allocated: int | ErrorCode, now_ms: int
    ) -> None:
        """Apply the result of an AllocateProducerId: a new producer id, or an error."""
        if isinstance(attempt, InitAttempt):
            self._producers.allocated(attempt, allocated, now_ms)
        else:
            self._ending.allocated(attempt, allocated, now_ms)

    def add_partitions(
        self,
        token: object,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        now_ms: int,
        connection: int = 0,
        client_version: int = 0,
    ) -> None:
        """AddPartitionsToTxn, and AddOffsetsToTxn; answered with an ErrorCode.

        `connection` is larger for a connection that was accepted later. `client_version` is the
        transaction version of the producer: in version 2 leaders add partitions for it, each over
        its own connection, and its epoch tells whether it is late.
        """
        if client_version >= RAISES_EPOCHS:
            self._add_of_epoch(
                token, transactional_id, producer_id, producer_epoch, partitions, now_ms
            )
            return
        core = self._core
        reply = partial(core.reply, token)
        found = self._find_id(transactional_id, producer_id)
        if isinstance(found, ErrorCode):
            reply(found)
            return
        metadata = found.metadata
        if metadata.producer_epoch != producer_epoch:
            core.prove(found, ErrorCode.PRODUCER_FENCED, now_ms, reply)
        elif metadata.is_late(connection):
            reply(ErrorCode.NOT_COORDINATOR)
        elif metadata.pending_state is not None or metadata.state in PREPARED:
            reply(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif metadata.state is TransactionState.ONGOING and metadata.partitions.issuperset(
            partitions
        ):
            core.prove(found, ErrorCode.NONE, now_ms, reply)
        else:
            transition = metadata.prepare_add_partitions(
                frozenset(partitions), core.wall.stamp_ms(now_ms)
            )
            core.append_transition(found, transition, now_ms, lambda error, _: reply(error))

    def _add_of_epoch(
        self,
        token: object,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        now_ms: int,
    ) -> None:
        """Add partitions in version 2. What is pending counts first: the producer may know the next
        producer id before the end of its transaction is complete."""
        core = self._core
        reply = partial(core.reply, token)
        owner = core.owner_of(transactional_id) if transactional_id else ErrorCode.INVALID_REQUEST
        if isinstance(owner, ErrorCode):
            reply(owner)
            return
        metadata = owner.transactions.get(transactional_id)
        if metadata is None:
            reply(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            return
        found = Found(owner, metadata)
        if metadata.pending_state is not None:
            reply(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif metadata.producer_id != producer_id:
            reply(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        elif metadata.producer_epoch != producer_epoch:
            core.prove(found, ErrorCode.PRODUCER_FENCED, now_ms, reply)
        elif metadata.state in PREPARED:
            reply(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif metadata.state is TransactionState.ONGOING and metadata.partitions.issuperset(
            partitions
        ):
            reply(ErrorCode.NONE)
        else:
            transition = metadata.prepare_add_partitions(
                frozenset(partitions), core.wall.stamp_ms(now_ms), RAISES_EPOCHS
            )
            core.append_transition(found, transition, now_ms, lambda error, _: reply(error))

    def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Iterable[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """For each partition, whether it is in the producer's open transaction (NONE, or the
        error). Pending transitions do not matter, except a fence: see `Core.prove`."""
        found = self._find_id(transactional_id, producer_id)
        if isinstance(found, ErrorCode):
            return dict.fromkeys(partitions, found)
        metadata = found.metadata
        if self._core.config.proves:
            if metadata.is_fencing:
                return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
            metadata.check_is_logged()
        if metadata.producer_epoch != producer_epoch:
            return dict.fromkeys(partitions, ErrorCode.PRODUCER_FENCED)
        if metadata.state in PREPARED:
            return dict.fromkeys(partitions, ErrorCode.CONCURRENT_TRANSACTIONS)
        return {
            partition: ErrorCode.NONE
            if partition in metadata.partitions
            else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    def _find_id(self, transactional_id: str, producer_id: int) -> Found | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        return self._core.find(
            transactional_id, producer_id, unknown=ErrorCode.INVALID_PRODUCER_ID_MAPPING
        )

    def end_transaction(
        self,
        token: object,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        now_ms: int,
        *,
        committed: bool,
        connection: int = 0,
        client_version: int = 0,
    ) -> None:
        """EndTxn; answered with an ErrorCode, in version 2 with an EndResult. `connection` and
        `client_version`: see `add_partitions`."""
        attempt = EndAttempt(
            token, transactional_id, producer_id, producer_epoch, committed,
            client_version, connection,
        )  # fmt: skip
        if transactional_id:
            self._ending.end(attempt, now_ms)
        elif client_version >= RAISES_EPOCHS:
            self._core.reply(token, EndResult(ErrorCode.INVALID_REQUEST))
        else:
            self._core.reply(token, ErrorCode.INVALID_REQUEST)

    def markers_answered(
        self, job: MarkerJob, results: Mapping[TopicPartition, ErrorCode], now_ms: int
    ) -> None:
        """Apply the results of leaders for (some of) a SendMarkers job's partitions.

        Partitions of the job without a result are retried; split a job by `_replace`.
        """
        self._ending.markers_answered(job, results, now_ms)

    # Time

    def _abort_timed_out(self, now_ms: int) -> None:
        core = self._core
        wall_ms = core.wall.comparable_ms(now_ms, core.config.abort_timed_out_interval_ms)
        for owner in core.owned.values():
            for metadata in owner.transactions.values():
                # No clock counts once the log has refused a fence: no producer has its epoch, so no
                # client can end the transaction, and until then all clients must retry.
                if metadata.has_failed_fence:
                    logger.info("Fencing %s is tried again", metadata)
                elif metadata.is_timed_out(now_ms, wall_ms):
                    logger.info("The transaction of %s has timed out and is aborted", metadata)
                else:
                    continue
                self._ending.fence_and_abort(Found(owner, metadata), now_ms)

    def _expire(self, owner: OwnedPartition, now_ms: int) -> None:
        """Log tombstones for the ids that were not used for long, in batches."""
        config = self._core.config
        wall_ms = self._core.wall.comparable_ms(now_ms, config.remove_expired_interval_ms)
        batch: list[TransactionMetadata] = []
        size_bytes = 0
        for metadata in owner.transactions.values():
            if metadata.state not in EXPIRING or metadata.pending_state is not None:
                continue
            idle_ms = metadata.idle_ms(now_ms, wall_ms)
            if idle_ms is None or idle_ms < config.transactional_id_expiration_ms:
                continue
            if batch and size_bytes + len(metadata.transactional_id) > TOMBSTONE_BATCH_BYTES:
                self._log_tombstones(owner, batch, now_ms)
                batch, size_bytes = [], 0
            metadata.prepare_dead()
            batch.append(metadata)
            size_bytes += len(metadata.transactional_id)
        if batch:
            self._log_tombstones(owner, batch, now_ms)

    def _log_tombstones(
        self, owner: OwnedPartition, expired: list[TransactionMetadata], now_ms: int
    ) -> None:
        def logged(error: ErrorCode, _now_ms: int) -> None:
            for metadata in expired:
                if error is ErrorCode.NONE:
                    del owner.transactions[metadata.transactional_id]
                else:
                    metadata.cancel()
            if error is not ErrorCode.NONE:
                logger.warning(
                    "%d expired transactional ids are kept: %s", len(expired), error.name
                )

        self._core.append_records(
            owner.partition,
            [
                transaction_tombstone(metadata.transactional_id, self._core.wall.stamp_ms(now_ms))
                for metadata in expired
            ],
            self._core.config.request_timeout_ms,
            logged,
        )

    def remove_ids(self, transactional_ids: Collection[str], now_ms: int) -> int:
        """Remove ids, which no client has requested: abort an open transaction, then log a
        tombstone. The number of these ids that are still here: call again until it is 0.
        """
        count = 0
        for owner in self._core.owned.values():
            idle: list[TransactionMetadata] = []
            for transactional_id in transactional_ids:
                metadata = owner.transactions.get(transactional_id)
                if metadata is None:
                    continue
                count += 1
                if metadata.pending_state is not None:
                    continue
                if metadata.state is TransactionState.ONGOING:
                    self._ending.fence_and_abort(Found(owner, metadata), now_ms)
                elif metadata.state in EXPIRING:
                    metadata.prepare_dead()
                    idle.append(metadata)
            if idle:
                self._log_tombstones(owner, idle, now_ms)
        return count

    # Descriptions

    def describe(self, transactional_id: str) -> DescribeTransactionsResponseTransactionState:
        """DescribeTransactions of one id."""
        view = DescribeTransactionsResponseTransactionState(transactional_id=transactional_id)
        metadata = self._find_described(transactional_id)
        if isinstance(metadata, ErrorCode):
            view.error_code = metadata
            return view
        view.producer_id = metadata.producer_id
        view.producer_epoch = metadata.producer_epoch
        view.transaction_state = metadata.state.label
        view.transaction_timeout_ms = metadata.timeout_ms
        view.transaction_start_time_ms = metadata.start_ms
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(metadata.partitions):
            by_topic.setdefault(topic, []).append(partition)
        view.topics = [
            DescribeTransactionsResponseTopicData(topic=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ]
        return view

    def _find_described(self, transactional_id: str) -> TransactionMetadata | ErrorCode:
        if self._core.is_active and not transactional_id:
            return ErrorCode.INVALID_REQUEST
        owner = self._core.owner_of(transactional_id)
        if isinstance(owner, ErrorCode):
            return owner
        return owner.transactions.get(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)

    def list_transactions(
        self,
        state_filters: Collection[str],
        producer_id_filters: Collection[int],
        duration_ms: int,
        now_ms: int,
        is_asked: Callable[[str], bool] = lambda _: True,
    ) -> ListTransactionsResponse:
        """Ids in one of the states, of one of the producers (empty: any), open for longer than
        `duration_ms` (negative: any), as if one without a transaction had begun long ago; of them
        those for which `is_asked` is true."""
        if not self._core.is_active:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if self._core.loading:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        wall_ms = self._core.wall.trusted_ms(now_ms)
        states = {STATES_BY_LABEL[name] for name in state_filters if name in STATES_BY_LABEL}
        producer_ids = set(producer_id_filters)
        return ListTransactionsResponse(
            unknown_state_filters=[
                name for name in dict.fromkeys(state_filters) if name not in STATES_BY_LABEL
            ],
            transaction_states=[
                ListTransactionsResponseTransactionState(
                    transactional_id=metadata.transactional_id,
                    producer_id=metadata.producer_id,
                    transaction_state=metadata.state.label,
                )
                for metadata in self.transactions()
                if (not producer_ids or metadata.producer_id in producer_ids)
                and (not state_filters or metadata.state in states)
                and (duration_ms < 0 or metadata.open_ms(now_ms, wall_ms) > duration_ms)
                and is_asked(metadata.transactional_id)
            ],
        )

    # For metrics and tests

    def transactions(self) -> Iterable[TransactionMetadata]:
        for owner in self._core.owned.values():
            yield from owner.transactions.values()

    @property
    def appends_in_flight(self) -> int:
        return self._core.appends_in_flight

    @property
    def pending_markers(self) -> int:
        """Transactions that wait for markers."""
        return self._ending.pending_count

    @property
    def marker_retries(self) -> int:
        """Marker jobs that wait to be sent again."""
        return self._ending.marker_retries

    @property
    def log_append_retries(self) -> int:
        """Transactions whose completion waits to be logged again."""
        return self._ending.log_retries
