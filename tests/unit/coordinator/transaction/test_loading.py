"""Taking over a partition of the log, and what is in it."""

import pytest

from pybroker_kafka.coordinator.transaction.core import Append
from pybroker_kafka.coordinator.transaction.loader import PartitionLoad
from pybroker_kafka.coordinator.transaction.metadata import TransactionMetadata, Transition
from pybroker_kafka.coordinator.transaction.records import (
    decode_key,
    decode_value,
    transaction_key,
    transaction_tombstone,
    transaction_value,
)
from pybroker_kafka.coordinator.transaction.states import TransactionState
from pybroker_kafka.protocol.codec import encode_versioned
from pybroker_kafka.protocol.errors import ErrorCode, ProtocolError
from pybroker_kafka.protocol.messages.transaction_data import PartitionsSchema, TransactionLogValue
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from tests.unit.coordinator.transaction.harness import NAME, A, B, C, Harness

E, S = ErrorCode, TransactionState

ONGOING = Transition(S.ONGOING, 2**40, 7, 6, 60_000, frozenset({C, B, A}), 1_000, 2_000)
# Key and value as Kafka's generated classes write them (version 0).
ONGOING_BYTES = bytes.fromhex(
    "0000"  # version
    "0000010000000000"  # producer id
    "0007"  # epoch
    "0000ea60"  # timeout
    "01"  # Ongoing
    "00000002"
    "000161" "00000002" "00000000" "00000001"
    "000162" "00000001" "00000000"
    "00000000000007d0"  # last update
    "00000000000003e8"  # start
)  # fmt: skip


def snapshot(metadata: TransactionMetadata) -> tuple[object, ...]:
    return (
        metadata.producer_id,
        metadata.producer_epoch,
        metadata.timeout_ms,
        metadata.state,
        metadata.partitions,
        metadata.start_ms,
        metadata.update_ms,
    )


def test_bytes_of_a_record() -> None:
    assert transaction_key("txn-1") == b"\0\0\0\x05txn-1"
    assert transaction_value(ONGOING) == ONGOING_BYTES
    empty = ONGOING._replace(state=S.EMPTY, partitions=frozenset(), start_ms=-1)
    assert transaction_value(empty)[16:21] == b"\x00\xff\xff\xff\xff"  # null partitions


@pytest.mark.parametrize("state", list(S))
def test_round_trip(state: TransactionState) -> None:
    transition = ONGOING._replace(state=state)
    if state in (S.DEAD, S.PREPARE_EPOCH_FENCE):
        with pytest.raises(AssertionError):
            transaction_value(transition)
        return
    metadata = decode_value(NAME, transaction_value(transition))
    assert metadata.transactional_id == NAME
    partitions = set() if state is S.EMPTY else {A, B, C}
    assert snapshot(metadata) == (2**40, 7, 60_000, state, partitions, 1_000, 2_000)
    assert (metadata.last_producer_id, metadata.last_producer_epoch) == (-1, -1)


