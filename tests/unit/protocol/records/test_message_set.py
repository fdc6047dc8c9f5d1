"""Message sets v0/v1: wrappers and their offsets, what is refused, conversion rules."""

import struct
import zlib

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError, ProtocolError
from pybroker_kafka.protocol.records.batch import (
    ControlRecordType,
    EndTxnMarker,
    InvalidRecord,
    Record,
    SimpleRecord,
    TimestampType,
    crc_is_valid,
    iter_records,
    read_batch_header,
    read_records,
)
from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.protocol.records.compression import Compression, compress
from pybroker_kafka.protocol.records.convert import read_produced
from pybroker_kafka.protocol.records.message_set import read_message
from tests.support.conversions import build_message_set, down_convert_all, up_convert

RECORDS = [SimpleRecord(1000 + n, b"key%d" % n, b"value%d" % n) for n in range(3)]


def entry(
    offset: int,
    magic: int,
    attributes: int,
    timestamp: int,
    value: bytes | None,
    key: bytes | None = None,
) -> bytes:
    body = struct.pack(">bb", magic, attributes)
    if magic:
        body += struct.pack(">q", timestamp)
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapper(offset: int, magic: int, inner: bytes, attributes: int = 1) -> bytes:
    return entry(offset, magic, attributes, 4000, compress(Compression(attributes & 7), inner))


def relative(magic: int, *offsets: int) -> bytes:
    return b"".join(entry(n, magic, 0, 1000 + n, b"v", b"k") for n in offsets)


def test_v1_offsets_are_relative_to_the_last() -> None:
    assert [r.offset for r in read_message(wrapper(42, 1, relative(1, 0, 1, 2)))] == [40, 41, 42]
    assert [r.offset for r in read_message(wrapper(42, 1, relative(1, 0, 5)))] == [37, 42]
    # Old producers write absolute offsets inside; the arithmetic comes out the same.
    assert [r.offset for r in read_message(wrapper(42, 1, relative(1, 41, 42)))] == [41, 42]


def test_a_wrapper_offset_of_zero_means_base_zero() -> None:
    assert [r.offset for r in read_message(wrapper(0, 1, relative(1, 0, 1, 2)))] == [0, 1, 2]


def test_v0_offsets_are_absolute() -> None:
    assert [r.offset for r in read_message(wrapper(9, 0, relative(0, 7, 9)))] == [7, 9]
    assert [r.timestamp for r in read_message(wrapper(9, 0, relative(0, 7, 9)))] == [-1, -1]


def test_log_append_time_of_a_wrapper_holds_for_all_inside() -> None:
    stamped = wrapper(2, 1, relative(1, 0, 1, 2), attributes=1 | 8)
    assert [r.timestamp for r in read_message(stamped)] == [4000] * 3
    assert read_batch_header(stamped).timestamp_type is TimestampType.LOG_APPEND_TIME
    created = wrapper(2, 1, relative(1, 0, 1, 2))
    assert [r.timestamp for r in read_message(created)] == [1000, 1001, 1002]


