"""What is sent in one format and stored in another, against a twin that is a list of records.

Whatever the two formats, codecs and the timestamp type: the records, their offsets, times and the
codec are what Kafka's rules say, and a consumer of any age reads the same of them.
"""

from __future__ import annotations

import random
import tempfile
import zlib

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.broker.network.down_conversion import DownConversion
from pybroker_kafka.protocol.errors import KafkaError
from pybroker_kafka.protocol.records.batch import (
    SimpleRecord,
    crc_is_valid,
    iter_batch_headers,
    read_records,
)
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.compression import Compression
from pybroker_kafka.protocol.wall_clock import WallClock
from pybroker_kafka.storage.append_info import Append, AppendRules
from pybroker_kafka.storage.append_rules import AppendRequest
from pybroker_kafka.storage.log_config import LogConfig
from pybroker_kafka.storage.old_formats import validate_with_old_format
from tests.support import examples
from tests.support.appends import append_as_leader
from tests.support.conversions import build_message_set
from tests.support.dumb_records import dumb_decode
from tests.support.faulty_files import FaultyFiles
from tests.support.old_formats import LEGACY_CODECS, RECORDS, odd_sets
from tests.support.record_strategies import legacy_codecs, payloads
from tests.unit.storage.helpers import TOPIC_ID, manager_of

NOW_MS = 1_700_000_100_000
SEED = 20
MUTATIONS = examples.of(3000)
VERSIONS = {0: "0.9.0", 1: "0.10.2", 2: "2.8"}
CODEC_NAMES = {
    Compression.NONE: "uncompressed",
    Compression.GZIP: "gzip",
    Compression.SNAPPY: "snappy",
    Compression.LZ4: "lz4",
}

times = st.integers(1_700_000_000_000, 1_700_000_100_000)
plain_records = st.builds(SimpleRecord, times, payloads, payloads, st.just([]))
sets = st.lists(plain_records, min_size=1, max_size=6)
magics = st.sampled_from([0, 1, 2])

# (offset, timestamp, key, value)
Row = tuple[int, int, bytes | None, bytes | None]


def encoded(records: list[SimpleRecord], magic: int, codec: Compression) -> bytearray:
    if magic == 2:
        return build_batch(records, compression=codec)
    return build_message_set(records, magic=magic, compression=codec)


def rows_of(data: bytes) -> list[Row]:
    return [(r.offset, r.timestamp, r.key, r.value) for b in dumb_decode(data) for r in b.records]


def without_times(rows: list[Row]) -> list[Row]:
    return [(offset, -1, key, value) for offset, _, key, value in rows]


@settings(max_examples=150)
@given(
    st.lists(st.tuples(sets, magics, legacy_codecs), min_size=1, max_size=3),
    magics,
    st.none() | legacy_codecs,
    st.booleans(),
)
def test_any_format_is_stored_in_any_format(
    produced: list[tuple[list[SimpleRecord], int, Compression]],
    stored_magic: int,
    target: Compression | None,
    append_time: bool,
) -> None:
    overrides = {"message.format.version": VERSIONS[stored_magic]}
    if target is not None:
        overrides["compression.type"] = CODEC_NAMES[target]
    if append_time:
        overrides["message.timestamp.type"] = "LogAppendTime"
    config = LogConfig.from_overrides(overrides, {"inter.broker.protocol.version": "2.8"})
    with tempfile.TemporaryDirectory() as directory:
        manager = manager_of(directory, files=FaultyFiles(), config=config)
        log = manager.get_or_create_log("t", 0, TOPIC_ID, None, NOW_MS)
        expected: list[Row] = []
        for records, magic, codec in produced:
            before = log.log_end_offset
            info = append_as_leader(
                log,
                encoded(records, magic, codec),
                leader_epoch=3,
                now_ms=NOW_MS,
                request_version=2,
            )
            assert (info.first_offset, info.last_offset) == (before, before + len(records) - 1)
            for record in records:
                time = -1 if 0 in (magic, stored_magic) else record.timestamp
                if append_time and stored_magic:
                    time = NOW_MS
                expected.append((len(expected), time, record.key, record.value))
            found = log.read(before, 1 << 20, upper_bound_offset=log.log_end_offset).records
            check_headers(found.read(), stored_magic, codec if target is None else target)
            latest = max((row[1] for row in expected[before:]), default=-1)
            assert info.max_timestamp == latest
        stored = log.read(0, 1 << 20, upper_bound_offset=log.log_end_offset).records
        assert rows_of(stored.read()) == expected
        assert log.leader_epochs.entries == ([(3, 0)] if stored_magic == 2 else [])
        for to_magic in range(stored_magic):
            converted = DownConversion(stored, to_magic, 0, lambda count: None).read()
            complete = [position for position, _ in iter_batch_headers(converted)]
            end = len(converted) if complete else 0
            rows = rows_of(complete_part(converted[:end]))
            wanted = without_times(expected) if to_magic == 0 else expected
            assert rows == wanted[: len(rows)]
            assert rows, "a consumer that gets nothing is stuck"


def complete_part(data: bytes) -> bytes:
    end = 0
    for position, header in iter_batch_headers(data):
        end = position + header.size_in_bytes
    return data[:end]


def check_headers(data: bytes, magic: int, codec: Compression) -> None:
    for position, header in iter_batch_headers(data, allow_partial_tail=False):
        assert (header.magic, header.compression) == (magic, codec)
        assert crc_is_valid(data, position, header)


def test_damaged_sets_are_refused_with_a_code() -> None:
    """Whatever the bytes: appended, or a KafkaError; and what is appended can be read."""
    source = random.Random(SEED)
    samples = list(odd_sets().values())
    samples += [bytes(encoded(RECORDS, m, codec)) for m in (0, 1, 2) for codec in LEGACY_CODECS]
    appended = refused = 0
    for _ in range(MUTATIONS):
        data = damaged(source, source.choice(samples))
        overrides = {"message.format.version": VERSIONS[source.randrange(3)]}
        if source.random() < 0.5:
            overrides["compression.type"] = source.choice(["gzip", "uncompressed", "zstd"])
        config = LogConfig.from_overrides(overrides, {"inter.broker.protocol.version": "2.8"})
        append = Append(NOW_MS, source.choice([2, 3]))
        request = AppendRequest(AppendRules(config, "t-0", True, WallClock()), append, 2**40, 1)
        try:
            valid = validate_with_old_format(data, request)
        except KafkaError:
            refused += 1
            continue
        if valid is not None:
            appended += 1
            assert list(read_records(valid[0]))
    assert min(appended, refused) > MUTATIONS // 10


def damaged(source: random.Random, data: bytes) -> bytearray:
    """Some bytes changed or gone; mostly with a right CRC again, or little would get far."""
    mutated = bytearray(data)
    for _ in range(source.choice((0, 1, 1, 2))):
        if mutated:
            at = source.randrange(len(mutated))
            if source.random() < 0.7:
                mutated[at] = source.randrange(256)
            else:
                del mutated[at : at + source.randrange(6)]
    size = int.from_bytes(mutated[8:12], "big") if len(mutated) > 17 else 0
    if mutated[16:17] < b"\2" and 14 <= size <= len(mutated) - 12 and source.random() < 0.8:
        mutated[12:16] = zlib.crc32(mutated[16 : 12 + size]).to_bytes(4, "big")
    return mutated
