"""Scan the records of a batch without holding all of them: piece by piece, unpacked if need be.

Pieces are small enough to come from the heap, which is warm; larger ones are mappings of their own
whose pages cost more than to look at them. Only a record larger than a piece is put together.

Mirrors: DefaultRecordBatch.streamingIterator and skipKeyValueIterator.
"""

from __future__ import annotations

from typing import Final

from ..errors import InvalidRecord
from ..primitives import Buffer
from .batch import BatchHeader
from .compression import decompress_in_pieces
from .layout import HEADER_SIZE
from .loops.scan import MIN_RECORD_BYTES, RecordScan

_PIECE_BYTES: Final = 128 * 1024
# Unpacked pieces come in all sizes: small ones are gathered up to this one.
_LEAST_PIECE_BYTES: Final = 64 * 1024
# The number of records that a compiled loop scans without a break, well below 1 ms.
_STEPS: Final = 16 * 1024


def scan_batch(
    buffer: Buffer, position: int, header: BatchHeader, *, max_decompressed_bytes: int
) -> RecordScan:
    """Scan the complete v2 batch at ``position``.

    Raises the errors of `decompress`, and InvalidRecord for records that break the format's rules.
    """
    end = position + header.size_in_bytes
    block = memoryview(buffer)[position + HEADER_SIZE : end]
    count, base_timestamp = header.record_count, header.base_timestamp
    if not header.is_compressed:
        return scan_block(block, count, base_timestamp)
    scan = RecordScan(count, base_timestamp)
    pieces: list[bytes] = []
    size = 0
    wanted = _LEAST_PIECE_BYTES
    for piece in decompress_in_pieces(header.compression, block, max_bytes=max_decompressed_bytes):
        pieces.append(piece)
        size += len(piece)
        if size >= wanted:
            whole = b"".join(pieces) if len(pieces) > 1 else piece
            _scan_piece(scan, whole, False)
            pieces = [whole[scan.position :]]
            size -= scan.position
            wanted = max(_LEAST_PIECE_BYTES, scan.wanted)
    _scan_piece(scan, b"".join(pieces), True)
    return scan


def scan_block(block: Buffer, count: int, base_timestamp: int) -> RecordScan:
    """A scan of records that are not compressed, or no longer."""
    view = memoryview(block)
    size = len(view)
    if count > size // MIN_RECORD_BYTES:
        raise InvalidRecord(f"{count} records cannot be in {size} bytes")
    scan = RecordScan(count, base_timestamp)
    position = 0
    while True:
        end = min(size, position + max(_PIECE_BYTES, scan.wanted))
        _scan_piece(scan, bytes(view[position:end]), end == size)
        if end == size:
            return scan
        position += scan.position


def _scan_piece(scan: RecordScan, piece: bytes, is_last: bool) -> None:
    scan.take(piece, is_last)
    while scan.advance(_STEPS):
        pass
