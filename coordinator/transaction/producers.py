"""InitProducerId: a producer takes over a transactional id, and fences its previous producer.

Cases, in order (the first that applies decides):
- the id is new: a producer id is allocated, the epoch becomes 0;
- a transition is pending: CONCURRENT_TRANSACTIONS;
- the sender names a producer (KIP-360) that neither has the id, nor had it just before with an
  exhausted epoch, and the id has an epoch: PRODUCER_FENCED;
- Prepare*: CONCURRENT_TRANSACTIONS;
- Ongoing: the transaction is aborted under a new epoch that no producer gets, and the sender gets
  CONCURRENT_TRANSACTIONS once that is logged: it retries, and gets the epoch after that;
- the epoch is exhausted, and the sender names none or the current one: a new producer id, epoch 0;
- the sender names no epoch, or the current one, or the id has none: the next epoch;
- the sender names the epoch before the current one: it missed the answer, and gets it again;
- else PRODUCER_FENCED.

Mirrors Kafka's TransactionCoordinator.handleInitProducerId and
TransactionMetadata.prepareIncrementProducerEpoch. Producer ids come from outside and take a while:
a request that needs one is handled again, from the start, when the id has arrived.
"""

from ...protocol.errors import ErrorCode, KafkaError
from .core import (
    AllocateProducerId,
    Core,
    Found,
    InitAttempt,
    InitResult,
    OwnedPartition,
)
from .ending import Ending
from .metadata import (
    NO_PRODUCER_EPOCH,
    TransactionMetadata,
    Transition,
    is_epoch_exhausted,
)
from .states import PREPARED, TransactionState


class Producers:
    """Gives producers their ids and epochs."""

    __slots__ = ("_core", "_ending")

    def __init__(self, core: Core, ending: Ending) -> None:
        self._core = core
        self._ending = ending

    def allocated(self, attempt: InitAttempt, allocated: int | ErrorCode, now_ms: int) -> None:
        if isinstance(allocated, ErrorCode):
            self._core.reply(attempt.token, InitResult(allocated))
        else:
            self.init(attempt, allocated, now_ms)

    def init(self, attempt: InitAttempt, new_producer_id: int | None, now_ms: int) -> None:
        """Handle an InitProducerId. `new_producer_id` is used if one is needed; None: it must be
        allocated first."""
        try:
            owner = self._check(attempt)
        except KafkaError as error:
            self._core.reply(attempt.token, InitResult(error.code))
            return
        try:
            self._init(owner, attempt, new_producer_id, now_ms)
        except KafkaError as error:

            def reply(error: ErrorCode) -> None:
                self._core.reply(attempt.token, InitResult(error))

            found = Found(owner, owner.transactions[attempt.transactional_id])
            self._core.prove(found, error.code, now_ms, reply)

    def _init(
        self,
        owner: OwnedPartition,
        attempt: InitAttempt,
        new_producer_id: int | None,
        now_ms: int,
    ) -> None:
        stamp_ms = self._core.wall.stamp_ms(now_ms)
        metadata = owner.transactions.get(attempt.transactional_id)
        if metadata is None:
            if new_producer_id is None:
                self._core.emit(AllocateProducerId(attempt))
                return
            metadata = TransactionMetadata(
                attempt.transactional_id,
                new_producer_id,
                NO_PRODUCER_EPOCH,
                attempt.timeout_ms,
                stamp_ms,
            )
            owner.transactions[attempt.transactional_id] = metadata
        found = Found(owner, metadata)
        if metadata.pending_state is not None:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if not _may_continue(metadata, attempt.expected):
            raise KafkaError(ErrorCode.PRODUCER_FENCED)
        if metadata.state in PREPARED:
            raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if metadata.state is TransactionState.ONGOING:
            self._fence(found, attempt, now_ms)
            return
        expected_epoch = None if attempt.expected is None else attempt.expected[1]
        if metadata.is_epoch_exhausted and expected_epoch in (None, metadata.producer_epoch):
            if new_producer_id is None:
                self._core.emit(AllocateProducerId(attempt))
                return
            transition = metadata.prepare_new_producer_id(
                new_producer_id,
                attempt.timeout_ms,
                stamp_ms,
                keep_last_epoch=expected_epoch is not None,
            )
        else:
            transition = _next_epoch(metadata, expected_epoch, attempt.timeout_ms, stamp_ms)
        self._log(found, transition, attempt, now_ms)

    def _check(self, attempt: InitAttempt) -> OwnedPartition:
        if not attempt.transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not 0 < attempt.timeout_ms <= self._core.config.max_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        owner = self._core.owner_of(attempt.transactional_id)
        if isinstance(owner, ErrorCode):
            raise KafkaError(owner)
        return owner

    def _fence(self, found: Found, attempt: InitAttempt, now_ms: int) -> None:
        def fenced(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                error = ErrorCode.CONCURRENT_TRANSACTIONS
            self._core.reply(attempt.token, InitResult(error))

        self._ending.fence_and_abort(found, now_ms, fenced)

    def _log(self, found: Found, transition: Transition, attempt: InitAttempt, now_ms: int) -> None:
        def logged(error: ErrorCode, _now_ms: int) -> None:
            result = InitResult(error)
            if error is ErrorCode.NONE:
                result = InitResult(error, transition.producer_id, transition.producer_epoch)
            self._core.reply(attempt.token, result)

        self._core.append_transition(found, transition, now_ms, logged)


def _may_continue(metadata: TransactionMetadata, expected: tuple[int, int] | None) -> bool:
    """Whether a producer that names this id and epoch may continue with the transactional id."""
    if expected is None or metadata.producer_epoch == NO_PRODUCER_EPOCH:
        return True
    producer_id, epoch = expected
    if producer_id == metadata.producer_id:
        return True
    return producer_id == metadata.last_producer_id and is_epoch_exhausted(epoch)


def _next_epoch(
    metadata: TransactionMetadata, expected_epoch: int | None, timeout_ms: int, stamp_ms: int
) -> Transition:
    current = metadata.producer_epoch
    if expected_epoch is None:
        return metadata.prepare_epoch_bump(timeout_ms, NO_PRODUCER_EPOCH, stamp_ms)
    if current == NO_PRODUCER_EPOCH or expected_epoch == current:
        return metadata.prepare_epoch_bump(timeout_ms, current, stamp_ms)
    if expected_epoch == metadata.last_producer_epoch:
        return metadata.prepare_same_epoch(timeout_ms, stamp_ms)
    raise KafkaError(ErrorCode.PRODUCER_FENCED)