def test_a_partial_message_at_the_end_of_a_wrapper_is_ignored() -> None:
    inner = relative(1, 0, 1)
    for cut in (1, 20, len(inner) // 2 - 1):
        assert [r.offset for r in read_message(wrapper(0, 1, inner[:-cut]))] == [0]


@pytest.mark.parametrize(
    ("damaged", "kind", "message"),
    [
        (entry(0, 1, 1, 0, None), InvalidRecord, "no value"),
        (entry(0, 1, 4, 0, b"x"), InvalidRecord, "zstd"),
        (entry(0, 1, 7, 0, b"x"), ProtocolError, "unknown compression type"),
        (wrapper(0, 1, b""), InvalidRecord, "holds no messages"),
        (wrapper(0, 1, relative(0, 0)), InvalidRecord, "magic 0 inside"),
        (wrapper(0, 0, relative(1, 0)), InvalidRecord, "magic 1 inside"),
        (wrapper(0, 1, wrapper(0, 1, relative(1, 0))), InvalidRecord, "inside a compressed"),
        (wrapper(3, 1, relative(1, 0, 4)), InvalidRecord, "below its last inner"),
        (wrapper(0, 1, bytes(40)), ProtocolError, "smaller than any"),
        (wrapper(0, 1, entry(0, 0, 0, 0, b"")[:16] + b"\x01" + bytes(9)), ProtocolError, "smaller"),
        (entry(0, 1, 1, 0, b"not gzip"), ProtocolError, "damaged gzip"),
        (entry(0, 0, 0, 0, b"")[:25], ProtocolError, "cut short"),
        (wrapper(2**63 - 1, 1, relative(1, 9, 5)), InvalidRecord, "do not fit"),
    ],
)
def test_damaged_messages(damaged: bytes, kind: type[ProtocolError], message: str) -> None:
    with pytest.raises(kind, match=message):
        read_message(damaged)


@pytest.mark.parametrize("magic", [0, 1])
def test_fields_must_fit_their_message(magic: int) -> None:
    plain = bytearray(entry(0, magic, 0, 5, b"value", b"key"))
    key_at = 26 if magic else 18
    for position in (key_at, key_at + 4 + 3):
        for length in (100, 2**31 - 1):
            damaged = bytearray(plain)
            struct.pack_into(">i", damaged, position, length)
            with pytest.raises(InvalidRecord, match="left"):
                read_message(damaged)
    # Any negative length is null, as in Kafka.
    no_value = bytearray(plain)
    struct.pack_into(">i", no_value, key_at + 4 + 3, -2)
    assert [(r.key, r.value) for r in read_message(no_value)] == [(b"key", None)]
    damaged = bytearray(plain)
    struct.pack_into(">i", damaged, key_at, len(plain) - key_at - 4)
    with pytest.raises(InvalidRecord, match="cut short"):
        read_message(damaged)


def test_inner_crcs_are_checked_only_when_asked() -> None:
    inner = bytearray(relative(1, 0, 1))
    inner[-1] ^= 1
    damaged = wrapper(1, 1, bytes(inner))
    assert len(read_message(damaged)) == 2
    for check in (
        lambda: read_message(damaged, check_inner_crc=True),
        lambda: up_convert(damaged),
    ):
        with pytest.raises(ProtocolError, match="wrong CRC"):
            check()


def test_wrappers_are_bounded() -> None:
    bomb = wrapper(0, 1, entry(0, 1, 0, 0, bytes(1_000_000)))
    with pytest.raises(ProtocolError, match="more than 1000"):
        read_message(bomb, max_decompressed_bytes=1000)
    with pytest.raises(ProtocolError, match="more than 1000"):
        up_convert(bomb, max_decompressed_bytes=1000)


def test_mixed_message_sets_are_refused() -> None:
    plain = relative(1, 0)
    for mixed, message in [
        (plain + relative(0, 1), "magic 0"),
        (plain + wrapper(1, 1, relative(1, 0)), "more than one batch"),
        (wrapper(0, 1, relative(1, 0)) + plain, "more than one batch"),
        (plain + bytes(build_batch(RECORDS)), "magic 2"),
        (bytes(build_batch(RECORDS)) * 2, "more than one batch"),
    ]:
        with pytest.raises(InvalidRecord, match=message):
            read_produced(mixed)
    assert read_produced(b"") == []


def test_up_conversion_takes_what_the_leader_decides() -> None:
    message_set = build_message_set(RECORDS, magic=0, compression=Compression.SNAPPY)
    batch = up_convert(
        message_set,
        base_offset=70,
        compression=Compression.ZSTD,
        log_append_time=8000,
        partition_leader_epoch=3,
    )
    header = read_batch_header(batch)
    assert crc_is_valid(batch, 0, header)
    assert header.compression is Compression.ZSTD
    assert (header.partition_leader_epoch, header.max_timestamp) == (3, 8000)
    assert list(iter_records(batch)) == [
        Record(70 + n, 8000, r.key, r.value) for n, r in enumerate(RECORDS)
    ]


def test_down_conversion_drops_control_batches_and_early_records() -> None:
    marker = build_end_txn_marker(
        EndTxnMarker(ControlRecordType.ABORT, 0),
        timestamp=0,
        producer_id=1,
        producer_epoch=0,
        base_offset=3,
    )
    log = build_batch(RECORDS) + marker + build_batch(RECORDS, base_offset=4)
    converted = down_convert_all(log, 1, 2)
    assert [r.offset for r in read_records(converted)] == [2, 4, 5, 6]
    # A compressed batch stays whole: its consumers skip what they did not ask for.
    packed = build_batch(RECORDS, compression=Compression.GZIP)
    assert [r.offset for r in read_records(down_convert_all(packed, 1, 2))] == [0, 1, 2]
    assert down_convert_all(marker, 0, 0) == b""
    assert down_convert_all(log[: len(log) - 1], 1, 0) == down_convert_all(
        log[: len(log) // 2 + 40], 1, 0
    )


def test_zstd_cannot_be_down_converted() -> None:
    with pytest.raises(KafkaError) as caught:
        down_convert_all(build_batch(RECORDS, compression=Compression.ZSTD), 1, 0)
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_empty_message_sets_and_null_fields() -> None:
    assert build_message_set([], magic=1, compression=Compression.GZIP) == b""
    empty = build_message_set([SimpleRecord(1, None, None)], magic=1)
    assert len(empty) == 34
    assert read_message(empty) == [Record(0, 1, None, None)]
    assert len(build_message_set([SimpleRecord(1, None, None)], magic=0)) == 26
