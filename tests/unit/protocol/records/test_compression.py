"""Codec framing: round trips, Kafka's peculiarities, damage, and bombs in bounded memory."""

import gzip
import itertools
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import lz4.frame
import pytest
import snappy
import zstandard

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.records import compression
from pybroker_kafka.protocol.records.compression import (
    Compression,
    compress,
    compression_of,
    decompress,
    decompress_in_pieces,
)
from tests.support.dumb_records import dumb_decompress

ROOM = 1 << 24
CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
XERIAL_HEADER = b"\x82SNAPPY\x00" + bytes([0, 0, 0, 1, 0, 0, 0, 1])
SAMPLES = [
    b"",
    b"a",
    b"record " * 20_000,
    bytes(range(256)) * 3,
    b"".join(n.to_bytes(4, "big") for n in range(100_000)),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=len)
@pytest.mark.parametrize("codec", Compression)
def test_round_trip(codec: Compression, sample: bytes) -> None:
    packed = compress(codec, sample)
    assert decompress(codec, packed, max_bytes=len(sample)) == sample
    assert decompress(codec, memoryview(bytearray(packed)), max_bytes=ROOM) == sample
    assert dumb_decompress(codec, packed) == sample
    if sample:
        with pytest.raises(ProtocolError, match=f"more than {len(sample) - 1} bytes"):
            decompress(codec, packed, max_bytes=len(sample) - 1)


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Compression.GZIP, [-1, 1, 9]),
        (Compression.LZ4, [1, 9, 17]),
        (Compression.ZSTD, [-5, 1, 3, 19]),
    ],
)
def test_levels(codec: Compression, levels: list[int]) -> None:
    sample = b" ".join(b"%d" % (n * n) for n in range(20_000))
    sizes = []
    for level in levels:
        packed = compress(codec, sample, level)
        assert decompress(codec, packed, max_bytes=ROOM) == sample
        sizes.append(len(packed))
    assert len(set(sizes)) > 1, "the level has no effect"


def test_kafka_names_the_fast_lz4_compressor_level_nine() -> None:
    assert compress(Compression.LZ4, SAMPLES[4], 9) == compress(Compression.LZ4, SAMPLES[4])


@pytest.mark.parametrize("codec", CODECS)
def test_every_prefix_is_refused(codec: Compression) -> None:
    packed = compress(codec, b"some records, " * 30 + bytes(range(200)))
    for length in range(1, len(packed)):
        # A xerial stream cut between blocks is a shorter stream; here is one block only.
        if codec is Compression.SNAPPY and length == len(XERIAL_HEADER):
            continue
        with pytest.raises(ProtocolError):
            decompress(codec, packed[:length], max_bytes=ROOM)


def test_unknown_codecs() -> None:
    assert compression_of(0x1C) is Compression.ZSTD
    for attributes in (5, 6, 7, 0x0D):
        with pytest.raises(ProtocolError, match="unknown compression type"):
            compression_of(attributes)


def test_gzip_members_follow_each_other_and_other_bytes_are_ignored() -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress(Compression.GZIP, packed, max_bytes=7) == b"one two"
    assert decompress(Compression.GZIP, packed + b"\0\0\0", max_bytes=7) == b"one two"
    with pytest.raises(ProtocolError, match="more than 6"):
        decompress(Compression.GZIP, packed, max_bytes=6)


def test_snappy_is_written_as_xerial_blocks_of_32_kib() -> None:
    packed = compress(Compression.SNAPPY, bytes(70_000))
    assert packed.startswith(XERIAL_HEADER)
    position, sizes = 16, []
    while position < len(packed):
        end = position + 4 + int.from_bytes(packed[position : position + 4], "big")
        sizes.append(len(snappy.uncompress(packed[position + 4 : end])))
        position = end
    assert sizes == [32768, 32768, 4464]


