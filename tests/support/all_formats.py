"""A partition directory that holds everything that a log can hold, made by our own storage.

Every codec, formats v0 to v2, both kinds of timestamps, null keys and values, headers, idempotent
producers, transactions committed and aborted and open, a control record of KRaft's, batches as
compaction leaves them (gaps, an empty batch, a delete horizon); over several segments with indexes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pybroker_kafka.protocol.codec import encode_versioned
from pybroker_kafka.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from pybroker_kafka.protocol.messages.group_data import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from pybroker_kafka.protocol.messages.transaction_data import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from pybroker_kafka.protocol.records.batch import (
    Compression,
    ControlRecordType,
    EndTxnMarker,
    SimpleRecord,
    assign_offset_and_epoch,
    iter_records,
    read_batch_header,
)
from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.protocol.records.control import control_record_key
from pybroker_kafka.storage.append_info import AppendOrigin
from pybroker_kafka.storage.files import Files
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_config import LogConfig
from pybroker_kafka.storage.log_manager import LogManager
from tests.support.appends import append_as_leader
from tests.support.conversions import build_message_set, rebuild

TOPIC, TOPIC_ID = "everything", bytes(range(16))
NOW_MS = 1_700_000_000_000
EPOCH = 3
FORMATS = {0: "0.9.0", 1: "0.10.2", 2: "2.8"}


def config_of(magic: int, **more: str) -> LogConfig:
    overrides = {
        "segment.bytes": "3500",
        "index.interval.bytes": "300",
        "message.format.version": FORMATS[magic],
    }
    overrides |= {name.replace("_", "."): value for name, value in more.items()}
    return LogConfig.from_overrides(overrides, {"inter.broker.protocol.version": "2.8"})


def some(count: int, first: int = 0) -> list[SimpleRecord]:
    """Records with and without key, value and headers, at times that go back and forth."""
    return [
        SimpleRecord(
            NOW_MS + 10 * n - 25 * (n % 3),
            None if n % 4 == 3 else b"key-%d" % n,
            None if n % 5 == 4 else b"value %d of many " % n * (n % 3 + 1),
            [("first", b"x"), ("second", None)] if n % 2 else [],
        )
        for n in range(first, first + count)
    ]


class Writer:
    """Appends to a log as its leader, or as they come for what only compaction makes."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def append(self, data: bytes | bytearray, origin: AppendOrigin = AppendOrigin.CLIENT) -> int:
        version = 9 if data[16] == 2 else 2
        if origin is not AppendOrigin.CLIENT:
            version = None  # type: ignore[assignment]
        info = append_as_leader(
            self.log,
            bytearray(data),
            leader_epoch=EPOCH,
            now_ms=NOW_MS,
            origin=origin,
            request_version=version,
        )
        self.log.update_high_watermark(self.log.log_end_offset)
        return info.first_offset

    def replicate(self, batch: bytearray) -> None:
        assign_offset_and_epoch(batch, 0, self.log.log_end_offset, EPOCH)
        self.log.append_as_follower(batch, now_ms=NOW_MS)
        self.log.update_high_watermark(self.log.log_end_offset)

    def transaction(self, producer_id: int, end: ControlRecordType | None, sequence: int) -> None:
        for n in range(2):
            self.append(
                build_batch(
                    some(3, n),
                    producer_id=producer_id,
                    producer_epoch=1,
                    base_sequence=sequence + 3 * n,
                    is_transactional=True,
                    compression=Compression(producer_id % 5),
                )
            )
        if end is not None:
            marker = build_end_txn_marker(
                EndTxnMarker(end, 7), timestamp=NOW_MS, producer_id=producer_id, producer_epoch=1
            )
            self.append(marker, AppendOrigin.COORDINATOR)


def write_everything(directory: Path) -> Path:
    """Returns the partition's directory; the log is closed cleanly."""
    manager = LogManager(
        [str(directory)], Files(), config_of(2), broker_id=1, cluster_id="AAAAAAAAAAAAAAAAAAAAAA"
    )
    manager.load(NOW_MS)
    log = manager.get_or_create_log(TOPIC, 0, TOPIC_ID, None, NOW_MS)
    writer = Writer(log)
    for magic in (0, 1):
        log.set_config(config_of(magic))
        for codec in (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4):
            for _ in range(3):
                writer.append(build_message_set(some(5), magic=magic, compression=codec))
    log.set_config(config_of(1, message_timestamp_type="LogAppendTime"))
    for codec in (Compression.NONE, Compression.GZIP):
        writer.append(build_message_set(some(4), magic=1, compression=codec))
    log.set_config(config_of(2, message_timestamp_type="LogAppendTime"))
    writer.append(build_batch(some(4)))
    log.set_config(config_of(2))
    _write_batches(writer)
    path = Path(log.directory)
    log.flush()
    manager.clean_shutdown()
    return path


