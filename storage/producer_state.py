"""Idempotent and transactional producers of one log.

For each producer id: its epoch, its last five batches (a retry of one of them is a duplicate and
is answered with its old offsets), its open transaction. Transactions bound the last stable
offset: up to the first one that is open, or completed but not yet below the high watermark.

`check` validates a batch and changes nothing; `apply` records it after it is in the log. A leader
appends one batch at a time, so no state is needed in between.

`freeze` keeps the producers as they are at one offset, however many: before a producer changes or
is dropped, its row is made. So a snapshot of very many is made in pieces, beside appends.

The number of producers is bounded (`ProducerLimits`): an idle one makes room for a new one, and is
unknown from then on, as if it had expired. If none is idle, a client's new producer must retry
later: the state of a producer that has just written is never dropped, or its retry could be stored
twice. A follower accepts all that its leader accepted, and drops the longest idle producer.

A batch that would begin a transaction must carry the guard of its verification, if verification is
required (`verification.py`).

Invariants: offsets of a producer's batches grow, and no more than five are kept; each open
transaction is one producer's; `first_unstable_offset` is the first offset of the first unstable
transaction; a batch that a leader accepts from a client follows the producer's last sequence.

Rules: SEMANTICS 14. Mirrors: ProducerStateManager, ProducerAppendInfo (KIP-98, KIP-360, KIP-890).
Beyond Kafka: the bound; and a producer expires by the time since its last append, not by the
timestamps in its records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice, pairwise
from struct import Struct
from typing import Final

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.invariants import BrokenInvariant
from ..protocol.primitives import Buffer
from ..protocol.records.batch import BatchHeader, ControlRecordType, EndTxnMarker, iter_records
from ..protocol.records.layout import HEADER_SIZE, MAGIC_POSITION
from ..protocol.records.record import increment_sequence
from ..protocol.wall_clock import NOT_SEEN
from .append_info import AppendOrigin
from .log_config import MAX_IDS_OF_BROKER, MAX_IDS_OF_LOG
from .producer_entry import (
    DROPPED,
    NO_EPOCH,
    NO_OFFSET,
    NO_SEQUENCE,
    BatchMetadata,
    FrozenProducers,
    ProducerEntry,
)
from .transaction_index import AbortedTransaction
from .verification import VerificationGuard, Verifications

BATCHES_KEPT: Final = 5
_TRANSACTIONAL_BIT: Final = 0x10
_CONTROL_BIT: Final = 0x20
MAX_SEQUENCE: Final = 2**31 - 1
MAX_EPOCH: Final = 2**15 - 1
_LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60 * 1000

# Ids that a log may keep in any case, however many there are in others.
IDS_OF_ANY_LOG: Final = 1_000
# A producer that has been silent for so long sends nothing again: more than twice the time in
# which clients deliver a record or give up (delivery.timeout.ms, by default two minutes).
IDLE_MS: Final = 5 * 60 * 1000
# The minimum time for which a producer that was only read from disk is kept, regardless of its
# timestamps.
KEPT_AFTER_START_MS: Final = 10 * 60 * 1000
# Producers examined in one step: for room, for expiry.
_LOOKED_AT_FOR_ROOM: Final = 32
# Dropped producers that stay listed, beside as many as there are others.
_LISTED_BEYOND: Final = 1_000
_EXPIRED_PER_STEP: Final = 2_000
_RECALLED_PER_STEP: Final = 1_000
_LET_GO_PER_STEP: Final = 5_000


class ProducerLimits:
    """The limits of the number of ids; all logs of a broker share the object."""

    __slots__ = ("is_broker_full", "of_broker", "of_log")

    def __init__(self, of_log: int = MAX_IDS_OF_LOG, of_broker: int = MAX_IDS_OF_BROKER) -> None:
        self.of_log = of_log
        self.of_broker = of_broker
        # Set by the owner of the broker's count; until then only the log's own limit applies.
        self.is_broker_full = False


class Transaction:
    """Its first offset in this log, and its marker's once it has ended; whether that is stable."""

    __slots__ = ("first_offset", "is_replicated", "last_offset", "producer_id")

    def __init__(self, producer_id: int, first_offset: int) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = NO_OFFSET
        self.is_replicated = False


