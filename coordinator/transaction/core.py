"""Shared parts of the transaction coordinator: ids, partitions, effects, appends, retries.

Effects are collected while a request, a completion or a tick is processed; the runtime takes them
in order. Appends to one partition must reach the log in that order.

Invariants: every Append that was handed out is answered by exactly one `appended` call; a
transition is completed or cancelled only in the `OwnedPartition` in which it was prepared, so that
nothing of an earlier leadership reaches a later one.

Mirrors Kafka's TransactionStateManager (state, appendTransactionToLog).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.invariants import BrokenInvariant
from ...protocol.records.builder import build_batch
from ...protocol.records.record import SimpleRecord
from ...protocol.topics import TopicPartition
from ...protocol.wall_clock import WallClock
from ..append_errors import store_error
from ..group.placement import partition_for_key
from .loader import PartitionLoad
from .metadata import TransactionMetadata, Transition
from .records import transaction_record

RETRY_DELAY_MS = 50


class TransactionConfig(NamedTuple):
    """The coordinator's configuration (broker keys transaction.*, transactional.*)."""

    transactional_id_expiration_ms: int = 604_800_000
    max_timeout_ms: int = 900_000
    abort_timed_out_interval_ms: int = 10_000
    remove_expired_interval_ms: int = 3_600_000
    request_timeout_ms: int = 30_000
    proves: bool = True  # pybroker.coordinator.proof


class InitResult(NamedTuple):
    """The answer to InitProducerId."""

    error: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1


class EndResult(NamedTuple):
    """The answer to EndTxn; since version 5 with the producer of the next transaction."""

    error: ErrorCode
    producer_id: int = -1
    producer_epoch: int = -1


class InitAttempt(NamedTuple):
    """An InitProducerId request; `expected` is the producer id and epoch that its sender has."""

    token: Any
    transactional_id: str
    timeout_ms: int
    expected: tuple[int, int] | None


class EndAttempt(NamedTuple):
    """An EndTxn request. `client_version` is the transaction version of its sender, `connection` is
    larger for a connection that was accepted later."""

    token: Any
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    client_version: int = 0
    connection: int = 0


class FenceAttempt(NamedTuple):
    """An open transaction that is to be aborted, and its producer fenced; `on_end` gets NONE once
    that is logged, or the error."""

    found: Found
    on_end: Callable[[ErrorCode], None]


class MarkerJob(NamedTuple):
    """Markers that end one transaction in these partitions."""

    log_partition: int
    coordinator_epoch: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: frozenset[TopicPartition]
    transaction_version: int = 0


class Reply(NamedTuple):
    """Effect: answer the request that came with `token`: InitResult, EndResult or ErrorCode."""

    token: Any
    result: Any


class Append(NamedTuple):
    """Effect: append a batch to a partition of `__transaction_state` with acks=all."""

    append_id: int
    partition: int
    batch: bytearray
    timeout_ms: int


class SendMarkers(NamedTuple):
    """Effect: have the partitions' leaders write the markers, and report their results."""

    job: MarkerJob


class AllocateProducerId(NamedTuple):
    """Effect: call `producer_id_allocated` with the attempt and a new producer id."""

    attempt: Attempt


Effect = Reply | Append | SendMarkers | AllocateProducerId

# Called with (error, now_ms) when an append ends.
AppendCompletion = Callable[[ErrorCode, int], None]


class OwnedPartition:
    """One leadership of a partition of `__transaction_state`, with its transactional ids."""

    __slots__ = ("epoch", "partition", "transactions")

    def __init__(
        self, partition: int, epoch: int, transactions: dict[str, TransactionMetadata]
    ) -> None:
        self.partition = partition
        self.epoch = epoch
        self.transactions = transactions


class Found(NamedTuple):
    """A transactional id and the partition that owns it."""

    owner: OwnedPartition
    metadata: TransactionMetadata


Attempt = InitAttempt | EndAttempt | FenceAttempt


