"""Batches and sets as tests want them: built whole, converted whole, with records taken out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.primitives import Buffer
from pybroker_kafka.protocol.records.batch import (
    DELETE_HORIZON_BIT,
    NO_TIMESTAMP,
    BatchHeader,
    Compression,
    Record,
    SimpleRecord,
    TimestampType,
    iter_batch_headers,
    read_batch_header,
    records_block,
)
from pybroker_kafka.protocol.records.builder import assemble, build_empty_batch
from pybroker_kafka.protocol.records.compression import MAX_DECOMPRESSED_BYTES
from pybroker_kafka.protocol.records.convert import convert_produced, down_convert, read_produced
from pybroker_kafka.protocol.records.message_set import encode_message_set
from tests.support.slow_records import encode_record


def up_convert(
    message_set: Buffer,
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
    records: Buffer,
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


def build_message_set(
    records: Iterable[SimpleRecord],
    *,
    magic: int,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    log_append_time: int | None = None,
) -> bytearray:
    """A message set of consecutive offsets: one wrapper if compressed. Headers are dropped."""
    return encode_message_set(
        [
            Record(base_offset + i, record.timestamp, record.key, record.value)
            for i, record in enumerate(records)
        ],
        magic=magic,
        compression=compression,
        level=level,
        log_append_time=log_append_time,
    )


def rebuild(
    header: BatchHeader,
    records: Iterable[Record],
    *,
    compression: Compression | None = None,
    level: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """The v2 batch of ``header`` with only ``records``, which keep their offsets.

    Base and last offset, sequences, producer, leader epoch, timestamp type and flags stay; a delete
    horizon is set if given and otherwise dropped. ``compression`` None keeps the codec.
    """
    assert header.magic == 2
    base_timestamp = NO_TIMESTAMP if delete_horizon_ms is None else delete_horizon_ms
    max_timestamp = NO_TIMESTAMP
    parts: list[bytes] = []
    for offset, timestamp, key, value, headers, _ in records:
        if not parts:
            max_timestamp = timestamp
            if delete_horizon_ms is None:
                base_timestamp = timestamp
        elif timestamp > max_timestamp:
            max_timestamp = timestamp
        parts.append(
            encode_record(
                offset - header.base_offset, timestamp - base_timestamp, key, value, headers
            )
        )
    if not parts:
        return build_empty_batch(header)
    attributes = header.attributes & ~DELETE_HORIZON_BIT
    if compression is not None:
        attributes = attributes & ~7 | compression
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = header.max_timestamp
    kept = header._replace(
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        record_count=len(parts),
    )
    return assemble(kept, b"".join(parts), level)


def recompress(
    batch: Buffer,
    compression: Compression,
    level: int | None = None,
    *,
    position: int = 0,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> bytearray:
    """The v2 batch at ``position`` with its records block in another codec; all else stays."""
    header = read_batch_header(batch, position)
    if header.magic != 2:
        raise ProtocolError(f"a batch of magic {header.magic} cannot be recompressed")
    block = records_block(batch, position, header, max_decompressed_bytes=max_decompressed_bytes)
    return assemble(header._replace(attributes=header.attributes & ~7 | compression), block, level)
