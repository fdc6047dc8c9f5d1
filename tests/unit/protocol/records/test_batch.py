"""v2 batches: headers, iteration, in-place changes, control batches, rebuilding."""

import struct
from struct import Struct

import pytest

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.records import layout
from pybroker_kafka.protocol.records.batch import (
    HEADER,
    ControlRecordType,
    EndTxnMarker,
    InvalidRecord,
    Record,
    SimpleRecord,
    TimestampType,
    assign_offset_and_epoch,
    crc_is_valid,
    decrement_sequence,
    increment_sequence,
    iter_batch_headers,
    iter_records,
    parse_control_record_type,
    read_batch_header,
    read_records,
    set_max_timestamp,
    update_crc,
)
from pybroker_kafka.protocol.records.builder import (
    assemble,
    build_batch,
    build_empty_batch,
    build_end_txn_marker,
)
from pybroker_kafka.protocol.records.compression import Compression
from pybroker_kafka.protocol.records.layout import HEADER_SIZE
from tests.support.conversions import build_message_set, rebuild
from tests.support.dumb_records import dumb_decode

RECORDS = [
    SimpleRecord(1000, b"a", b"1", [("h", b"x"), ("h", None)]),
    SimpleRecord(1010, None, b"2"),
    SimpleRecord(1005, b"c", None),
]


def make(**options: object) -> bytearray:
    return build_batch(RECORDS, **options)  # type: ignore[arg-type]


