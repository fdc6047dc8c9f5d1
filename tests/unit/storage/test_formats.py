"""Golden bytes of every file that a log directory holds, after Kafka's formats."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import crc32c
import pytest

from pybroker_kafka.storage import checkpoints
from pybroker_kafka.storage.checkpoints import CheckpointError, MetaProperties
from pybroker_kafka.storage.files import Files
from pybroker_kafka.storage.leader_epochs import LeaderEpochCache
from pybroker_kafka.storage.offset_index import OffsetIndex
from pybroker_kafka.storage.producer_entry import BatchMetadata, ProducerEntry
from pybroker_kafka.storage.producer_snapshot import (
    CorruptSnapshot,
    SnapshotStore,
    decode_snapshot,
    encode_snapshot,
)
from pybroker_kafka.storage.producer_state import ProducerState
from pybroker_kafka.storage.time_index import TimeIndex
from pybroker_kafka.storage.transaction_index import AbortedTransaction, TransactionIndex

FILES = Files()


def test_offset_index_entries_are_relative_offset_and_position(tmp_path: Path) -> None:
    path = str(tmp_path / "00000000000000000100.index")
    index = OffsetIndex(FILES, path, 100, 1003)
    index.open_for_append(1003)
    assert os.path.getsize(path) == 1000  # the largest multiple of 8
    index.append(105, 0x1234)
    index.append(0x1_0000 + 100, 0x7FFF_0000)
    index.trim()
    assert Path(path).read_bytes() == bytes.fromhex("0000000500001234000100007fff0000")
    again = OffsetIndex(FILES, path, 100, 1000)
    assert (again.entries, again.last_offset) == (2, 0x1_0000 + 100)


@pytest.mark.parametrize(
    ("offset", "found"),
    [
        (9, (10, 0)),
        (10, (10, 0)),
        (14, (10, 0)),
        (15, (15, 40)),
        (19, (15, 40)),
        (20, (20, 80)),
        (1000, (20, 80)),
    ],
)
def test_offset_index_finds_the_greatest_entry_not_above(
    tmp_path: Path, offset: int, found: tuple[int, int]
) -> None:
    index = OffsetIndex(FILES, str(tmp_path / "x.index"), 10, 800)
    index.open_for_append(800)
    index.append(15, 40)
    index.append(20, 80)
    assert index.look_up(offset) == found


def test_time_index_entries_are_timestamp_and_relative_offset(tmp_path: Path) -> None:
    path = str(tmp_path / "00000000000000000007.timeindex")
    index = TimeIndex(FILES, path, 7, 36)
    index.open_for_append(36)
    index.maybe_append(0x0102030405, 9)
    index.maybe_append(0x0102030405, 12)  # not larger: no entry
    index.maybe_append(0x0102030406, 12)
    assert index.is_full  # one slot is kept for closing
    index.maybe_append(0x0102030407, 13)
    assert index.entries == 2
    index.maybe_append(0x0102030407, 13, closing=True)
    index.trim()
    assert Path(path).read_bytes() == bytes.fromhex(
        "000000010203040500000002000000010203040600000005000000010203040700000006"
    )
    assert index.look_up(0x0102030404) == (-1, 7)
    assert index.look_up(0x0102030406) == (0x0102030406, 12)


def test_transaction_index_entries(tmp_path: Path) -> None:
    path = str(tmp_path / "00000000000000000000.txnindex")
    index = TransactionIndex(FILES, path)
    assert not os.path.exists(path)  # made on first use
    index.append(AbortedTransaction(7, 10, 20, 21))
    index.append(AbortedTransaction(8, 15, 30, 25))
    assert Path(path).read_bytes() == bytes.fromhex(
        "0000"
        "0000000000000007"
        "000000000000000a"
        "0000000000000014"
        "0000000000000015"
        "0000"
        "0000000000000008"
        "000000000000000f"
        "000000000000001e"
        "0000000000000019"
    )
    again = TransactionIndex(FILES, path)
    assert again.collect(0, 16) == ([(7, 10, 20, 21), (8, 15, 30, 25)][:1], True)
    assert again.collect(21, 40)[0] == [(8, 15, 30, 25)]
    again.truncate_to(30)
    assert os.path.getsize(path) == 34
    assert again.is_sane(0)
    Path(path).write_bytes(Path(path).read_bytes()[:-1])
    assert not TransactionIndex(FILES, path).is_sane(0)


def snapshot_entry() -> ProducerEntry:
    entry = ProducerEntry(0x1122, 3)
    entry.batches.append(BatchMetadata(9, 100, 4, 0x0A0B))
    entry.last_timestamp = 0x0A0B
    entry.coordinator_epoch = 5
    entry.current_txn_first_offset = 96
    return entry


def test_producer_snapshot() -> None:
    body = bytes.fromhex(
        "00000001"
        "0000000000001122"
        "0003"
        "00000009"
        "0000000000000064"
        "00000004"
        "0000000000000a0b"
        "00000005"
        "0000000000000060"
    )
    golden = b"\x00\x01" + crc32c.crc32c(body).to_bytes(4, "big") + body
    assert encode_snapshot([snapshot_entry()]) == golden
    (read,) = decode_snapshot(golden)
    assert (read.producer_id, read.epoch, read.coordinator_epoch) == (0x1122, 3, 5)
    assert read.current_txn_first_offset == 96
    assert read.batches == [(9, 100, 4, 0x0A0B)]


def test_no_prefix_and_no_flipped_bit_of_a_snapshot_is_taken() -> None:
    golden = encode_snapshot([snapshot_entry()])
    for length in range(len(golden)):
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(golden[:length])
    for position in range(len(golden)):
        damaged = bytearray(golden)
        damaged[position] ^= 0x40
        with pytest.raises(CorruptSnapshot):
            decode_snapshot(bytes(damaged))


def test_a_damaged_snapshot_gives_way_to_an_older_one(tmp_path: Path) -> None:
    store = SnapshotStore(FILES, str(tmp_path))
    state = ProducerState()
    state.entries[0x1122] = snapshot_entry()
    for offset in (101, 150):
        state.map_end_offset = offset
        assert store.take(state)
    Path(store.path(150)).write_bytes(b"\x00\x01rubbish")
    loaded = ProducerState()
    problems = []

    def load() -> Iterator[None]:
        problems.append((yield from SnapshotStore(FILES, str(tmp_path)).load_newest(loaded, 0)))

    assert len(list(load())) == 1  # the piece of the older one
    (problem,) = problems
    assert problem is not None
    assert "00000000000000000150.snapshot" in problem
    assert loaded.map_end_offset == 101
    assert loaded.transactions.first_unstable_offset == 96
    assert not os.path.exists(store.path(150))


def test_offset_checkpoint(tmp_path: Path) -> None:
    path = str(tmp_path / "replication-offset-checkpoint")
    checkpoints.write_offsets(FILES, path, {("b", 1): 5, ("a-b", 0): 2**40})
    assert Path(path).read_text() == "0\n2\na-b 0 1099511627776\nb 1 5\n"
    assert checkpoints.read_offsets(FILES, path) == {("b", 1): 5, ("a-b", 0): 2**40}
    assert not os.path.exists(path + ".tmp")
    Path(path).write_text("0\n0\n")
    assert checkpoints.read_offsets(FILES, path) == {}
    assert checkpoints.read_offsets(FILES, str(tmp_path / "absent")) == {}


@pytest.mark.parametrize(
    "text",
    ["1\n0\n", "0\n", "0\nx\n", "0\n2\na 0 1\n", "0\n1\na 0\n", "0\n1\na 0 x\n", "0\n0\na 0 1\n"],
)
def test_a_damaged_checkpoint_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "checkpoint"
    path.write_text(text)
    with pytest.raises(CheckpointError):
        checkpoints.read_offsets(FILES, str(path))


def test_leader_epoch_checkpoint(tmp_path: Path) -> None:
    cache = LeaderEpochCache(FILES, str(tmp_path))
    for epoch, start in [(0, 0), (2, 10), (5, 30)]:
        cache.assign(epoch, start)
    assert cache.sync() is False  # the directory is forced with the file
    assert (tmp_path / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n2 10\n5 30\n"
    assert LeaderEpochCache(FILES, str(tmp_path)).entries == [(0, 0), (2, 10), (5, 30)]


def test_meta_properties(tmp_path: Path) -> None:
    directory = str(tmp_path)
    assert checkpoints.read_meta_properties(FILES, directory) is None
    meta = MetaProperties(3, "lQyGzQ8kT7C1vMhCLNBbYw")
    checkpoints.write_meta_properties(FILES, directory, meta, 1_700_000_000_000)
    lines = (tmp_path / "meta.properties").read_text().splitlines()
    assert lines[:2] == ["#", "#Tue Nov 14 22:13:20 UTC 2023"]
    assert set(lines[2:]) == {"version=0", "broker.id=3", "cluster.id=lQyGzQ8kT7C1vMhCLNBbYw"}
    assert checkpoints.read_meta_properties(FILES, directory) == meta


def test_partition_metadata(tmp_path: Path) -> None:
    directory = str(tmp_path)
    topic_id = bytes(range(16))
    checkpoints.write_partition_topic_id(FILES, directory, topic_id)
    text = (tmp_path / "partition.metadata").read_text()
    assert text == "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert checkpoints.read_partition_topic_id(FILES, directory) == topic_id
    (tmp_path / "partition.metadata").write_text("version: 0\n")
    with pytest.raises(CheckpointError):
        checkpoints.read_partition_topic_id(FILES, directory)


def test_clean_shutdown_mark(tmp_path: Path) -> None:
    directory = str(tmp_path)
    checkpoints.write_clean_shutdown(FILES, directory)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":-1}'
    assert checkpoints.take_clean_shutdown(FILES, directory)
    assert not checkpoints.take_clean_shutdown(FILES, directory)
