"""The state of one producer of a log, and a snapshot of all producers at one offset.

An entry has the epoch, the last batches and the open transaction of a producer. `FrozenProducers`
is a snapshot on its way to a file: its rows are made in pieces, and the row of a producer before it
changes.

Mirrors: ProducerStateEntry, BatchMetadata; the rows of ProducerStateManager's snapshots.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from ..protocol.records.batch import BatchHeader
from ..protocol.records.record import decrement_sequence
from ..protocol.wall_clock import NOT_SEEN

NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_OFFSET: Final = -1
DROPPED: Final = 2**60  # a generation above all others


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
    """The state of one producer id."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "epoch",
        "generation",
        "last_timestamp",
        "producer_id",
        "seen_ms",
    )

    def __init__(self, producer_id: int, epoch: int = NO_EPOCH) -> None:
        # Never changes.
        self.producer_id = producer_id
        # The epoch of its last batch or marker, set by `apply`: on a leader it never goes back.
        self.epoch = epoch
        # The epoch of the coordinator that wrote its last marker, set by `apply`; -1: no marker.
        self.coordinator_epoch = -1
        # The timestamp of its last batch, as the producer set it; stored in snapshots.
        self.last_timestamp = -1
        # When this process last appended for it, by the monotonic clock; NOT_SEEN: never, it was
        # read from a snapshot or the log.
        self.seen_ms = NOT_SEEN
        # All frozen snapshots up to this number have its row, or do not contain it.
        self.generation = 0
        # The first offset of its open transaction, set with its first batch; NO_OFFSET after the
        # marker.
        self.current_txn_first_offset = NO_OFFSET
        # The last batches of `epoch`, five at most, in the order of their offsets.
        self.batches: list[BatchMetadata] = []

    def __repr__(self) -> str:
        last = self.batches[-1] if self.batches else None
        return f"ProducerEntry({self.producer_id}, epoch={self.epoch}, last={last})"

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def latest_offset(self) -> int:
        """The largest offset in the entry."""
        return max(self.last_data_offset, self.current_txn_first_offset)

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


ROW: Final = Struct(">qhiqiqiq")
_NO_BATCH: Final = BatchMetadata(NO_SEQUENCE, NO_OFFSET, 0, -1)


def snapshot_row(entry: ProducerEntry) -> bytes:
    """A producer as a snapshot has it: of its batches only the last one."""
    batches = entry.batches
    last = batches[-1] if batches else _NO_BATCH
    return ROW.pack(
        entry.producer_id,
        entry.epoch,
        last[0],
        last[1],
        last[2],
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.current_txn_first_offset,
    )


class FrozenProducers:
    """The producers of a log as they were at one offset, on their way to a snapshot.

    `rows` grows by `encode`, and by `keep`, which the state calls before a producer changes or is
    dropped. `entries` may grow at its end, which is none of its business.
    """

    __slots__ = ("_at", "_count", "_entries", "generation", "is_over", "is_written", "offset",
                 "rows")  # fmt: skip

    def __init__(self, offset: int, generation: int, entries: list[ProducerEntry]) -> None:
        self.offset = offset
        self.generation = generation
        self.is_over = False  # it is not needed any more
        self.is_written = False  # to a file
        self.rows = bytearray()
        self._entries = entries
        self._count = len(entries)
        self._at = 0

    def encode(self, count: int) -> bool:
        """Write down up to so many producers; whether all are, or need not be any more."""
        entries, generation, rows = self._entries, self.generation, self.rows
        end = min(self._at + count, self._count)
        for entry in entries[self._at : end]:
            if entry.generation < generation:
                rows += snapshot_row(entry)
                entry.generation = generation
        self._at = end
        if end < self._count:
            return False
        self._release()
        return True

    def keep(self, entry: ProducerEntry) -> None:
        """Make the row of a producer that is about to change and has none yet."""
        if not self.is_over:
            self.rows += snapshot_row(entry)

    def end(self) -> None:
        """Drop the rows: they are in a file, or are not needed any more."""
        self.is_over = True
        self.rows = bytearray()
        self._release()

    def _release(self) -> None:
        self._entries = []
        self._count = self._at = 0