def test_header_properties() -> None:
    batch = make(
        base_offset=10,
        compression=Compression.LZ4,
        producer_id=7,
        producer_epoch=2,
        base_sequence=2**31 - 2,
        is_transactional=True,
        partition_leader_epoch=4,
    )
    header = read_batch_header(b"xx" + batch, 2)
    assert header.size_in_bytes == len(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (10, 12, 13)
    assert header.last_sequence == 0
    assert header.compression is Compression.LZ4
    assert header.is_compressed
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert (header.base_timestamp, header.max_timestamp) == (1000, 1010)
    assert header.is_transactional
    assert not header.is_control
    assert not header.has_delete_horizon
    assert header.delete_horizon_ms is None
    assert header.has_producer_id
    plain = read_batch_header(make())
    assert not plain.has_producer_id
    assert plain.last_sequence == -1


def test_sequences_wrap() -> None:
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(2**31 - 3, 5) == 2
    assert decrement_sequence(0, 1) == 2**31 - 1
    assert decrement_sequence(2, 5) == 2**31 - 3


def test_headers_that_cannot_be() -> None:
    batch = make()
    for length in range(HEADER_SIZE):
        with pytest.raises(ProtocolError):
            read_batch_header(batch[:length])
    for magic in (3, 127, 255):
        batch[16] = magic
        with pytest.raises(ProtocolError, match="magic"):
            read_batch_header(batch)
    batch[16] = 2
    for size in (48, 0, -1, -(2**31)):
        struct.pack_into(">i", batch, 8, size)
        with pytest.raises(ProtocolError, match="smaller than any"):
            read_batch_header(batch)


def test_iteration_stops_at_a_partial_tail() -> None:
    log = make() + make(base_offset=3) + make(base_offset=6)[:-1]
    assert [(p, h.base_offset) for p, h in iter_batch_headers(log)] == [
        (0, 0),
        (len(make()), 3),
    ]
    for cut in (1, 11, 12, 40, HEADER_SIZE):
        tail = make() + make()[:cut]
        assert len(list(iter_batch_headers(tail))) == 1
        with pytest.raises(ProtocolError, match="cut short"):
            list(iter_batch_headers(tail, allow_partial_tail=False))
    assert list(iter_batch_headers(b"")) == []
    with pytest.raises(ProtocolError, match="smaller than any"):
        list(iter_batch_headers(make() + bytes(30)))


def test_one_loop_walks_all_magics() -> None:
    log = (
        build_message_set(RECORDS, magic=0, base_offset=0)
        + build_message_set(RECORDS, magic=1, base_offset=3, compression=Compression.GZIP)
        + make(base_offset=6)
    )
    headers = list(iter_batch_headers(log, allow_partial_tail=False))
    assert [(h.magic, h.last_offset, h.record_count) for _, h in headers] == [
        (0, 0, 1),
        (0, 1, 1),
        (0, 2, 1),
        (1, 5, -1),
        (2, 8, 3),
    ]
    assert [h.max_timestamp for _, h in headers] == [-1, -1, -1, 1010, 1010]
    assert all(crc_is_valid(log, p, h) for p, h in headers)
    assert all(h.producer_id == -1 and h.partition_leader_epoch == -1 for _, h in headers)
    assert [r.offset for r in read_records(log)] == list(range(9))
    for position, header in headers:
        log[position + header.size_in_bytes - 1] ^= 1
        assert not crc_is_valid(log, position, header)


def test_crc_covers_attributes_to_end_and_needs_all_of_it() -> None:
    batch = make()
    header = read_batch_header(batch)
    assert not crc_is_valid(batch[:-1], 0, header)
    for position in range(21, len(batch)):
        batch[position] ^= 0x10
        assert not crc_is_valid(batch, 0, read_batch_header(batch))
        batch[position] ^= 0x10


def test_assignment_in_place_leaves_the_crc_alone() -> None:
    log = bytearray(b"pad") + make()
    assign_offset_and_epoch(memoryview(log), 3, 2**40, 17)
    header = read_batch_header(log, 3)
    assert (header.base_offset, header.partition_leader_epoch) == (2**40, 17)
    assert header.size_in_bytes == len(log) - 3
    assert crc_is_valid(log, 3, header)


def test_log_append_time_in_place() -> None:
    log = bytearray(b"pad") + make(compression=Compression.GZIP)
    set_max_timestamp(log, 3, TimestampType.LOG_APPEND_TIME, 5555)
    header = read_batch_header(log, 3)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.compression is Compression.GZIP
    assert header.max_timestamp == 5555
    assert crc_is_valid(log, 3, header)
    assert [r.timestamp for r in iter_records(log, 3)] == [5555] * 3
    # ... and back, as for a topic whose type was changed.
    set_max_timestamp(log, 3, TimestampType.CREATE_TIME, 1010)
    assert log[3:] == make(compression=Compression.GZIP)


def test_setting_the_same_timestamp_writes_nothing() -> None:
    batch = make()
    set_max_timestamp(memoryview(bytes(batch)), 0, TimestampType.CREATE_TIME, 1010)


def test_timestamps_wrap_as_in_java() -> None:
    records = [SimpleRecord(-(2**63), b"k", None), SimpleRecord(2**63 - 1, b"k", None)]
    batch = build_batch(records)
    assert [r.timestamp for r in iter_records(batch)] == [-(2**63), 2**63 - 1]


def test_header_keys_that_are_not_utf8_are_replaced() -> None:
    batch = build_batch([SimpleRecord(0, None, None, [("ab", b"")])])
    batch[-3] = 0xFF
    update_crc(batch, 0)
    [record] = iter_records(batch)
    assert record.headers == [("a\ufffd", b"")] or record.headers == [("\ufffdb", b"")]


def block_of(*records: bytes) -> bytearray:
    """A batch around hand-made records."""
    header = read_batch_header(make())._replace(record_count=len(records))
    return assemble(header, b"".join(records))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (bytes([12, 0, 0, 0, 1, 1, 0]), None),
        (bytes([0x8C, 0, 0, 0, 0, 1, 1, 0]), None),  # a length in two bytes
        (bytes([10, 0, 0, 0, 1, 1, 0]), "a record of 5 bytes"),
        (bytes([14, 0, 0, 0, 1, 1, 0]), "has 6 left"),
        (bytes([11, 0, 0, 0, 1, 1, 0]), "a record of -6 bytes"),
        (bytes([14, 0, 0, 0, 1, 1, 0, 0]), "off its length"),
        (bytes([12, 0, 0, 0, 1, 1, 0, 0]), "follow the last"),
        (bytes([12, 0, 0, 0, 40, 1, 0]), "leaves|past the end"),
        (bytes([12, 0, 0, 0, 1, 40, 0]), "leaves|past the end"),
        (bytes([12, 0, 0, 0, 1, 1, 2]), "headers cannot be"),
        (bytes([12, 0, 0, 0, 1, 1, 1]), "headers cannot be"),
        (bytes([16, 0, 0, 0, 1, 1, 2, 1, 1]), "no key"),
        (bytes([16, 0, 0, 0, 1, 1, 2, 8, 1]), "leaves"),
        (bytes([20, 0, 0, 0] + [0xFF] * 6 + [0]), "varint does not end"),
        (bytes([30, 0] + [0xFF] * 13 + [0]), "varlong does not end"),
        (bytes([12, 0, 0, 0, 1, 1, 0x80]), "past the end"),
    ],
)
def test_hand_made_records(record: bytes, message: str | None) -> None:
    batch = block_of(record)
    if message is None:
        assert list(iter_records(batch)) == [Record(0, 1000, None, None)]
        return
    with pytest.raises(ProtocolError, match=message):
        list(iter_records(batch))