def test_version_1_of_a_value_is_read() -> None:
    """It is what transaction.version 1 writes: flexible."""
    value = TransactionLogValue(
        producer_id=5,
        producer_epoch=1,
        transaction_timeout_ms=9,
        transaction_status=1,
        transaction_partitions=[PartitionsSchema(topic="a", partition_ids=[0])],
        transaction_last_update_timestamp_ms=2,
        transaction_start_timestamp_ms=3,
    )
    metadata = decode_value(NAME, encode_versioned(value, 1))
    assert snapshot(metadata) == (5, 1, 9, S.ONGOING, {A}, 3, 2)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0\x02",
        ONGOING_BYTES[:-1],
        ONGOING_BYTES[:10],
        ONGOING_BYTES[:16] + b"\x06" + ONGOING_BYTES[17:],  # Dead
        ONGOING_BYTES[:16] + b"\x07" + ONGOING_BYTES[17:],  # PrepareEpochFence
        ONGOING_BYTES[:16] + b"\x08" + ONGOING_BYTES[17:],
    ],
)
def test_bad_values(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_value(NAME, data)


def test_bad_keys() -> None:
    for data in (b"", b"\0\x01", b"\0\0\0\x09abc"):
        with pytest.raises(ProtocolError):
            decode_key(data)


def test_what_is_read() -> None:
    load = PartitionLoad(3, 8)
    good = transaction_value(ONGOING)
    batches = [
        [
            SimpleRecord(1, transaction_key("gone"), good),
            SimpleRecord(1, transaction_key("x"), good),
        ],
        [SimpleRecord(1, transaction_key("x"), good[:16] + b"\x02" + good[17:])],
        [SimpleRecord(1, b"\0\x09new kind", b"?"), SimpleRecord(1, None, good)],
        [SimpleRecord(1, transaction_key("bad"), b"\0\x09")],
        [transaction_tombstone("gone", 1)],
    ]
    offset = 0
    for records in batches:
        load.add(build_batch(records, base_offset=offset))
        offset += len(records)
    load.decode()
    transactions = load.transactions()
    assert {name: metadata.state for name, metadata in transactions.items()} == {
        "x": S.PREPARE_COMMIT
    }
    assert (load.record_count, load.skipped_count, load.next_offset) == (7, 3, offset)


def test_all_survives_a_failover() -> None:
    harness = Harness(partition_count=3)
    names = [f"id-{n}" for n in range(9)]
    for index, name in enumerate(names):
        producer = harness.begin(A, name=name) if index % 2 else harness.start(name)
        if index % 3 == 1:
            harness.end(producer, name=name, committed=False)
    before = {m.transactional_id: snapshot(m) for m in harness.machine.transactions()}
    assert set(before) == set(names)
    for partition in range(3):
        harness.unload(partition)
    assert list(harness.machine.transactions()) == []
    for partition in range(3):
        harness.load(partition)
    assert {m.transactional_id: snapshot(m) for m in harness.machine.transactions()} == before


@pytest.mark.parametrize("committed", [True, False])
def test_a_decided_transaction_is_ended(committed: bool) -> None:
    harness = Harness()
    harness.decide(A, B, committed=committed)
    harness.held_markers.clear()
    harness.fail_over()
    assert harness.init().error is E.CONCURRENT_TRANSACTIONS
    (job,) = harness.held_markers
    assert (job.partitions, job.committed) == ({A, B}, committed)
    assert job.coordinator_epoch == harness.epoch
    harness.write_markers()
    assert harness.state is (S.COMPLETE_COMMIT if committed else S.COMPLETE_ABORT)


def test_a_decision_that_reached_the_log_after_all() -> None:
    """The client was told that it failed; the next coordinator finds it, and the retry agrees."""
    harness = Harness()
    producer = harness.begin(A)
    harness.holds = {Append}
    call = harness.end(producer)
    harness.acknowledge(E.REQUEST_TIMED_OUT, is_logged=True)
    assert call.error is E.COORDINATOR_NOT_AVAILABLE
    harness.holds = set()
    harness.fail_over()
    assert harness.state is S.COMPLETE_COMMIT
    assert harness.end(producer).error is E.NONE


# Epochs


def test_only_the_latest_epoch_counts() -> None:
    harness = Harness()
    harness.begin()
    machine, epoch = harness.machine, harness.epoch
    assert machine.begin_load(0, epoch) is None
    assert machine.begin_load(0, epoch - 1) is None
    machine.unload(0, epoch - 1)
    assert harness.state is S.ONGOING
    machine.unload(0, None)
    assert harness.find() is None
    assert machine.begin_load(0, epoch - 1) is None
    assert machine.begin_load(0, epoch) is not None


def test_a_load_that_is_overtaken() -> None:
    harness = Harness()
    harness.unload()
    first = harness.machine.begin_load(0, 10)
    assert first is not None
    second = harness.machine.begin_load(0, 11)
    assert second is not None
    harness.machine.finish_load(first, harness.now_ms)
    harness.perform()
    assert harness.init().error is E.COORDINATOR_LOAD_IN_PROGRESS
    harness.machine.finish_load(second, harness.now_ms)
    harness.perform()
    assert harness.init().error is E.NONE


def test_a_later_epoch_of_the_same_leader_loads_anew() -> None:
    """Markers carry the epoch of the leadership in which they are sent."""
    harness = Harness()
    producer = harness.begin(A)
    harness.load()
    assert harness.end(producer).error is E.NONE
    assert harness.markers == [(A, True, producer[1], harness.epoch)]


def test_an_abandoned_load() -> None:
    harness = Harness()
    harness.unload()
    load = harness.machine.begin_load(0, harness.epoch)
    assert load is not None
    harness.machine.abandon_load(load)
    assert harness.init().error is E.NOT_COORDINATOR
    harness.machine.finish_load(load, harness.now_ms)
    assert not harness.machine.take_effects()
