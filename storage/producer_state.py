"""Idempotent and transactional producers of one log.

For each producer id: its epoch, its last five batches (a retry of one of them is a duplicate and
is answered with its old offsets), its open transaction. Transactions bound the last stable
offset: up to the first one that is open, or completed but not yet below the high watermark.

`check` judges a batch and changes nothing; `apply` takes it in, after it is in the log. A leader
appends one batch at a time, so no state is needed in between.

A batch that would begin a transaction must show the guard of its verification, if it is asked for
one (`verification.py`).

Mirrors: ProducerStateManager, ProducerAppendInfo, ProducerStateEntry (KIP-98, KIP-360, KIP-890).
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.primitives import Buffer
from ..protocol.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    ControlRecordType,
    EndTxnMarker,
    iter_records,
)
from ..protocol.records.record import decrement_sequence, increment_sequence
from ..protocol.wall_clock import NOT_SEEN
from .append_info import AppendOrigin
from .transaction_index import AbortedTransaction
from .verification import VerificationGuard, Verifications

BATCHES_KEPT: Final = 5
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1
_TRANSACTIONAL_BIT: Final = 0x10
_CONTROL_BIT: Final = 0x20
MAX_SEQUENCE: Final = 2**31 - 1
_LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60 * 1000


class BatchMetadata(NamedTuple):
    """A batch of a producer that duplicates are compared with."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """What is known of one producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "epoch",
        "last_timestamp",
        "producer_id",
        "seen_ms",
    )

    def __init__(self, producer_id: int, epoch: int = NO_EPOCH) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.coordinator_epoch = -1
        # Of its last batch, as the producer has put it there; snapshots have it.
        self.last_timestamp = -1
        # When this process last appended for it, by the clock that only goes on; NOT_SEEN: never,
        # it was read from a snapshot or the log.
        self.seen_ms = NOT_SEEN
        self.current_txn_first_offset = NO_OFFSET
        self.batches: list[BatchMetadata] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()

    def is_next(self, header: BatchHeader) -> bool:
        """Whether a batch of this epoch plainly follows the last one, outside of transactions."""
        batches = self.batches
        return (
            bool(batches)
            and header.base_sequence == batches[-1][0] + 1
            and self.current_txn_first_offset < 0
        )

    def find_duplicate(self, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        for batch in self.batches:
            if batch[0] == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None


class Transaction:
    """Its first offset in this log, and its marker's once it has ended."""

    __slots__ = ("first_offset", "last_offset", "producer_id")

    def __init__(self, producer_id: int, first_offset: int) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = NO_OFFSET


class ProducerMemory(NamedTuple):
    """What a snapshot leaves out: it has only the last batch of a producer, and no transaction
    that has ended but bounds the LSO still."""

    completed: list[Transaction]
    batches: dict[int, tuple[int, tuple[BatchMetadata, ...]]]
    seen_ms: dict[int, int]


# A marker as all brokers write it. From the magic on: attributes, the count of records; of the one
# record all up to the kind (length, attributes, deltas, length and version of the key), the kind,
# length and version of the value, the coordinator's epoch, no headers.
_MARKER: Final = Struct(">b4xh34xi7sh3siB").unpack_from
_MARKER_FORM: Final = (2, 1, b"\x20\0\0\0\x08\0\0", b"\x0c\0\0", 0)
_MARKER_BYTES: Final = HEADER_SIZE + 17
_MAGIC_POSITION: Final = 16
_MARKERS: Final = {int(k): k for k in (ControlRecordType.ABORT, ControlRecordType.COMMIT)}
_CODEC_BITS: Final = 0x07


class ProducerState:
    __slots__ = (
        "_ongoing",
        "_unreplicated",
        "entries",
        "first_unstable_offset",
        "map_end_offset",
        "verifications",
    )

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.verifications = Verifications()
        # Both by first offset; open transactions in the order of their offsets.
        self._ongoing: dict[int, Transaction] = {}
        self._unreplicated: dict[int, Transaction] = {}
        self.first_unstable_offset: int | None = None
        self.map_end_offset = 0

    # Judging a batch

    def check(
        self,
        header: BatchHeader,
        buffer: Buffer,
        origin: int,
        where: str,
        guard: VerificationGuard | None = None,
    ) -> BatchMetadata | None:
        """The earlier batch that `header` repeats, None if it is new; KafkaError if it may not
        be appended. With a `guard`, a batch that begins a transaction must be verified by it."""
        producer_id = header.producer_id
        entry = self.entries.get(producer_id)
        attributes = header.attributes
        if attributes & _CONTROL_BIT:
            if entry is not None:
                self._check_epoch(entry, header, where)
                self._check_coordinator_epoch(entry, buffer, where)
            return None
        is_transactional = attributes & _TRANSACTIONAL_BIT
        is_client = origin == AppendOrigin.CLIENT
        if is_client and entry is not None and header.producer_epoch == entry.epoch:
            if not is_transactional and entry.is_next(header):
                return None
            duplicate = entry.find_duplicate(header.base_sequence, header.last_sequence)
            if duplicate is not None:
                return duplicate
        if is_transactional and guard is not None and not self.has_open_transaction(producer_id):
            self._check_verified(producer_id, guard, where)
        if entry is not None:
            self._check_epoch(entry, header, where)
        if is_client:
            self._check_lowest_sequence(header, where)
            if entry is not None:
                self._check_sequence(entry, header, where)
        if entry is not None and entry.current_txn_first_offset >= 0 and not is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {producer_id} in {where}",
            )
        return None

    def has_open_transaction(self, producer_id: int) -> bool:
        entry = self.entries.get(producer_id)
        return entry is not None and entry.current_txn_first_offset >= 0

    def _check_verified(self, producer_id: int, guard: VerificationGuard, where: str) -> None:
        verification = self.verifications.get(producer_id)
        if verification is None or verification.guard is not guard:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"Record of producer {producer_id} was not part of an ongoing transaction in "
                f"{where}",
            )

    def _check_lowest_sequence(self, header: BatchHeader, where: str) -> None:
        verification = self.verifications.get(header.producer_id)
        if verification is not None and header.base_sequence > verification.lowest_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {header.producer_id} in {where}: "
                f"{header.base_sequence} (incoming seq. number), {verification.lowest_sequence} "
                f"(earliest seen sequence)",
            )

    @staticmethod
    def _check_epoch(entry: ProducerEntry, header: BatchHeader, where: str) -> None:
        if header.producer_epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {entry.producer_id} in {where} is {header.producer_epoch}, "
                f"which is smaller than the last seen epoch {entry.epoch}",
            )

    @staticmethod
    def _check_sequence(entry: ProducerEntry, header: BatchHeader, where: str) -> None:
        first = header.base_sequence
        if entry.epoch == NO_EPOCH:
            return
        if header.producer_epoch != entry.epoch:
            if first != 0:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {entry.producer_id} in "
                    f"{where}: {header.producer_epoch} (request epoch), {first} (seq. number), "
                    f"{entry.epoch} (current producer epoch)",
                )
            return
        last = entry.last_sequence
        expected = 0 if last == NO_SEQUENCE else increment_sequence(last, 1)
        if first != expected:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {entry.producer_id} in {where}: "
                f"{first} (incoming seq. number), {last} (current end sequence number)",
            )

    @staticmethod
    def _check_coordinator_epoch(entry: ProducerEntry, buffer: Buffer, where: str) -> None:
        marker = end_txn_marker(buffer)
        if marker is not None and marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producer {entry.producer_id} in {where}: "
                f"{marker.coordinator_epoch} (zombie), {entry.coordinator_epoch} (current)",
            )

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
        producer_id = header.producer_id
        if header.attributes & _TRANSACTIONAL_BIT:
            self.verifications.end(producer_id)
        entry = self.entries.get(producer_id)
        if entry is None:
            if header.is_control and header.record_count == 0:
                return None
            entry = self.entries[producer_id] = ProducerEntry(producer_id, header.producer_epoch)
        if now_ms != NOT_SEEN:
            entry.seen_ms = now_ms
        if header.attributes & _CONTROL_BIT:
            return self._apply_marker(entry, header, base_offset, buffer)
        if header.producer_epoch != entry.epoch:
            entry.set_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        batches = entry.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        first_sequence = header.base_sequence
        last_sequence = NO_SEQUENCE  # an offset commit of a transaction has none
        if first_sequence >= 0:
            last_sequence = first_sequence + delta & MAX_SEQUENCE
        batches.append(BatchMetadata(last_sequence, base_offset + delta, delta, timestamp))
        entry.last_timestamp = timestamp
        if header.attributes & _TRANSACTIONAL_BIT and entry.current_txn_first_offset < 0:
            self._begin_transaction(entry, base_offset)
        return None

    def _begin_transaction(self, entry: ProducerEntry, first_offset: int) -> None:
        entry.current_txn_first_offset = first_offset
        self._ongoing[first_offset] = Transaction(entry.producer_id, first_offset)
        self._update_first_unstable_offset()

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
        transaction = self._ongoing.get(first_offset) if first_offset >= 0 else None
        if transaction is None:
            return None
        stable = self._last_stable_offset_after(entry.producer_id, offset)
        del self._ongoing[first_offset]
        transaction.last_offset = offset
        self._unreplicated[first_offset] = transaction
        self._update_first_unstable_offset()
        if marker.kind is ControlRecordType.ABORT:
            return AbortedTransaction(entry.producer_id, first_offset, offset, stable)
        return None

    def _last_stable_offset_after(self, producer_id: int, marker_offset: int) -> int:
        for transaction in self._ongoing.values():
            if transaction.producer_id != producer_id:
                return transaction.first_offset
        return marker_offset + 1

    # Offsets that move

    def high_watermark_updated(self, high_watermark: int) -> None:
        """Completed transactions whose marker is replicated bound the LSO no longer."""
        if self._unreplicated:
            self._forget_completed_below(high_watermark)

    def log_start_offset_updated(self, log_start_offset: int) -> None:
        self._forget_completed_below(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    def memory(self) -> ProducerMemory:
        """What a state built anew from a snapshot and the log would not know."""
        return ProducerMemory(
            list(self._unreplicated.values()),
            {
                entry.producer_id: (entry.epoch, tuple(entry.batches))
                for entry in self.entries.values()
            },
            {entry.producer_id: entry.seen_ms for entry in self.entries.values()},
        )

    def recall(self, memory: ProducerMemory) -> None:
        """The state was built anew; what was known of the log below its end is true still."""
        end = self.map_end_offset
        for transaction in memory.completed:
            if transaction.last_offset < end:
                self._unreplicated[transaction.first_offset] = transaction
        for producer_id, (epoch, batches) in memory.batches.items():
            entry = self.entries.get(producer_id)
            if entry is not None and entry.epoch == epoch and entry.batches:
                first_known = entry.batches[0].last_offset
                older = [batch for batch in batches if batch.last_offset < first_known]
                entry.batches = (older + entry.batches)[-BATCHES_KEPT:]
        for producer_id, seen_ms in memory.seen_ms.items():
            entry = self.entries.get(producer_id)
            if entry is not None:
                entry.seen_ms = seen_ms
        self._update_first_unstable_offset()

    def _forget_completed_below(self, offset: int) -> None:
        done = [t.first_offset for t in self._unreplicated.values() if t.last_offset < offset]
        for first_offset in done:
            del self._unreplicated[first_offset]
        if done:
            self._update_first_unstable_offset()

    def _update_first_unstable_offset(self) -> None:
        candidates = list(self._unreplicated)
        if self._ongoing:
            candidates.append(next(iter(self._ongoing)))
        self.first_unstable_offset = min(candidates) if candidates else None

    def clear(self, map_end_offset: int) -> None:
        self.entries.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.first_unstable_offset = None
        self.map_end_offset = map_end_offset

    def load(self, entries: list[ProducerEntry], map_end_offset: int) -> None:
        """Take over a snapshot; those in it that have expired go with the next `remove_expired`."""
        self.clear(map_end_offset)
        for entry in entries:
            self.entries[entry.producer_id] = entry
        open_ones = [e for e in self.entries.values() if e.current_txn_first_offset >= 0]
        for entry in sorted(open_ones, key=lambda e: e.current_txn_first_offset):
            first = entry.current_txn_first_offset
            self._ongoing[first] = Transaction(entry.producer_id, first)
        self._update_first_unstable_offset()

    def remove_expired(self, now_ms: int, wall_ms: int | None, expiration_ms: int) -> int:
        """Drop producers that were idle for too long; returns how many.

        Those of whom this process has seen a batch by the clock that only goes on. Those that it
        has only read of by their timestamps, `wall_ms` being the time; None: not now.
        """
        gone = [
            entry.producer_id
            for entry in self.entries.values()
            if _expired(entry, now_ms, wall_ms, expiration_ms)
        ]
        for producer_id in gone:
            del self.entries[producer_id]
        self.verifications.remove_expired(now_ms, expiration_ms)
        return len(gone)

    def has_late_transaction(
        self, now_ms: int, wall_ms: int, max_transaction_timeout_ms: int
    ) -> bool:
        """Whether the oldest open transaction outlived every timeout it may have."""
        if not self._ongoing:
            return False
        entry = self.entries.get(next(iter(self._ongoing.values())).producer_id)
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


def _expired(entry: ProducerEntry, now_ms: int, wall_ms: int | None, expiration_ms: int) -> bool:
    if entry.current_txn_first_offset >= 0:
        return False
    if entry.seen_ms != NOT_SEEN:
        return now_ms - entry.seen_ms >= expiration_ms
    return wall_ms is not None and wall_ms - entry.last_timestamp >= expiration_ms


def end_txn_marker(buffer: Buffer) -> EndTxnMarker | None:
    """The marker in a control batch, None if compaction emptied it or it is of another kind."""
    if len(buffer) == _MARKER_BYTES:
        magic, attributes, count, head, kind, value, epoch, headers = _MARKER(
            buffer, _MAGIC_POSITION
        )
        if (
            (magic, count, head, value, headers) == _MARKER_FORM
            and not attributes & _CODEC_BITS
            and kind in _MARKERS
        ):
            return EndTxnMarker(_MARKERS[kind], epoch)
    return read_end_txn_marker(buffer)


def read_end_txn_marker(buffer: Buffer) -> EndTxnMarker | None:
    """As `end_txn_marker`, of any form."""
    for record in iter_records(buffer):
        kind = int.from_bytes((record.key or b"")[2:4], "big")
        if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            return EndTxnMarker.parse(record.key, record.value)
        return None
    return None
