"""The dumb twin of protocol.records: one field at a time, one-shot decompressors, no shortcuts.

It shares no code with what it checks (not even the CRC-32C) and is only as fast as tests need. It
trusts its input: damage is the other tests' business.
"""

import gzip
import io
import struct
import zlib
from dataclasses import dataclass, field
from typing import Any

import lz4.block
import snappy
import zstandard


@dataclass
class DumbRecord:
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    sequence: int = -1


@dataclass
class DumbBatch:
    """A v2 batch, or one message-set entry with what it wraps."""

    magic: int
    fields: dict[str, int]
    records: list[DumbRecord]


class Cursor:
    def __init__(self, data: bytes) -> None:
        self.stream = io.BytesIO(data)
        self.size = len(data)

    def left(self) -> int:
        return self.size - self.stream.tell()

    def take(self, count: int) -> bytes:
        data = self.stream.read(count)
        assert len(data) == count
        return data

    def number(self, code: str) -> int:
        return int(struct.unpack(">" + code, self.take(struct.calcsize(code)))[0])

    def varint(self) -> int:
        bits = ""
        while True:
            byte = self.take(1)[0]
            bits = format(byte & 127, "07b") + bits
            if byte < 128:
                raw = int(bits, 2)
                return raw // 2 if raw % 2 == 0 else -(raw // 2) - 1

    def nullable(self, length: int) -> bytes | None:
        return None if length < 0 else self.take(length)


def dumb_varint(number: int) -> bytes:
    raw = number * 2 if number >= 0 else -number * 2 - 1
    groups = []
    while True:
        groups.append(raw % 128)
        raw //= 128
        if raw == 0:
            break
    return bytes(g + 128 for g in groups[:-1]) + bytes([groups[-1]])


def dumb_crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def dumb_decompress(codec: int, data: bytes) -> bytes:
    if codec == 1:
        return gzip.decompress(data)
    if codec == 2:
        return _dumb_snappy(data)
    if codec == 3:
        return _dumb_lz4(data)
    if codec == 4:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
            return reader.read()
    assert codec == 0
    return data


def _dumb_snappy(data: bytes) -> bytes:
    if not data.startswith(b"\x82SNAPPY\0"):
        return bytes(snappy.uncompress(data))
    cursor = Cursor(data)
    cursor.take(16)
    out = b""
    while cursor.left():
        out += snappy.uncompress(cursor.take(cursor.number("i")))
    return out


def _dumb_lz4(data: bytes) -> bytes:
    """Block by block; the header checksum is skipped, so v0's is as good as any."""
    assert data[:4] == b"\x04\x22\x4d\x18"
    flags = data[4]
    position = 7 + (8 if flags & 8 else 0)
    out = b""
    while True:
        size = int.from_bytes(data[position : position + 4], "little")
        position += 4
        if size == 0:
            return out
        block = data[position : position + (size & 0x7FFFFFFF)]
        position += len(block) + (4 if flags & 16 else 0)
        if size & 0x80000000:
            out += block
        else:
            out += lz4.block.decompress(block, uncompressed_size=4 << 20)


V2_FIELDS = [
    ("partition_leader_epoch", "i"),
    ("magic", "b"),
    ("crc", "I"),
    ("attributes", "h"),
    ("last_offset_delta", "i"),
    ("base_timestamp", "q"),
    ("max_timestamp", "q"),
    ("producer_id", "q"),
    ("producer_epoch", "h"),
    ("base_sequence", "i"),
    ("record_count", "i"),
]


def dumb_decode(data: bytes) -> list[DumbBatch]:
    """All batches and entries of a log, which must hold nothing else."""
    cursor = Cursor(bytes(data))
    batches = []
    while cursor.left():
        offset = cursor.number("q")
        body = cursor.take(cursor.number("i"))
        batches.append(_dumb_v2(offset, body) if body[4] == 2 else _dumb_entry(offset, body))
    return batches


def _dumb_v2(base_offset: int, body: bytes) -> DumbBatch:
    cursor = Cursor(body)
    fields = {"base_offset": base_offset, "batch_length": len(body)}
    for name, code in V2_FIELDS:
        fields[name] = cursor.number(code)
    assert fields["crc"] == dumb_crc32c(body[9:])
    block = Cursor(dumb_decompress(fields["attributes"] & 7, cursor.take(cursor.left())))
    records = [
        _dumb_record(Cursor(block.take(block.varint())), fields)
        for _ in range(fields["record_count"])
    ]
    assert block.left() == 0
    return DumbBatch(2, fields, records)


def _dumb_record(cursor: Cursor, fields: dict[str, int]) -> DumbRecord:
    assert cursor.number("b") == 0
    timestamp = fields["base_timestamp"] + cursor.varint()
    if fields["attributes"] & 8:
        timestamp = fields["max_timestamp"]
    delta = cursor.varint()
    key = cursor.nullable(cursor.varint())
    value = cursor.nullable(cursor.varint())
    headers = []
    for _ in range(cursor.varint()):
        name = cursor.take(cursor.varint()).decode()
        headers.append((name, cursor.nullable(cursor.varint())))
    assert cursor.left() == 0
    sequence = -1
    if fields["base_sequence"] != -1:
        sequence = (fields["base_sequence"] + delta) % 2**31
    return DumbRecord(fields["base_offset"] + delta, timestamp, key, value, headers, sequence)


def _dumb_entry(offset: int, body: bytes) -> DumbBatch:
    cursor = Cursor(body)
    assert cursor.number("I") == zlib.crc32(body[4:])
    magic = cursor.number("b")
    attributes = cursor.number("b")
    timestamp = cursor.number("q") if magic else -1
    key = cursor.nullable(cursor.number("i"))
    value = cursor.nullable(cursor.number("i"))
    assert cursor.left() == 0
    fields = {"offset": offset, "attributes": attributes, "timestamp": timestamp}
    if attributes & 7 == 0:
        return DumbBatch(magic, fields, [DumbRecord(offset, timestamp, key, value)])
    assert key is None
    assert value is not None
    inner = [b.records[0] for b in dumb_decode(dumb_decompress(attributes & 7, value))]
    if magic == 1:
        base = 0 if offset == 0 else offset - inner[-1].offset
        for record in inner:
            record.offset += base
            if attributes & 8:
                record.timestamp = timestamp
    return DumbBatch(magic, fields, inner)


def dumb_encode(fields: dict[str, int], records: list[DumbRecord]) -> bytes:
    """An uncompressed v2 batch of ``records``; length, CRC, count and magic are filled in."""
    block = b""
    for record in records:
        body = b"\0" + dumb_varint(record.timestamp - fields["base_timestamp"])
        body += dumb_varint(record.offset - fields["base_offset"])
        for part in (record.key, record.value):
            body += dumb_varint(-1) if part is None else dumb_varint(len(part)) + part
        body += dumb_varint(len(record.headers))
        for name, value in record.headers:
            body += dumb_varint(len(name.encode())) + name.encode()
            body += dumb_varint(-1) if value is None else dumb_varint(len(value)) + value
        block += dumb_varint(len(body)) + body
    known: dict[str, Any] = {**fields, "magic": 2, "record_count": len(records)}
    tail = b"".join(struct.pack(">" + code, known[name]) for name, code in V2_FIELDS[3:]) + block
    head = struct.pack(">ibI", known["partition_leader_epoch"], 2, dumb_crc32c(tail))
    return struct.pack(">qi", known["base_offset"], len(head + tail)) + head + tail