def _write_batches(writer: Writer) -> None:
    for codec in Compression:
        for count in (1, 7, 20):
            writer.append(build_batch(some(count), compression=codec))
    for n in range(12):
        writer.append(
            build_batch(some(4, n), producer_id=11, producer_epoch=0, base_sequence=4 * n)
        )
    writer.append(build_batch(some(5), producer_id=12, producer_epoch=0, base_sequence=2**31 - 3))
    for n, end in enumerate(
        (ControlRecordType.COMMIT, ControlRecordType.ABORT, ControlRecordType.ABORT)
    ):
        writer.transaction(21 + n, end, 0)
    writer.transaction(21, ControlRecordType.ABORT, 6)
    leader_change = build_batch(
        [SimpleRecord(NOW_MS, control_record_key(ControlRecordType.LEADER_CHANGE), b"\0\0")],
        is_control=True,
    )
    writer.append(leader_change, AppendOrigin.COORDINATOR)
    for batch in _compacted():
        writer.replicate(batch)
    writer.transaction(30, None, 0)


def _compacted() -> Iterator[bytearray]:
    """What is left of batches: some of the records, none, and those with a delete horizon."""
    for codec in (Compression.NONE, Compression.ZSTD):
        batch = build_batch(some(10), compression=codec)
        header, records = read_batch_header(batch), list(iter_records(batch))
        yield rebuild(header, records[2:9:3])
        yield rebuild(header, records[4:5], delete_horizon_ms=NOW_MS + 5000)
    last = build_batch(some(3), producer_id=40, producer_epoch=0, base_sequence=0)
    yield rebuild(read_batch_header(last), [])


def write_internal_topics(directory: Path) -> tuple[Path, Path]:
    """`__consumer_offsets-0` and `__transaction_state-0`: every kind of record, and odd ones."""
    manager = LogManager(
        [str(directory)], Files(), config_of(2), broker_id=1, cluster_id="AAAAAAAAAAAAAAAAAAAAAA"
    )
    manager.load(NOW_MS)
    paths = []
    for topic, records in (
        ("__consumer_offsets", _group_records()),
        ("__transaction_state", _transaction_records()),
    ):
        log = manager.get_or_create_log(topic, 0, TOPIC_ID, None, NOW_MS)
        writer = Writer(log)
        for key, value in records:
            writer.append(build_batch([SimpleRecord(NOW_MS, key, value)]), AppendOrigin.COORDINATOR)
        paths.append(Path(log.directory))
    manager.clean_shutdown()
    return paths[0], paths[1]


def _group_records() -> Iterator[tuple[bytes, bytes | None]]:
    for version in range(2):
        key = OffsetCommitKey(group="gruppe \u00e4", topic="t", partition=5)
        for value_version in range(5):
            value = OffsetCommitValue(
                offset=42, leader_epoch=3 if value_version >= 3 else -1, metadata='"x"',
                commit_timestamp=NOW_MS, expire_timestamp=7 if value_version == 1 else -1,
            )  # fmt: skip
            yield encode_versioned(key, version), encode_versioned(value, value_version)
        yield encode_versioned(key, version), None
    for protocol_type in ("consumer", "connect"):
        for version in range(5):
            yield (
                encode_versioned(GroupMetadataKey(group="g"), 2),
                encode_versioned(_group(protocol_type, version), version),
            )
    yield encode_versioned(GroupMetadataKey(group="g"), 2), None
    yield b"\0\x63unknown", b"\0\0"


def _group(protocol_type: str, version: int) -> GroupMetadataValue:
    owned = [ConsumerProtocolSubscriptionTopicPartition(topic="t", partitions=[0, 1])]
    subscription = ConsumerProtocolSubscription(
        topics=["t", "u"], user_data=b"data", owned_partitions=owned, generation_id=4, rack_id="r"
    )
    assigned = [ConsumerProtocolAssignmentTopicPartition(topic="t", partitions=[0, 1])]
    assignment = ConsumerProtocolAssignment(assigned_partitions=assigned)
    member = MemberMetadata(
        member_id="m-1", client_id="c", client_host="/127.0.0.1", session_timeout=10_000,
        rebalance_timeout=60_000 if version >= 1 else -1,
        group_instance_id="i" if version >= 3 else None,
        subscription=encode_versioned(subscription, min(version, 3)),
        assignment=encode_versioned(assignment, min(version, 3)),
    )  # fmt: skip
    other = MemberMetadata(member_id="m-2", client_id="c", client_host="h", subscription=b"\1")
    return GroupMetadataValue(
        protocol_type=protocol_type, generation=3, protocol="range", leader=None,
        current_state_timestamp=NOW_MS if version >= 2 else -1, members=[member, other],
    )  # fmt: skip


def _transaction_records() -> Iterator[tuple[bytes, bytes | None]]:
    key = encode_versioned(TransactionLogKey(transactional_id="bank"), 0)
    for state in range(6):
        partitions = [PartitionsSchema(topic="t", partition_ids=[4])] if state else None
        value = TransactionLogValue(
            producer_id=9, producer_epoch=2, transaction_timeout_ms=60_000,
            transaction_status=state, transaction_partitions=partitions,
            transaction_last_update_timestamp_ms=NOW_MS, transaction_start_timestamp_ms=NOW_MS,
        )  # fmt: skip
        for version in range(2):
            yield key, encode_versioned(value, version)
    yield key, None
    yield b"\0\7unknown", b"\0\0"
