"""What a leader refuses, with which error code; and what it rewrites."""

from __future__ import annotations

from pathlib import Path
from struct import Struct

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import (
    Compression,
    ControlRecordType,
    EndTxnMarker,
    SimpleRecord,
    TimestampType,
    crc_is_valid,
    iter_records,
    read_batch_header,
    update_crc,
)
from pybroker_kafka.protocol.records.builder import build_end_txn_marker
from pybroker_kafka.storage.append_info import AppendOrigin, InvalidRecords
from pybroker_kafka.storage.log import Log
from tests.support.appends import append_as_leader
from tests.support.conversions import build_message_set, recompress
from tests.unit.storage.helpers import batch_of, log_of

NOW_MS = 1_000_000
_INT64, _INT32, _INT16 = Struct(">q"), Struct(">i"), Struct(">h")


def append(log: Log, batch: bytearray | memoryview, **arguments: object) -> bytes:
    """Append and return the batch as it is in the log."""
    info = append_as_leader(log, batch, leader_epoch=4, now_ms=NOW_MS, **arguments)  # type: ignore[arg-type]
    found = log.read(info.first_offset, 1 << 20, upper_bound_offset=log.log_end_offset)
    return found.records.read()


def refused(log: Log, batch: bytearray | memoryview, **arguments: object) -> KafkaError:
    before = log.log_end_offset, log.size_bytes
    with pytest.raises(KafkaError) as caught:
        append_as_leader(log, batch, leader_epoch=4, now_ms=NOW_MS, **arguments)  # type: ignore[arg-type]
    assert (log.log_end_offset, log.size_bytes) == before
    return caught.value


def patched(position: int, form: Struct, value: int, *, fix_crc: bool = True) -> bytearray:
    batch = batch_of(b"a", b"b")
    form.pack_into(batch, position, value)
    if fix_crc:
        update_crc(batch, 0)
    return batch


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (patched(0, _INT64, 5), ErrorCode.INVALID_RECORD),
        (patched(17, _INT32, 1, fix_crc=False), ErrorCode.CORRUPT_MESSAGE),
        (patched(23, _INT32, -1), ErrorCode.INVALID_RECORD),
        (patched(23, _INT32, 5), ErrorCode.INVALID_RECORD),
        (patched(57, _INT32, 0), ErrorCode.INVALID_RECORD),
        (patched(57, _INT32, 3), ErrorCode.INVALID_RECORD),
        (patched(21, _INT16, 0x20), ErrorCode.INVALID_RECORD),
        (patched(21, _INT16, 0x05), ErrorCode.UNKNOWN_SERVER_ERROR),
        (patched(43, _INT64, 9), ErrorCode.INVALID_RECORD),
        (patched(8, _INT32, 5, fix_crc=False), ErrorCode.CORRUPT_MESSAGE),
        (patched(8, _INT32, -7, fix_crc=False), ErrorCode.CORRUPT_MESSAGE),
        (batch_of(b"a") + batch_of(b"b"), ErrorCode.INVALID_RECORD),
        (batch_of(b"x" * 200), ErrorCode.MESSAGE_TOO_LARGE),
    ],
    ids=[
        "base offset",
        "crc",
        "negative range",
        "range over count",
        "no records",
        "count over range",
        "control",
        "codec",
        "no sequence",
        "length below a header",
        "negative length",
        "two batches",
        "too large",
    ],
)
def test_bad_batches(tmp_path: Path, batch: bytearray, code: ErrorCode) -> None:
    log = log_of(tmp_path, max_message_bytes=200)
    assert refused(log, batch, request_version=9).code is code
    assert append(log, batch_of(b"good"))


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    good = batch_of(b"value")
    for position in range(8, len(good)):
        if 12 <= position < 16:
            continue  # the leader epoch is the leader's to write
        for bit in range(8):
            batch = bytearray(good)
            batch[position] ^= 1 << bit
            try:
                info = append_as_leader(log, batch, leader_epoch=0, now_ms=0)
            except KafkaError:
                continue
            # A length beyond the data is a batch that has not arrived whole.
            assert (info.first_offset, info.size_bytes) == (-1, 0)


