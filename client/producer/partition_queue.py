"""The incomplete batches of one partition, oldest first, and their sequence numbers.

Pure: decides which batch may be sent next, and what an answer means for the others.
Invariants:
- Batches are written in their order. At most `max_in_flight` are in flight; retries are sent alone,
  from the oldest on, until no such batch is left.
- With an identity the records of one (id, epoch) are numbered without a gap. A number that may have
  reached a log is never reused: after a gap all remaining batches are numbered anew under a newer
  epoch (`restart`), once nothing is in flight and the oldest batch is known not to be written; then
  those after it are not written either.
- A broker accepts any number as a producer's first one: only one batch is in flight until a batch
  of the identity is written.
- So no batch is written twice, even if answers are lost. If it cannot be known whether a batch is
  written, it fails.

Mirrors: TxnPartitionEntry, TransactionManager.canRetry and handleFailedBatch, KIP-360;
RecordAccumulator.shouldStopDrainBatchesForPartition. Simpler than there: an epoch begins when all
outcomes are known instead of at once, so unresolved sequences need no list.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from itertools import pairwise
from typing import Final

from ...protocol import invariants
from ...protocol.errors import ErrorCode
from ...protocol.invariants import BrokenInvariant
from ...protocol.records.record import NO_SEQUENCE, increment_sequence
from .batch import Batch, Identity, Outcome

# The broker's sequence differs from ours: an older batch is missing, or the broker's state is.
GAPS: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
# Errors after which the batch may be appended; other refusals precede the append.
_MAX_SEQUENCE: Final = 2**31 - 1
_PERHAPS_WRITTEN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
NOBODY: Final = Identity()


class Verdict(Enum):
    """The action for a batch after an answer."""

    WRITTEN = "written"
    AGAIN = "again"
    SPLIT = "split"
    FAILED = "failed"  # not written, and never will be


class PartitionQueue:
    """With `identity` NOBODY batches are not numbered (no idempotence)."""

    __slots__ = (
        "batches",
        "identity",
        "in_flight",
        "is_known",
        "needs_restart",
        "next_sequence",
        "open",
        "partition",
        "topic",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        # Batches without an outcome, in the order of their records; `Accumulator` adds them.
        self.batches: deque[Batch] = deque()
        self.open: Batch | None = None  # the newest batch, while it takes records
        self.in_flight = 0  # number of `batches`, kept by `start` and `returned`
        self.identity = NOBODY  # of the numbers assigned now
        self.is_known = False  # to the brokers: a batch of this identity is written
        self.next_sequence = 0
        self.needs_restart = False  # a gap: numbers must begin anew under another epoch

    def candidate(self, now_ms: int, max_in_flight: int) -> Batch | None:
        """The batch to send next, if one may go; whether it is full or old enough is not checked
        here.

        Before it is sent, `restart` is due if `can_restart`.
        """
        if self.in_flight:
            is_new = not self.is_known and self.identity != NOBODY
            if self.in_flight >= max_in_flight or self.needs_restart or is_new:
                return None
        for place, batch in enumerate(self.batches):
            if batch.is_in_flight:
                continue
            if batch.attempts and (place or batch.retry_at_ms > now_ms):
                return None
            return batch
        return None

    @property
    def can_restart(self) -> bool:
        """Whether a restart is needed and safe."""
        return (
            self.needs_restart
            and not self.in_flight
            and not (self.batches and self.batches[0].may_be_written)
        )

    def restart(self, identity: Identity) -> None:
        """Number all remaining batches, none of which is written, from 0 on under this identity."""
        if self.in_flight:
            raise BrokenInvariant(f"{self!r} is numbered anew, with batches on their way")
        self.needs_restart = False
        self.identity = identity
        self.is_known = False
        self.next_sequence = 0
        for batch in self.batches:
            batch.sequence = NO_SEQUENCE
            batch.may_be_written = False  # as the oldest is not written

    def start(self, batch: Batch, *, is_numbered: bool) -> None:
        """Send the batch now."""
        if batch.is_in_flight or batch.outcome is not None:
            raise BrokenInvariant(f"a batch of {self!r} goes out twice, or after its outcome")
        if batch is self.open:
            self.open = None
        batch.is_in_flight = True
        batch.attempts += 1
        self.in_flight += 1
        if is_numbered and batch.sequence == NO_SEQUENCE:
            batch.assign(self.identity, self.next_sequence)
            self.next_sequence = increment_sequence(self.next_sequence, len(batch.records))
        if invariants.THOROUGH:
            self.check()

    def returned(self, batch: Batch) -> None:
        """The batch's request has ended, with or without an answer."""
        if not batch.is_in_flight:
            raise BrokenInvariant(f"a batch of {self!r} returns, and was not on its way")
        batch.is_in_flight = False
        self.in_flight -= 1

    def unanswered(self, batch: Batch) -> None:
        """The request has failed: the batch may be written."""
        self.returned(batch)
        batch.may_be_written = True

    def judge(
        self, batch: Batch, code: ErrorCode, *, base_offset: int, is_transactional: bool
    ) -> Verdict:
        """The verdict on an answered batch after `returned`, regardless of its delivery timeout."""
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self.is_known = True
            return Verdict.WRITTEN
        # With an offset it was appended before the error: a leader that waits for followers and
        # loses its leadership answers NOT_LEADER_OR_FOLLOWER.
        if code in _PERHAPS_WRITTEN or base_offset >= 0:
            batch.may_be_written = True
        if code is ErrorCode.MESSAGE_TOO_LARGE and len(batch.records) > 1:
            return Verdict.SPLIT
        if batch.sequence != NO_SEQUENCE and code in GAPS:
            if self.batches[0] is not batch:
                return Verdict.AGAIN  # it arrived before an older one
            if is_transactional or batch.may_be_written:
                # Or the broker has forgotten it: after a recovery a broker knows at least the last
                # batch of a producer, but not the last five. The two cases look the same.
                return Verdict.FAILED
            self.needs_restart = True
            return Verdict.AGAIN
        return Verdict.AGAIN if code.retriable else Verdict.FAILED

    def complete(self, batch: Batch, outcome: Outcome) -> None:
        """Remove the batch with its outcome."""
        if batch.is_in_flight:
            raise BrokenInvariant(f"a batch of {self!r} is done, and on its way")
        if batch is self.open:
            self.open = None
        self.batches.remove(batch)
        is_lost = outcome.error is not None and batch.sequence != NO_SEQUENCE
        # If it may be written, the next answer shows whether there is a gap.
        if is_lost and not batch.may_be_written:
            if self._is_last_number(batch):
                self.next_sequence = batch.sequence
            else:
                self.needs_restart = True
        batch.complete(outcome)
        if invariants.THOROUGH:
            self.check()

    def __repr__(self) -> str:
        return (
            f"PartitionQueue({self.topic}-{self.partition}, {len(self.batches)} batches, "
            f"{self.in_flight} on their way, {self.identity} at {self.next_sequence})"
        )

    def check(self) -> None:
        """Thorough: batches in flight are counted, and no number is used twice. There may be a gap
        where a batch has failed that may be written."""
        if self.in_flight != sum(batch.is_in_flight for batch in self.batches):
            raise BrokenInvariant(f"{self!r} counts other batches on their way")
        if any(batch.outcome is not None for batch in self.batches):
            raise BrokenInvariant(f"{self!r} holds a batch that has an outcome")
        if self.needs_restart:
            return
        for batch, following in pairwise(self.batches):
            next_sequence = increment_sequence(batch.sequence, len(batch.records))
            gap = following.sequence - next_sequence & _MAX_SEQUENCE
            if (
                NO_SEQUENCE not in (batch.sequence, following.sequence)
                and batch.identity == following.identity
                and gap > _MAX_SEQUENCE // 2
            ):
                raise BrokenInvariant(
                    f"in {self!r} {following.sequence} follows, {next_sequence} is the next"
                )

    def split(self, batch: Batch) -> list[Batch]:
        """Replace a batch by two."""
        place = self.batches.index(batch)
        parts = batch.split()
        self.batches[place] = parts[1]
        self.batches.insert(place, parts[0])
        return parts

    def _is_last_number(self, batch: Batch) -> bool:
        return self.next_sequence == increment_sequence(batch.sequence, len(batch.records))
