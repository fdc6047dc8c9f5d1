"""The end of a transaction: the decision, the markers, the completion.

EndTxn (or a fence, or a timeout) logs PrepareCommit or PrepareAbort. Once that is replicated the
decision is final: the client is answered, and every partition of the transaction gets its marker,
however often leaders change. When all have it, CompleteCommit or CompleteAbort is logged.

Cases of EndTxn from a client, by state:
- it is late (`TransactionMetadata.is_late`): NOT_COORDINATOR, on a connection that its client has
  left.
- a transition is pending, as always while markers are under way: CONCURRENT_TRANSACTIONS.
- Ongoing: log the decision; NONE when it is replicated.
- CompleteCommit and commit, CompleteAbort and abort: NONE, it is a retry (proved: `Core.prove`).
- PrepareCommit and commit, PrepareAbort and abort (the log refused the completion because this is
  no coordinator any more): CONCURRENT_TRANSACTIONS.
- anything else: INVALID_TXN_STATE.

Cases of EndTxn in version 2 (KIP-890, part 2), where each end raises the epoch. Its epoch tells a
retry (it has the epoch before the current one, or the last epoch of the producer id before) from
the next end (it has the current one), so no answer from memory can be about another transaction
than the sender's, and none that confirms needs a proof:
- a transition is pending: CONCURRENT_TRANSACTIONS.
- another producer id: INVALID_PRODUCER_ID_MAPPING.
- another epoch than the current one (in Prepare*, than the one before; in Complete*, than both):
  PRODUCER_FENCED.
- Ongoing: log the decision, with the next epoch; the answer has the producer id and epoch after it.
- Complete* and the same end, as a retry: NONE, with the current producer id and epoch.
- Empty or Complete*, and abort under the current epoch: log an abort without partitions, so that
  the epoch is raised. It may have touched partitions that the coordinator does not know.
- Prepare* and the same end: CONCURRENT_TRANSACTIONS.
- anything else: INVALID_TXN_STATE.
If the epochs are used up, a new producer id is allocated first, and the request is handled again.

A fence under transaction.version 2 is such an abort too: the raised epoch counts once it is logged.

Cases of a marker's answer: NONE, or a partition that never gets one: done. INVALID_PRODUCER_EPOCH
and TRANSACTION_COORDINATOR_FENCED: another coordinator or producer is ahead, so this transaction is
abandoned here. Any other error is retried, on the leader of that moment. Markers with errors that
Kafka calls impossible (they end its sender thread) are retried as well, with a warning.

Mirrors Kafka's TransactionCoordinator.endTransaction and endTransactionWithTV1,
TransactionMarkerChannelManager (without its
queues: markers.py) and TransactionMarkerRequestCompletionHandler.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from .core import (
    AllocateProducerId,
    Core,
    EndAttempt,
    EndResult,
    FenceAttempt,
    Found,
    MarkerJob,
    SendMarkers,
)
from .metadata import (
    MAX_PRODUCER_EPOCH,
    RAISES_EPOCHS,
    TransactionMetadata,
    Transition,
)
from .states import (
    COMPLETE,
    PREPARED,
    TransactionState,
    complete_state,
    prepare_state,
)

logger = logging.getLogger("pybroker.coordinator.transaction.ending")

_DONE = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
_GIVE_UP = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
_EXPECTED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
# These end a producer, so they are said only by who is the coordinator.
_PROVED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE})
# The completion is tried again after these; without it the transaction would never end.
_RETRIED_COMPLETION = frozenset(ErrorCode) - {
    ErrorCode.NONE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


class _Completion(NamedTuple):
    """A transaction whose markers are under way, and the transition to log when they are
    written."""

    found: Found
    transition: Transition
    prepared_ms: int


class _End(NamedTuple):
    """An end that is being logged."""

    found: Found
    transition: Transition
    on_end: Callable[[ErrorCode], None]
    is_fence: bool


class Ending:
    """Ends transactions, and sees to it that they get their markers."""

    __slots__ = ("_completions", "_core", "log_retries", "marker_retries")

    def __init__(self, core: Core) -> None:
        self._core = core
        self._completions: dict[str, _Completion] = {}  # of current leaderships only
        self.marker_retries = 0  # jobs that wait to be sent again
        self.log_retries = 0  # completions that wait to be logged again

    # The decision

    def end(self, attempt: EndAttempt, now_ms: int) -> None:
        """EndTxn of a client."""
        if attempt.client_version >= RAISES_EPOCHS:
            self._end_and_raise(attempt, None, now_ms)
            return
        core, committed = self._core, attempt.committed
        reply = partial(core.reply, attempt.token)
        found = core.find(
            attempt.transactional_id,
            attempt.producer_id,
            unknown=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        )
        if isinstance(found, ErrorCode):
            reply(found)
            return
        metadata = found.metadata
        if metadata.producer_epoch != attempt.producer_epoch:
            core.prove(found, ErrorCode.PRODUCER_FENCED, now_ms, reply)
        elif metadata.is_late(attempt.connection):
            reply(ErrorCode.NOT_COORDINATOR)
        elif metadata.pending_state is not None:
            reply(ErrorCode.CONCURRENT_TRANSACTIONS)
        elif metadata.state is TransactionState.ONGOING:
            transition = metadata.prepare_end(core.wall.stamp_ms(now_ms), committed=committed)
            self._log_decision(_End(found, transition, reply, is_fence=False), now_ms)
        else:
            core.prove(found, _error_of_ended(metadata, committed=committed), now_ms, reply)

    def allocated(
        self, attempt: EndAttempt | FenceAttempt, allocated: int | ErrorCode, now_ms: int
    ) -> None:
        """Go on with the next producer id, or not if there is none."""
        if isinstance(attempt, EndAttempt):
            if isinstance(allocated, ErrorCode):
                self._core.reply(attempt.token, EndResult(allocated))
            else:
                self._end_and_raise(attempt, allocated, now_ms)
        elif isinstance(allocated, ErrorCode):
            attempt.on_end(allocated)
        elif not self._core.is_current(attempt.found):
            attempt.on_end(ErrorCode.NOT_COORDINATOR)
        elif attempt.found.metadata.may_be_fenced:
            self._fence_and_raise(attempt, allocated, now_ms)
        else:
            attempt.on_end(ErrorCode.CONCURRENT_TRANSACTIONS)

    def _end_and_raise(self, attempt: EndAttempt, new_producer_id: int | None, now_ms: int) -> None:
        core = self._core

        def reply(error: ErrorCode) -> None:
            core.reply(attempt.token, EndResult(error))

        owner = core.owner_of(attempt.transactional_id)
        if isinstance(owner, ErrorCode):
            reply(owner)
            return
        metadata = owner.transactions.get(attempt.transactional_id)
        if metadata is None:
            reply(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            return
        found = Found(owner, metadata)
        error = _error_of_end(metadata, attempt)
        if error is None:
            if metadata.is_epoch_exhausted and new_producer_id is None:
                core.emit(AllocateProducerId(attempt))
                return
            transition = metadata.prepare_end_and_raise(
                core.wall.stamp_ms(now_ms),
                new_producer_id if metadata.is_epoch_exhausted else None,
                committed=attempt.committed,
            )

            def decided(error: ErrorCode) -> None:
                if error is not ErrorCode.NONE:
                    reply(error)
                    return
                core.reply(attempt.token, EndResult(error, *metadata.identity_after))

            self._log_decision(_End(found, transition, decided, is_fence=False), now_ms)
        elif error is ErrorCode.NONE:
            current = (metadata.producer_id, metadata.producer_epoch)
            core.reply(attempt.token, EndResult(error, *current))
        elif error in _PROVED:
            core.prove(found, error, now_ms, reply)
        else:
            reply(error)

    def fence_and_abort(
        self, found: Found, now_ms: int, on_end: Callable[[ErrorCode], None] = lambda _: None
    ) -> None:
        """Abort an open transaction under a new epoch: its producer can do nothing more.

        `on_end` gets NONE once that is replicated, or why it is not.
        """
        if self._core.version() >= RAISES_EPOCHS:
            self._fence_and_raise(FenceAttempt(found, on_end), None, now_ms)
            return
        metadata = found.metadata
        metadata.fence(metadata.prepare_epoch_fence())
        transition = metadata.prepare_end(self._core.wall.stamp_ms(now_ms), committed=False)
        self._log_decision(_End(found, transition, on_end, is_fence=True), now_ms)

    def _fence_and_raise(
        self, attempt: FenceAttempt, new_producer_id: int | None, now_ms: int
    ) -> None:
        found = attempt.found
        is_exhausted = found.metadata.is_epoch_exhausted
        if is_exhausted and new_producer_id is None:
            self._core.emit(AllocateProducerId(attempt))
            return
        transition = found.metadata.prepare_end_and_raise(
            self._core.wall.stamp_ms(now_ms),
            new_producer_id if is_exhausted else None,
            committed=False,
        )
        self._log_decision(_End(found, transition, attempt.on_end, is_fence=True), now_ms)

    def _log_decision(self, end: _End, now_ms: int) -> None:
        def decided(error: ErrorCode, now_ms: int) -> None:
            self._decided(end, error, now_ms)

        self._core.append_transition(
            end.found, end.transition, now_ms, decided, is_asked_for=not end.is_fence
        )

    def _decided(self, end: _End, error: ErrorCode, now_ms: int) -> None:
        has_failed = error is not ErrorCode.NONE
        if has_failed and end.is_fence and self._core.is_current(end.found):
            logger.warning("Fencing %s failed: %s", end.found.metadata, error.name)
        end.on_end(error)
        if not has_failed:
            self.send_markers(end.found, now_ms)

    # The markers

    def send_markers(self, found: Found, now_ms: int) -> None:
        """The decision is in the log: now, or when this broker became the coordinator."""
        metadata = found.metadata
        committed = metadata.state is TransactionState.PREPARE_COMMIT
        transition = metadata.prepare_complete(self._core.wall.stamp_ms(now_ms))
        self._completions[metadata.transactional_id] = _Completion(found, transition, now_ms)
        if not metadata.partitions:
            self._complete_if_done(metadata.transactional_id, now_ms)
            return
        job = MarkerJob(
            log_partition=found.owner.partition,
            coordinator_epoch=found.owner.epoch,
            transactional_id=metadata.transactional_id,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            committed=committed,
            partitions=frozenset(metadata.partitions),
            transaction_version=metadata.client_version,
        )
        self._core.emit(SendMarkers(job))

    def markers_answered(
        self, job: MarkerJob, results: Mapping[TopicPartition, ErrorCode], now_ms: int
    ) -> None:
        """Apply a leader's results for a job's partitions; partitions without a result are
        retried."""
        completion = self._completion_of(job)
        if completion is None:
            return
        metadata = completion.found.metadata
        again = []
        for partition in job.partitions:
            error = results.get(partition, ErrorCode.REQUEST_TIMED_OUT)
            if error in _DONE:
                metadata.marker_written(partition)
            elif error in _GIVE_UP:
                logger.warning(
                    "%s is abandoned: %s-%d answered %s", metadata, *partition, error.name
                )
                del self._completions[job.transactional_id]
                return
            else:
                if error not in _EXPECTED:
                    logger.warning(
                        "The marker of %s: %s-%d answered %s", metadata, *partition, error.name
                    )
                again.append(partition)
        if again:
            self._send_later(job, again, now_ms)
        self._complete_if_done(job.transactional_id, now_ms)

    def _send_later(
        self, job: MarkerJob, partitions: Iterable[TopicPartition], now_ms: int
    ) -> None:
        remaining = job._replace(partitions=frozenset(partitions))

        def send(_now_ms: int) -> None:
            self.marker_retries -= 1
            if self._completion_of(remaining) is not None:
                self._core.emit(SendMarkers(remaining))

        self.marker_retries += 1
        self._core.retry_later(send, now_ms)

    def _completion_of(self, job: MarkerJob) -> _Completion | None:
        """The completion that the job belongs to; None if it is obsolete."""
        completion = self._completions.get(job.transactional_id)
        if completion is None:
            return None
        metadata = completion.found.metadata
        is_same = (
            completion.found.owner.epoch == job.coordinator_epoch
            and metadata.producer_id == job.producer_id
            and metadata.producer_epoch == job.producer_epoch
            and metadata.state is prepare_state(committed=job.committed)
        )
        return completion if is_same else None

    # The completion

    def _complete_if_done(self, transactional_id: str, now_ms: int) -> None:
        completion = self._completions[transactional_id]
        if not completion.found.metadata.partitions:
            del self._completions[transactional_id]
            self._log_completion(completion, now_ms)

    def _log_completion(self, completion: _Completion, now_ms: int) -> None:
        found, transition, prepared_ms = completion

        def retry(now_ms: int) -> None:
            self.log_retries -= 1
            if self._core.is_current(found):
                self._log_completion(completion, now_ms)

        def logged(error: ErrorCode, now_ms: int) -> None:
            if error in _RETRIED_COMPLETION and self._core.is_current(found):
                logger.info("Completing %s is tried again after %s", found.metadata, error.name)
                self.log_retries += 1
                self._core.retry_later(retry, now_ms)

        self._core.append_transition(
            found,
            transition,
            now_ms,
            logged,
            prepared_ms=prepared_ms,
            is_asked_for=False,
            keep_pending_on=_RETRIED_COMPLETION,
        )

    # Leadership

    def resume(self, found: Found, now_ms: int) -> None:
        """An id that was loaded: if its end is decided, its markers are sent (again)."""
        if found.metadata.state in PREPARED:
            self.send_markers(found, now_ms)

    def forget(self, transactional_ids: Iterable[str]) -> None:
        """Their partition was unloaded."""
        for transactional_id in transactional_ids:
            self._completions.pop(transactional_id, None)

    @property
    def pending_count(self) -> int:
        """Transactions that wait for markers."""
        return len(self._completions)


def _error_of_ended(metadata: TransactionMetadata, *, committed: bool) -> ErrorCode:
    """EndTxn for a transaction that is not open."""
    if metadata.state is complete_state(committed=committed):
        return ErrorCode.NONE
    if metadata.state is prepare_state(committed=committed):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.INVALID_TXN_STATE


def _error_of_end(metadata: TransactionMetadata, attempt: EndAttempt) -> ErrorCode | None:
    """EndTxn in version 2: the error, NONE for a retry of what is done; None: decide."""
    epoch, committed = attempt.producer_epoch, attempt.committed
    state = metadata.state
    is_before_raise = metadata.producer_epoch == epoch + 1
    is_before_new_id = (
        metadata.last_producer_id == attempt.producer_id
        and epoch == MAX_PRODUCER_EPOCH - 1
        and metadata.producer_epoch == 0
    )
    is_retry = is_before_raise or is_before_new_id
    if metadata.pending_state is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if metadata.producer_id != attempt.producer_id and not is_before_new_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if state in PREPARED:
        is_valid = is_before_raise
    elif state in COMPLETE:
        is_valid = is_retry or metadata.producer_epoch == epoch
    else:
        is_valid = metadata.producer_epoch == epoch
    if not is_valid:
        return ErrorCode.PRODUCER_FENCED
    if state is prepare_state(committed=committed):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if is_retry:
        is_done = state is complete_state(committed=committed)
        return ErrorCode.NONE if is_done else ErrorCode.INVALID_TXN_STATE
    if committed and state is not TransactionState.ONGOING:
        return ErrorCode.INVALID_TXN_STATE
    if committed and epoch == MAX_PRODUCER_EPOCH:  # invented: no producer is given it
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return None
