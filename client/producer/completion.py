"""Handles a batch after its answer, or without one: it is completed, or sent again.

Invariants: a batch gets its outcome once; until then it is in its queue, and is sent again when it
may be. Nothing here waits; calls wait for `room`.

Mirrors: Sender.completeBatch, failBatch, reenqueueBatch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio

from ...protocol.apis.produce import PartitionProduceResponse
from ...protocol.errors import ErrorCode
from ...protocol.records.record import NO_SEQUENCE
from ..errors import ClientError, DeliveryTimeout, ProducerFenced, Refused
from ..metadata import Leader, backoff_ms
from ..refusals import NotAllowed
from .batch import Batch, Outcome
from .partition_queue import GAPS, PartitionQueue, Verdict
from .state import ProducerState

# After these errors another broker leads, or will.
_MOVED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


@dataclass(slots=True)
class ProducerMetrics:
    """Counts since the start; sizes in bytes; `held_bytes` and `waiting_for_room` are current."""

    records: int = 0  # acknowledged, or sent with acks=0
    failed_records: int = 0
    batches: int = 0
    requests: int = 0
    sent_bytes: int = 0
    retries: int = 0
    request_ms: int = 0  # the sum of all answered requests
    held_bytes: int = 0
    waiting_for_room: int = 0


class Completion:
    """`roll` returns a random number in [0, 1)."""

    def __init__(self, state: ProducerState, roll: Callable[[], float]) -> None:
        self._state = state
        self._cluster = state.cluster
        self._settings = state.settings
        self._accumulator = state.accumulator
        self._transaction = state.transaction
        self._roll = roll
        self.room = trio.Event()
        self.trouble = ""  # the last problem, for the messages of timeouts
        self.fatal: Exception | None = None  # nothing can be sent any more
        self.metrics = ProducerMetrics()

    def want_metadata(self, topic: str) -> None:
        """Refresh a topic's metadata: another broker may lead its partitions."""
        self._cluster.cache.mark_stale(topic)
        self._state.metadata_wanted.set()

    def end(self, error: Exception) -> None:
        """Stop for good: all waiting batches fail with this error, and all later records."""
        self.fatal = self.fatal or error
        self.drop_waiting(error)
        self.show_room()

    def drop_waiting(self, error: Exception) -> None:
        """Fail the batches that are not in flight."""
        for queue in self._accumulator.busy:
            self.drop_waiting_in(queue, error)

    def drop_waiting_in(self, queue: PartitionQueue, error: Exception) -> None:
        """The same for one partition."""
        for batch in list(queue.batches):
            if not batch.is_in_flight:
                self.fail(queue, batch, error)

    def give_up_in_flight(self, error: Exception) -> None:
        """Fail all batches, also those in flight, whose answers no task will wait for any more."""
        for queue in self._accumulator.busy:
            for batch in list(queue.batches):
                if batch.is_in_flight:
                    queue.unanswered(batch)
                self.fail(queue, batch, error)

    def unanswered(self, queue: PartitionQueue, batch: Batch, error: ClientError, now: int) -> None:
        """Handle a request without an answer: the batch may be written."""
        queue.unanswered(batch)
        self.trouble = str(error)
        self.want_metadata(queue.topic)
        self._again(queue, batch, now)

    def answered(
        self, queue: PartitionQueue, batch: Batch, result: PartitionProduceResponse, now: int
    ) -> bool:
        """Handle an answer; True if the batch is written, which changes nothing for others."""
        queue.returned(batch)
        code = ErrorCode(result.error_code)
        verdict = queue.judge(
            batch,
            code,
            base_offset=result.base_offset,
            is_transactional=self._transaction is not None,
        )
        if verdict is Verdict.WRITTEN:
            offset = result.base_offset if code is ErrorCode.NONE else -1
            self.succeed(queue, batch, Outcome(offset, result.log_append_time_ms))
        elif verdict is Verdict.SPLIT:
            queue.split(batch)
        elif verdict is Verdict.FAILED:
            self.fail(queue, batch, self._refusal(batch, code, result))
        else:
            self.trouble = result.error_message or code.description
            if code in _MOVED:
                told = result.current_leader
                leader = Leader(told.leader_id, told.leader_epoch)
                if not self._cluster.cache.learn_leader(queue.topic, queue.partition, leader):
                    self.want_metadata(queue.topic)
            self._again(queue, batch, now)
        return verdict is Verdict.WRITTEN

    def _again(self, queue: PartitionQueue, batch: Batch, now: int) -> None:
        if self.fatal is not None:
            self.fail(queue, batch, self.fatal)
        elif now - batch.created_ms >= self._settings.delivery_timeout_ms:
            self.fail(queue, batch, self.too_late(batch))
        else:
            batch.retry_at_ms = now + backoff_ms(batch.attempts, self._roll())

    def succeed(self, queue: PartitionQueue, batch: Batch, outcome: Outcome) -> None:
        """The batch is written."""
        self.metrics.batches += 1
        self.metrics.records += len(batch.records)
        self._complete(queue, batch, outcome)

    def fail(self, queue: PartitionQueue, batch: Batch, error: Exception) -> None:
        """The batch is not written, or its outcome will never be known."""
        self.metrics.failed_records += len(batch.records)
        if self._transaction is not None:
            is_numbered = batch.sequence != NO_SEQUENCE
            self._transaction.batch_failed(error, is_numbered=is_numbered)
        self._complete(queue, batch, Outcome(error=error))

    def _complete(self, queue: PartitionQueue, batch: Batch, outcome: Outcome) -> None:
        self._accumulator.complete(queue, batch, outcome)
        self.show_room()

    def show_room(self) -> None:
        """Wake calls that wait for room."""
        if self._accumulator.waiting_for_room:
            self.room.set()
            self.room = trio.Event()

    def too_late(self, batch: Batch) -> DeliveryTimeout:
        """The error of a batch that exceeded its delivery timeout."""
        why = f": {self.trouble}" if self.trouble else ""
        return DeliveryTimeout(
            f"{batch.topic}-{batch.partition} does not take the records within "
            f"{self._settings.delivery_timeout_ms} ms{why}"
        )

    def _refusal(
        self, batch: Batch, code: ErrorCode, result: PartitionProduceResponse
    ) -> ClientError:
        if code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH):
            fenced = ProducerFenced(
                f"another producer has this transactional id: {code.name}", code
            )
            if self._transaction is not None:
                self.fatal = fenced
            return fenced
        refusal = self._cluster.asks("write", batch.topic).refusal(code)
        if refusal is not None:
            return NotAllowed(refusal, code)
        where = f"{batch.topic}-{batch.partition}"
        if code in GAPS and batch.may_be_written:
            return ClientError(
                f"nobody can tell whether {where} has the records: an answer was lost, and the "
                f"broker does not remember the batch ({code.name})"
            )
        why = result.error_message or code.description
        return Refused(f"{where} does not take the records: {why} ({code.name})", code)
