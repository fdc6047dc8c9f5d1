"""Record batches as opaque bytes: read the header, check the CRC, write offset and epoch in place.

Mirrors Kafka's DefaultRecordBatch and ByteBufferLogInputStream. This is the hot path: a header is
one ``unpack_from`` of 61 bytes into a tuple, the CRC runs over a view, and no record is read. The
record iterators at the end are for callers that need records.

``BatchHeader`` also describes an entry of a v0/v1 message set, so that one loop walks a log of any
magic. There ``base_offset`` is the entry's offset (the *last* one of a wrapper; its first is known
only after decompression), ``record_count`` is 1, or -1 for a wrapper, ``last_offset_delta`` is 0,
and the fields that v0/v1 lack hold their "none" values.
"""

import struct
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

import crc32c

from ..errors import InvalidRecord, ProtocolError
from ..primitives import Buffer
from .compression import (
    MAX_DECOMPRESSED_BYTES,
    Compression,
    compression_of,
    decompress,
)
from .control import ControlRecordType, EndTxnMarker, parse_control_record_type
from .layout import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_SIZE,
    LEADER_EPOCH_POSITION,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    OLD_TIMESTAMP_POSITION,
)
from .loops.scan import NO_TIMESTAMP
from .message_set import MIN_MESSAGE_BYTES, message_crc_is_valid, read_message
from .record import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Record,
    SimpleRecord,
    TimestampType,
    decode_records,
    decrement_sequence,
    increment_sequence,
)

__all__ = [
    "NO_PARTITION_LEADER_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "BatchHeader",
    "Compression",
    "ControlRecordType",
    "EndTxnMarker",
    "InvalidRecord",
    "Record",
    "SimpleRecord",
    "TimestampType",
    "assign_offset_and_epoch",
    "crc_is_valid",
    "decrement_sequence",
    "increment_sequence",
    "iter_batch_headers",
    "iter_records",
    "parse_control_record_type",
    "read_batch_header",
    "read_records",
    "records_block",
    "set_max_timestamp",
    "update_crc",
]

TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

HEADER: Final = Struct(">qiibIhiqqqhii")
assert HEADER.size == HEADER_SIZE

_LEGACY: Final = Struct(">qiIbb")
_INT64: Final = Struct(">q")
_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_INT16: Final = Struct(">h")
_MIN_V2_LENGTH: Final = HEADER_SIZE - LOG_OVERHEAD

_unpack_header: Final = HEADER.unpack_from
_pack_int64: Final = _INT64.pack_into
_pack_int32: Final = _INT32.pack_into


class BatchHeader(NamedTuple):
    """The fields of a v2 batch in wire order; see the module for v0/v1."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_in_bytes(self) -> int:
        return LOG_OVERHEAD + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> Compression:
        """ProtocolError if the attributes name no codec."""
        return compression_of(self.attributes)

    @property
    def is_compressed(self) -> bool:
        return self.attributes & 7 != 0

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & TIMESTAMP_TYPE_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON_BIT != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may drop this batch's tombstones; stored in place of the base time."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID


def read_batch_header(buffer: Buffer, offset: int = 0) -> BatchHeader:
    """The header at ``offset``. The batch itself need not be in the buffer whole."""
    try:
        fields = _unpack_header(buffer, offset)
    except struct.error:
        return _read_short_header(buffer, offset)
    if fields[3] != 2:
        return _read_legacy_header(buffer, offset)
    if fields[1] < _MIN_V2_LENGTH:
        raise ProtocolError(f"a batch length of {fields[1]} is smaller than any")
    return tuple.__new__(BatchHeader, fields)


def _read_short_header(buffer: Buffer, offset: int) -> BatchHeader:
    """Fewer than 61 bytes are left: a small v0/v1 entry, or a batch cut short."""
    if 0 <= offset <= len(buffer) - _LEGACY.size and buffer[offset + MAGIC_POSITION] in (0, 1):
        return _read_legacy_header(buffer, offset)
    raise ProtocolError(f"a batch header is cut short after {len(buffer) - offset} bytes")


def _read_legacy_header(buffer: Buffer, offset: int) -> BatchHeader:
    base_offset, size, crc, magic, attributes = _LEGACY.unpack_from(buffer, offset)
    if not 0 <= magic <= 1:
        raise ProtocolError(f"unknown magic {magic}")
    if size < MIN_MESSAGE_BYTES[magic]:
        raise ProtocolError(f"a message of {size} bytes is smaller than any")
    timestamp = NO_TIMESTAMP
    if magic == 0:
        attributes &= 0x07
    else:
        attributes &= 0x0F
        if offset + OLD_TIMESTAMP_POSITION + 8 > len(buffer):
            raise ProtocolError("a message header is cut short")
        timestamp = _INT64.unpack_from(buffer, offset + OLD_TIMESTAMP_POSITION)[0]
    return BatchHeader(
        base_offset=base_offset,
        batch_length=size,
        partition_leader_epoch=NO_PARTITION_LEADER_EPOCH,
        magic=magic,
        crc=crc,
        attributes=attributes,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=-1 if attributes & 7 else 1,
    )


def iter_batch_headers(
    buffer: Buffer, offset: int = 0, *, allow_partial_tail: bool = True
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each complete batch from ``offset`` on.

    A batch that is cut short at the end is left out, or is an error without ``allow_partial_tail``.
    """
    end = len(buffer)
    while offset < end:
        if end - offset < LOG_OVERHEAD:
            break
        size = LOG_OVERHEAD + _INT32.unpack_from(buffer, offset + 8)[0]
        if size < LOG_OVERHEAD + MIN_MESSAGE_BYTES[0]:
            raise ProtocolError(f"a batch of {size} bytes is smaller than any")
        if size > end - offset:
            break
        yield offset, read_batch_header(buffer, offset)
        offset += size
    if offset < end and not allow_partial_tail:
        raise ProtocolError(f"a batch is cut short after {end - offset} bytes")


