"""Damaged bytes raise only ProtocolError, whoever reads them."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.protocol.errors import KafkaError, ProtocolError
from pybroker_kafka.protocol.records.batch import (
    SimpleRecord,
    crc_is_valid,
    iter_batch_headers,
    iter_records,
    read_batch_header,
    read_records,
)
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.compression import Compression, compress, decompress
from tests.support import examples
from tests.support.conversions import (
    build_message_set,
    down_convert_all,
    rebuild,
    recompress,
    up_convert,
)
from tests.support.golden_records import GOLDEN
from tests.support.nightly import chosen

MUTATIONS = examples.of(40_000)
MAX_BYTES = 1 << 20
RECORDS = [SimpleRecord(1000 + n, b"key", b"value" * n, [("h", b"x")]) for n in range(8)]
SAMPLES = [
    *GOLDEN.values(),
    *(bytes(build_batch(RECORDS, compression=codec)) for codec in Compression),
    bytes(build_message_set(RECORDS, magic=1) + build_batch(RECORDS, base_offset=8)),
]


def check_headers(data: bytes) -> None:
    for position, header in iter_batch_headers(data):
        crc_is_valid(data, position, header)
        assert position + header.size_in_bytes <= len(data)


def rebuild_first(data: bytes) -> None:
    header = read_batch_header(data)
    if header.magic == 2:
        rebuild(header, iter_records(data, max_decompressed_bytes=MAX_BYTES), delete_horizon_ms=77)


READERS: list[Callable[[bytes], object]] = [
    check_headers,
    rebuild_first,
    lambda data: read_batch_header(data),
    lambda data: list(iter_batch_headers(data, allow_partial_tail=False)),
    lambda data: list(iter_records(data, max_decompressed_bytes=MAX_BYTES)),
    lambda data: list(read_records(data, max_decompressed_bytes=MAX_BYTES)),
    lambda data: up_convert(data, max_decompressed_bytes=MAX_BYTES),
    lambda data: down_convert_all(data, 0, 0, max_decompressed_bytes=MAX_BYTES),
    lambda data: down_convert_all(data, 1, 3, max_decompressed_bytes=MAX_BYTES),
    lambda data: recompress(data, Compression.NONE, max_decompressed_bytes=MAX_BYTES),
]


def read_all_ways(data: bytes) -> int:
    """How many readers refused ``data``; anything but the two expected errors gets out."""
    refused = 0
    for reader in READERS:
        try:
            reader(data)
        except (ProtocolError, KafkaError):
            refused += 1
    return refused


def mutate(source: random.Random, data: bytes) -> bytes:
    mutated = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 5))):
        kind = source.randrange(5)
        at = source.randrange(len(mutated)) if mutated else 0
        if kind == 0 and mutated:
            mutated[at] = source.randrange(256)
        elif kind == 1 and mutated:
            mutated[at] ^= 1 << source.randrange(8)
        elif kind == 2:
            mutated[at : at + 4] = source.choice(
                (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\x80\0\0\0")
            )
        elif kind == 3:
            del mutated[at : at + source.randrange(1, 9)]
        else:
            mutated[at:at] = source.randbytes(source.randrange(1, 9))
    return bytes(mutated)


def test_every_prefix() -> None:
    refused = 0
    for sample in SAMPLES:
        for length in range(len(sample)):
            refused += read_all_ways(sample[:length])
    assert refused > 10_000


@pytest.mark.parametrize("seed", chosen(range(4), [0]))
def test_mutations(seed: int) -> None:
    source = random.Random(seed)
    refused = 0
    for _ in range(MUTATIONS // 4):
        refused += read_all_ways(mutate(source, source.choice(SAMPLES)))
    assert refused > MUTATIONS // 4


@given(st.binary(max_size=300))
def test_noise(data: bytes) -> None:
    read_all_ways(data)


@given(
    st.sampled_from([codec for codec in Compression if codec]),
    st.binary(max_size=400),
    st.integers(0, 10_000),
    st.integers(0, 255),
)
def test_damaged_compressed_data(
    codec: Compression, data: bytes, position: int, value: int
) -> None:
    packed = bytearray(compress(codec, data))
    packed[position % len(packed)] = value
    for magic in (0, 1, 2):
        try:
            out = decompress(codec, packed, max_bytes=5000, magic=magic)
        except ProtocolError:
            continue
        assert len(out) <= 5000