class Core:
    """State and services that the parts of the coordinator share."""

    __slots__ = (
        "_appends",
        "_effects",
        "_next_append_id",
        "_next_retry",
        "_retries",
        "config",
        "is_active",
        "loading",
        "owned",
        "partition_count",
        "partition_epochs",
        "version",
        "wall",
    )

    def __init__(
        self,
        config: TransactionConfig,
        wall: WallClock | None = None,
        version: Callable[[], int] = lambda: 0,
    ) -> None:
        self.config = config
        self.version = version  # the finalized level of transaction.version
        self.wall = wall or WallClock()  # beside the `now_ms` of all calls: timestamps are its
        self.is_active = False
        self.partition_count = 0
        self.owned: dict[int, OwnedPartition] = {}
        self.loading: dict[int, PartitionLoad] = {}
        self.partition_epochs: dict[int, int] = {}
        self._effects: list[Effect] = []
        self._appends: dict[int, AppendCompletion] = {}
        self._next_append_id = 1
        self._retries: list[tuple[int, int, Callable[[int], None]]] = []
        self._next_retry = 0

    # Looking up

    def partition_for(self, transactional_id: str) -> int:
        return partition_for_key(transactional_id, self.partition_count)

    def owner_of(self, transactional_id: str) -> OwnedPartition | ErrorCode:
        """The partition of the id if it is served here."""
        if not self.is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.partition_for(transactional_id)
        if partition in self.loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return self.owned.get(partition, ErrorCode.NOT_COORDINATOR)

    def find(
        self, transactional_id: str, producer_id: int, *, unknown: ErrorCode
    ) -> Found | ErrorCode:
        """The id, if it belongs to this producer; `unknown` if there is none."""
        owner = self.owner_of(transactional_id)
        if isinstance(owner, ErrorCode):
            return owner
        metadata = owner.transactions.get(transactional_id)
        if metadata is None or metadata.producer_id != producer_id:
            return unknown
        return Found(owner, metadata)

    def is_current(self, found: Found) -> bool:
        """Whether the leadership in which the id was found still lasts."""
        return self.owned.get(found.owner.partition) is found.owner

    # Effects

    def reply(self, token: object, result: object) -> None:
        self._effects.append(Reply(token, result))

    def emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def take_effects(self) -> list[Effect]:
        effects = self._effects
        self._effects = []
        return effects

    def append_records(
        self,
        partition: int,
        records: Iterable[SimpleRecord],
        timeout_ms: int,
        completion: AppendCompletion,
    ) -> None:
        """Append records; `completion` gets the log's error."""
        append_id = self._next_append_id
        self._next_append_id += 1
        self._appends[append_id] = completion
        self._effects.append(Append(append_id, partition, build_batch(records), timeout_ms))

    def append_transition(
        self,
        found: Found,
        transition: Transition,
        now_ms: int,
        done: AppendCompletion,
        *,
        prepared_ms: int | None = None,
        is_asked_for: bool = True,
        keep_pending_on: frozenset[ErrorCode] = frozenset(),
    ) -> None:
        """Log a transition that was prepared at `prepared_ms` (None: now), then complete or cancel
        it; `done` gets the client's error.

        For a client's request the limit is the transaction timeout; other transitions have more
        time, since with a tiny timeout they would never be replicated soon enough (Kafka makes no
        difference). After an error in `keep_pending_on` the transition stays pending: the caller
        retries.
        """
        metadata, since_ms = found.metadata, now_ms if prepared_ms is None else prepared_ms
        if metadata.pending_state is not transition.state:
            raise BrokenInvariant(f"{metadata} is to log {transition}")

        def completion(log_error: ErrorCode, now_ms: int) -> None:
            error = store_error(log_error)
            if not self.is_current(found):
                if error is ErrorCode.NONE:
                    error = self._error_of_lost(found.owner.partition)
            elif error is ErrorCode.NONE:
                metadata.complete(transition, since_ms)
            elif error not in keep_pending_on:
                metadata.cancel()
            done(error, now_ms)

        stamp_ms = self.wall.stamp_ms(now_ms)
        record = transaction_record(metadata.transactional_id, transition, stamp_ms, self.version())
        timeout_ms = transition.timeout_ms
        if not is_asked_for:
            timeout_ms = max(timeout_ms, self.config.request_timeout_ms)
        self.append_records(found.owner.partition, [record], timeout_ms, completion)

    def prove(
        self, found: Found, answer: ErrorCode, now_ms: int, done: Callable[[ErrorCode], None]
    ) -> None:
        """Give `answer`, found in memory, only if this broker is still the coordinator.

        A broker that is cut off from the controller still believes that it leads, and its memory
        may be outdated. So the logged state of the id is appended and replicated once more, like a
        transition: if that fails, `done` gets that error instead. Kafka answers at once.

        An id that is about to change is not logged in between. While a fence is being logged, or if
        the log refused it, its epoch is known here only, and the real coordinator may have given
        the same epoch to a producer: the client must retry. For another id that is about to change,
        or has no producer yet, `answer` is given at once.
        """
        metadata = found.metadata
        if self.config.proves and metadata.is_fencing:
            done(ErrorCode.CONCURRENT_TRANSACTIONS)
            return
        if self.config.proves:
            metadata.check_is_logged()
        if not (self.config.proves and metadata.is_stable):
            done(answer)
            return

        def completion(log_error: ErrorCode, _now_ms: int) -> None:
            error = store_error(log_error)
            if error is ErrorCode.NONE and not self.is_current(found):
                error = self._error_of_lost(found.owner.partition)
            done(error or answer)

        stamp_ms = self.wall.stamp_ms(now_ms)
        record = transaction_record(
            metadata.transactional_id, metadata.as_logged(), stamp_ms, self.version()
        )
        self.append_records(
            found.owner.partition, [record], self.config.request_timeout_ms, completion
        )

    def _error_of_lost(self, partition: int) -> ErrorCode:
        if partition in self.loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR

    def take_completion(self, append_id: int) -> AppendCompletion:
        """Remove and return the completion of an append; called exactly once for each."""
        completion = self._appends.pop(append_id, None)
        if completion is None:
            raise BrokenInvariant(f"append {append_id} is answered twice, or was never handed out")
        return completion

    @property
    def appends_in_flight(self) -> int:
        return len(self._appends)

    # Retries

    def retry_later(self, action: Callable[[int], None], now_ms: int) -> None:
        """Call `action(now_ms)` after RETRY_DELAY_MS."""
        self._next_retry += 1
        heapq.heappush(self._retries, (now_ms + RETRY_DELAY_MS, self._next_retry, action))

    def run_retries(self, now_ms: int) -> None:
        while self._retries and self._retries[0][0] <= now_ms:
            heapq.heappop(self._retries)[2](now_ms)

    def next_retry_ms(self) -> int | None:
        return self._retries[0][0] if self._retries else None