def test_snappy_streams_that_other_clients_write() -> None:
    def unpack(data: bytes) -> bytes:
        return decompress(Compression.SNAPPY, data, max_bytes=100)

    stream = compress(Compression.SNAPPY, b"hello ")
    assert unpack(snappy.compress(b"raw block")) == b"raw block"
    assert unpack(stream + compress(Compression.SNAPPY, b"again")) == b"hello again"
    little_endian = stream[:8] + bytes([1, 0, 0, 0, 1, 0, 0, 0]) + stream[16:]
    assert unpack(little_endian) == b"hello "


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (XERIAL_HEADER[:12], "header is cut short"),
        (XERIAL_HEADER + b"\0\0", "length is cut short"),
        (XERIAL_HEADER + b"\0\0\0\x09abc", "has 3 left"),
        (XERIAL_HEADER + b"\xff\xff\xff\xffabc", "block of -1 bytes"),
        (XERIAL_HEADER + b"\0\0\0\x03abc", "damaged snappy data|more than"),
        (b"\xff\xff\xff\xff\xff\xff", "no length"),
        (b"\xff\xff\xff\xff\x0fabc", "more than"),
    ],
)
def test_damaged_snappy(damaged: bytes, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        decompress(Compression.SNAPPY, damaged, max_bytes=1000)


def test_lz4_frames_are_what_kafka_writes() -> None:
    packed = compress(Compression.LZ4, bytes(200_000))
    # magic, version 1 with independent blocks, 64 KiB blocks, header checksum, ..., end mark
    assert packed[:7] == bytes.fromhex("04224d18604082")
    assert packed[-4:] == bytes(4)


def test_lz4_header_checksum_of_v0() -> None:
    sample = b"a message set" * 9
    packed = compress(Compression.LZ4, sample, magic=0)
    # As librdkafka writes it for old brokers: the checksum runs over the magic too.
    assert packed[:7] == bytes.fromhex("04224d1860401a")
    assert decompress(Compression.LZ4, packed, max_bytes=ROOM, magic=0) == sample
    correct = compress(Compression.LZ4, sample)
    assert decompress(Compression.LZ4, correct, max_bytes=ROOM, magic=0) == sample
    with pytest.raises(ProtocolError, match="wrong checksum"):
        decompress(Compression.LZ4, packed, max_bytes=ROOM, magic=1)


@pytest.mark.parametrize("store_size", [False, True])
@pytest.mark.parametrize("content_checksum", [False, True])
@pytest.mark.parametrize("block_checksum", [False, True])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_lz4_header_options(
    store_size: bool, content_checksum: bool, block_checksum: bool, block_size: int
) -> None:
    sample = SAMPLES[4]
    packed = bytearray(
        lz4.frame.compress(
            sample,
            store_size=store_size,
            content_checksum=content_checksum,
            block_checksum=block_checksum,
            block_size=block_size,
            block_linked=False,
        )
    )
    assert decompress(Compression.LZ4, packed, max_bytes=len(sample)) == sample
    if content_checksum:
        packed[-1] ^= 1  # Kafka does not check it
        assert decompress(Compression.LZ4, packed, max_bytes=len(sample)) == sample


def test_lz4_that_kafka_refuses() -> None:
    packed = compress(Compression.LZ4, b"text")
    linked = lz4.frame.compress(SAMPLES[2], block_linked=True)
    for damaged, message in [
        (b"\x04\x22\x4d\x19" + packed[4:], "not an lz4 frame"),
        (packed[:4] + b"\xa0" + packed[5:], "version"),
        (packed[:4] + b"\x61" + packed[5:], "reserved"),
        (packed[:5] + b"\x41" + packed[6:], "reserved"),
        (packed[:6] + b"\x00" + packed[7:], "checksum"),
        (packed[:4] + b"\x68" + packed[5:7], "cut short"),
        (linked, "linked"),
    ]:
        with pytest.raises(ProtocolError, match=message):
            decompress(Compression.LZ4, damaged, max_bytes=ROOM)


def test_zstd_frames_follow_each_other() -> None:
    skippable = (0x184D2A53).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"notes"
    streaming = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    unsized = streaming.compress(b"two") + streaming.flush()
    packed = zstandard.compress(b"one ") + skippable + unsized
    assert decompress(Compression.ZSTD, packed, max_bytes=7) == b"one two"
    runs = zstandard.compress(bytes(1_000_000))
    assert decompress(Compression.ZSTD, runs, max_bytes=1_000_000) == bytes(1_000_000)
    for length in range(len(packed)):
        try:
            assert decompress(Compression.ZSTD, packed[:length], max_bytes=7) in (b"", b"one ")
        except ProtocolError:
            continue


def test_zstd_decoders_are_used_again_by_one_at_a_time() -> None:
    """Also after damage, and by two who unpack in turns; one with a large window is not kept."""
    sample = SAMPLES[4]
    good = compress(Compression.ZSTD, sample)
    damaged = good[:12] + b"\xff" * 200 + good[212:]
    for _ in range(3):
        two = [decompress_in_pieces(Compression.ZSTD, good, max_bytes=ROOM) for _ in range(2)]
        pieces = list(itertools.zip_longest(*two))
        assert all(a == b for a, b in pieces)
        assert b"".join(a for a, _ in pieces) == sample
        with pytest.raises(ProtocolError):
            decompress(Compression.ZSTD, damaged, max_bytes=ROOM)
        with pytest.raises(ProtocolError, match="more than 7 bytes"):
            decompress(Compression.ZSTD, good, max_bytes=7)
    wide = zstandard.ZstdCompressionParameters(window_log=25)
    streaming = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    packed = streaming.compress(sample) + streaming.flush()
    for _ in range(5):
        assert decompress(Compression.ZSTD, packed, max_bytes=ROOM) == sample
    with ThreadPoolExecutor(6) as threads:
        for unpacked in threads.map(
            lambda _: decompress(Compression.ZSTD, good, max_bytes=ROOM), range(60)
        ):
            assert unpacked == sample
    spare = [decoder.memory_size() for decoder in compression._spare_zstd_decoders]
    assert 0 < len(spare) <= 3
    assert max(spare) < 5_000_000


BOMBS = """
import json, resource, sys
from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.records.compression import Compression, compress, decompress

def peak_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

bombs = json.load(sys.stdin)
grown = {}
for name, path in bombs.items():
    data = open(path, "rb").read()
    before = peak_kib()
    try:
        decompress(Compression[name], data, max_bytes=4 << 20)
    except ProtocolError as error:
        grown[name] = [peak_kib() - before, str(error)]
json.dump(grown, sys.stdout)
"""


def test_bombs_are_refused_in_bounded_memory(tmp_path_factory: pytest.TempPathFactory) -> None:
    """256 MiB of zeros against a limit of 4 MiB, in a process whose peak memory is watched."""
    directory = tmp_path_factory.mktemp("bombs")
    zeros = bytes(256 << 20)
    paths = {}
    for codec in CODECS:
        path = directory / codec.name
        level = 1 if codec is Compression.GZIP else None
        path.write_bytes(compress(codec, zeros, level))
        paths[codec.name] = str(path)
    output = subprocess.run(
        [sys.executable, "-c", BOMBS],
        input=json.dumps(paths),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    grown = json.loads(output)
    assert set(grown) == set(paths)
    for name, (kib, message) in grown.items():
        assert message == f"compressed data unpacks to more than {4 << 20} bytes"
        # The limit itself, its last slice, and the codec's window.
        assert kib < 16 << 10, name
