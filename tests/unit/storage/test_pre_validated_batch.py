"""A batch that was validated before its turn ends up in the log like one that was not."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import (
    Compression,
    SimpleRecord,
    TimestampType,
    iter_batch_headers,
    read_batch_header,
    update_crc,
)
from pybroker_kafka.protocol.records.builder import assemble, build_batch
from pybroker_kafka.protocol.records.compression import UnpacksTooLarge
from pybroker_kafka.protocol.records.convert import MAX_RECORDS, read_produced
from pybroker_kafka.protocol.records.layout import HEADER_SIZE
from pybroker_kafka.protocol.records.loops import COMPILED
from pybroker_kafka.protocol.wall_clock import WallClock
from pybroker_kafka.storage.append_info import Append, AppendRules, InvalidRecords
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_config import LogConfig
from pybroker_kafka.storage.validation import (
    QUICK_BYTES,
    needs_record_scan,
    pre_validate,
    pre_validate_quickly,
)
from tests.support.appends import append_as_leader
from tests.support.conversions import build_message_set
from tests.unit.storage.helpers import log_of

EARLIER_MS, NOW_MS = 1_000_000, 1_000_050
CODECS = (Compression.NONE, Compression.GZIP, Compression.ZSTD)
RECORDS = [SimpleRecord(EARLIER_MS + n, b"k%d" % n, b"v" * 50) for n in range(9)]
KEYLESS = [*RECORDS, SimpleRecord(EARLIER_MS, None, b"v"), SimpleRecord(5, None, b"v")]
CONFIGS: tuple[dict[str, str], ...] = (
    {},
    {"cleanup.policy": "compact"},
    {"compression.type": "lz4"},
    {"message.timestamp.type": "LogAppendTime"},
    {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"},
    {"message.timestamp.before.max.ms": "1000"},
    {"max.message.bytes": "200"},
)


def batches() -> list[tuple[int, bytes]]:
    """Produce version and what is sent with it."""
    found = []
    for records, codec in itertools.product((RECORDS, KEYLESS), CODECS):
        found.append((9, bytes(build_batch(records, compression=codec))))
        if codec is not Compression.ZSTD:
            found += [
                (magic, bytes(build_message_set(records, magic=magic, compression=codec)))
                for magic in (0, 1)
            ]
    good = found[0][1]
    damaged = bytearray(build_batch(RECORDS, compression=Compression.GZIP))
    damaged[HEADER_SIZE + 5 : HEADER_SIZE + 9] = b"\xff" * 4
    found.append((9, bytes(damaged)))
    update_crc(damaged, 0)
    return [*found, (9, bytes(damaged)), (9, good[:-1]), (9, good + good), (3, b""), (2, b"")]


def outcome(log: Log, records: Any, version: int) -> Any:
    """What is appended, or why nothing is."""
    try:
        info = append_as_leader(
            log, records, leader_epoch=4, now_ms=NOW_MS, request_version=version
        )
    except KafkaError as error:
        blamed = error.record_errors if isinstance(error, InvalidRecords) else None
        return error.code, error.message, blamed
    found = log.read(
        max(info.first_offset, 0), 1 << 20, upper_bound_offset=log.log_end_offset
    ).records.read()
    return info.first_offset, info.last_offset, info.converted_count, found


@pytest.mark.parametrize("overrides", CONFIGS, ids=str)
def test_the_same_is_found(tmp_path: Path, overrides: dict[str, Any]) -> None:
    # The bounds of good timestamps, which the message names, are those of the examination.
    examined_ms = NOW_MS if "message.timestamp.before.max.ms" in overrides else EARLIER_MS
    direct = log_of(tmp_path / "direct", None, **overrides)
    examined = log_of(tmp_path / "examined", None, **overrides)
    outcomes = set()
    for version, sent in batches():
        found = pre_validate(bytearray(sent), examined.rules, Append(examined_ms, version))
        expected = outcome(direct, bytearray(sent), version)
        assert outcome(examined, found, version) == expected, (version, sent)
        outcomes.add(expected[0])
    direct.close()
    examined.close()
    assert len(outcomes) > 2, "some are appended, others are refused for different reasons"


@pytest.mark.parametrize("overrides", [{}, {"max.message.bytes": "200"}], ids=str)
def test_the_same_is_found_on_the_spot(tmp_path: Path, overrides: dict[str, Any]) -> None:
    direct = log_of(tmp_path / "direct", None, **overrides)
    examined = log_of(tmp_path / "examined", None, **overrides)
    direct.rules.validate_fully = examined.rules.validate_fully = True
    seen = 0
    for version, sent in batches():
        if len(sent) < HEADER_SIZE:
            continue
        found = pre_validate_quickly(bytearray(sent), examined.rules, Append(EARLIER_MS, version))
        if found is not None:
            seen += 1
            expected = outcome(direct, bytearray(sent), version)
            assert outcome(examined, found, version) == expected, (version, sent)
    assert seen > 3
    direct.close()
    examined.close()


@pytest.mark.parametrize(
    ("unpacked", "overrides", "quick"),
    [
        (1_000, {}, True),
        (3_000_000, {}, False),
        (1_000, {"cleanup.policy": "compact"}, False),
        (1_000, {"compression.type": "zstd"}, False),
        (1_000, {"message.timestamp.type": "LogAppendTime"}, True),
    ],
)
def test_what_is_looked_at_on_the_spot(
    unpacked: int, overrides: dict[str, str], quick: bool
) -> None:
    config = LogConfig.from_overrides(overrides, {})
    records = [SimpleRecord(EARLIER_MS, b"k", bytes(unpacked))]
    sent = build_batch(records, compression=Compression.LZ4)
    rules = AppendRules(config, "t-0", True, WallClock())
    found = pre_validate_quickly(sent, rules, Append(NOW_MS, 9))
    assert (found is not None) is quick


@pytest.mark.parametrize(
    "later", [{"compression.type": "lz4"}, {"message.format.version": "0.9.0"}], ids=str
)
def test_a_config_that_changes_meanwhile_counts(tmp_path: Path, later: dict[str, str]) -> None:
    sent = bytes(build_batch(RECORDS, compression=Compression.GZIP))
    log = log_of(tmp_path, None, **{"compression.type": "zstd"})
    found = pre_validate(bytearray(sent), log.rules, Append(EARLIER_MS, 9))
    log.set_config(LogConfig.from_overrides(later, {"inter.broker.protocol.version": "2.8"}))
    *_, stored = outcome(log, found, 9)
    headers = [header for _, header in iter_batch_headers(stored)]
    if "compression.type" in later:
        assert [header.compression for header in headers] == [Compression.LZ4]
    else:
        assert {header.magic for header in headers} == {0}
    log.close()


def test_append_time_that_is_no_longer_asked_for(tmp_path: Path) -> None:
    """The producer's times are judged, not those of an append under the config before."""
    sent = bytes(build_batch(RECORDS, compression=Compression.GZIP))
    log = log_of(tmp_path, None, **{"message.timestamp.type": "LogAppendTime"})
    log.rules.validate_fully = True
    found = pre_validate(bytearray(sent), log.rules, Append(NOW_MS, 9))
    log.set_config(LogConfig.from_overrides({}, {}))
    *_, stored = outcome(log, found, 9)
    header = read_batch_header(stored)
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.max_timestamp == read_batch_header(sent).max_timestamp
    log.close()


