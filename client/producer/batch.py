"""A batch of records for one partition, and its outcome.

Invariants: its records and their order never change, so that a record is found by its place; it is
built once, and a retry differs only in producer id, epoch and sequence. It gets one outcome, or is
split into parts that get theirs.
Mirrors: ProducerBatch.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple, TypeAlias, cast

from ...protocol.invariants import BrokenInvariant
from ...protocol.records.batch import iter_records, update_crc
from ...protocol.records.builder import build_batch
from ...protocol.records.compression import Compression
from ...protocol.records.layout import PRODUCER_POSITION
from ...protocol.records.message_set import encode_message_set
from ...protocol.records.record import NO_SEQUENCE, Headers, Record, SimpleRecord

# Fields of a batch's header: producer id, epoch, base sequence.
_PRODUCER: Final = Struct(">qhi")


# Fields of a record, as in SimpleRecord: timestamp, key, value, headers.
Fields: TypeAlias = tuple[int, bytes | None, bytes | None, Headers]
_PACKED: Final[Fields] = (0, None, None, ())


class Identity(NamedTuple):
    """A producer's id and epoch at the brokers; an id of -1 is none."""

    producer_id: int = -1
    epoch: int = -1


class Outcome(NamedTuple):
    """The result of a batch: its offset (-1: unknown, or not requested), or its error."""

    base_offset: int = -1
    append_time_ms: int = -1  # of the broker, -1 if records keep their own time
    error: Exception | None = None


class Batch:
    """Times are in ms of the producer's clock."""

    __slots__ = (
        "attempts",
        "created_ms",
        "data",
        "identity",
        "is_in_flight",
        "may_be_written",
        "outcome",
        "partition",
        "parts",
        "records",
        "retry_at_ms",
        "sequence",
        "size",
        "topic",
        "watchers",
    )

    def __init__(self, topic: str, partition: int, created_ms: int) -> None:
        self.topic = topic
        self.partition = partition
        self.created_ms = created_ms
        self.records: list[Fields] = []
        self.size = 0  # bytes of the records at most, before they are compressed
        self.is_in_flight = False
        self.attempts = 0  # the number of times it was sent
        self.may_be_written = False  # an answer was lost, or did not decide that
        self.retry_at_ms = 0
        self.data: bytearray | None = None
        self.identity = Identity()
        self.sequence = NO_SEQUENCE
        self.outcome: Outcome | None = None
        self.parts: list[Batch] = []
        self.watchers: list[Callable[[], None]] = []  # called at an outcome or a split

    @property
    def has_headers(self) -> bool:
        return any(headers for _, _, _, headers in self.records)

    def build(
        self, compression: Compression, level: int | None, *, is_transactional: bool
    ) -> bytearray:
        """The batch's bytes, for its identity and sequence."""
        if self.data is None:
            self.data = build_batch(
                cast(list[SimpleRecord], self.records),
                compression=compression,
                level=level,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                base_sequence=self.sequence,
                is_transactional=is_transactional,
            )
        return self.data

    def build_old(self, compression: Compression, level: int | None) -> bytearray:
        """The batch's bytes for brokers before 0.11: a message set, which cannot have headers."""
        records = [
            Record(place, timestamp, key, value)
            for place, (timestamp, key, value, _) in enumerate(self.records)
        ]
        return encode_message_set(records, magic=1, compression=compression, level=level)

    def assign(self, identity: Identity, sequence: int) -> None:
        """Set the identity and sequence that it is sent with."""
        self.identity, self.sequence = identity, sequence
        if self.data is not None:
            _PRODUCER.pack_into(self.data, PRODUCER_POSITION, *identity, sequence)
            update_crc(self.data, 0)

    def complete(self, outcome: Outcome) -> None:
        if self.outcome is not None or self.parts:
            raise BrokenInvariant(
                f"a batch of {self.topic}-{self.partition} has an outcome, or was split, and gets "
                f"another one: {self.outcome}, {outcome}"
            )
        self.outcome = outcome
        self.data = None
        self._notify_waiters()

    def split(self) -> list[Batch]:
        """Replace it by two halves, with their shares of its sequence numbers."""
        half = len(self.records) // 2
        sequence = self.sequence
        for records in (self.records[:half], self.records[half:]):
            part = Batch(self.topic, self.partition, self.created_ms)
            part.records = records
            part.size = self.size * len(records) // len(self.records)
            part.attempts = self.attempts
            part.may_be_written = self.may_be_written
            if sequence != NO_SEQUENCE:
                part.assign(self.identity, sequence)
                sequence = sequence + len(records) & 0x7FFFFFFF
            self.parts.append(part)
        # With an odd size the second half has the rest.
        self.parts[1].size = self.size - self.parts[0].size
        self.data = None
        self._notify_waiters()
        return self.parts

    def holder(self, place: int) -> tuple[Batch, int]:
        """The batch that holds the record of this place now, and its place there."""
        batch: Batch = self
        while batch.parts:
            first, second = batch.parts
            batch, place = (
                (first, place)
                if place < len(first.records)
                else (second, place - len(first.records))
            )
        return batch, place

    def _notify_waiters(self) -> None:
        watchers, self.watchers = self.watchers, []
        for told in watchers:
            told()


class ReadyBatch(Batch):
    """A batch in a broker's format, from another cluster: its records stay packed.

    `data` belongs to the batch from now on; its producer fields and CRC need not be valid: only the
    producer's fields (id, epoch, sequence, transactional or not) and the CRC over them are changed.
    It is unpacked only if a broker finds it too large, or is too old for record batches. Its
    offsets have no gaps: a leader would refuse it.
    """

    __slots__ = ()

    def __init__(
        self, topic: str, partition: int, created_ms: int, data: bytearray, count: int
    ) -> None:
        super().__init__(topic, partition, created_ms)
        self.data = data
        self.size = len(data)
        # Until it is unpacked only their number is used.
        self.records = [_PACKED] * count

    def build(
        self, compression: Compression, level: int | None, *, is_transactional: bool
    ) -> bytearray:
        """The batch's bytes; whether it is transactional is set in `data` already."""
        if self.data is not None and self.sequence == NO_SEQUENCE:
            update_crc(self.data, 0)  # no identity was assigned
        return super().build(compression, level, is_transactional=is_transactional)

    def build_old(self, compression: Compression, level: int | None) -> bytearray:
        self._unpack()
        return super().build_old(compression, level)

    def split(self) -> list[Batch]:
        self._unpack()
        return super().split()

    def _unpack(self) -> None:
        if self.data is not None:
            self.records = [
                (record.timestamp, record.key, record.value, record.headers)
                for record in iter_records(self.data)
            ]
