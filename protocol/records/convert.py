"""Between the formats: v0/v1 -> v2 on produce, v2 -> v1/v0 for old consumers, codec -> codec.

Mirrors the conversions of Kafka's LogValidator and RecordsUtil.downConvert. Not here: the lazy,
chunked conversion of a fetch (LazyDownConversionRecords); the caller bounds what it hands in.
"""

from protocol.errors import ErrorCode, KafkaError, ProtocolError
from protocol.records.batch import (
    BatchHeader,
    iter_batch_headers,
    iter_records,
    read_batch_header,
    records_block,
)
from protocol.records.builder import assemble, build_batch
from protocol.records.compression import MAX_DECOMPRESSED_BYTES, BytesLike, Compression
from protocol.records.message_set import encode_message_set, read_message
from protocol.records.record import (
    NO_PARTITION_LEADER_EPOCH,
    InvalidRecord,
    Record,
    SimpleRecord,
    TimestampType,
)


def read_message_set(
    message_set: BytesLike,
    *,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    check_inner_crc: bool = False,
) -> tuple[list[Record], BatchHeader]:
    """The records of a produced v0/v1 set, and its first entry's header, whose codec is the set's.

    One magic throughout; a compressed set is one wrapper.
    """
    first: BatchHeader | None = None
    records: list[Record] = []
    room = max_decompressed_bytes
    for position, header in iter_batch_headers(message_set):
        if header.magic > 1:
            raise InvalidRecord("a v2 batch in a message set")
        if first is None:
            first = header
        elif header.magic != first.magic:
            raise InvalidRecord(f"magic {header.magic} in a message set of magic {first.magic}")
        elif header.is_compressed or first.is_compressed:
            raise InvalidRecord("more than one entry in a compressed message set")
        records += read_message(
            message_set,
            position,
            max_decompressed_bytes=room,
            check_inner_crc=check_inner_crc,
        )
    if first is None:
        raise ProtocolError("an empty message set")
    return records, first


def up_convert(
    message_set: BytesLike,
    *,
    base_offset: int = 0,
    compression: Compression | None = None,
    level: int | None = None,
    log_append_time: int | None = None,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> bytearray:
    """One v2 batch of a v0/v1 message set's records, at consecutive offsets from ``base_offset``.

    ``compression`` None keeps the set's codec. v0 records get timestamp -1. Inner CRCs are checked.
    """
    records, first = read_message_set(
        message_set, max_decompressed_bytes=max_decompressed_bytes, check_inner_crc=True
    )
    return build_batch(
        [SimpleRecord(record.timestamp, record.key, record.value) for record in records],
        base_offset=base_offset,
        compression=first.compression if compression is None else compression,
        level=level,
        log_append_time=log_append_time,
        partition_leader_epoch=partition_leader_epoch,
    )


def down_convert(
    records: BytesLike,
    to_magic: int,
    start_offset: int,
    *,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> bytearray:
    """The complete batches of ``records`` for a consumer that reads ``to_magic`` at most.

    Offsets, codec and timestamp type stay. Left out: control batches, headers, and uncompressed
    records below ``start_offset`` (each becomes an entry of its own, and some versions of
    librdkafka rely on the first being the one they asked for). Ends before a batch in zstd; raises
    KafkaError if that is the first.
    """
    assert to_magic in (0, 1)
    out = bytearray()
    for position, header in iter_batch_headers(records):
        if header.is_control:
            continue
        if header.magic <= to_magic:
            out += memoryview(records)[position : position + header.size_in_bytes]
            continue
        codec = header.compression
        if codec is Compression.ZSTD:
            if out:
                break
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                "zstd batches cannot be converted for consumers that know only formats v0 and v1",
            )
        kept = [
            record
            for record in iter_records(
                records, position, max_decompressed_bytes=max_decompressed_bytes
            )
            if header.is_compressed or record.offset >= start_offset
        ]
        is_log_append = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        out += encode_message_set(
            kept,
            magic=to_magic,
            compression=codec,
            log_append_time=header.max_timestamp if is_log_append else None,
        )
    return out


def recompress(
    batch: BytesLike,
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
