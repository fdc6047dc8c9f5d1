"""A whole fetch as columns: offsets, timestamps, and where keys, values and headers lie.

    columns = decode_columns(records)            # what a Fetch response holds of one partition
    for row in range(columns.first_row(position), len(columns)):
        columns.offsets[row], columns.timestamps[row], columns.key(row), columns.value(row)

No object is made for a record. The columns are ``array('q')``, 8 bytes a row, so that NumPy,
Arrow and ``memoryview`` take them as they are (int64, native byte order); bytes are places in
``data``, one buffer for all of them:

| column | row |
|---|---|
| `offsets` | the record's offset; grows from row to row |
| `timestamps` | milliseconds; NO_TIMESTAMP (-1) in format v0; the append time under LogAppendTime |
| `key_starts`, `key_lengths` | `data[start : start + length]`; a length of -1 is null |
| `value_starts`, `value_lengths` | the same |
| `header_starts`, `header_counts` | the first header, and how many there are: `headers(row)` |

`batches` has an entry for each batch, also for those that have no rows: control batches (markers of
transactions), and batches that compaction has emptied. Row numbers of a batch are consecutive.

`data` is the fetch itself where all of it is plain (it is copied only if it was not ``bytes``);
else the blocks of all batches one after the other, decompressed.

Mirrors: CompletedFetch and RecordBatch.streamingIterator, as far as they decode.
Leaves out: which records a consumer is to see. The caller must drop aborted transactions: it has
the fetch's list of them, and the batches have producer ids and markers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from ..errors import InvalidRecord, ProtocolError
from ..primitives import Buffer
from .batch import (
    CONTROL_BIT,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    crc_is_valid,
    iter_batch_headers,
    iter_records,
    records_block,
)
from .compression import MAX_DECOMPRESSED_BYTES, UnpacksTooLarge
from .control import ControlRecordType, parse_control_record_type
from .layout import HEADER_SIZE
from .loops.places import find_places, places_of_batches
from .record import Headers, Record, check_block, headers_at, records_at
from .vecs import as_buffer

if TYPE_CHECKING:
    from .loops.places import Places, Span

# The number of records at a time: a compiled loop blocks all other threads until it ends.
_PORTION: Final = 16 * 1024


class BatchRows(NamedTuple):
    """A batch of the fetch: rows `first` to `end` (exclusive) of the columns.

    `header` has the values that all rows share: producer id and epoch, `is_transactional`,
    `is_control`, `timestamp_type`, `next_offset` (the offset a consumer reads next, with or without
    rows). `control` is the type of a control batch, which has no rows.
    """

    header: BatchHeader
    first: int
    end: int
    control: ControlRecordType | None


@final
class RecordColumns:
    """See the module. A reference to it, or to a view of `data`, keeps the whole fetch in
    memory."""

    __slots__ = (
        "batches", "data", "header_counts", "header_starts", "key_lengths", "key_starts",
        "offsets", "timestamps", "value_lengths", "value_starts",
    )  # fmt: skip

    def __init__(self) -> None:
        self.data = b""
        self.batches: list[BatchRows] = []
        self.offsets = array("q")
        self.timestamps = array("q")
        self.key_starts = array("q")
        self.key_lengths = array("q")
        self.value_starts = array("q")
        self.value_lengths = array("q")
        self.header_starts = array("q")
        self.header_counts = array("q")

    def __len__(self) -> int:
        return len(self.offsets)

    def first_row(self, offset: int) -> int:
        """The first row at ``offset`` or after it; len(self) if there is none.

        A fetch begins with the batch that holds the requested offset, so earlier rows may come
        first.
        """
        return bisect_left(self.offsets, offset)

    def key(self, row: int) -> bytes | None:
        length = self.key_lengths[row]
        start = self.key_starts[row]
        return None if length < 0 else self.data[start : start + length]

    def value(self, row: int) -> bytes | None:
        length = self.value_lengths[row]
        start = self.value_starts[row]
        return None if length < 0 else self.data[start : start + length]

    def headers(self, row: int) -> Headers:
        """(name, content or None) of each; bytes of names that are no UTF-8 become U+FFFD."""
        count = self.header_counts[row]
        return headers_at(self.data, self.header_starts[row], count) if count else ()

    def records(self, first: int = 0, end: int | None = None) -> Iterator[Record]:
        """Objects of rows [first, end), without sequences."""
        rows = slice(first, end)
        return records_at(self.data, [column[rows] for column in self._columns()])

    def _columns(self) -> tuple[array[int], ...]:
        return (
            self.offsets, self.timestamps, self.key_starts, self.key_lengths, self.value_starts,
            self.value_lengths, self.header_starts, self.header_counts,
        )  # fmt: skip

    def _take(self, places: Places, append_time: int | None) -> None:
        if append_time is None:
            columns: tuple[Any, ...] = places
        else:
            columns = (places[0], array("q", [append_time]) * len(places[1]), *places[2:])
        for column, found in zip(self._columns(), columns, strict=True):
            column.frombytes(as_buffer(found))


def decode_columns(
    records: Buffer,
    *,
    check_crcs: bool = False,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> RecordColumns:
    """The columns of all complete batches of ``records``, of any format (v0 to v2).

    A batch that is cut short at the end, as the last one of a fetch may be, is left out. Raises
    ProtocolError for damage: UnpacksTooLarge if all batches together unpack to more than
    ``max_decompressed_bytes``, InvalidRecord for records that break the format's rules, and with
    ``check_crcs`` (Kafka's `check.crcs`) for a wrong CRC.
    """
    found = list(iter_batch_headers(records))
    if check_crcs:
        for position, header in found:
            if not crc_is_valid(records, position, header):
                raise ProtocolError(f"the batch at offset {header.base_offset} has a wrong CRC")
    columns = RecordColumns()
    if all(header.magic == 2 and not header.is_compressed for _, header in found):
        columns.data = records if isinstance(records, bytes) else bytes(records)
        _add_plain(columns, found)
        return columns
    blocks: list[bytes] = []
    size = 0
    for position, header in found:
        if header.magic < 2:
            block = _add_messages(columns, header, records, position, size)
        else:
            block = records_block(
                records, position, header, max_decompressed_bytes=max_decompressed_bytes - size
            )
            _add_block(columns, header, block, 0, len(block), size)
        blocks.append(block)
        size += len(block)
        if size > max_decompressed_bytes:
            raise UnpacksTooLarge(f"a fetch unpacks to more than {max_decompressed_bytes} bytes")
    columns.data = b"".join(blocks)
    return columns


def _add_plain(columns: RecordColumns, found: Sequence[tuple[int, BatchHeader]]) -> None:
    """The rows of v2 batches that lie in `columns.data` as they are: those of many small ones are
    found in one go."""
    data = columns.data
    spans: list[Span] = []
    waiting = 0  # records of `spans`
    for position, header in found:
        start, end = position + HEADER_SIZE, position + header.size_in_bytes
        count = header.record_count
        is_small = count <= _PORTION and not header.attributes & (CONTROL_BIT | TIMESTAMP_TYPE_BIT)
        if spans and (not is_small or waiting + count > _PORTION):
            columns._take(places_of_batches(data, spans), None)
            spans, waiting = [], 0
        if not is_small:
            _add_block(columns, header, data, start, end, 0)
            continue
        check_block(count, end - start, header.base_offset)
        first = len(columns) + waiting
        spans.append((start, end, count, header.base_offset, header.base_timestamp))
        waiting += count
        columns.batches.append(BatchRows(header, first, first + count, None))
    if spans:
        columns._take(places_of_batches(data, spans), None)


def _add_block(
    columns: RecordColumns, header: BatchHeader, block: bytes, start: int, end: int, shift: int
) -> None:
    """The rows of a v2 batch whose records are block[start:end]."""
    first = len(columns)
    count = header.record_count
    if header.is_control:
        control = _control_type(header, block, start, end)
        columns.batches.append(BatchRows(header, first, first, control))
        return
    check_block(count, end - start, header.base_offset)
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_BIT else None
    position, left = start, count
    while left:
        portion = min(left, _PORTION)
        places, position = find_places(
            block, position, end, portion, header.base_offset, header.base_timestamp, shift
        )
        columns._take(places, append_time)
        left -= portion
    if position != end:
        raise InvalidRecord(f"{end - position} bytes follow the last of {count} records")
    columns.batches.append(BatchRows(header, first, len(columns), None))


def _control_type(
    header: BatchHeader, block: bytes, start: int, end: int
) -> ControlRecordType | None:
    """The type of a control batch, from its one record; None if that has been compacted away."""
    if header.record_count <= 0:
        return None
    (_, _, (key_start,), (length,), *_), _ = find_places(block, start, end, 1, 0, 0, 0)
    if length < 0:
        raise InvalidRecord("a control record has no key")
    return parse_control_record_type(block[key_start : key_start + length])


def _add_messages(
    columns: RecordColumns, header: BatchHeader, records: Buffer, position: int, shift: int
) -> bytes:
    """The rows of an entry of a v0/v1 message set; returns their keys and values."""
    first = len(columns)
    parts: list[bytes] = []
    for record in iter_records(records, position):
        columns.offsets.append(record.offset)
        columns.timestamps.append(record.timestamp)
        for content, starts, lengths in (
            (record.key, columns.key_starts, columns.key_lengths),
            (record.value, columns.value_starts, columns.value_lengths),
        ):
            starts.append(shift)
            lengths.append(-1 if content is None else len(content))
            if content:
                parts.append(content)
                shift += len(content)
        columns.header_starts.append(shift)
        columns.header_counts.append(0)
    columns.batches.append(BatchRows(header, first, len(columns), None))
    return b"".join(parts)
