"""Columns and the scan beside the dumb twin, which reads a field at a time: the same records, the
same verdict on damage."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pybroker_kafka.protocol.errors import InvalidRecord, ProtocolError
from pybroker_kafka.protocol.records.batch import (
    Record,
    SimpleRecord,
    iter_batch_headers,
    read_batch_header,
    read_records,
    records_block,
    update_crc,
)
from pybroker_kafka.protocol.records.builder import (
    build_batch,
    build_empty_batch,
    build_end_txn_marker,
)
from pybroker_kafka.protocol.records.columns import RecordColumns, decode_columns
from pybroker_kafka.protocol.records.compression import Compression
from pybroker_kafka.protocol.records.control import ControlRecordType, EndTxnMarker
from pybroker_kafka.protocol.records.loops.places import contents_at
from pybroker_kafka.protocol.records.loops.scan import RecordScan
from pybroker_kafka.protocol.records.loops.small_batch import CHECKED_FROM, is_plain_and_whole
from pybroker_kafka.protocol.records.scanning import scan_batch, scan_block
from tests.support.conversions import build_message_set
from tests.support.dumb_records import Cursor, dumb_decode, dumb_varint
from tests.support.record_strategies import codecs, legacy_codecs, offsets, record_lists, timestamps

BASE_TIMESTAMP = 1_700_000_000_000


def objects(columns: RecordColumns) -> list[Record]:
    return [record._replace(headers=list(record.headers)) for record in columns.records()]


def expected(fetched: bytes) -> list[Record]:
    """What the twin reads, without what control batches hold."""
    return [
        Record(r.offset, r.timestamp, r.key, r.value, r.headers)
        for batch in dumb_decode(fetched)
        if not batch.fields["attributes"] & 0x20
        for r in batch.records
    ]


@st.composite
def fetches(draw: st.DrawFn) -> bytes:
    """Batches of all formats one after the other, at growing offsets."""
    fetched = b""
    offset = draw(offsets)
    for _ in range(draw(st.integers(0, 4))):
        records = draw(record_lists)
        match draw(st.integers(0, 6)):
            case 0:
                marker = EndTxnMarker(ControlRecordType.COMMIT, 3)
                fetched += build_end_txn_marker(
                    marker, timestamp=5, producer_id=7, producer_epoch=1, base_offset=offset
                )
            case 1:
                batch = build_batch(records, base_offset=offset)
                fetched += build_empty_batch(read_batch_header(batch))
            case 2:
                fetched += build_message_set(
                    records,
                    magic=draw(st.sampled_from([0, 1])),
                    base_offset=offset,
                    compression=draw(legacy_codecs),
                )
            case _:
                fetched += build_batch(
                    records,
                    base_offset=offset,
                    compression=draw(codecs),
                    producer_id=draw(st.sampled_from([-1, 7])),
                    log_append_time=draw(st.none() | timestamps),
                )
        offset += len(records) + draw(st.integers(0, 3))
    return fetched


@given(fetches(), st.integers(0, 20), st.booleans())
def test_columns_hold_what_was_fetched(fetched: bytes, cut: int, as_view: bool) -> None:
    given_bytes = memoryview(bytearray(fetched)) if as_view else fetched
    columns = decode_columns(given_bytes, check_crcs=True)
    assert objects(columns) == expected(fetched)
    assert [batch.header for batch in columns.batches] == [
        h for _, h in iter_batch_headers(fetched)
    ]
    first = 0
    for batch in columns.batches:
        assert batch.first == first <= batch.end
        first = batch.end
        control = batch.header.is_control
        assert batch.control == (ControlRecordType.COMMIT if control else None)
    assert first == len(columns)
    whole = len(columns.batches)
    assert len(decode_columns(fetched[: len(fetched) - cut]).batches) >= (whole - 1 if whole else 0)


@given(fetches())
def test_contents_of_all_rows_are_those_of_each(fetched: bytes) -> None:
    columns = decode_columns(fetched)
    keys = contents_at(columns.data, columns.key_starts, columns.key_lengths)
    values = contents_at(columns.data, columns.value_starts, columns.value_lengths)
    assert keys == [columns.key(row) for row in range(len(columns))]
    assert values == [columns.value(row) for row in range(len(columns))]


@given(record_lists, offsets, st.integers(0, 20))
def test_rows_begin_at_an_offset(records: list[SimpleRecord], base: int, asked: int) -> None:
    columns = decode_columns(bytes(build_batch(records, base_offset=base)))
    row = columns.first_row(base + asked)
    assert row == min(asked, len(records))


def test_a_plain_fetch_is_not_copied() -> None:
    fetched = bytes(build_batch([SimpleRecord(1, b"k", b"v")])) * 2
    assert decode_columns(fetched).data is fetched


def test_a_wrong_crc() -> None:
    batch = bytearray(build_batch([SimpleRecord(1, b"k", b"v")]))
    batch[-2] ^= 1
    assert len(decode_columns(bytes(batch))) == 1
    with pytest.raises(ProtocolError, match="wrong CRC"):
        decode_columns(bytes(batch), check_crcs=True)


def test_all_batches_together_have_a_limit() -> None:
    batch = bytes(build_batch([SimpleRecord(1, b"k", bytes(5000))], compression=Compression.LZ4))
    assert len(decode_columns(batch * 2, max_decompressed_bytes=11_000)) == 2
    with pytest.raises(ProtocolError, match="more than"):
        decode_columns(batch * 3, max_decompressed_bytes=11_000)


class Bad(Exception):
    """The twin's word for it."""