def test_offsets_follow_on(tmp_path: Path) -> None:
    """Two are validated at the same time; the second one's offsets begin where the first one's end,
    and a duplicate is known as one."""
    log = log_of(tmp_path, None, **{"cleanup.policy": "compact"})
    first, second = (
        bytes(
            build_batch(
                RECORDS,
                compression=Compression.GZIP,
                producer_id=7,
                producer_epoch=0,
                base_sequence=sequence,
            )
        )
        for sequence in (0, len(RECORDS))
    )
    found = [
        pre_validate(bytearray(batch), log.rules, Append(NOW_MS, 9))
        for batch in (first, second, first)
    ]
    infos = [append_as_leader(log, records, leader_epoch=4, now_ms=NOW_MS) for records in found]
    assert [(info.first_offset, info.duplicate) for info in infos] == [
        (0, False),
        (len(RECORDS), False),
        (0, True),
    ]
    stored = log.read(0, 1 << 20, upper_bound_offset=log.log_end_offset).records.read()
    headers = [header for _, header in iter_batch_headers(stored)]
    assert [(h.base_offset, h.partition_leader_epoch) for h in headers] == [(0, 4), (9, 4)]
    log.close()


LARGE = [SimpleRecord(EARLIER_MS, b"k", bytes(QUICK_BYTES))]


