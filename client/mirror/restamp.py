"""Turns a partition's fetched records into batches for a producer, unpacked only if necessary.

Most batches pass unchanged: records, keys, headers, timestamps and codec keep their bytes, and only
the producer's fields of the header change. Written anew are
- batches with gaps (compacted) or of which the first part is already copied: a leader wants offsets
  without gaps;
- batches under LogAppendTime, whose records have the time of the batch instead of their own: at the
  target they keep it, as records that MirrorMaker 2 copies do;
- message sets (formats v0 and v1), which producers cannot send beside record batches;
- neighbours smaller than SMALL_BYTES, together: a batch costs more than its records then.
Left out are control batches, empty ones, and under read_committed those of aborted transactions.

Invariant: `Portion.offsets` has the source's offset of each record of `data`, in order.
Pure. Mirrors: MirrorSourceTask.convertRecord, with a batch where that has a record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from ...protocol.apis.fetch import AbortedTransaction
from ...protocol.errors import ProtocolError
from ...protocol.primitives import Buffer
from ...protocol.records.batch import (
    DELETE_HORIZON_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    assign_offset_and_epoch,
    crc_is_valid,
    iter_batch_headers,
    iter_records,
    parse_control_record_type,
)
from ...protocol.records.builder import build_batch
from ...protocol.records.compression import Compression
from ...protocol.records.control import ControlRecordType
from ...protocol.records.layout import ATTRIBUTES_POSITION, HEADER_SIZE, PRODUCER_POSITION
from ...protocol.records.record import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    SimpleRecord,
    TimestampType,
)

SMALL_BYTES: Final = 8 * 1024
BUILT_BYTES: Final = 256 * 1024  # of the records of a batch that is written anew, before its codec
_PRODUCER = Struct(">qhi")
_ATTRIBUTES = Struct(">h")


class Portion(NamedTuple):
    """A batch for the target. Its CRC is not computed: the producer does that when it assigns
    numbers."""

    data: bytearray
    offsets: Sequence[int]
    newest_ms: int  # the largest timestamp


class Restamped(NamedTuple):
    """The result of a fetch from a position. The next fetch continues at `next_offset`, which is
    the position itself if there was no whole batch."""

    portions: list[Portion]
    next_offset: int
    leader_epoch: int
    passed: int  # batches that were not unpacked


class _Piece(NamedTuple):
    """A batch in the fetch."""

    at: int
    header: BatchHeader


def restamp(
    records: Buffer,
    position: int,
    *,
    aborted: Collection[AbortedTransaction] | None = None,
    is_transactional: bool = False,
    check_crcs: bool = True,
    now_ms: int = -1,
) -> Restamped:
    """`aborted`: the aborted transactions of the fetch; None if uncommitted records are copied too.

    `is_transactional`: the batches will be sent in transactions. `now_ms` is the time of records
    that have none (v0). Raises ProtocolError for damaged bytes.
    """
    work = _Work(records, position, is_transactional, now_ms)
    skipped = _Aborted(aborted)
    next_offset, epoch = position, NO_PARTITION_LEADER_EPOCH
    for at, header in iter_batch_headers(records):
        if check_crcs and not crc_is_valid(records, at, header):
            raise ProtocolError(f"the batch at offset {header.base_offset} has a wrong CRC")
        if header.last_offset < position:
            continue
        next_offset, epoch = header.next_offset, header.partition_leader_epoch
        if header.is_control:
            skipped.see_control(records, at, header)
        elif header.record_count and not skipped.has(header):
            work.take(_Piece(at, header))
    work.flush()
    return Restamped(work.done, next_offset, epoch, work.passed)


class _Aborted:
    """Finds the batches of aborted transactions, in order, as a consumer does."""

    def __init__(self, aborted: Collection[AbortedTransaction] | None) -> None:
        self._is_read_committed = aborted is not None
        begins = ((each.first_offset, each.producer_id) for each in aborted or ())
        self._waiting = sorted(begins, reverse=True)
        self._open: set[int] = set()

    def see_control(self, records: Buffer, at: int, header: BatchHeader) -> None:
        """End an aborted transaction if this is its marker."""
        if not self._is_read_committed or not header.record_count:
            return
        self._begin(header)
        for record in iter_records(records, at):
            if parse_control_record_type(record.key) is ControlRecordType.ABORT:
                self._open.discard(header.producer_id)

    def has(self, header: BatchHeader) -> bool:
        if not self._is_read_committed:
            return False
        self._begin(header)
        return header.is_transactional and header.producer_id in self._open

    def _begin(self, header: BatchHeader) -> None:
        while self._waiting and self._waiting[-1][0] <= header.last_offset:
            self._open.add(self._waiting.pop()[1])


class _Work:
    """Turns batches into portions. The batches in `_group` wait to be written anew together."""

    def __init__(self, records: Buffer, position: int, is_transactional: bool, now_ms: int) -> None:
        self._records = memoryview(records)
        self._position = position
        self._bits = TRANSACTIONAL_BIT if is_transactional else 0
        self._now_ms = now_ms
        self._group: list[_Piece] = []
        self.done: list[Portion] = []
        self.passed = 0

    def take(self, piece: _Piece) -> None:
        header = piece.header
        if self._can_pass(header) and header.size_in_bytes >= SMALL_BYTES:
            self.flush()
            self._pass(piece)
            return
        if self._group and self._group[-1].header.attributes & 7 != header.attributes & 7:
            self.flush()
        self._group.append(piece)

    def flush(self) -> None:
        """Write the waiting group without later batches."""
        group, self._group = self._group, []
        if len(group) == 1 and self._can_pass(group[0].header):
            self._pass(group[0])
        elif group:
            self._build(group)

    def _can_pass(self, header: BatchHeader) -> bool:
        return (
            header.magic == 2
            and header.record_count == header.last_offset_delta + 1
            and header.base_offset >= self._position
            and header.timestamp_type is TimestampType.CREATE_TIME
        )

    def _pass(self, piece: _Piece) -> None:
        at, header = piece
        data = bytearray(self._records[at : at + header.size_in_bytes])
        assign_offset_and_epoch(data, 0, 0, NO_PARTITION_LEADER_EPOCH)
        kept = header.attributes & ~(TRANSACTIONAL_BIT | DELETE_HORIZON_BIT)
        _ATTRIBUTES.pack_into(data, ATTRIBUTES_POSITION, kept | self._bits)
        _PRODUCER.pack_into(data, PRODUCER_POSITION, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
        offsets = range(header.base_offset, header.next_offset)
        self.done.append(Portion(data, offsets, header.max_timestamp))
        self.passed += 1

    def _build(self, group: list[_Piece]) -> None:
        codec = Compression(group[0].header.attributes & 7)
        offsets: list[int] = []
        taken: list[SimpleRecord] = []
        size = 0
        for offset, record in self._unpacked(group):
            cost = HEADER_SIZE + len(record.key or b"") + len(record.value or b"")
            cost += sum(len(name) + len(value or b"") for name, value in record.headers)
            if taken and size + cost > BUILT_BYTES:
                self._put(taken, offsets, codec)
                taken, offsets, size = [], [], 0
            taken.append(record)
            offsets.append(offset)
            size += cost
        if taken:
            self._put(taken, offsets, codec)

    def _unpacked(self, group: list[_Piece]) -> Iterable[tuple[int, SimpleRecord]]:
        for at, _ in group:
            for offset, timestamp, key, value, headers, _ in iter_records(self._records, at):
                if offset >= self._position:
                    stamp = timestamp if timestamp >= 0 else self._now_ms
                    yield offset, SimpleRecord(stamp, key, value, headers)

    def _put(self, taken: list[SimpleRecord], offsets: list[int], codec: Compression) -> None:
        data = build_batch(taken, compression=codec, is_transactional=bool(self._bits))
        newest = max(record.timestamp for record in taken)
        self.done.append(Portion(data, offsets, newest))
