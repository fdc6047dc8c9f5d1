"""What the files of a segment say of it, and what is left out since they contradict each other."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pybroker_kafka.replication.remote.copying import producers_of
from pybroker_kafka.replication.remote.importing import (
    DamagedSegment,
    describe,
    line_up,
    open_transactions,
    stored_segments,
)
from pybroker_kafka.storage.producer_entry import BatchMetadata, ProducerEntry
from pybroker_kafka.storage.producer_snapshot import decode_snapshot, encode_snapshot
from pybroker_kafka.storage.remote.names import StoredFile
from pybroker_kafka.storage.remote.segments import IMPORTED
from pybroker_kafka.storage.remote.storage_manager import RemoteStorageError
from tests.unit.storage.remote.test_audit import Tier, flipped

NOW_MS = 77


def files_of(tier: Tier) -> list[StoredFile]:
    return [one for one in tier.store.stored_files() if isinstance(one, StoredFile)]


def test_a_segment_is_described_as_it_was_copied(tmp_path: Path) -> None:
    tier = Tier(tmp_path)
    whole, parts = stored_segments(files_of(tier), ["history"])
    assert parts == []
    described = [describe(tier.store, one, NOW_MS) for one in whole]
    found = sorted((one.metadata for one in described), key=lambda one: one.start_offset)
    for one, known in zip(found, tier.segments, strict=True):
        newest = one.max_timestamp_ms
        assert newest == 1000  # of the time index: the batches have no timestamps
        assert one == replace(
            known, broker_id=IMPORTED, event_timestamp_ms=NOW_MS, max_timestamp_ms=newest,
            state=one.state,
        )  # fmt: skip
    lineup = line_up(described)
    assert [one.segment_id for one in lineup.segments] == [one.segment_id for one in tier.segments]
    assert (lineup.log_start_offset, lineup.next_offset, lineup.last_epoch) == (0, 60, 0)
    assert lineup.size_bytes == sum(one.segment_size_bytes for one in tier.segments)
    assert (lineup.holes, lineup.left) == ([], [])
    assert open_transactions(tier.store, lineup.segments[-1]) == []
    assert stored_segments(files_of(tier), ["other"]) == ([], [])


def test_a_hole_is_told_and_passed_over(tmp_path: Path) -> None:
    tier = Tier(tmp_path)
    tier.path(1, ".log").unlink()
    whole, parts = stored_segments(files_of(tier), [])
    assert parts == [tier.segments[1].segment_id]
    lineup = line_up([describe(tier.store, one, NOW_MS) for one in whole])
    assert lineup.holes == [(20, 39)]
    ends = [(one.start_offset, one.end_offset) for one in lineup.segments]
    assert ends == [(0, 39), (40, 59)]


def cut(data: bytes) -> bytes:
    return data[:-1]


@pytest.mark.parametrize(
    ("suffix", "damage", "text"),
    [
        (".log", cut, "middle of a batch"),
        (".log", lambda data: flipped(data, len(data) - 1), "another CRC"),
        (".log", lambda data: data[len(data) // 2 :], "middle of a batch|cannot be read"),
        (".index", cut, "offset index has 7 bytes"),
        (".index", lambda _: struct.pack(">ii", 19, 5), "cannot be read|middle|offset"),
        (".timeindex", cut, "time index has 11 bytes"),
        (".snapshot", cut, "snapshot cannot be read"),
        (".leader_epoch_checkpoint", lambda _: b"0\n0\n", "none of its epochs"),
    ],
)
def test_damage_is_told(
    tmp_path: Path, suffix: str, damage: Callable[[bytes], bytes], text: str
) -> None:
    tier = Tier(tmp_path, 1)
    path = tier.path(0, suffix)
    path.write_bytes(damage(path.read_bytes()))
    ((one,), _) = stored_segments(files_of(tier), [])
    with pytest.raises(DamagedSegment, match=text):
        describe(tier.store, one, NOW_MS)


def test_of_a_lost_cluster_only_producers_with_open_transactions_stay(tmp_path: Path) -> None:
    segment = Tier(tmp_path, 1).segments[0]
    done, in_transaction = ProducerEntry(7, 0), ProducerEntry(8, 3)
    in_transaction.current_txn_first_offset = 12
    in_transaction.batches.append(BatchMetadata(4, 16, 4, 1000))
    snapshot = encode_snapshot([done, in_transaction])
    assert producers_of(segment, snapshot) == snapshot
    lost = replace(segment, broker_id=IMPORTED)
    (kept,) = decode_snapshot(producers_of(lost, snapshot))
    assert (kept.producer_id, kept.current_txn_first_offset) == (8, 12)
    assert not kept.batches  # its id is given again, to a producer that begins anew
    with pytest.raises(RemoteStorageError, match="damaged producer snapshot"):
        producers_of(lost, snapshot[:-1])
