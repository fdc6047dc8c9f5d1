"""The batches of a fetch: read from a slice of the log as far as they can be acquired.

Job: `fetched_batches` reads headers, up to the batch with an offset beyond which nothing is needed;
`part_of` is the slice with the batches that were acquired; `aborted_markers` finds the ends of
aborted transactions. `uniform_bytes` divides the bytes of a response among partitions.

Mirrors ShareFetchUtils.maybeSliceFetchRecords and PartitionMaxBytesStrategy; Kafka gives the bytes
that are left over to a partition at random, here it is the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...protocol.errors import ProtocolError
from ...protocol.records.batch import iter_records, read_batch_header
from ...protocol.records.control import ControlRecordType, parse_control_record_type
from ...protocol.records.layout import HEADER_SIZE
from ...storage.files import FileSlice
from .acquiring import Acquired, FetchedBatch

# Of headers and what is between them.
_CHUNK_BYTES: Final = 16 * 1024
_MAGIC_V2: Final = 2


def fetched_batches(
    records: FileSlice, fetch_offset: int, enough_offset: int, *, with_markers: bool
) -> list[FetchedBatch]:
    """The whole batches of a slice, none behind the one that has `enough_offset`."""
    found: list[FetchedBatch] = []
    position, end = 0, len(records)
    chunk, chunk_start = records.held, 0
    while position < end:
        relative = position - chunk_start
        if relative + HEADER_SIZE > len(chunk) and chunk_start + len(chunk) < end:
            chunk_start, relative = position, 0
            chunk = _read(records, position, min(_CHUNK_BYTES, end - position))
        try:
            header = read_batch_header(chunk, relative)
        except ProtocolError:
            break  # the last batch is not there whole
        size = header.size_in_bytes
        if position + size > end:
            break
        is_abort = with_markers and header.is_control and _is_abort(_read(records, position, size))
        base_offset = header.base_offset
        if header.magic < _MAGIC_V2:
            # A compressed message has the offset of its last record.
            base_offset = found[-1].last_offset + 1 if found else fetch_offset
            base_offset = min(base_offset, header.base_offset)
        found.append(
            FetchedBatch(
                base_offset,
                header.last_offset,
                position,
                size,
                header.producer_id,
                header.is_transactional,
                is_abort,
            )
        )
        if header.last_offset >= enough_offset:
            break
        position += size
    return found


def _read(records: FileSlice, position: int, size: int) -> bytes:
    if records.held:
        return bytes(records.held[position : position + size])
    return records.file.read_at(size, records.position + position)


def _is_abort(batch: bytes) -> bool:
    for record in iter_records(batch):
        return parse_control_record_type(record.key) is ControlRecordType.ABORT
    return False


def part_of(
    records: FileSlice, batches: Sequence[FetchedBatch], acquired: Sequence[Acquired]
) -> FileSlice:
    """The slice of the batches that hold what was acquired, from its first to its last record."""
    first, last = acquired[0].first_offset, acquired[-1].last_offset
    start = 0
    end = 0
    for batch in batches:
        if batch.base_offset <= first:
            start = batch.position
        elif batch.base_offset > last:
            break
        end = batch.position + batch.size
    if not start and end == len(records):
        return records
    held = records.held[start:end] if records.held else b""
    return FileSlice(records.file, records.position + start, end - start, held)


def uniform_bytes(max_bytes: int, count: int) -> list[int]:
    """The most bytes for each of so many partitions."""
    share, rest = divmod(max_bytes, count)
    sizes = [share] * count
    if share:
        sizes[0] += rest
    else:
        sizes[:rest] = [1] * rest
    return sizes