def test_a_batch_larger_than_a_segment(tmp_path: Path) -> None:
    log = log_of(tmp_path, segment_bytes=100)
    assert refused(log, batch_of(b"x" * 200)).code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_offset_and_epoch_are_assigned_in_place(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    append(log, batch_of(b"a", b"b", b"c"))
    batch = batch_of(b"d")
    stored = append(log, memoryview(batch), request_version=9)
    header = read_batch_header(stored)
    assert (header.base_offset, header.partition_leader_epoch) == (3, 4)
    assert crc_is_valid(stored, 0, header)
    assert stored == batch


def test_a_read_only_view_is_copied(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    append(log, batch_of(b"a"))
    stored = append(log, memoryview(bytes(batch_of(b"b"))))
    assert read_batch_header(stored).base_offset == 1


def test_a_partial_tail_is_trimmed(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    batch = batch_of(b"a")
    assert append(log, batch + batch[:30]) == read_back(log)
    info = append_as_leader(log, batch_of(b"a")[:40], leader_epoch=0, now_ms=0)
    assert (info.first_offset, info.size_bytes) == (-1, 0)
    assert refused(log, batch_of(b"a")[:40], request_version=3).code is ErrorCode.INVALID_RECORD
    assert refused(log, bytearray(), request_version=3).code is ErrorCode.INVALID_RECORD


def read_back(log: Log) -> bytes:
    return log.read(0, 1 << 20, upper_bound_offset=log.log_end_offset).records.read()


def test_zstd_needs_produce_7(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    batch = batch_of(b"a" * 50, codec=Compression.ZSTD)
    error = refused(log, bytearray(batch), request_version=6)
    assert error.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert append(log, batch, request_version=7)


def test_old_formats_need_an_old_produce(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    message_set = build_message_set([SimpleRecord(5, b"k", b"v")], magic=1)
    assert refused(log, message_set, request_version=3).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_old_formats_become_one_v2_batch(tmp_path: Path, magic: int, codec: Compression) -> None:
    log = log_of(tmp_path)
    append(log, batch_of(b"before"))
    records = [SimpleRecord(5, b"k", b"v"), SimpleRecord(9, None, b"w")]
    message_set = build_message_set(records, magic=magic, compression=codec)
    stored = append(log, message_set, request_version=2)
    header = read_batch_header(stored)
    assert (header.magic, header.base_offset, header.record_count) == (2, 1, 2)
    assert header.compression is codec
    assert header.partition_leader_epoch == 4
    times = [5, 9] if magic else [-1, -1]
    assert [(r.offset, r.timestamp, r.key, r.value) for r in iter_records(stored)] == [
        (1, times[0], b"k", b"v"),
        (2, times[1], None, b"w"),
    ]


def test_a_damaged_old_message(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    message_set = bytearray(build_message_set([SimpleRecord(5, b"k", b"v")], magic=1))
    message_set[-1] ^= 1
    assert refused(log, message_set, request_version=2).code is ErrorCode.CORRUPT_MESSAGE


def test_compacted_topics_need_keys(tmp_path: Path) -> None:
    log = log_of(tmp_path, cleanup_policy="compact")
    append(log, batch_of(b"a"))
    error = refused(log, batch_of(b"a", b"b", key=None))
    assert isinstance(error, InvalidRecords)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [e.batch_index for e in error.record_errors] == [0, 1]
    assert "without key" in error.record_errors[0].message


@pytest.mark.parametrize(
    ("timestamp", "fits"),
    [
        (NOW_MS - 101, False),
        (NOW_MS - 100, True),
        (NOW_MS + 50, True),
        (NOW_MS + 51, False),
        (-1, True),
    ],
)
def test_timestamp_bounds(tmp_path: Path, timestamp: int, fits: bool) -> None:
    log = log_of(tmp_path, message_timestamp_before_max_ms=100, message_timestamp_after_max_ms=50)
    batch = batch_of(b"a", b"b", timestamps=[NOW_MS, timestamp])
    if fits:
        append(log, batch)
        return
    error = refused(log, batch)
    assert isinstance(error, InvalidRecords)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [e.batch_index for e in error.record_errors] == [1]


def test_log_append_time(tmp_path: Path) -> None:
    log = log_of(tmp_path, message_timestamp_type="LogAppendTime")
    info = append_as_leader(log, batch_of(b"a", b"b"), leader_epoch=0, now_ms=NOW_MS)
    assert (info.log_append_time, info.max_timestamp) == (NOW_MS, NOW_MS)
    header = read_batch_header(read_back(log))
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert crc_is_valid(read_back(log), 0, header)
    assert {r.timestamp for r in iter_records(read_back(log))} == {NOW_MS}


def test_a_producer_must_not_claim_log_append_time(tmp_path: Path) -> None:
    claiming = patched(21, _INT16, 0x08)
    error = refused(
        log_of(tmp_path / "a", message_timestamp_type="LogAppendTime"), bytearray(claiming)
    )
    assert isinstance(error, InvalidRecords)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert len(error.record_errors) == 2
    # On a CreateTime topic Kafka takes the bit back instead.
    stored = append(log_of(tmp_path / "b"), claiming)
    header = read_batch_header(stored)
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert crc_is_valid(stored, 0, header)


@pytest.mark.parametrize("target", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
@pytest.mark.parametrize("source", list(Compression))
def test_recompression(tmp_path: Path, target: str, source: Compression) -> None:
    log = log_of(tmp_path, compression_type=target)
    values = [b"a" * 300, b"b" * 300]
    stored = append(log, batch_of(*values, codec=source, producer_id=7, epoch=1, sequence=0))
    header = read_batch_header(stored)
    wanted = "none" if target == "uncompressed" else target
    assert header.compression.name.lower() == wanted
    assert (header.producer_id, header.base_sequence, header.last_offset) == (7, 0, 1)
    assert crc_is_valid(stored, 0, header)
    assert [r.value for r in iter_records(stored)] == values


def test_recompressed_batches_are_measured_again(tmp_path: Path) -> None:
    log = log_of(tmp_path, compression_type="uncompressed", max_message_bytes=1000)
    batch = batch_of(b"a" * 5000, codec=Compression.GZIP)
    assert len(batch) < 1000
    assert refused(log, batch).code is ErrorCode.MESSAGE_TOO_LARGE


def test_control_batches_stay_as_they_are(tmp_path: Path) -> None:
    log = log_of(tmp_path, compression_type="gzip")
    marker = build_end_txn_marker(
        EndTxnMarker(ControlRecordType.COMMIT, 0), timestamp=1, producer_id=7, producer_epoch=0
    )
    stored = append(log, marker, origin=AppendOrigin.COORDINATOR)
    assert read_batch_header(stored).compression is Compression.NONE
    assert read_batch_header(stored).is_control


def rubbish_records(codec: Compression) -> bytearray:
    batch = batch_of(b"value" * 20, codec=codec)
    batch[61:71] = bytes(10)
    update_crc(batch, 0)
    return batch


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_full_validation_looks_at_records(tmp_path: Path, codec: Compression) -> None:
    log = log_of(tmp_path)
    append(log, rubbish_records(codec))  # the header alone says nothing of it
    log.rules.validate_fully = True
    packed = codec is not Compression.NONE
    expected = ErrorCode.UNKNOWN_SERVER_ERROR if packed else ErrorCode.INVALID_RECORD
    assert refused(log, rubbish_records(codec)).code is expected
    assert append(log, batch_of(b"good", codec=codec))


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD])
def test_offsets_in_compressed_batches_have_to_count_up(tmp_path: Path, codec: Compression) -> None:
    """Kafka stumbles over them. Under another codec it builds the batch anew, and numbers it."""
    plain = batch_of(b"a", b"b", producer_id=7, epoch=0, sequence=0)
    plain[61 + 3] = 2  # the first record's offset delta: 1, as the second's
    update_crc(plain, 0)
    log = log_of(tmp_path)
    log.rules.validate_fully = True
    assert refused(log, recompress(plain, codec)).code is ErrorCode.UNKNOWN_SERVER_ERROR
    log = log_of(tmp_path / "lz4", compression_type="lz4")
    stored = append(log, recompress(plain, codec))
    assert [(r.offset, r.value) for r in iter_records(stored)] == [(0, b"a"), (1, b"b")]
    header = read_batch_header(stored)
    assert (header.compression, header.producer_id, header.base_sequence) == (Compression.LZ4, 7, 0)


def test_full_validation_corrects_the_largest_timestamp(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.rules.validate_fully = True
    claiming = patched(35, _INT64, 99_999)
    header = read_batch_header(append(log, claiming))
    assert header.max_timestamp == 1000
    assert crc_is_valid(claiming, 0, header)
