"""Between the formats v0, v1 and v2, and from codec to codec.

Mirrors the conversions of Kafka's LogValidator and RecordsUtil.downConvert. A fetch is converted
batch by batch as it is sent, see `broker.network.down_conversion`.
"""

from collections.abc import Sequence
from typing import Final

from ..errors import ErrorCode, InvalidRecord, KafkaError
from ..primitives import Buffer
from .batch import (
    BatchHeader,
    iter_batch_headers,
    iter_records,
    read_batch_header,
)
from .builder import build_batch
from .compression import (
    MAX_DECOMPRESSED_BYTES,
    Compression,
    UnpacksTooLarge,
)
from .message_set import encode_message_set, read_message
from .record import NO_PARTITION_LEADER_EPOCH, Record, SimpleRecord, TimestampType

# The default limit of the records of one batch that are made at once.
MAX_RECORDS: Final = 1 << 20

# One entry of a message set: a v2 batch, a wrapper or a single message, with its records.
Entry = tuple[BatchHeader, list[Record]]


def read_produced(
    records: Buffer,
    *,
    max_records: int = MAX_RECORDS,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> list[Entry]:
    """The entries of a producer's message set of any format; inner CRCs are checked.

    One magic throughout; only uncompressed messages of v0/v1 may be more than one.
    """
    entries: list[Entry] = []
    for position, header in iter_batch_headers(records):
        if entries:
            first = entries[0][0]
            if header.magic != first.magic:
                raise InvalidRecord(
                    f"Batch magic {header.magic} is not the same as the first batch's magic byte "
                    f"{first.magic}"
                )
            if header.magic == 2 or header.is_compressed or first.is_compressed:
                raise InvalidRecord("Compressed outer record has more than one batch")
        if header.magic == 2:
            check_record_count(header, max_records)
            found = iter_records(records, position, max_decompressed_bytes=max_decompressed_bytes)
        else:
            found = iter(
                read_message(
                    records,
                    position,
                    max_decompressed_bytes=max_decompressed_bytes,
                    max_records=max_records,
                    check_inner_crc=True,
                )
            )
        entries.append((header, list(found)))
    return entries


def check_record_count(header: BatchHeader, max_records: int) -> None:
    """Check the count before the records are made: a compressed batch may have more records than
    fit into memory."""
    if header.record_count > max_records:
        raise UnpacksTooLarge(
            f"a batch of {header.record_count} records, more than {max_records}, is not unpacked"
        )


def convert_produced(
    entries: Sequence[Entry],
    *,
    magic: int,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    log_append_time: int | None = None,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    """The records of ``entries`` in format ``magic``, at consecutive offsets.

    Records of v0 get timestamp -1. Formats below v2 have no headers and no producer ids, which the
    callers have refused, and no zstd.
    """
    first = entries[0][0]
    found = [record for _, records in entries for record in records]
    if magic == 2:
        return build_batch(
            [SimpleRecord(r.timestamp, r.key, r.value, r.headers) for r in found],
            base_offset=base_offset,
            compression=compression,
            level=level,
            producer_id=first.producer_id,
            producer_epoch=first.producer_epoch,
            base_sequence=first.base_sequence,
            is_transactional=first.is_transactional,
            partition_leader_epoch=partition_leader_epoch,
            log_append_time=log_append_time,
        )
    if compression is Compression.ZSTD:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"zstd does not exist in message format v{magic}"
        )
    if any(record.headers for record in found):
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"message format v{magic} has no record headers"
        )
    return encode_message_set(
        [r._replace(offset=offset) for offset, r in enumerate(found, base_offset)],
        magic=magic,
        compression=compression,
        level=level,
        log_append_time=log_append_time,
    )


def down_convert(
    batch: Buffer,
    to_magic: int,
    start_offset: int,
    *,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> tuple[Buffer, int]:
    """One stored batch for a consumer that reads ``to_magic`` at most, empty if nothing is left;
    and how many records were converted: 0 for a batch that stays as it is.

    Offsets, codec and timestamp type stay. Left out: control batches, headers, and uncompressed
    records below ``start_offset`` (each becomes an entry of its own, and some versions of
    librdkafka rely on the first being the requested one). zstd cannot be converted.
    """
    assert to_magic in (0, 1)
    header = read_batch_header(batch)
    if header.is_control:
        return b"", 0
    codec = header.compression
    if codec is Compression.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            "zstd batches cannot be converted for consumers that know only formats v0 and v1",
        )
    if header.magic <= to_magic:
        return batch, 0
    check_record_count(header, MAX_RECORDS)
    kept = [
        record
        for record in iter_records(batch, max_decompressed_bytes=max_decompressed_bytes)
        if header.is_compressed or record.offset >= start_offset
    ]
    is_log_append = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    converted = encode_message_set(
        kept,
        magic=to_magic,
        compression=codec,
        log_append_time=header.max_timestamp if is_log_append else None,
    )
    return converted, len(kept)
