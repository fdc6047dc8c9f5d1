"""Bytes of real producers, and kafka-python's and aiokafka's record classes, both ways."""

from typing import Any

import aiokafka.record.default_records as aio_default
import aiokafka.record.legacy_records as aio_legacy
import aiokafka.record.memory_records as aio_memory
import kafka.record.memory_records as kp_memory
import pytest

from pybroker_kafka.protocol.records.batch import (
    ControlRecordType,
    EndTxnMarker,
    SimpleRecord,
    crc_is_valid,
    iter_batch_headers,
    iter_records,
    read_records,
)
from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.protocol.records.compression import Compression
from tests.support.conversions import build_message_set, up_convert
from tests.support.dumb_records import dumb_decode
from tests.support.golden_records import GOLDEN

# Without lz4 in v0: aiokafka cannot do it, kafka-python only with another package. Golden bytes
# cover it.
FORMATS = [
    (magic, codec)
    for magic in (0, 1, 2)
    for codec in Compression
    if magic == 2 or codec is not Compression.ZSTD
    if (magic, codec) != (0, Compression.LZ4)
]
RECORDS = [
    SimpleRecord(
        1_700_000_000_000 + n * 37 % 101,
        None if n % 5 == 2 else b"key-%d" % n,
        None if n % 7 == 3 else b"value %d " % n * (n % 40),
        [("trace", b"%d" % n), ("empty", b""), ("höhe", None)] if n % 3 == 0 else [],
    )
    for n in range(300)
]


def expected(magic: int) -> list[tuple[Any, ...]]:
    return [
        (n, r.timestamp if magic else None, r.key, r.value, list(r.headers) if magic == 2 else [])
        for n, r in enumerate(RECORDS)
    ]


def ours(data: bytes | bytearray, magic: int) -> list[tuple[Any, ...]]:
    headers = list(iter_batch_headers(data, allow_partial_tail=False))
    assert {header.magic for _, header in headers} == {magic}
    assert all(crc_is_valid(data, position, header) for position, header in headers)
    return [
        (r.offset, r.timestamp if magic else None, r.key, r.value, list(r.headers))
        for r in read_records(data)
    ]


def built(magic: int, codec: Compression) -> bytes:
    if magic == 2:
        return bytes(build_batch(RECORDS, compression=codec))
    return bytes(build_message_set(RECORDS, magic=magic, compression=codec))


def from_reader(reader: Any, magic: int) -> list[tuple[Any, ...]]:
    found = []
    while reader.has_next():
        batch = reader.next_batch()
        assert batch.validate_crc()
        found += [
            (r.offset, r.timestamp if magic else None, r.key, r.value, list(r.headers))
            for r in batch
        ]
    return found


@pytest.mark.parametrize("name", GOLDEN)
def test_bytes_of_real_producers(name: str) -> None:
    data = GOLDEN[name]
    magic = int(name.split("_v")[1][0])
    headers = [("n", None)]
    wanted = [
        (
            n,
            1_700_000_000_000 + 10 * n if magic else None,
            None if n == 2 else b"key-%d" % n,
            None if n == 3 else b"value " * 5 + b"%d" % n,
            [("h", b"v%d" % n), *headers] if magic == 2 else [],
        )
        for n in range(4)
    ]
    assert ours(data, magic) == wanted
    twins = [record for batch in dumb_decode(data) for record in batch.records]
    assert [(r.offset, r.key, r.value) for r in twins] == [
        (offset, key, value) for offset, _, key, value, _ in wanted
    ]
    # Written again without compression, the bytes are the producers' own.
    records = [SimpleRecord(-1 if w[1] is None else w[1], *w[2:]) for w in wanted]
    client = name.split("_v")[0]
    if magic < 2:
        assert build_message_set(records, magic=magic) == GOLDEN[f"{client}_v{magic}_none"]
        batch = up_convert(data)
        assert [(r.offset, r.key, r.value) for r in iter_records(batch)] == [
            (offset, key, value) for offset, _, key, value, _ in wanted
        ]
    else:
        plain = GOLDEN[f"{client}_v2_none"]
        [(_, header)] = iter_batch_headers(plain)
        assert plain == build_batch(
            records,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            partition_leader_epoch=0,
        )


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_kafka_python_reads_ours(magic: int, codec: Compression) -> None:
    assert from_reader(kp_memory.MemoryRecords(built(magic, codec)), magic) == expected(magic)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_we_read_kafka_python(magic: int, codec: Compression) -> None:
    builder = kp_memory.MemoryRecordsBuilder(magic, int(codec), 1 << 20)
    for record in RECORDS:
        headers = list(record.headers) if magic == 2 else None
        assert builder.append(record.timestamp, record.key, record.value, headers)
    builder.close()
    assert ours(bytes(builder.buffer()), magic) == expected(magic)


def aiokafka_readers(data: bytes) -> list[Any]:
    """The compiled reader and the one in Python."""
    python = getattr(aio_memory, "_MemoryRecordsPy", aio_memory.MemoryRecords)
    return [aio_memory.MemoryRecords(data), python(data)]


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_aiokafka_reads_ours(magic: int, codec: Compression) -> None:
    for reader in aiokafka_readers(built(magic, codec)):
        assert from_reader(reader, magic) == expected(magic)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_we_read_aiokafka(magic: int, codec: Compression) -> None:
    builder: Any
    if magic == 2:
        builder = aio_default.DefaultRecordBatchBuilder(2, int(codec), 0, -1, -1, -1, 1 << 20)
    else:
        builder = aio_legacy.LegacyRecordBatchBuilder(magic, int(codec), 1 << 20)
    for offset, record in enumerate(RECORDS):
        arguments: list[Any] = [offset, record.timestamp, record.key, record.value]
        if magic == 2:
            arguments.append(list(record.headers))
        assert builder.append(*arguments)
    assert ours(bytes(builder.build()), magic) == expected(magic)


def test_idempotent_and_transactional_fields_agree() -> None:
    data = bytes(
        build_batch(
            RECORDS,
            base_offset=12,
            producer_id=2**40,
            producer_epoch=9,
            base_sequence=2**31 - 100,
            is_transactional=True,
            log_append_time=1_800_000_000_000,
        )
    )
    batch = kp_memory.MemoryRecords(data).next_batch()
    assert batch.producer_id == 2**40
    assert (batch.producer_epoch, batch.base_sequence) == (9, 2**31 - 100)
    assert batch.is_transactional
    assert not batch.is_control_batch
    [(_, header)] = iter_batch_headers(data)
    assert (batch.last_offset, batch.next_offset) == (header.last_offset, header.next_offset)
    assert batch.last_sequence == header.last_sequence
    assert {r.timestamp for r in batch} == {1_800_000_000_000}


def test_markers_agree() -> None:
    marker = EndTxnMarker(ControlRecordType.ABORT, 5)
    data = bytes(build_end_txn_marker(marker, timestamp=1, producer_id=3, producer_epoch=0))
    batch = kp_memory.MemoryRecords(data).next_batch()
    assert batch.is_control_batch
    assert batch.is_transactional
    [record] = list(batch)
    assert record.abort
    assert not record.commit
