"""Message sets of magic 0 and 1: entries of (offset, size, message), plain or wrappers.

Mirrors Kafka's LegacyRecord and AbstractLegacyRecordBatch (KIP-31 relative offsets, KIP-32
timestamps). A compressed message is a wrapper: its value holds the entries.

- v0: inner offsets are absolute. v1: they are relative and the wrapper's offset is that of its last
  message; a wrapper offset of 0 means base 0 (old librdkafka).
- v1 with LogAppendTime: every inner message has the wrapper's timestamp. With CreateTime the
  wrapper's timestamp is the largest inside.
- Inner entries are uncompressed and of the wrapper's magic. A partial entry at the end of a
  wrapper is ignored, as Kafka ignores it.
- The CRC is zlib's, over magic to the end. Inner CRCs are checked only where asked for.
"""

import zlib
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from ..errors import InvalidRecord, ProtocolError
from ..primitives import Buffer
from .compression import (
    MAX_DECOMPRESSED_BYTES,
    Compression,
    UnpacksTooLarge,
    compress,
    compression_of,
    decompress,
)
from .layout import LOG_OVERHEAD, MAGIC_POSITION, OLD_ATTRIBUTES_POSITION, OLD_TIMESTAMP_POSITION
from .loops.scan import NO_TIMESTAMP
from .loops.varint import MAX_INT64
from .record import Record, TimestampType

MIN_MESSAGE_BYTES: Final = (14, 22)

_TIMESTAMP_TYPE_BIT: Final = 8

_ENTRY = Struct(">qiIbb")  # offset, size, crc, magic, attributes
_ENTRY_HEAD = Struct(">qiI")
_INT64 = Struct(">q")
_V1_HEAD = Struct(">bbq")  # magic, attributes, timestamp
_NULL: Final = b"\xff\xff\xff\xff"
_INT32 = Struct(">i")
_UINT32 = Struct(">I")
_KEY_OFFSET: Final = (18, 26)


def message_crc_is_valid(buffer: Buffer, position: int, size: int, crc: int) -> bool:
    """Whether ``crc`` is that of the message at ``position``, whose size field says ``size``."""
    end = position + LOG_OVERHEAD + size
    return (
        end <= len(buffer)
        and zlib.crc32(memoryview(buffer)[position + MAGIC_POSITION : end]) == crc
    )


def read_message(
    buffer: Buffer,
    position: int = 0,
    *,
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    max_records: int | None = None,
    check_inner_crc: bool = False,
) -> list[Record]:
    """The records of the entry at ``position``: one, or those inside its wrapper."""
    view = memoryview(buffer)
    size = _complete_entry_size(view, position)
    offset, _, _, magic, attributes = _ENTRY.unpack_from(view, position)
    record = _read_plain(view[position : position + LOG_OVERHEAD + size])
    codec = compression_of(attributes)
    if codec is Compression.NONE:
        return [record]
    inner: list[Record] = []
    for entry in _complete_entries(_unwrapped(record, codec, magic, max_decompressed_bytes)):
        if len(inner) == max_records:
            raise UnpacksTooLarge(f"a compressed message holds more than {max_records} messages")
        inner.append(_read_inner(entry, magic, check_inner_crc=check_inner_crc))
    if not inner:
        raise InvalidRecord("a compressed message holds no messages")
    if magic == 0:
        return inner
    base = 0
    if offset != 0:
        base = offset - inner[-1].offset
        if base < 0:
            raise InvalidRecord(f"wrapper offset {offset} is below its last inner offset")
    if base + max(r.offset for r in inner) > MAX_INT64:
        raise InvalidRecord("inner offsets do not fit")
    if attributes & _TIMESTAMP_TYPE_BIT:
        return [r._replace(offset=base + r.offset, timestamp=record.timestamp) for r in inner]
    return [r._replace(offset=base + r.offset) for r in inner]


def inner_checksums(
    buffer: Buffer, position: int, *, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
) -> list[tuple[int, bool]]:
    """The CRC of each message of the entry at ``position``, and whether it is right."""
    view = memoryview(buffer)
    size = _complete_entry_size(view, position)
    _, _, _, magic, attributes = _ENTRY.unpack_from(view, position)
    entry = view[position : position + LOG_OVERHEAD + size]
    codec = compression_of(attributes)
    inside = [entry]
    if codec is not Compression.NONE:
        data = _unwrapped(_read_plain(entry), codec, magic, max_decompressed_bytes)
        inside = list(_complete_entries(data))
    found = []
    for message in inside:
        _, length, crc = _ENTRY_HEAD.unpack_from(message)
        found.append((crc, message_crc_is_valid(message, 0, length, crc)))
    return found


def _unwrapped(record: Record, codec: Compression, magic: int, max_bytes: int) -> memoryview:
    """The entries inside of a wrapper."""
    if codec is Compression.ZSTD:
        raise InvalidRecord("zstd is not part of message formats v0 and v1")
    if record.value is None:
        raise InvalidRecord("a compressed message has no value")
    return memoryview(decompress(codec, record.value, max_bytes=max_bytes, magic=magic))


def _complete_entry_size(view: memoryview, position: int) -> int:
    if position + _ENTRY.size > len(view):
        raise ProtocolError("a message is cut short")
    size: int = _INT32.unpack_from(view, position + 8)[0]
    magic = view[position + MAGIC_POSITION]
    if magic > 1:
        raise ProtocolError(f"magic {magic} in a message set")
    if size < MIN_MESSAGE_BYTES[magic]:
        raise ProtocolError(f"a message of {size} bytes is smaller than any")
    if position + LOG_OVERHEAD + size > len(view):
        raise ProtocolError("a message is cut short")
    return size