def twin(block: bytes, count: int, base: int) -> list[tuple[int, int, bool]]:
    """(timestamp, offset delta, has key) of each record, or Bad: one field after the other."""
    cursor = Cursor(block)
    found = []
    for _ in range(count):
        size = number(cursor, 5, 32)
        start = cursor.stream.tell()
        if size < 0 or size > cursor.left():
            raise Bad
        some(cursor, 1)
        time = base + number(cursor, 10, 64)
        time = (time + 2**63) % 2**64 - 2**63
        delta = number(cursor, 5, 32)
        key = number(cursor, 5, 32)
        some(cursor, max(key, 0))
        some(cursor, max(number(cursor, 5, 32), 0))
        headers = number(cursor, 5, 32)
        if headers < 0 or headers > cursor.left():
            raise Bad
        for _ in range(headers):
            name = number(cursor, 5, 32)
            if name < 0:
                raise Bad
            some(cursor, name)
            some(cursor, max(number(cursor, 5, 32), 0))
        if cursor.stream.tell() - start != size:
            raise Bad
        found.append((time, delta, key >= 0))
    if cursor.left():
        raise Bad
    return found


def some(cursor: Cursor, count: int) -> bytes:
    if count > cursor.left():
        raise Bad
    return cursor.take(count)


def number(cursor: Cursor, most: int, bits: int) -> int:
    """A zigzag number of at most so many bytes, what is past its width dropped."""
    raw = 0
    for place in range(most):
        (byte,) = some(cursor, 1)
        raw |= (byte % 128) << 7 * place
        if byte < 128:
            raw &= (1 << bits) - 1
            return raw // 2 if raw % 2 == 0 else -(raw // 2) - 1
    raise Bad


def block_of(records: list[SimpleRecord]) -> bytes:
    batch = build_batch(records)
    return records_block(batch, 0, read_batch_header(batch), max_decompressed_bytes=1 << 30)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[bytes, int]:
    """A block and how many records it is said to hold; at times changed, cut or longer."""
    records = draw(record_lists)
    block = bytearray(block_of(records))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, min(len(block) - 1, draw(st.sampled_from([20, 10_000])))))
        match draw(st.integers(0, 2)):
            case 0:
                block[at] = draw(st.integers(0, 255))
            case 1:
                block[at:at] = draw(st.binary(max_size=12))
            case _:
                del block[at : at + draw(st.integers(1, 12))]
        if not block:
            break
    return bytes(block), len(records) + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))


WIDE = b"\xff" * 9 + b"\x01"  # the smallest int64
HUGE = dumb_varint(2**31 - 1)


@given(damaged(), st.sampled_from([BASE_TIMESTAMP, 0, -1, 2**63 - 1, -(2**63)]), st.integers(1, 3))
@example((b"\xff" * 40, 1), 0, 1)
@example((b"\x1e\0" + WIDE + b"\0\x01\x01\0", 1), -(2**63), 1)
@example((b"\x1e\0" + WIDE + b"\0\x01\x01\0", 1), 2**63 - 1, 1)
@example((b"\x14\0\0\0" + HUGE + b"\x01\0", 1), 0, 1)
@example((b"\x14\0\0\0\x01" + HUGE + b"\0", 1), 0, 1)
@example((b"\x14\0\0\0\x01\x01" + HUGE, 1), 0, 1)
@example((b"\x0e\0\0\x80\0\x01\x01\0", 1), 0, 1)
def test_the_same_verdict(case: tuple[bytes, int], base: int, steps: int) -> None:
    block, count = case
    try:
        found = twin(block, count, base)
    except Bad:
        with pytest.raises(InvalidRecord):
            scan_block(block, count, base)
        with pytest.raises(InvalidRecord):
            scanned(block, count, base, steps, 8 * steps)
        with pytest.raises(InvalidRecord):
            decode_columns(batch_around(block, count, base))
        return
    scan = scanned(block, count, base, steps, 8 * steps)
    assert told(scan) == told(scan_block(block, count, base))
    times = [time for time, _, _ in found]
    assert scan.highest == max(times, default=-(2**63))
    assert scan.lowest == min((time for time in times if time != -1), default=2**63 - 1)
    assert scan.keyless == sum(not has_key for _, _, has_key in found)
    assert scan.in_order == ([delta for _, delta, _ in found] == list(range(count)))
    fetched = batch_around(block, count, base)
    columns = decode_columns(fetched)
    assert list(columns.timestamps) == times
    assert list(columns.offsets) == [delta for _, delta, _ in found]
    assert [length >= 0 for length in columns.key_lengths] == [has_key for _, _, has_key in found]
    assert list(columns.records()) == [r._replace(sequence=-1) for r in read_records(fetched)]