def crc_is_valid(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the batch at ``position`` is all there and its CRC is right; copies nothing."""
    end = position + LOG_OVERHEAD + header.batch_length
    if header.magic < 2:
        return message_crc_is_valid(buffer, position, header.batch_length, header.crc)
    if end > len(buffer):
        return False
    crc: int = crc32c.crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : end])
    return crc == header.crc


def assign_offset_and_epoch(
    buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int
) -> None:
    """Write both in place; the CRC covers neither."""
    _pack_int64(buffer, position, base_offset)
    _pack_int32(buffer, position + LEADER_EPOCH_POSITION, leader_epoch)


def set_max_timestamp(
    buffer: bytearray | memoryview, position: int, kind: TimestampType, max_timestamp: int
) -> None:
    """Write type and max timestamp of a whole v2 batch in place, and its CRC if they changed."""
    attributes: int = _INT16.unpack_from(buffer, position + ATTRIBUTES_POSITION)[0]
    wanted = attributes & ~TIMESTAMP_TYPE_BIT | kind << 3
    current: int = _INT64.unpack_from(buffer, position + MAX_TIMESTAMP_POSITION)[0]
    if wanted == attributes and current == max_timestamp:
        return
    _INT16.pack_into(buffer, position + ATTRIBUTES_POSITION, wanted)
    _INT64.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, max_timestamp)
    update_crc(buffer, position)


def update_crc(buffer: bytearray | memoryview, position: int) -> None:
    """Recompute the CRC of the v2 batch at ``position``."""
    length: int = _INT32.unpack_from(buffer, position + 8)[0]
    end = position + LOG_OVERHEAD + length
    assert position + HEADER_SIZE <= end <= len(buffer)
    crc = crc32c.crc32c(memoryview(buffer)[position + ATTRIBUTES_POSITION : end])
    _UINT32.pack_into(buffer, position + CRC_POSITION, crc)


def records_block(
    buffer: Buffer, position: int, header: BatchHeader, *, max_decompressed_bytes: int
) -> bytes:
    """The records of the v2 batch at ``position``, decompressed, still encoded."""
    end = position + header.size_in_bytes
    if end > len(buffer):
        raise ProtocolError(f"a batch is {end - len(buffer)} bytes short")
    block = memoryview(buffer)[position + HEADER_SIZE : end]
    if not header.is_compressed:
        return bytes(block)
    return decompress(header.compression, block, max_bytes=max_decompressed_bytes)


def iter_records(
    buffer: Buffer, position: int = 0, *, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """The records of the batch at ``position``, of any magic. The CRC is not checked."""
    header = read_batch_header(buffer, position)
    if header.magic < 2:
        return iter(read_message(buffer, position, max_decompressed_bytes=max_decompressed_bytes))
    if header.record_count == 0:
        return iter(())
    log_append = header.attributes & TIMESTAMP_TYPE_BIT
    return decode_records(
        records_block(buffer, position, header, max_decompressed_bytes=max_decompressed_bytes),
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.base_sequence,
        header.max_timestamp if log_append else None,
    )


def read_records(
    buffer: Buffer, *, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """All records of all complete batches, control records left out as clients leave them out."""
    for position, header in iter_batch_headers(buffer):
        if not header.is_control:
            yield from iter_records(buffer, position, max_decompressed_bytes=max_decompressed_bytes)
