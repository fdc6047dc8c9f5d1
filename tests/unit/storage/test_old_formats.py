"""Logs of message formats v0 and v1: which topics have them, and what can go into them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import (
    Compression,
    ControlRecordType,
    EndTxnMarker,
    SimpleRecord,
    iter_batch_headers,
    read_records,
)
from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.protocol.records.compression import compress
from pybroker_kafka.storage.append_info import AppendOrigin, InvalidRecords
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_config import LogConfig
from pybroker_kafka.storage.message_format import (
    broker_format_version,
    full_name,
    ignored_topic_version,
    record_version_of,
)
from tests.support.appends import append_as_leader
from tests.support.conversions import build_message_set
from tests.support.faulty_files import FaultyFiles
from tests.unit.protocol.records.test_message_set import entry, relative
from tests.unit.storage.helpers import TOPIC_ID, batch_of, manager_of

NOW_MS = 1_700_000_000_000
BEFORE_3_0 = {"inter.broker.protocol.version": "2.8"}
RECORDS = [SimpleRecord(1000 + n, b"k", b"v%d" % n) for n in range(3)]


def config_of(version: str, **overrides: str) -> LogConfig:
    named = {name.replace("_", "."): value for name, value in overrides.items()}
    return LogConfig.from_overrides({"message.format.version": version, **named}, BEFORE_3_0)


def log_of(directory: Path, version: str, **overrides: str) -> Log:
    manager = manager_of(directory, config=config_of(version, **overrides))
    return manager.get_or_create_log("t", 0, TOPIC_ID, None, NOW_MS)


def append(log: Log, data: bytes | bytearray, version: int | None = 2, **options: Any) -> bytes:
    info = append_as_leader(
        log, bytearray(data), leader_epoch=4, now_ms=NOW_MS, request_version=version, **options
    )
    found = log.read(info.first_offset, 1 << 20, upper_bound_offset=log.log_end_offset)
    return found.records.read()


def refused(log: Log, data: bytes | bytearray, **options: object) -> KafkaError:
    before = log.log_end_offset, log.size_bytes
    with pytest.raises(KafkaError) as caught:
        append(log, data, **options)  # type: ignore[arg-type]
    assert (log.log_end_offset, log.size_bytes) == before
    return caught.value


@pytest.mark.parametrize(
    ("broker", "topic", "stored"),
    [
        ({}, "0.10.0", 2),
        ({"inter.broker.protocol.version": "3.0"}, "0.10.0", 2),
        ({"inter.broker.protocol.version": "3.0-IV0"}, "0.10.0", 1),
        (BEFORE_3_0, None, 2),
        (BEFORE_3_0, "0.8.2", 0),
        (BEFORE_3_0, "0.9.0.1", 0),
        (BEFORE_3_0, "0.10.0-IV0", 1),
        (BEFORE_3_0, "0.10.2", 1),
        (BEFORE_3_0, "0.11.0-IV0", 2),
        (BEFORE_3_0 | {"log.message.format.version": "0.10.1"}, None, 1),
        (BEFORE_3_0 | {"log.message.format.version": "0.10.1"}, "0.9.0", 0),
        (BEFORE_3_0 | {"log.message.format.version": "0.9.0"}, "2.8", 2),
        # A topic's version above what the brokers speak is ignored.
        ({"inter.broker.protocol.version": "0.10.2", "log.message.format.version": "0.9.0"},
         "0.11.0", 0),
        ({"inter.broker.protocol.version": "2.8-IV0", "log.message.format.version": "0.9.0"},
         "2.8", 0),
        ({"inter.broker.protocol.version": "2.8-IV1", "log.message.format.version": "0.9.0"},
         "2.8", 2),
        ({"log.message.format.version": "0.9.0"}, None, 2),
    ],
)  # fmt: skip
def test_which_format_a_topic_has(broker: dict[str, str], topic: str | None, stored: int) -> None:
    overrides = {} if topic is None else {"message.format.version": topic}
    config = LogConfig.from_overrides(overrides, broker)
    assert config.record_version == stored
    # What is shown is what was set, whether it counts or not.
    if topic is not None:
        assert config.value("message.format.version") == topic


def test_names_of_versions() -> None:
    assert [full_name(v) for v in ("0.8.2.1", "0.10.0", "0.11.0", "2.0", "3.2", "2.8-IV0")] == [
        "0.8.2", "0.10.0-IV1", "0.11.0-IV2", "2.0-IV1", "3.2-IV0", "2.8-IV0"
    ]  # fmt: skip
    assert broker_format_version("2.8", "0.10.0") == "0.10.0-IV1"
    assert broker_format_version("3.0", "0.10.0") == "3.0-IV1"
    assert broker_format_version(None, None) == "3.0-IV1"
    assert [record_version_of(v) for v in ("0.9.0", "0.10.0", "0.11.0", "3.9")] == [0, 1, 2, 2]
    with pytest.raises(KafkaError, match="not a valid version"):
        record_version_of("newest")


def test_why_a_topic_s_format_does_not_count() -> None:
    assert "3.0 or higher" in (ignored_topic_version(None, "0.10.0") or "")
    assert "higher than" in (ignored_topic_version("0.10.2", "0.11.0") or "")
    for inter_broker, version in ((None, "2.8"), ("2.8", "0.9.0"), ("2.8", "2.8")):
        assert ignored_topic_version(inter_broker, version) is None


@pytest.mark.parametrize("version", ["0.9.0", "0.10.2"])
def test_what_needs_v2_is_refused(tmp_path: Path, version: str) -> None:
    log = log_of(tmp_path, version)
    unsupported = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    idempotent = batch_of(b"a", producer_id=5, epoch=0, sequence=0)
    assert refused(log, idempotent, version=9).code is unsupported
    transactional = batch_of(b"a", producer_id=5, epoch=0, sequence=0, transactional=True)
    assert refused(log, transactional, version=9).code is unsupported
    marker = build_end_txn_marker(
        EndTxnMarker(ControlRecordType.COMMIT, 0), timestamp=NOW_MS, producer_id=5, producer_epoch=0
    )
    error = refused(log, marker, version=None, origin=AppendOrigin.COORDINATOR)
    assert error.code is unsupported
    headers = build_batch([SimpleRecord(1, b"k", b"v", [("h", b"x")])])
    assert refused(log, headers, version=9).code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert append(log, batch_of(b"plain"), version=9)


def test_zstd_and_old_formats(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    log = log_of(tmp_path / "a", "0.10.2", compression_type="zstd")
    assert refused(log, build_message_set(RECORDS, magic=1)).code is ErrorCode.UNKNOWN_SERVER_ERROR
    (tmp_path / "b").mkdir()
    config = LogConfig.from_overrides(
        {"compression.type": "zstd"}, {"inter.broker.protocol.version": "2.0"}
    )
    manager = manager_of(tmp_path / "b", config=config)
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, NOW_MS)
    error = refused(log, build_message_set(RECORDS, magic=1))
    assert error.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_stay_byte_for_byte_save_for_offsets(tmp_path: Path, magic: int) -> None:
    log = log_of(tmp_path, "0.9.0" if magic == 0 else "0.10.0")
    first = build_message_set(RECORDS, magic=magic)
    assert append(log, first) == first
    again = build_message_set(RECORDS, magic=magic, base_offset=3)
    assert append(log, first) == again
    # Every message is an entry of its own, in the indexes too.
    segment = log.segments.active
    assert [segment.position_of(offset) for offset in range(6)] == [
        index * len(first) // 3 for index in range(6)
    ]


def test_a_wrapper_of_v1_stays_if_its_offsets_count_up(tmp_path: Path) -> None:
    log = log_of(tmp_path, "0.10.0")
    wrapper = build_message_set(RECORDS, magic=1, compression=Compression.GZIP)
    stored = append(log, wrapper)
    assert stored[8:] == wrapper[8:]
    assert stored == append(log, wrapper)[:0] + stored
    assert [r.offset for r in read_records(append(log, wrapper))] == [6, 7, 8]
    # Inner offsets that do not count up: built anew, and counted as converted.
    odd = entry(8, 1, 1, 1008, compress(Compression.GZIP, relative(1, 3, 5, 8)))
    info = append_as_leader(log, bytearray(odd), leader_epoch=4, now_ms=NOW_MS, request_version=2)
    assert info.converted_count == 3
    found = log.read(9, 1 << 20, upper_bound_offset=log.log_end_offset).records.read()
    assert [(r.offset, r.timestamp) for r in read_records(found)] == [
        (9, 1003), (10, 1005), (11, 1008)
    ]  # fmt: skip


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.SNAPPY])
def test_the_time_of_the_append(tmp_path: Path, codec: Compression) -> None:
    log = log_of(tmp_path, "0.10.0", message_timestamp_type="LogAppendTime")
    stored = append(log, build_message_set(RECORDS, magic=1, compression=codec))
    assert [r.timestamp for r in read_records(stored)] == [NOW_MS] * 3
    assert {h.timestamp_type.name for _, h in iter_batch_headers(stored)} == {"LOG_APPEND_TIME"}
    assert log.segments.active.max_timestamp == NOW_MS
    claimed = build_message_set(RECORDS, magic=1, compression=codec, log_append_time=5)
    assert refused(log, claimed).code is ErrorCode.INVALID_TIMESTAMP


def test_a_claimed_append_time_becomes_the_message_s_own(tmp_path: Path) -> None:
    log = log_of(tmp_path, "0.10.0")
    stored = append(log, build_message_set(RECORDS[:1], magic=1, log_append_time=5))
    assert stored == build_message_set([SimpleRecord(5, *RECORDS[0][1:3])], magic=1)


def test_a_compacted_topic_wants_keys(tmp_path: Path) -> None:
    log = log_of(tmp_path, "0.10.0", cleanup_policy="compact")
    nameless = build_message_set([*RECORDS, SimpleRecord(5, None, b"v")], magic=1)
    error = refused(log, nameless)
    assert isinstance(error, InvalidRecords)
    assert (error.code, error.record_errors[0].batch_index) == (ErrorCode.INVALID_RECORD, 0)


def test_limits(tmp_path: Path) -> None:
    log = log_of(tmp_path, "0.10.0", max_message_bytes="100", segment_bytes="250")
    assert refused(log, build_message_set([SimpleRecord(1, None, b"x" * 90)], magic=1)).code is (
        ErrorCode.MESSAGE_TOO_LARGE
    )
    # Each message counts for itself; all together must fit into a segment.
    small = build_message_set(RECORDS, magic=1)
    assert len(small) > 100
    append(log, small)
    error = refused(log, build_message_set(RECORDS * 3, magic=1))
    assert error.code is ErrorCode.RECORD_LIST_TOO_LARGE
    for nothing in (bytearray(), build_message_set(RECORDS, magic=1)[:20]):
        info = append_as_leader(log, nothing, leader_epoch=4, now_ms=NOW_MS, request_version=2)
        assert (info.first_offset, info.size_bytes) == (-1, 0)


def test_old_formats_have_no_leader_epochs(tmp_path: Path) -> None:
    log = log_of(tmp_path, "2.8")
    append(log, batch_of(b"new"), version=9)
    log.assign_epoch_start(7, 1)
    assert log.leader_epochs.entries == [(4, 0), (7, 1)]
    log.set_config(config_of("0.10.0"))
    assert log.leader_epochs.entries == []
    log.assign_epoch_start(8, 1)
    append(log, batch_of(b"old"), version=9)
    assert log.leader_epochs.entries == []
    log.set_config(config_of("2.8"))
    append(log, batch_of(b"newer"), version=9)
    assert log.leader_epochs.entries == [(4, 2)]
    found = log.read(0, 1 << 20, upper_bound_offset=3).records.read()
    assert [header.magic for _, header in iter_batch_headers(found)] == [2, 1, 2]


def test_a_disk_that_breaks_while_the_format_changes(tmp_path: Path) -> None:
    files = FaultyFiles()
    manager = manager_of(tmp_path, files=files, config=config_of("2.8"))
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, NOW_MS)
    append(log, batch_of(b"new"), version=9)
    log.flush()
    files.fail("write", path_part="leader-epoch")
    log.set_config(config_of("0.10.0"))
    with pytest.raises(KafkaError):
        log.flush()
    assert refused(log, batch_of(b"old"), version=9).code is ErrorCode.KAFKA_STORAGE_ERROR
