"""Look at every record of a batch without building any, for the checks that need it.

Mirrors the per-record half of Kafka's LogValidator (skipKeyValueIterator, validateKey,
validateTimestamp). The leader needs it for compacted topics, for timestamp bounds, for the exact
max timestamp of a batch, and under full record validation; all else stays with the header.
"""

from typing import NamedTuple

from protocol.records.batch import BatchHeader, read_batch_header, records_block
from protocol.records.compression import MAX_DECOMPRESSED_BYTES, BytesLike
from protocol.records.message_set import read_message
from protocol.records.record import (
    MAX_INT64,
    MIN_INT64,
    MIN_RECORD_BYTES,
    NO_TIMESTAMP,
    InvalidRecord,
    TimestampType,
    check_headers,
)
from protocol.records.varint import read_varint, read_varlong, wrap_int64


class RecordsReport(NamedTuple):
    """What validate_records saw. Indexes count records within the batch, as record_errors do."""

    record_count: int
    max_timestamp: int
    offset_delta_of_max_timestamp: int
    offsets_are_sequential: bool
    null_key_indexes: list[int]
    bad_timestamps: list[tuple[int, int]]  # (index, timestamp)


def validate_records(
    buffer: BytesLike,
    position: int = 0,
    *,
    earliest_ms: int = MIN_INT64,
    latest_ms: int = MAX_INT64,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> RecordsReport:
    """Walk the batch at ``position``, of any magic, decompressing it if need be.

    Raises InvalidRecord for broken structure and ProtocolError for damage (inner CRCs of v0/v1
    wrappers included). Timestamps of -1 are never out of bounds.
    """
    header = read_batch_header(buffer, position)
    if header.magic < 2:
        seen = [
            (record.timestamp, record.offset - header.base_offset, record.key is None)
            for record in read_message(
                buffer,
                position,
                max_decompressed_bytes=max_decompressed_bytes,
                check_inner_crc=True,
            )
        ]
        first = seen[0][1]
        seen = [(timestamp, delta - first, null_key) for timestamp, delta, null_key in seen]
    else:
        block = records_block(
            buffer, position, header, max_decompressed_bytes=max_decompressed_bytes
        )
        seen = _walk(block, header)
    null_keys = [index for index, entry in enumerate(seen) if entry[2]]
    bad = [
        (index, entry[0])
        for index, entry in enumerate(seen)
        if not earliest_ms <= entry[0] <= latest_ms and entry[0] != NO_TIMESTAMP
    ]
    max_timestamp, delta_of_max = NO_TIMESTAMP, -1
    for timestamp, delta, _ in seen:
        if timestamp > max_timestamp:
            max_timestamp, delta_of_max = timestamp, delta
    return RecordsReport(
        len(seen),
        max_timestamp,
        delta_of_max,
        all(entry[1] == index for index, entry in enumerate(seen)),
        null_keys,
        bad,
    )


def _walk(block: bytes, header: BatchHeader) -> list[tuple[int, int, bool]]:
    """(timestamp, offset delta, has no key) of each record of a v2 batch."""
    end = len(block)
    count = header.record_count
    if not 0 <= count <= end // MIN_RECORD_BYTES:
        raise InvalidRecord(f"{count} records cannot be in {end} bytes")
    base = header.base_timestamp
    append_time = None
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        append_time = header.max_timestamp
    seen = []
    position = 0
    try:
        for _ in range(count):
            length, position = read_varint(block, position)
            record_end = position + length
            if length < MIN_RECORD_BYTES - 1 or record_end > end:
                raise InvalidRecord(f"a record of {length} bytes has {end - position} left")
            timestamp, position = read_varlong(block, position + 1)
            timestamp = base + timestamp if append_time is None else append_time
            if not MIN_INT64 <= timestamp <= MAX_INT64:
                timestamp = wrap_int64(timestamp)
            offset_delta, position = read_varint(block, position)
            key_length, position = read_varint(block, position)
            if key_length > 0:
                position += key_length
            value_length, position = read_varint(block, position)
            if value_length > 0:
                position += value_length
            if block[position] or position + 1 != record_end:
                check_headers(block, position, record_end)
            position = record_end
            seen.append((timestamp, offset_delta, key_length < 0))
    except IndexError:
        raise InvalidRecord("a record runs past the end of its batch") from None
    if position != end:
        raise InvalidRecord(f"{end - position} bytes follow the last of {count} records")
    return seen