int64s = st.one_of(st.sampled_from([-(2**63), -1, 0, 2**63 - 1]), st.integers(-(2**63), 2**63 - 1))


@given(
    damaged(),
    st.sampled_from([BASE_TIMESTAMP, 0, -1, 2**63 - 1, -(2**63)]),
    st.one_of(st.none(), int64s),
    st.sampled_from([0, 0, 0, 1, -1, 2**31 - 1]),
    st.sampled_from([0, 0, 0, 0x10, 1, 4, 8, 0x20, 0x40, 0x7F00]),
    st.sampled_from([(-1, -1), (7, 0), (7, -1), (2**62, 2**31 - 1), (-1, 3)]),
)
@example((b"\xff" * 40, 1), 0, None, 0, 0, (-1, -1))
@example((b"\x14\0\0\0" + HUGE + b"\x01\0", 1), 0, None, 0, 0, (-1, -1))
@example((b"\x0e\0\0\0\x01\x01\0" + b"\0" * 40, 1), 0, 0, 0, 0, (-1, -1))
def test_the_same_verdict_on_a_small_batch(
    case: tuple[bytes, int],
    base: int,
    highest: int | None,
    surplus: int,
    attributes: int,
    producer: tuple[int, int],
) -> None:
    """Where `highest` is None the header says what the records do."""
    block, count = case
    producer_id, sequence = producer
    try:
        times = [time for time, _, _ in twin(block, count, base)]
        is_good = bool(times)
    except Bad:
        times, is_good = [], False
    largest = max(times, default=0)
    if highest is None:
        highest = largest
    last_delta = min(count - 1 + surplus, 2**31 - 1)
    batch = bytearray(batch_around(block, count, base))
    struct.pack_into(">hi", batch, 21, attributes, last_delta)
    struct.pack_into(">q", batch, 35, highest)
    struct.pack_into(">q", batch, 43, producer_id)
    struct.pack_into(">i", batch, 53, sequence)
    assert is_plain_and_whole(bytes(batch[CHECKED_FROM:])) == (
        is_good
        and highest == largest
        and last_delta == count - 1
        and attributes & 0x6F == 0
        and (producer_id < 0 or sequence >= 0)
    )


def told(scan: RecordScan) -> tuple[object, ...]:
    return scan.highest, scan.lowest, scan.keyless, scan.in_order


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("sizes", [[10] * 60_000, [300_000, 5, 200_000], [1000] * 700], ids=len)
def test_batches_of_many_pieces(codec: Compression, sizes: list[int]) -> None:
    records = [
        SimpleRecord(BASE_TIMESTAMP + n, b"k%d" % n, b"v" * size, [("h", b"x" * (size // 3))])
        for n, size in enumerate(sizes)
    ]
    batch = build_batch(records, compression=codec)
    header = read_batch_header(batch)
    scan = scan_batch(batch, 0, header, max_decompressed_bytes=1 << 24)
    last = BASE_TIMESTAMP + len(sizes) - 1
    assert told(scan) == (last, BASE_TIMESTAMP, 0, True)
    for wrong in (header.record_count - 1, header.record_count + 1):
        with pytest.raises(InvalidRecord):
            scan_batch(
                batch, 0, header._replace(record_count=wrong), max_decompressed_bytes=1 << 24
            )


def scanned(block: bytes, count: int, base: int, steps: int, piece: int = 1 << 20) -> RecordScan:
    """The block in pieces, each in portions of so many steps."""
    scan = RecordScan(count, base)
    position = 0
    while True:
        end = min(len(block), position + max(piece, scan.wanted))
        scan.take(block[position:end], end == len(block))
        while scan.advance(steps):
            pass
        if end == len(block):
            return scan
        position += scan.position


def batch_around(block: bytes, count: int, base: int) -> bytes:
    batch = bytearray(build_batch([SimpleRecord(0, None, None)])[:61]) + block
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">q", batch, 27, base)
    struct.pack_into(">i", batch, 57, count)
    update_crc(batch, 0)
    return bytes(batch)