# A marker as all brokers write it. From the magic on: attributes, the count of records; of the one
# record all up to the kind (length, attributes, deltas, length and version of the key), the kind,
# length and version of the value, the coordinator's epoch, no headers.
_MARKER: Final = Struct(">b4xh34xi7sh3siB").unpack_from
_MARKER_FORM: Final = (2, 1, b"\x20\0\0\0\x08\0\0", b"\x0c\0\0", 0)
_MARKER_BYTES: Final = HEADER_SIZE + 17
_MARKERS: Final = {int(k): k for k in (ControlRecordType.ABORT, ControlRecordType.COMMIT)}
_CODEC_BITS: Final = 0x07


class ProducerState:
    __slots__ = (
        "_begun",
        "_frozen",
        "_generation",
        "_listed",
        "_ongoing",
        "_unreplicated",
        "entries",
        "first_unstable_offset",
        "limits",
        "map_end_offset",
        "verifications",
    )

    def __init__(self, limits: ProducerLimits | None = None) -> None:
        self.limits = limits or ProducerLimits()
        # By producer id; those examined last for room are at the end.
        self.entries: dict[int, ProducerEntry] = {}
        self.verifications = Verifications()
        # In the order of arrival; some dropped entries are still listed.
        self._listed: list[ProducerEntry] = []
        # The number of snapshots frozen so far, and the snapshots that may not be over.
        self._generation = 0
        self._frozen: list[FrozenProducers] = []
        # Open ones by first offset, in its order; completed ones in the order of their markers.
        self._ongoing: dict[int, Transaction] = {}
        self._unreplicated: deque[Transaction] = deque()
        # Both in the order of first offsets, from the first unstable transaction on.
        self._begun: deque[Transaction] = deque()
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
                    self._check_raised_epoch(entry, header, where)
                else:
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
        if (
            is_transactional
            and guard is not None
            and not self._continues_transaction(header, guard)
        ):
            if guard.adds and entry is not None:
                self._check_epoch(entry, header, where)
            self._check_verified(producer_id, guard, where)
        if entry is not None:
            self._check_epoch(entry, header, where)
        if is_client:
            self._check_lowest_sequence(header, where)
            if entry is not None:
                self._check_sequence(entry, header, where)
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
        if verification is None:
            return
        if verification.guard.adds and header.base_sequence != 0:
            entry = self.entries.get(header.producer_id)
            if entry is None or not entry.batches:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for producer {header.producer_id} in {where}: "
                    f"{header.base_sequence} (incoming seq. number). Expected sequence 0 for "
                    f"transactions v2 idempotent producer with no existing state.",
                )
        if header.base_sequence > verification.lowest_sequence:
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
    def _check_raised_epoch(entry: ProducerEntry, header: BatchHeader, where: str) -> None:
        """A marker of version 2 has a higher epoch than all batches of its transaction, so one that
        is late ends nothing. A marker that comes again may be written again."""
        epoch = header.producer_epoch
        if epoch > entry.epoch:
            return
        has_ended = entry.current_txn_first_offset < 0 or epoch == MAX_EPOCH
        if epoch < entry.epoch or not has_ended:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {entry.producer_id} in {where} is {epoch}, which is <= the "
                f"last seen epoch {entry.epoch} (TV2)",
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
            self._begin_transaction(entry, base_offset)
        return None

    def _add(self, producer_id: int, epoch: int) -> ProducerEntry:
        if self._is_full():
            self._drop_longest_idle()
        entry = self.entries[producer_id] = ProducerEntry(producer_id, epoch)
        entry.generation = self._generation
        self._listed.append(entry)
        return entry

    def _begin_transaction(self, entry: ProducerEntry, first_offset: int) -> None:
        if self._begun and self._begun[-1].first_offset >= first_offset:
            raise BrokenInvariant(f"{entry} begins a transaction before others, at {first_offset}")
        entry.current_txn_first_offset = first_offset
        transaction = Transaction(entry.producer_id, first_offset)
        self._ongoing[first_offset] = transaction
        self._begun.append(transaction)
        if self.first_unstable_offset is None:
            self.first_unstable_offset = first_offset

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
        self._unreplicated.append(transaction)
        if marker.kind is ControlRecordType.ABORT:
            return AbortedTransaction(entry.producer_id, first_offset, offset, stable)
        return None

    def _last_stable_offset_after(self, producer_id: int, marker_offset: int) -> int:
        for transaction in self._ongoing.values():
            if transaction.producer_id != producer_id:
                return transaction.first_offset
        return marker_offset + 1

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
        ongoing = {first: one.producer_id for first, one in self._ongoing.items()}
        if ongoing != open_ones or list(ongoing) != sorted(ongoing):
            raise BrokenInvariant(f"{where}: transactions {ongoing}, of producers {open_ones}")
        begun = [one.first_offset for one in self._begun]
        unstable = begun[0] if begun else None
        if begun != sorted(begun) or unstable != self.first_unstable_offset:
            raise BrokenInvariant(f"{where}: unstable from {self.first_unstable_offset}: {begun}")
        if not ongoing.keys() <= set(begun):
            raise BrokenInvariant(f"{where}: {ongoing} are open, {begun} bound the LSO")

    # Offsets that move

    def high_watermark_updated(self, high_watermark: int) -> None:
        """Completed transactions whose marker is replicated bound the LSO no longer."""
        if self._unreplicated:
            self._forget_completed_below(high_watermark)

    def log_start_offset_updated(self, log_start_offset: int) -> None:
        self._forget_completed_below(log_start_offset)
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
        end = self.map_end_offset
        completed = {transaction.first_offset: transaction for transaction in self._unreplicated}
        for transaction in earlier._unreplicated:
            if transaction.last_offset < end:
                completed[transaction.first_offset] = transaction
        self._unreplicated = deque(sorted(completed.values(), key=_marker_offset))
        self._find_first_unstable_offset()

    def release_some(self) -> bool:
        """Forget some producers of a replaced state, since dropping all at once is slow; whether
        all are gone."""
        entries = self.entries
        for _ in range(min(_LET_GO_PER_STEP, len(entries))):
            entries.popitem()
        if all(frozen.is_over for frozen in self._frozen):  # else the list is theirs as well
            del self._listed[-_LET_GO_PER_STEP:]
        return not entries

    def _forget_completed_below(self, offset: int) -> None:
        unreplicated, begun = self._unreplicated, self._begun
        while unreplicated and unreplicated[0].last_offset < offset:
            unreplicated.popleft().is_replicated = True
        while begun and begun[0].is_replicated:
            begun.popleft()
        self.first_unstable_offset = begun[0].first_offset if begun else None

    def _find_first_unstable_offset(self) -> None:
        begun = sorted([*self._ongoing.values(), *self._unreplicated], key=_first_offset)
        self._begun = deque(begun)
        self.first_unstable_offset = begun[0].first_offset if begun else None

    def clear(self, map_end_offset: int) -> None:
        self.entries.clear()
        self._listed = []
        self._ongoing.clear()
        self._unreplicated.clear()
        self._find_first_unstable_offset()
        self.map_end_offset = map_end_offset

    def load(self, entries: list[ProducerEntry], map_end_offset: int) -> None:
        """Take over a snapshot; those in it that have expired go with the next `remove_expired`."""
        self.clear(map_end_offset)
        self.load_some(entries)
        self.all_loaded()

    def load_some(self, entries: list[ProducerEntry]) -> None:
        """A piece of a snapshot, into a state that was cleared; `all_loaded` follows the last."""
        for entry in entries:
            entry.generation = self._generation
            self.entries[entry.producer_id] = entry
            self._listed.append(entry)
            first = entry.current_txn_first_offset
            if first >= 0:
                self._ongoing[first] = Transaction(entry.producer_id, first)

    def all_loaded(self) -> None:
        ongoing = self._ongoing
        self._ongoing = {first: ongoing[first] for first in sorted(ongoing)}
        self._find_first_unstable_offset()

    # Snapshots

    def freeze(self) -> FrozenProducers:
        """The producers as they are now, up to `map_end_offset`."""
        self._generation += 1
        frozen = FrozenProducers(self.map_end_offset, self._generation, self._listed)
        self._frozen = [earlier for earlier in self._frozen if not earlier.is_over]
        self._frozen.append(frozen)
        return frozen

    def _keep_frozen(self, entry: ProducerEntry) -> None:
        """Make the rows of a producer that changes for the first time since it was frozen."""
        for frozen in self._frozen:
            if entry.generation < frozen.generation:
                frozen.keep(entry)
        entry.generation = self._generation

    # Producers that go

    def _is_full(self) -> bool:
        limits, count = self.limits, len(self.entries)
        return count >= limits.of_log or (limits.is_broker_full and count >= IDS_OF_ANY_LOG)

    def _drop(self, entry: ProducerEntry) -> None:
        del self.entries[entry.producer_id]
        self._keep_frozen(entry)
        entry.generation = DROPPED
        if len(self._listed) > 2 * len(self.entries) + _LISTED_BEYOND:
            self._listed = list(self.entries.values())

    def _make_room(self, now_ms: int) -> bool:
        """Drop idle producers among those not examined for the longest time; whether there is room
        now for another producer."""
        entries = self.entries
        for entry in list(islice(entries.values(), _LOOKED_AT_FOR_ROOM)):
            is_idle = entry.seen_ms != NOT_SEEN and now_ms - entry.seen_ms >= IDLE_MS
            if is_idle and entry.current_txn_first_offset < 0:
                self._drop(entry)
            else:
                entries[entry.producer_id] = entries.pop(entry.producer_id)  # to the end
        return not self._is_full()

    def _no_room(self, where: str) -> KafkaError:
        """An error that every client retries without looking for another leader; librdkafka drops
        records on THROTTLING_QUOTA_EXCEEDED."""
        return KafkaError(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"{where} has {len(self.entries)} producer ids that were used in the last "
            f"{IDLE_MS // 60_000} minutes, and takes no other one now",
        )

    def _drop_longest_idle(self) -> None:
        """Drop one of the producers not examined for the longest time, unless each has an open
        transaction. For producers that were accepted already: by the leader, or earlier."""
        found: ProducerEntry | None = None
        for entry in islice(self.entries.values(), _LOOKED_AT_FOR_ROOM):
            if entry.current_txn_first_offset < 0 and (
                found is None or entry.seen_ms < found.seen_ms
            ):
                found = entry
        if found is not None:
            self._drop(found)

    def remove_expired(self, now_ms: int, wall_ms: int | None, expiration_ms: int) -> int:
        """`expire`, all at once."""
        return sum(self.expire(now_ms, wall_ms, expiration_ms))

    def expire(self, now_ms: int, wall_ms: int | None, expiration_ms: int) -> Iterator[int]:
        """Drop producers that were idle for too long, in steps; yields how many.

        The last write of a producer that was only read from disk is taken from its timestamp: at
        most `wall_ms`, the current time (None: unknown, so it is kept now), and not so long ago
        that it could not come back after this start.
        """
        self.verifications.remove_expired(now_ms, expiration_ms)
        oldest_ms = max(expiration_ms - KEPT_AFTER_START_MS, 0)
        listed = self._listed
        for start in range(0, len(listed), _EXPIRED_PER_STEP):
            count = 0
            for entry in listed[start : start + _EXPIRED_PER_STEP]:
                if (
                    entry.current_txn_first_offset >= 0
                    or self.entries.get(entry.producer_id) is not entry
                ):
                    continue
                if entry.seen_ms == NOT_SEEN:
                    if wall_ms is None:
                        continue
                    age_ms = min(max(wall_ms - entry.last_timestamp, 0), oldest_ms)
                    entry.seen_ms = now_ms - age_ms
                if now_ms - entry.seen_ms >= expiration_ms:
                    self._drop(entry)
                    count += 1
            yield count

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


def _first_offset(transaction: Transaction) -> int:
    return transaction.first_offset


def _marker_offset(transaction: Transaction) -> int:
    return transaction.last_offset


def end_txn_marker(buffer: Buffer) -> EndTxnMarker | None:
    """The marker in a control batch, None if compaction emptied it or it is of another kind."""
    if len(buffer) == _MARKER_BYTES:
        magic, attributes, count, head, kind, value, epoch, headers = _MARKER(
            buffer, MAGIC_POSITION
        )
        if (
            (magic, count, head, value, headers) == _MARKER_FORM
            and not attributes & _CODEC_BITS
            and kind in _MARKERS
        ):
            return EndTxnMarker(_MARKERS[kind], epoch)
    return read_end_txn_marker(buffer)


def read_end_txn_marker(buffer: Buffer) -> EndTxnMarker | None:
    """Like `end_txn_marker`, for a batch of any form."""
    for record in iter_records(buffer):
        kind = int.from_bytes((record.key or b"")[2:4], "big")
        if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            return EndTxnMarker.parse(record.key, record.value)
        return None
    return None