@pytest.mark.parametrize(
    ("sent", "overrides", "answer"),
    [
        (build_batch(RECORDS, compression=Compression.GZIP), {}, False),
        (build_batch(LARGE), {}, False),
        (build_batch(LARGE), {"message.timestamp.type": "LogAppendTime"}, False),
        (build_batch(RECORDS), {"cleanup.policy": "compact"}, False),
        (build_batch(LARGE), {"cleanup.policy": "compact"}, True),
        (build_batch(RECORDS, compression=Compression.GZIP), {"cleanup.policy": "compact"}, True),
        (build_batch(RECORDS, compression=Compression.GZIP), {"compression.type": "gzip"}, False),
        (build_batch(RECORDS, compression=Compression.GZIP), {"compression.type": "zstd"}, True),
        (build_batch(LARGE), {"compression.type": "zstd"}, True),
        (build_message_set(RECORDS, magic=1), {}, False),
        (build_message_set(LARGE, magic=0), {}, True),
        (build_message_set(RECORDS, magic=0, compression=Compression.GZIP), {}, True),
        (b"", {"cleanup.policy": "compact"}, False),
    ],
)
def test_what_needs_a_record_scan(sent: bytearray, overrides: dict[str, str], answer: bool) -> None:
    config = LogConfig.from_overrides(overrides, {})
    assert needs_record_scan(sent, AppendRules(config, "t-0", False, WallClock())) is answer


def test_full_validation_needs_a_record_scan() -> None:
    rules = AppendRules(LogConfig.from_overrides({}, {}), "t-0", True, WallClock())
    assert needs_record_scan(build_batch(LARGE), rules) is not COMPILED
    assert not needs_record_scan(build_batch(RECORDS), rules)
    claimed = build_batch(LARGE, log_append_time=5)
    assert needs_record_scan(claimed, rules)


def test_more_records_than_are_made(tmp_path: Path) -> None:
    """A batch of a few bytes is refused before it is a million objects."""
    log = log_of(tmp_path, None, **{"cleanup.policy": "compact"})
    count = max(MAX_RECORDS, log.config.max_message_bytes) + 1
    header = read_batch_header(build_batch(RECORDS, compression=Compression.ZSTD))
    header = header._replace(record_count=count, last_offset_delta=count - 1)
    bomb = assemble(header, b"\x0c\0\0\0\x01\x01\0" * count, None)
    code, message, _ = outcome(log, pre_validate(bytearray(bomb), log.rules, Append(0, 9)), 9)
    assert code is ErrorCode.INVALID_RECORD
    assert f"a batch of {count} records" in message
    log.close()


def test_more_old_messages_than_are_made() -> None:
    bomb = build_message_set(RECORDS, magic=1, compression=Compression.GZIP)
    assert len(read_produced(bomb, max_records=len(RECORDS))[0][1]) == len(RECORDS)
    with pytest.raises(UnpacksTooLarge, match="more than 8 messages"):
        read_produced(bomb, max_records=len(RECORDS) - 1)
