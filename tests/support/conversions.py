"""Whole sets through the conversions that the broker applies piece by piece."""

from __future__ import annotations

from typing import Any

from protocol.records.batch import BytesLike, Compression, iter_batch_headers
from protocol.records.compression import MAX_DECOMPRESSED_BYTES
from protocol.records.convert import convert_produced, down_convert, read_produced


def up_convert(
    message_set: BytesLike,
    *,
    compression: Compression | None = None,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    **options: Any,
) -> bytearray:
    """What was produced as one v2 batch; without a codec given, in its own."""
    entries = read_produced(message_set, max_decompressed_bytes=max_decompressed_bytes)
    if not entries:
        return bytearray()
    codec = entries[0][0].compression if compression is None else compression
    return convert_produced(entries, magic=2, compression=codec, **options)


def down_convert_all(
    records: BytesLike,
    to_magic: int,
    start_offset: int,
    *,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> bytes:
    """Every complete batch of a stored range."""
    view = memoryview(records)
    out = bytearray()
    for position, header in iter_batch_headers(records):
        batch = view[position : position + header.size_in_bytes]
        out += down_convert(
            batch, to_magic, start_offset, max_decompressed_bytes=max_decompressed_bytes
        )[0]
    return bytes(out)
