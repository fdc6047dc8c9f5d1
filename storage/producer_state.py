"""Idempotent and transactional producers of one log.

For each producer id: its epoch, its last five batches (a retry of one of them is a duplicate and
is answered with its old offsets), its open transaction. Transactions bound the last stable
offset: up to the first one that is open, or completed but not yet below the high watermark.

`check` validates a batch and changes nothing; `apply` records it after it is in the log. A leader
appends one batch at a time, so no state is needed in between.

It is built in layers: `ProducerTable` bounds, drops and freezes the producers; what a batch must
keep to is in `producer_checks`; the transactions are in `OpenTransactions`, and the batches that
end them in `end_markers`.

A batch that would begin a transaction must carry the guard of its verification, if verification is
required (`verification.py`).

Invariants: offsets of a producer's batches grow, and no more than five are kept; a batch that a
leader accepts from a client follows the producer's last sequence.

Rules: SEMANTICS 14. Mirrors: ProducerStateManager.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.invariants import BrokenInvariant
from ..protocol.primitives import Buffer
from ..protocol.records.batch import BatchHeader, ControlRecordType
from ..protocol.records.record import increment_sequence
from ..protocol.wall_clock import NOT_SEEN
from . import producer_checks
from .append_info import AppendOrigin
from .end_markers import end_txn_marker
from .open_transactions import OpenTransactions
from .producer_entry import NO_OFFSET, NO_SEQUENCE, BatchMetadata, ProducerEntry
from .producer_table import ProducerLimits, ProducerTable
from .transaction_index import AbortedTransaction
from .verification import VerificationGuard, Verifications

BATCHES_KEPT: Final = 5
_TRANSACTIONAL_BIT: Final = 0x10
_CONTROL_BIT: Final = 0x20
MAX_SEQUENCE: Final = 2**31 - 1
_LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60 * 1000
_RECALLED_PER_STEP: Final = 1_000


class ProducerState(ProducerTable):
    __slots__ = ("transactions", "verifications")

    def __init__(self, limits: ProducerLimits | None = None) -> None:
        super().__init__(limits)
        self.transactions = OpenTransactions()
        self.verifications = Verifications()

    # Judging a batch

    def check(
        self,
        header: BatchHeader,
        buffer: Buffer,
        origin: int,
        where: str,
        guard: VerificationGuard | None = None,
        now_ms: int = 0,
        transaction_version: int = 0,
    ) -> BatchMetadata | None:
        """The earlier batch that `header` repeats, None if it is new; KafkaError if it may not
        be appended. With a `guard`, a batch that begins a transaction must be verified by it; a
        marker is checked by the rules of its `transaction_version`."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        attributes = header.attributes
        if attributes & _CONTROL_BIT:
            if entry is not None:
                if transaction_version >= 2:
                    producer_checks.check_raised_epoch(entry, header, where)
                else:
                    producer_checks.check_epoch(entry, header, where)
                producer_checks.check_coordinator_epoch(entry, buffer, where)
            return None
        is_transactional = attributes & _TRANSACTIONAL_BIT
        is_client = origin == AppendOrigin.CLIENT
        if is_client and entry is not None and header.producer_epoch == entry.epoch:
            if not is_transactional and entry.is_next(header):
                return None
            duplicate = entry.find_duplicate(header.base_sequence, header.last_sequence)
            if duplicate is not None:
                return duplicate
        if (
            is_transactional
            and guard is not None
            and not self._continues_transaction(header, guard)
        ):
            if guard.adds and entry is not None:
                producer_checks.check_epoch(entry, header, where)
            verification = self.verifications.get(producer_id)
            producer_checks.check_verified(producer_id, verification, guard, where)
        if entry is not None:
            producer_checks.check_epoch(entry, header, where)
        if is_client:
            verification = self.verifications.get(producer_id)
            if verification is not None:
                producer_checks.check_lowest_sequence(entry, verification, header, where)
            if entry is not None:
                producer_checks.check_sequence(entry, header, where)
            elif self._is_full() and not self._make_room(now_ms):
                raise self._no_room(where)
        if entry is not None and entry.current_txn_first_offset >= 0 and not is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {producer_id} in {where}",
            )
        return None

    def has_open_transaction(self, producer_id: int) -> bool:
        entry = self.entries.get(producer_id)
        return entry is not None and entry.current_txn_first_offset >= 0

    def has_transaction_of_epoch(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has an open transaction of this epoch."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.current_txn_first_offset >= 0 and entry.epoch == epoch

    def _continues_transaction(self, header: BatchHeader, guard: VerificationGuard) -> bool:
        """Before version 2 the epoch of the open transaction does not matter."""
        if guard.adds:
            return self.has_transaction_of_epoch(header.producer_id, header.producer_epoch)
        return self.has_open_transaction(header.producer_id)

    # Taking a batch in

    def apply(
        self,
        header: BatchHeader,
        base_offset: int,
        buffer: Buffer,
        timestamp: int,
        now_ms: int = NOT_SEEN,
    ) -> AbortedTransaction | None:
        """Note an appended batch; the entry for the transaction index if it aborts one.

        `now_ms` is NOT_SEEN for one that was appended earlier, and is only read."""
        producer_id, attributes = header.producer_id, header.attributes
        if attributes & _TRANSACTIONAL_BIT:
            verification = self.verifications.get(producer_id)
            # The marker before a transaction of version 2 has that transaction's epoch.
            is_before = verification is not None and (
                verification.guard.adds
                and attributes & _CONTROL_BIT != 0
                and verification.epoch == header.producer_epoch
            )
            if not is_before:
                self.verifications.end(producer_id)
        entry = self.entries.get(producer_id)
        if entry is None:
            if header.is_control and header.record_count == 0:
                return None
            entry = self._add(producer_id, header.producer_epoch)
        elif entry.generation != self._generation:
            self._keep_frozen(entry)
        if now_ms != NOT_SEEN:
            entry.seen_ms = now_ms
        if attributes & _CONTROL_BIT:
            return self._apply_marker(entry, header, base_offset, buffer)
        if header.producer_epoch != entry.epoch:
            entry.set_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        batches = entry.batches
        if batches and now_ms != NOT_SEEN and batches[-1].last_offset >= base_offset:
            raise BrokenInvariant(f"{entry} has a batch at {base_offset}, behind its last one")
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        first_sequence = header.base_sequence
        last_sequence = NO_SEQUENCE  # an offset commit of a transaction has none
        if first_sequence >= 0:
            last_sequence = first_sequence + delta & MAX_SEQUENCE
        batches.append(BatchMetadata(last_sequence, base_offset + delta, delta, timestamp))
        entry.last_timestamp = timestamp
        if attributes & _TRANSACTIONAL_BIT and entry.current_txn_first_offset < 0:
            self.transactions.begin(producer_id, base_offset)
            entry.current_txn_first_offset = base_offset
        return None

    def _apply_marker(
        self, entry: ProducerEntry, header: BatchHeader, offset: int, buffer: Buffer
    ) -> AbortedTransaction | None:
        marker = end_txn_marker(buffer)
        if marker is None:
            return None
        first_offset = entry.current_txn_first_offset
        entry.set_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.current_txn_first_offset = NO_OFFSET
        entry.last_timestamp = header.max_timestamp
        if first_offset < 0:
            return None
        stable = self.transactions.end(first_offset, offset)
        if stable is not None and marker.kind is ControlRecordType.ABORT:
            return AbortedTransaction(entry.producer_id, first_offset, offset, stable)
        return None

    # Invariants

    def check_sequence(self, producer_id: int, where: str) -> None:
        """Thorough check: a client's batch that a leader has just applied follows the batch before
        it."""
        entry = self.entries.get(producer_id)
        if entry is None or len(entry.batches) < 2:  # a marker leaves none
            return
        before, last = entry.batches[-2:]
        if before.last_sequence < 0 or last.last_sequence < 0:  # offset commits have none
            return
        if last.first_sequence != increment_sequence(before.last_sequence, 1):
            raise BrokenInvariant(f"{where}: sequences of {entry} do not follow: {before}, {last}")

    def check_all(self, where: str) -> None:
        """Thorough: producers and their transactions agree."""
        open_ones = {}
        for producer_id, entry in self.entries.items():
            offsets = [batch.last_offset for batch in entry.batches]
            if (
                entry.producer_id != producer_id
                or len(offsets) > BATCHES_KEPT
                or any(one >= next_one for one, next_one in pairwise(offsets))
            ):
                raise BrokenInvariant(f"{where}: {producer_id} is {entry} with {entry.batches}")
            if entry.current_txn_first_offset >= 0:
                open_ones[entry.current_txn_first_offset] = producer_id
        self.transactions.check(open_ones, where)

    # The log start, and a state that replaces another

    def log_start_offset_updated(self, log_start_offset: int) -> None:
        self.transactions.forget_completed_below(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    def successor(self) -> ProducerState:
        """An empty state that will replace this one after its rebuild."""
        state = ProducerState(self.limits)
        state.verifications = self.verifications
        return state

    def recall(self, earlier: ProducerState) -> Iterator[None]:
        """Add the knowledge of an earlier state, in pieces. This state was rebuilt from a snapshot,
        which has only the last batch of a producer, and the log; the earlier state is still right
        below this log's end. The offsets of transactions are valid only at the end."""
        for start in range(0, len(self._listed), _RECALLED_PER_STEP):
            for entry in self._listed[start : start + _RECALLED_PER_STEP]:
                known = earlier.entries.get(entry.producer_id)
                if known is None:
                    continue
                entry.seen_ms = known.seen_ms
                batches = entry.batches
                if known.epoch == entry.epoch and batches:
                    first_known = batches[0].last_offset
                    older = [batch for batch in known.batches if batch.last_offset < first_known]
                    entry.batches = (older + batches)[-BATCHES_KEPT:]
            yield
        self.transactions.recall(earlier.transactions, self.map_end_offset)

    def clear(self, map_end_offset: int) -> None:
        self._clear_entries(map_end_offset)
        self.transactions.clear()

    def load(self, entries: list[ProducerEntry], map_end_offset: int) -> None:
        """Take over a snapshot; those in it that have expired go with the next `expire`."""
        self.clear(map_end_offset)
        self.load_some(entries)
        self.all_loaded()

    def load_some(self, entries: list[ProducerEntry]) -> None:
        """A piece of a snapshot, into a state that was cleared; `all_loaded` follows the last."""
        for entry in entries:
            self._take(entry)
            first = entry.current_txn_first_offset
            if first >= 0:
                self.transactions.load(entry.producer_id, first)

    def all_loaded(self) -> None:
        self.transactions.all_loaded()

    # Producers that go

    def expire(self, now_ms: int, wall_ms: int | None, expiration_ms: int) -> Iterator[int]:
        """Drop producers that were idle for too long, in steps, and verifications at once; yields
        how many producers."""
        self.verifications.remove_expired(now_ms, expiration_ms)
        return self._expire_entries(now_ms, wall_ms, expiration_ms)

    def has_late_transaction(
        self, now_ms: int, wall_ms: int, max_transaction_timeout_ms: int
    ) -> bool:
        """Whether the oldest open transaction outlived every timeout it may have."""
        oldest = self.transactions.oldest()
        entry = None if oldest is None else self.entries.get(oldest.producer_id)
        if entry is None:
            return False
        idle_ms = _idle_ms(entry, now_ms, wall_ms)
        limit = max_transaction_timeout_ms + _LATE_TRANSACTION_BUFFER_MS
        return idle_ms is not None and idle_ms > limit


def _idle_ms(entry: ProducerEntry, now_ms: int, wall_ms: int) -> int | None:
    """How long ago the producer's last batch came; None: it had no timestamp."""
    if entry.seen_ms != NOT_SEEN:
        return now_ms - entry.seen_ms
    return None if entry.last_timestamp <= 0 else wall_ms - entry.last_timestamp
