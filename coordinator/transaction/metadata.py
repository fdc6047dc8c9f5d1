"""One transactional id: its producer, its transaction, and the transition that is being logged.

A change has two steps. `prepare_*` checks that it is legal, marks it as pending and returns the
`Transition` to log; no other change may begin while it is pending. `complete` applies it when the
log has it; `cancel` forgets it when the log refused it.

Invariants: at most one pending transition; states follow `states.VALID_PREVIOUS`; the producer
epoch goes up by at most one a transition, or to 0 with a new producer id; a transition to Ongoing
only adds partitions, one to Prepare* changes none.

A transaction has the version of its producer: up to 1 the epoch stays the same; in version 2
(KIP-890, part 2) the decision raises it, so that no request or marker of one transaction counts in
the next. If that uses up the epochs, the decision names the next producer id, and the completion
changes to it. An abort without a transaction is legal then, and raises the epoch as well.

Mirrors Kafka's TransactionMetadata and TxnTransitMetadata of 4.3; with version 0 those of 3.9.
Different: a transaction at the largest epoch can be fenced (3.9 throws, and never ends it).
"""

from typing import NamedTuple

from ...protocol.invariants import BrokenInvariant
from ...protocol.records.batch import NO_TIMESTAMP
from ...protocol.topics import TopicPartition
from ...protocol.wall_clock import NOT_SEEN
from ..connection_order import ConnectionOrder
from .states import (
    COMPLETE,
    EXPIRING,
    PREPARED,
    VALID_PREVIOUS,
    TransactionState,
    complete_state,
    prepare_state,
)

NO_PRODUCER_ID = -1
RAISES_EPOCHS = 2  # the transaction version since which each end raises the epoch
NO_PRODUCER_EPOCH = -1
MAX_PRODUCER_EPOCH = 2**15 - 1

_S = TransactionState


def is_epoch_exhausted(epoch: int) -> bool:
    """The last epoch of all is kept for fencing, so producers never get it."""
    return epoch >= MAX_PRODUCER_EPOCH - 1


class Transition(NamedTuple):
    """The next state of a transactional id, as it is logged."""

    state: TransactionState
    producer_id: int
    producer_epoch: int
    last_producer_epoch: int
    timeout_ms: int
    partitions: frozenset[TopicPartition]
    start_ms: int
    update_ms: int
    last_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0

    @property
    def raises_epoch(self) -> bool:
        return self.client_version >= RAISES_EPOCHS