@pytest.mark.parametrize("count", [-1, 2, 4, 2**31 - 1])
def test_record_counts_that_are_not_true(count: int) -> None:
    batch = make()
    struct.pack_into(">i", batch, 57, count)
    with pytest.raises(InvalidRecord):
        list(iter_records(batch))


def test_base_offsets_without_room() -> None:
    batch = make()
    for base in (2**63 - 1, -(2**63)):
        assign_offset_and_epoch(batch, 0, base, 0)
        with pytest.raises(InvalidRecord, match="no room"):
            list(iter_records(batch))


def test_a_batch_cut_short_has_no_records() -> None:
    with pytest.raises(ProtocolError, match="3 bytes short"):
        iter_records(make()[:-3])


def test_decompression_is_bounded() -> None:
    batch = build_batch([SimpleRecord(0, None, bytes(100_000))], compression=Compression.ZSTD)
    with pytest.raises(ProtocolError, match="more than 5000"):
        iter_records(batch, max_decompressed_bytes=5000)
    with pytest.raises(ProtocolError, match="more than 5000"):
        list(read_records(batch, max_decompressed_bytes=5000))


def test_end_txn_markers() -> None:
    marker = EndTxnMarker(ControlRecordType.COMMIT, 3)
    batch = build_end_txn_marker(
        marker, timestamp=99, producer_id=5, producer_epoch=6, base_offset=8
    )
    header = read_batch_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 6, -1)
    assert (header.record_count, header.next_offset) == (1, 9)
    [record] = iter_records(batch)
    assert (record.key, record.value) == (bytes.fromhex("00000001"), bytes.fromhex("000000000003"))
    assert EndTxnMarker.parse(record.key, record.value) == marker
    assert list(read_records(make() + batch)) == list(read_records(make()))


def test_control_records_of_other_kinds() -> None:
    assert parse_control_record_type(bytes.fromhex("00000002")) is ControlRecordType.LEADER_CHANGE
    assert parse_control_record_type(bytes.fromhex("0001000000ff")) is ControlRecordType.ABORT
    assert parse_control_record_type(bytes.fromhex("00007fff")) is ControlRecordType.UNKNOWN
    assert parse_control_record_type(bytes.fromhex("0000ffff")) is ControlRecordType.UNKNOWN
    for key in (None, b"", b"\0\0\0", b"\xff\xff\0\0"):
        with pytest.raises(ProtocolError):
            parse_control_record_type(key)
    for marker, content in [
        ("00000002", "000000000000"),
        ("00000000", "0000000000"),
        ("00000000", "ffff00000000"),
    ]:
        with pytest.raises(ProtocolError):
            EndTxnMarker.parse(bytes.fromhex(marker), bytes.fromhex(content))
    with pytest.raises(ProtocolError):
        EndTxnMarker.parse(bytes(4), None)