def _complete_entries(view: memoryview) -> Iterator[memoryview]:
    position, end = 0, len(view)
    while end - position >= LOG_OVERHEAD:
        size: int = _INT32.unpack_from(view, position + 8)[0]
        if size < MIN_MESSAGE_BYTES[0]:
            raise ProtocolError(f"an inner message of {size} bytes is smaller than any")
        entry_end = position + LOG_OVERHEAD + size
        if entry_end > end:
            return
        yield view[position:entry_end]
        position = entry_end


def _read_inner(entry: memoryview, magic: int, *, check_inner_crc: bool) -> Record:
    if entry[MAGIC_POSITION] != magic:
        raise InvalidRecord(f"magic {entry[MAGIC_POSITION]} inside a wrapper of magic {magic}")
    if entry[OLD_ATTRIBUTES_POSITION] & 7:
        raise InvalidRecord("a compressed message inside a compressed message")
    if check_inner_crc:
        _, size, crc = _ENTRY_HEAD.unpack_from(entry)
        if not message_crc_is_valid(entry, 0, size, crc):
            raise ProtocolError("an inner message has a wrong CRC")
    return _read_plain(entry)


def _read_plain(entry: memoryview) -> Record:
    """One complete entry, taken as if it were not compressed."""
    magic = entry[MAGIC_POSITION]
    if len(entry) - LOG_OVERHEAD < MIN_MESSAGE_BYTES[magic]:
        raise ProtocolError(f"a message of {len(entry)} bytes is smaller than any")
    timestamp = NO_TIMESTAMP
    if magic == 1:
        timestamp = _INT64.unpack_from(entry, OLD_TIMESTAMP_POSITION)[0]
    key, position = _read_field(entry, _KEY_OFFSET[magic])
    value, _ = _read_field(entry, position)
    return Record(_INT64.unpack_from(entry, 0)[0], timestamp, key, value)


def _read_field(entry: memoryview, position: int) -> tuple[bytes | None, int]:
    if position + 4 > len(entry):
        raise InvalidRecord("a message's field is cut short")
    length: int = _INT32.unpack_from(entry, position)[0]
    position += 4
    if length < 0:
        return None, position
    if length > len(entry) - position:
        raise InvalidRecord(f"a field of {length} bytes has {len(entry) - position} left")
    return bytes(entry[position : position + length]), position + length


def set_offset(buffer: bytearray | memoryview, position: int, offset: int) -> None:
    """Write the offset of an entry in place; the CRC does not cover it."""
    _INT64.pack_into(buffer, position, offset)


def set_message_timestamp(
    buffer: bytearray | memoryview, position: int, kind: TimestampType, timestamp: int
) -> None:
    """Write time and its type of the whole v1 entry in place, and its CRC if they changed."""
    _, size, _, magic, attributes = _ENTRY.unpack_from(buffer, position)
    assert magic == 1
    wanted = attributes & 7 | kind << 3
    current: int = _INT64.unpack_from(buffer, position + OLD_TIMESTAMP_POSITION)[0]
    if wanted & 8 == attributes & 8 and current == timestamp:
        return
    buffer[position + OLD_ATTRIBUTES_POSITION] = wanted
    _INT64.pack_into(buffer, position + OLD_TIMESTAMP_POSITION, timestamp)
    end = position + LOG_OVERHEAD + size
    crc = zlib.crc32(memoryview(buffer)[position + MAGIC_POSITION : end])
    _UINT32.pack_into(buffer, position + LOG_OVERHEAD, crc)


def encode_message_set(
    records: Sequence[Record],
    *,
    magic: int,
    compression: Compression = Compression.NONE,
    level: int | None = None,
    log_append_time: int | None = None,
) -> bytearray:
    """A message set of records at the offsets that they have: one wrapper if compressed.

    Headers are dropped.
    """
    assert magic in (0, 1)
    assert compression is not Compression.ZSTD, "zstd exists only in v2 batches"
    if not records:
        return bytearray()
    kind = TimestampType.CREATE_TIME if log_append_time is None else TimestampType.LOG_APPEND_TIME
    compressed = compression is not Compression.NONE
    base = records[0].offset if compressed and magic == 1 else 0
    head = b"\0\0"
    out = bytearray()
    for offset, timestamp, key, value, _, _ in records:
        if magic:
            head = _V1_HEAD.pack(1, kind << 3, timestamp if kind == 0 else log_append_time)
        body = (
            head
            + (_NULL if key is None else _INT32.pack(len(key)) + key)
            + (_NULL if value is None else _INT32.pack(len(value)) + value)
        )
        out += _ENTRY_HEAD.pack(offset - base, len(body) + 4, zlib.crc32(body))
        out += body
    if not compressed:
        return out
    if log_append_time is None:
        log_append_time = max(record.timestamp for record in records)
    payload = compress(compression, out, level, magic=magic)
    return _wrapper(records[-1].offset, magic, compression | kind << 3, log_append_time, payload)


def _wrapper(offset: int, magic: int, attributes: int, timestamp: int, payload: bytes) -> bytearray:
    """The message around ``payload``; v0 has neither time nor its type."""
    head = bytes([0, attributes & 7]) if magic == 0 else _V1_HEAD.pack(1, attributes, timestamp)
    body = head + _NULL + _INT32.pack(len(payload)) + payload
    return bytearray(_ENTRY_HEAD.pack(offset, len(body) + 4, zlib.crc32(body)) + body)