class TransactionMetadata:
    __slots__ = (
        "_connections",
        "client_version",
        "is_fencing",
        "last_producer_epoch",
        "last_producer_id",
        "logged_epoch",
        "next_producer_id",
        "opened_ms",
        "partitions",
        "pending_state",
        "producer_epoch",
        "producer_id",
        "start_ms",
        "state",
        "timeout_ms",
        "transactional_id",
        "update_ms",
        "used_ms",
    )

    def __init__(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        timeout_ms: int,
        update_ms: int,
        *,
        state: TransactionState = _S.EMPTY,
        partitions: frozenset[TopicPartition] = frozenset(),
        start_ms: int = NO_TIMESTAMP,
        last_producer_id: int = NO_PRODUCER_ID,
        next_producer_id: int = NO_PRODUCER_ID,
        client_version: int = 0,
    ) -> None:
        # Never changes.
        self.transactional_id = transactional_id
        # These two are set by `complete`, and the epoch by `fence` before the log has it. The epoch
        # of one producer id never goes back; NO_PRODUCER_EPOCH: it has not begun.
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        # The epoch of its last record in the log; set by `complete`. It differs from the epoch
        # above only after a `fence`, until the log has that. Such an epoch answers no producer.
        self.logged_epoch = producer_epoch
        # The values before that, which a producer may still send; the epoch is never in the log,
        # the id only since transaction.version 1.
        self.last_producer_id = last_producer_id
        self.last_producer_epoch = NO_PRODUCER_EPOCH
        # Of a transaction that is Prepare*: the producer id after it, if its epochs are used up.
        self.next_producer_id = next_producer_id
        # The transaction version of the client that asked for the last transition.
        self.client_version = client_version
        # How long a transaction may stay open, from the producer's last InitProducerId.
        self.timeout_ms = timeout_ms
        # The logged state: `complete` sets it along `VALID_PREVIOUS`; never Dead, never a fence.
        self.state = state
        # The partitions of the transaction; while it is Prepare*, those still without a marker.
        self.partitions = set(partitions)
        # When its transaction was opened and when it changed last, as logged.
        self.start_ms = start_ms
        self.update_ms = update_ms
        # The same by the monotonic clock; NOT_SEEN if it was read from the log.
        self.opened_ms = NOT_SEEN
        self.used_ms = NOT_SEEN
        # The state being logged; None: no state is, and another transition may begin.
        self.pending_state: TransactionState | None = None
        # The epoch was raised to fence a producer, and the log does not have it (yet).
        self.is_fencing = False
        self._connections = ConnectionOrder()

    def __repr__(self) -> str:
        pending = "" if self.pending_state is None else f" -> {self.pending_state.label}"
        return (
            f"<{self.transactional_id!r} {self.state.label}{pending} "
            f"producer {self.producer_id}/{self.producer_epoch}>"
        )

    @property
    def is_epoch_exhausted(self) -> bool:
        return is_epoch_exhausted(self.producer_epoch)

    @property
    def raises_epoch(self) -> bool:
        """Whether the producer of the last transition knows version 2."""
        return self.client_version >= RAISES_EPOCHS

    @property
    def identity_after(self) -> tuple[int, int]:
        """The producer id and epoch when the decided transaction is complete."""
        if self.raises_epoch and self.next_producer_id != NO_PRODUCER_ID:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

    @property
    def is_stable(self) -> bool:
        """Whether it is as logged, without a transition or markers under way."""
        return (
            self.pending_state is None
            and not self.is_fencing
            and self.state not in PREPARED
            and self.producer_epoch != NO_PRODUCER_EPOCH
        )

    def open_ms(self, now_ms: int, wall_ms: int) -> int:
        """How long the transaction has been open."""
        return wall_ms - self.start_ms if self.opened_ms == NOT_SEEN else now_ms - self.opened_ms

    def idle_ms(self, now_ms: int, wall_ms: int | None) -> int | None:
        """The time since its last change; None: only the wall clock could tell, and `wall_ms` is
        None."""
        if self.used_ms != NOT_SEEN:
            return now_ms - self.used_ms
        return None if wall_ms is None else wall_ms - self.update_ms

    def is_timed_out(self, now_ms: int, wall_ms: int | None) -> bool:
        """Whether the transaction has been open for too long and is not being ended. `wall_ms`
        None: the wall clock must not be used."""
        if self.state is not _S.ONGOING or self.pending_state is not None:
            return False
        if self.opened_ms == NOT_SEEN and wall_ms is None:
            return False
        return self.open_ms(now_ms, wall_ms or 0) > self.timeout_ms

    @property
    def may_be_fenced(self) -> bool:
        """Whether its transaction is open, and not being ended."""
        return self.state is _S.ONGOING and self.pending_state is None

    @property
    def has_failed_fence(self) -> bool:
        """Whether its open transaction must be aborted and the log has refused that so far."""
        return self.is_fencing and self.state is _S.ONGOING and self.pending_state is None

    def is_late(self, connection: int) -> bool:
        """Whether a request of this producer comes from a connection that it has abandoned."""
        return self._connections.is_late(connection)

    # Preparing

    def prepare_epoch_bump(self, timeout_ms: int, last_epoch: int, stamp_ms: int) -> Transition:
        """Give a producer that starts, or restarts, the next epoch."""
        if self.is_epoch_exhausted:
            raise BrokenInvariant(f"{self} has no other epoch")
        return self._prepare_empty(
            self.producer_id, self.producer_epoch + 1, last_epoch, timeout_ms, stamp_ms
        )

    def prepare_same_epoch(self, timeout_ms: int, stamp_ms: int) -> Transition:
        """Repeat the epoch for a producer that was given it, but did not get the answer."""
        return self._prepare_empty(
            self.producer_id, self.producer_epoch, self.last_producer_epoch, timeout_ms, stamp_ms
        )

    def prepare_new_producer_id(
        self, producer_id: int, timeout_ms: int, stamp_ms: int, *, keep_last_epoch: bool
    ) -> Transition:
        """The epochs of the producer id are used up."""
        last_epoch = self.producer_epoch if keep_last_epoch else NO_PRODUCER_EPOCH
        return self._prepare_empty(producer_id, 0, last_epoch, timeout_ms, stamp_ms)

    def prepare_add_partitions(
        self, partitions: frozenset[TopicPartition], stamp_ms: int, client_version: int = 0
    ) -> Transition:
        start_ms = self.start_ms if self.state is _S.ONGOING else stamp_ms
        transition = self._prepare(_S.ONGOING, self.partitions | partitions, start_ms, stamp_ms)
        return transition._replace(client_version=client_version)

    def prepare_epoch_fence(self) -> int:
        """An abort that also fences the producer: the epoch to abort with.

        This epoch is never sent to a producer, so it is reused if its logging failed. The largest
        epoch is reused as well: no producer gets it, so a client that opened a transaction with it
        invented it.
        """
        self._begin(_S.PREPARE_EPOCH_FENCE)
        is_ours = self.is_fencing or self.producer_epoch == MAX_PRODUCER_EPOCH
        return self.producer_epoch if is_ours else self.producer_epoch + 1

    def fence(self, producer_epoch: int) -> None:
        """Take over the epoch of `prepare_epoch_fence`; an abort must follow at once."""
        if self.pending_state is not _S.PREPARE_EPOCH_FENCE:
            raise BrokenInvariant(f"{self} is fenced, and was not about to be")
        if not self.producer_epoch <= producer_epoch <= MAX_PRODUCER_EPOCH:
            raise BrokenInvariant(f"{self} is fenced with epoch {producer_epoch}")
        self.pending_state = None
        self.producer_epoch = producer_epoch
        self.last_producer_epoch = NO_PRODUCER_EPOCH
        self.is_fencing = True

    def prepare_end(self, stamp_ms: int, *, committed: bool) -> Transition:
        """Decide, under the same epoch."""
        if self.state in EXPIRING:
            raise BrokenInvariant(f"{self} has no transaction to end")
        state = prepare_state(committed=committed)
        transition = self._prepare(state, self.partitions, self.start_ms, stamp_ms)
        return transition._replace(client_version=0)

    def prepare_end_and_raise(
        self, stamp_ms: int, next_producer_id: int | None, *, committed: bool
    ) -> Transition:
        """Decide in version 2: the marker has the next epoch. `next_producer_id` is needed if the
        epochs are used up (`is_epoch_exhausted`).

        A transaction at the largest epoch, which no producer was given, can only be aborted.
        """
        if self.is_epoch_exhausted != (next_producer_id is not None):
            raise BrokenInvariant(f"{self} is to be followed by producer {next_producer_id}")
        epoch = self.producer_epoch + 1
        if epoch > MAX_PRODUCER_EPOCH:
            if committed:
                raise BrokenInvariant(f"{self} is to be committed, under an epoch of nobody")
            epoch = MAX_PRODUCER_EPOCH
        start_ms = self.start_ms if self.state is _S.ONGOING else stamp_ms
        state = prepare_state(committed=committed)
        transition = self._prepare(state, self.partitions, start_ms, stamp_ms)
        return transition._replace(
            producer_epoch=epoch,
            last_producer_epoch=self.producer_epoch,
            next_producer_id=NO_PRODUCER_ID if next_producer_id is None else next_producer_id,
            client_version=RAISES_EPOCHS,
        )

    def prepare_complete(self, stamp_ms: int) -> Transition:
        """The transition to log when all markers are written; the log has the decision already."""
        self.is_fencing = False
        state = complete_state(committed=self.state is _S.PREPARE_COMMIT)
        transition = self._prepare(state, (), self.start_ms, stamp_ms)
        producer_id, epoch = self.identity_after
        return transition._replace(
            producer_id=producer_id, producer_epoch=epoch, next_producer_id=NO_PRODUCER_ID
        )

    def prepare_dead(self) -> None:
        self._begin(_S.DEAD)

    def _prepare_empty(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, stamp_ms: int
    ) -> Transition:
        if producer_id < 0 or epoch < 0:
            raise BrokenInvariant(f"{self} is to become producer {producer_id}/{epoch}")
        self._begin(_S.EMPTY)
        return Transition(
            _S.EMPTY,
            producer_id,
            epoch,
            last_epoch,
            timeout_ms,
            frozenset(),
            NO_TIMESTAMP,
            stamp_ms,
            self.producer_id,
            self.next_producer_id,
            self.client_version,
        )

    def _prepare(
        self,
        state: TransactionState,
        partitions: "set[TopicPartition] | tuple[()]",
        start_ms: int,
        stamp_ms: int,
    ) -> Transition:
        self._begin(state)
        return Transition(
            state,
            self.producer_id,
            self.producer_epoch,
            self.last_producer_epoch,
            self.timeout_ms,
            frozenset(partitions),
            start_ms,
            stamp_ms,
            self.producer_id,
            self.next_producer_id,
            self.client_version,
        )

    def _begin(self, state: TransactionState) -> None:
        if self.pending_state is not None or self.state not in VALID_PREVIOUS[state]:
            raise BrokenInvariant(f"{self} cannot become {state.label}")
        self.pending_state = state

    def as_logged(self) -> Transition:
        """The logged state of this id, to be logged once more without any change."""
        if not self.is_stable:
            raise BrokenInvariant(f"{self} is about to change, and is to be logged as it is")
        return Transition(
            self.state,
            self.producer_id,
            self.producer_epoch,
            self.last_producer_epoch,
            self.timeout_ms,
            frozenset(self.partitions),
            NO_TIMESTAMP if self.state is _S.EMPTY else self.start_ms,
            self.update_ms,
            self.last_producer_id,
            self.next_producer_id,
            self.client_version,
        )

    # Completing

    def complete(self, transition: Transition, prepared_ms: int) -> None:
        """Apply a logged transition, which was prepared at `prepared_ms` of the monotonic clock."""
        state = transition.state
        self._check_completion(transition)
        if state is _S.EMPTY:
            self._complete_empty(transition)
        else:
            if state is _S.ONGOING:
                self.partitions = set(transition.partitions)
                if self.state is not _S.ONGOING:
                    self.opened_ms = prepared_ms
                self.start_ms = transition.start_ms
            elif state in PREPARED:
                self.start_ms = transition.start_ms
            else:
                self.partitions.clear()
            if transition.raises_epoch:
                self.last_producer_id = transition.last_producer_id
                self.last_producer_epoch = transition.last_producer_epoch
                self.producer_id = transition.producer_id
                self.producer_epoch = transition.producer_epoch
            self.next_producer_id = transition.next_producer_id
        self.client_version = transition.client_version
        self.update_ms = transition.update_ms
        self.used_ms = prepared_ms
        self.pending_state = None
        self.state = state
        self.logged_epoch = self.producer_epoch

    def check_is_logged(self) -> None:
        """A producer is about to be answered by the epoch: the log must have it."""
        if self.producer_epoch != self.logged_epoch:
            raise BrokenInvariant(f"{self} answers, and its log has epoch {self.logged_epoch}")

    def _check_completion(self, transition: Transition) -> None:
        """Check that a logged transition was prepared, and starts from the current state."""
        state = transition.state
        is_new_producer = transition.producer_id != self.producer_id
        bump = transition.producer_epoch - self.producer_epoch
        is_good = self.pending_state is state and self.state in VALID_PREVIOUS[state]
        if state is _S.EMPTY:
            is_good &= transition.producer_epoch == 0 if is_new_producer else bump in (0, 1)
        else:
            is_good &= self.timeout_ms == transition.timeout_ms
            if transition.raises_epoch and state in PREPARED:
                at_the_end = self.producer_epoch == MAX_PRODUCER_EPOCH
                is_good &= not is_new_producer and bump == (0 if at_the_end else 1)
                is_good &= transition.last_producer_epoch == self.producer_epoch
            elif state not in COMPLETE or not is_new_producer:
                is_good &= not is_new_producer and bump == 0
            else:
                is_good &= (transition.producer_id, transition.producer_epoch) == (
                    self.identity_after
                )
        if state is _S.ONGOING:
            is_good &= self.partitions <= transition.partitions
        elif state in PREPARED:
            is_good &= self.partitions == transition.partitions
            if self.state is _S.ONGOING:
                is_good &= self.start_ms == transition.start_ms
            else:
                is_good &= transition.raises_epoch
        if not is_good:
            raise BrokenInvariant(f"{self} of {sorted(self.partitions)} completes {transition}")

    def _complete_empty(self, transition: Transition) -> None:
        self.last_producer_id = self.producer_id
        self.producer_id = transition.producer_id
        self.producer_epoch = transition.producer_epoch
        self.last_producer_epoch = transition.last_producer_epoch
        self.timeout_ms = transition.timeout_ms
        # The start of the transaction before stays known here, though not in the log.

    def cancel(self) -> None:
        """The log has not taken the pending transition."""
        self.pending_state = None

    def marker_written(self, partition: TopicPartition) -> None:
        """The partition has its marker, or never gets one because it is gone."""
        if self.state not in PREPARED:
            raise BrokenInvariant(f"a marker for {self}")
        self.partitions.discard(partition)