def test_rebuilding_keeps_offsets_and_identity() -> None:
    batch = make(
        base_offset=100,
        compression=Compression.ZSTD,
        producer_id=7,
        producer_epoch=2,
        base_sequence=40,
        partition_leader_epoch=4,
    )
    header = read_batch_header(batch)
    kept = [r for r in iter_records(batch) if r.offset != 100]
    [twin] = dumb_decode(bytes(rebuild(header, kept)))
    assert [(r.offset, r.timestamp, r.sequence) for r in twin.records] == [
        (101, 1010, 41),
        (102, 1005, 42),
    ]
    assert twin.fields["base_timestamp"] == twin.fields["max_timestamp"] == 1010
    changed = {"crc", "batch_length", "base_timestamp", "record_count"}
    for name, value in header._asdict().items():
        assert name in changed or twin.fields[name] == value, name
    assert list(iter_records(rebuild(header, iter_records(batch)))) == list(iter_records(batch))


def test_rebuilding_with_a_delete_horizon_and_another_codec() -> None:
    header = read_batch_header(make(compression=Compression.GZIP, log_append_time=7000))
    kept = list(iter_records(make(compression=Compression.GZIP, log_append_time=7000)))[1:]
    rebuilt = rebuild(header, kept, compression=Compression.NONE, delete_horizon_ms=90_000)
    after = read_batch_header(rebuilt)
    assert after.delete_horizon_ms == 90_000
    assert after.compression is Compression.NONE
    assert after.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert after.max_timestamp == 7000
    assert list(iter_records(rebuilt)) == kept
    # A later pass without a horizon goes back to the first record's time.
    again = read_batch_header(rebuild(after, kept))
    assert (again.delete_horizon_ms, again.base_timestamp) == (None, 7000)


def test_empty_batches() -> None:
    header = read_batch_header(
        make(base_offset=5, compression=Compression.LZ4, producer_id=1, base_sequence=9)
    )
    assert rebuild(header, []) == build_empty_batch(header)
    empty = build_empty_batch(header)
    assert len(empty) == HEADER_SIZE
    after = read_batch_header(empty)
    assert crc_is_valid(empty, 0, after)
    assert (after.base_offset, after.last_offset, after.last_sequence) == (5, 7, 11)
    assert (after.record_count, after.base_timestamp, after.max_timestamp) == (0, -1, 1010)
    assert not after.is_compressed
    assert list(iter_records(empty)) == []


def test_positions_are_those_of_the_header() -> None:
    """Each field, overwritten at its position, is the one that the header then shows."""
    fields = (
        ("length", layout.LENGTH_POSITION, Struct(">i")),
        ("partition_leader_epoch", layout.LEADER_EPOCH_POSITION, Struct(">i")),
        ("magic", layout.MAGIC_POSITION, Struct(">b")),
        ("crc", layout.CRC_POSITION, Struct(">I")),
        ("attributes", layout.ATTRIBUTES_POSITION, Struct(">h")),
        ("attributes", layout.LOW_ATTRIBUTES_POSITION, Struct(">b")),
        ("max_timestamp", layout.MAX_TIMESTAMP_POSITION, Struct(">q")),
        ("producer_id", layout.PRODUCER_POSITION, Struct(">q")),
    )
    names = (
        "base_offset", "length", "partition_leader_epoch", "magic", "crc", "attributes",
        "last_offset_delta", "base_timestamp", "max_timestamp", "producer_id", "producer_epoch",
        "base_sequence", "record_count",
    )  # fmt: skip
    for name, position, form in fields:
        written = bytearray(layout.HEADER_SIZE)
        form.pack_into(written, position, 77)
        shown = dict(zip(names, HEADER.unpack(written), strict=True))
        assert [field for field, value in shown.items() if value] == [name]
        assert shown[name] == 77
