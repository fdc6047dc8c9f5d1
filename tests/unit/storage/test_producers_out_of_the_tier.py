"""Producers of a log that restarts behind the remote tier: their snapshot is loaded in pieces."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_producers import PIECES_FOR_APPENDS, RebuildUnderWay
from pybroker_kafka.storage.producer_entry import BatchMetadata, ProducerEntry
from pybroker_kafka.storage.producer_snapshot import (
    ROWS_READ_AT_ONCE,
    encode_snapshot,
    with_open_transactions,
)
from tests.support.appends import append_as_leader
from tests.unit.storage.helpers import TOPIC_ID, batch_of, manager_of
from tests.unit.storage.test_producer_snapshots import (
    MANY,
    MAX_HELD_MS,
    assert_moments,
    held_ms,
)
from tests.unit.storage.tiered import tiered_config

OFFSET = 1_000_000
OPEN_FROM = 999_000
EPOCHS = [(0, 0)]


def snapshot_of(count: int) -> bytes:
    """So many producers with one batch each; the last has an open transaction."""
    entries = []
    for producer_id in range(count):
        entry = ProducerEntry(producer_id, 0)
        entry.batches.append(BatchMetadata(0, OFFSET - count + producer_id, 0, 5))
        entry.last_timestamp = 5
        entries.append(entry)
    entries[-1].current_txn_first_offset = OPEN_FROM
    return encode_snapshot(entries)


def empty_log(directory: Path) -> Log:
    log = manager_of(directory, config=tiered_config()).get_or_create_log("t", 0, TOPIC_ID, None, 0)
    append_as_leader(log, batch_of(b"v"), leader_epoch=0, now_ms=0)
    return log


def restart(log: Log, snapshot: bytes) -> None:
    log.restart_behind_tier(OFFSET, 0, EPOCHS, snapshot, 0)


def restart_whole(log: Log, snapshot: bytes, offset: int) -> None:
    log.restart_behind_tier(offset, 0, EPOCHS, snapshot, 0)
    while not log.rebuild_some():
        pass


def produce(log: Log, producer_id: int, sequence: int) -> None:
    batch = batch_of(b"v", producer_id=producer_id, epoch=0, sequence=sequence)
    append_as_leader(log, batch, leader_epoch=0, now_ms=0)


def test_very_many_hold_the_loop_for_moments(tmp_path: Path) -> None:
    snapshot = snapshot_of(MANY)

    def take(directory: Path) -> list[float]:
        log = empty_log(directory)
        took = [held_ms(lambda: restart(log, snapshot))]
        is_done = [False]

        def go_on() -> None:
            is_done[0] = log.rebuild_some()

        while not is_done[0]:
            took.append(held_ms(go_on))
        assert len(log.producers.known.entries) == MANY
        assert len(took) > MANY / ROWS_READ_AT_ONCE
        return took

    assert_moments(tmp_path, take)


def test_readers_of_committed_records_wait_for_open_transactions_meanwhile(tmp_path: Path) -> None:
    count = 40 * ROWS_READ_AT_ONCE
    log = empty_log(tmp_path)
    restart(log, snapshot_of(count))
    assert log.producers.is_being_rebuilt
    assert log.last_stable_offset == OPEN_FROM
    with pytest.raises(RebuildUnderWay):
        produce(log, 7, 1)
    while not log.rebuild_some():
        assert log.last_stable_offset == OPEN_FROM
    assert log.last_stable_offset == OPEN_FROM
    with pytest.raises(KafkaError) as refused:
        produce(log, 7, 5)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    produce(log, 7, 1)


def test_a_few_are_loaded_for_the_first_append(tmp_path: Path) -> None:
    log = empty_log(tmp_path)
    restart(log, snapshot_of(PIECES_FOR_APPENDS))
    produce(log, 3, 1)
    assert log.producers.known.entries[3].last_sequence == 1


@pytest.mark.parametrize("offset", [OFFSET - 1, OPEN_FROM])
def test_a_snapshot_from_behind_the_offset_is_none(tmp_path: Path, offset: int) -> None:
    log = empty_log(tmp_path)
    with pytest.raises(KafkaError) as refused:
        restart_whole(log, snapshot_of(3), offset)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(KafkaError, match="from behind its offset"):
        produce(log, 3, 1)


def test_a_damaged_snapshot_is_refused_at_once(tmp_path: Path) -> None:
    log = empty_log(tmp_path)
    with pytest.raises(KafkaError) as refused:
        restart(log, snapshot_of(3)[:-1] + b"?")
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_open_transactions_are_found_in_a_moment() -> None:
    snapshot = snapshot_of(MANY)
    took = [held_ms(lambda: with_open_transactions(snapshot)) for _ in range(3)]
    assert min(took) < MAX_HELD_MS, took


def test_those_with_open_transactions_are_found_alone() -> None:
    (found,) = with_open_transactions(snapshot_of(30))
    assert (found.producer_id, found.current_txn_first_offset) == (29, OPEN_FROM)
