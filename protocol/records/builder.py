"""Build v2 batches (Kafka's MemoryRecordsBuilder and DefaultRecordBatch.writeHeader).

The base timestamp is that of the first record, or the delete horizon; the max timestamp is the
largest, or the append time under LogAppendTime. An empty batch (the rest of a producer's last batch
after compaction) has base timestamp -1 and count 0.
"""

from collections.abc import Iterable
from typing import Final

from .batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER,
    TRANSACTIONAL_BIT,
    BatchHeader,
    update_crc,
)
from .compression import Compression, compress
from .control import EndTxnMarker
from .layout import HEADER_SIZE, LOG_OVERHEAD
from .loops.encode import encode_parts
from .loops.scan import NO_TIMESTAMP
from .record import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    SimpleRecord,
    TimestampType,
)

_MAGIC: Final = 2
_HEADER_ROOM: Final = bytes(HEADER_SIZE)


def build_batch(
    records: Iterable[SimpleRecord],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    log_append_time: int | None = None,
) -> bytearray:
    """One batch of ``records`` with consecutive offsets; ``log_append_time`` sets the type."""
    found = records if isinstance(records, list) else list(records)
    base_timestamp = max_timestamp = NO_TIMESTAMP
    parts: list[bytes] = [_HEADER_ROOM]
    if found:
        base_timestamp = found[0][0]
        max_timestamp = encode_parts(found, base_timestamp, parts)
    attributes = int(compression)
    if is_transactional:
        attributes |= TRANSACTIONAL_BIT
    if is_control:
        attributes |= CONTROL_BIT
    if log_append_time is not None:
        timestamp_type = TimestampType.LOG_APPEND_TIME
        max_timestamp = log_append_time
    attributes |= timestamp_type << 3
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=partition_leader_epoch,
        magic=_MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=max(len(found) - 1, 0),
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(found),
    )
    if compression is Compression.NONE:
        return _finish(bytearray().join(parts), header)  # the only copy of keys and values
    return assemble(header, b"".join(parts[1:]), level)


def assemble(header: BatchHeader, block: bytes, level: int | None = None) -> bytearray:
    """A batch of ``header`` around ``block`` (encoded records), compressed with the codec in
    ``header``.

    Length and CRC of the header are filled in here.
    """
    out = bytearray(HEADER_SIZE)
    codec = header.compression
    out += block if codec is Compression.NONE else compress(codec, block, level)
    return _finish(out, header)


def _finish(out: bytearray, header: BatchHeader) -> bytearray:
    HEADER.pack_into(out, 0, *header._replace(batch_length=len(out) - LOG_OVERHEAD))
    update_crc(out, 0)
    return out


def build_empty_batch(header: BatchHeader) -> bytearray:
    """The batch of ``header`` without any of its records."""
    assert header.magic == _MAGIC
    attributes = header.attributes & ~(7 | DELETE_HORIZON_BIT)
    return assemble(
        header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b""
    )


def build_end_txn_marker(
    marker: EndTxnMarker,
    *,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytearray:
    """The control batch of one record that ends a producer's transaction on a partition."""
    return build_batch(
        [SimpleRecord(timestamp, marker.key(), marker.value())],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
        partition_leader_epoch=partition_leader_epoch,
    )
