"""A store against its metadata: each fault that can be planted is found, and nothing else."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pybroker_kafka.protocol.records.batch import update_crc
from pybroker_kafka.storage.producer_snapshot import encode_snapshot
from pybroker_kafka.storage.remote.audit import (
    Fault,
    RemoteStorageInventory,
    account,
    check_segment,
)
from pybroker_kafka.storage.remote.folders import LocalTieredStorage
from pybroker_kafka.storage.remote.names import StoredFile, stored_file
from pybroker_kafka.storage.remote.object_store import ObjectStore
from pybroker_kafka.storage.remote.segments import RemoteLogSegmentMetadata, RemoteLogSegmentState
from pybroker_kafka.storage.remote.storage_manager import LogSegmentData

from ..helpers import batch_of
from .tiers import PARTITION, segment_id, started

STARTED, FINISHED, DELETING, _ = RemoteLogSegmentState
EPOCH_POSITION = 12  # of a batch


def batch_at(offset: int, records: int, epoch: int = 0) -> bytes:
    batch = batch_of(*[b"x" * 50] * records)
    batch[:8] = offset.to_bytes(8)
    batch[EPOCH_POSITION : EPOCH_POSITION + 4] = epoch.to_bytes(4)
    update_crc(batch, 0)
    return bytes(batch)


class Tier:
    """A store in folders with copied segments of 20 records, two batches each."""

    def __init__(self, directory: Path, count: int = 3) -> None:
        self.directory = directory
        self.store = LocalTieredStorage({"dir": str(directory / "tier")})
        self.segments: list[RemoteLogSegmentMetadata] = []
        for number in range(count):
            self.copy(number, number * 20)

    def copy(self, number: int, start: int) -> None:
        first = batch_at(start, 10)
        log = first + batch_at(start + 10, 10)
        files = {
            "log": log,
            "index": struct.pack(">ii", 19, len(first)),
            "timeindex": struct.pack(">qi", 1000, 0),
            "snapshot": encode_snapshot([]),
        }
        for name, data in files.items():
            (self.directory / name).write_bytes(data)
        metadata = replace(started(number, start, start + 19), segment_size_bytes=len(log))
        given = LogSegmentData(
            log_segment=str(self.directory / "log"),
            offset_index=str(self.directory / "index"),
            time_index=str(self.directory / "timeindex"),
            transaction_index=None,
            producer_snapshot=str(self.directory / "snapshot"),
            leader_epochs=b"0\n1\n0 0\n",
        )
        self.store.copy_log_segment_data(metadata, given)
        self.segments.append(replace(metadata, state=FINISHED))

    def path(self, number: int, suffix: str) -> Path:
        start = self.segments[number].start_offset
        (found,) = Path(self.store.root).rglob(f"{start:020d}-*{suffix}")
        return found

    def accounted(self) -> list[tuple[Fault, str]]:
        found = account(self.segments, self.store.stored_files())
        return [(one.fault, f"{one.where}: {one.text}") for one in found]

    def checked(self) -> list[str]:
        return [one.text for each in self.segments for one in check_segment(self.store, each)]


def test_a_whole_tier_has_no_faults(tmp_path: Path) -> None:
    tier = Tier(tmp_path)
    assert isinstance(tier.store, RemoteStorageInventory)
    assert (tier.accounted(), tier.checked()) == ([], [])


def test_an_object_store_tells_the_same_files(tmp_path: Path) -> None:
    tier = Tier(tmp_path)
    objects = ObjectStore({"url": f"file://{tier.store.root}"})
    assert isinstance(objects, RemoteStorageInventory)
    assert set(objects.stored_files()) == set(tier.store.stored_files())
    assert len(set(objects.stored_files())) == 15


def test_missing_and_truncated_files_are_damage(tmp_path: Path) -> None:
    tier = Tier(tmp_path)
    tier.path(0, ".snapshot").unlink()
    log = tier.path(1, ".log")
    log.write_bytes(log.read_bytes()[:-10])
    size = tier.segments[1].segment_size_bytes
    assert tier.accounted() == [
        (Fault.DAMAGED, f"{segment_id(0)}: the .snapshot file is missing"),
        (Fault.DAMAGED, f"{segment_id(1)}: has {size - 10} bytes instead of {size}"),
    ]
    first, second = tier.checked()
    assert first == "the producer snapshot is missing"
    assert f"ends at {size - 10}, not at {size}" in second


def test_files_without_metadata_are_orphans(tmp_path: Path) -> None:
    tier = Tier(tmp_path)
    gone = tier.segments.pop()
    (Path(tier.store.root) / "a file").touch()
    (tier.path(0, ".log").parent / "x.log").touch()
    (Path(tier.store.root + ".copying") / "y.log").touch()
    found = tier.accounted()
    assert {fault for fault, _ in found} == {Fault.ORPHAN}
    assert len(found) == 4
    assert found[-1][1].startswith(f"{gone.segment_id}: 5 files with ")


@pytest.mark.parametrize("state", [STARTED, DELETING])
def test_what_began_is_unfinished(tmp_path: Path, state: RemoteLogSegmentState) -> None:
    tier = Tier(tmp_path)
    tier.segments[2] = replace(tier.segments[2], state=state)
    ((fault, text),) = tier.accounted()
    assert fault is Fault.UNFINISHED
    assert f"{state.name} by broker 1" in text


def test_offsets_between_segments_are_a_hole(tmp_path: Path) -> None:
    tier = Tier(tmp_path)
    tier.store.delete_log_segment_data(tier.segments.pop(1))
    assert tier.accounted() == [(Fault.HOLE, f"{PARTITION}: no segment has the offsets 20 to 39")]


def test_a_name_with_another_offset_is_damage(tmp_path: Path) -> None:
    tier = Tier(tmp_path)
    index = tier.path(0, ".timeindex")
    index.rename(str(index).replace("/00000000000000000000-", "/00000000000000000007-"))
    ((fault, text),) = tier.accounted()
    assert fault is Fault.DAMAGED
    assert "the .timeindex file is named after offset 7" in text


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes((data[position] ^ 0x55,)) + data[position + 1 :]


@pytest.mark.parametrize(
    ("suffix", "damage", "text"),
    [
        (".log", lambda data: flipped(data, 100), "the batch at 0 has another CRC"),
        (".log", lambda data: b"\0" * 7 + b"\1" + data[8:], "has offset 1"),
        (".log", lambda data: flipped(data, 11), "in the middle of a batch|another CRC"),
        (".log", lambda data: data[:16] + b"\x09" + data[17:], "cannot be read on from 0"),
        (".log", lambda data: data[: EPOCH_POSITION + 3] + b"\7" + data[EPOCH_POSITION + 4 :],
         "the batch at 0 has epoch 7"),
        (".index", lambda data: flipped(data, 7), "the offset index does not fit"),
        (".index", lambda data: data + b"1", "the offset index has 9 bytes"),
        (".timeindex", lambda data: data * 2 + bytes(12), "the time index does not ascend"),
        (".snapshot", lambda data: flipped(data, 3), "the producer snapshot cannot be read"),
        (".leader_epoch_checkpoint", lambda data: b"0\n1\n", "1 entries|0 entries"),
        (".leader_epoch_checkpoint", lambda data: b"0\n1\n5 0\n", "lacks epochs"),
        (".leader_epoch_checkpoint", lambda data: b"\xff", "cannot be read"),
    ],
)  # fmt: skip
def test_damaged_bytes_are_found(
    tmp_path: Path, suffix: str, damage: Callable[[bytes], bytes], text: str
) -> None:
    tier = Tier(tmp_path, 1)
    path = tier.path(0, suffix)
    path.write_bytes(damage(path.read_bytes()))
    found = tier.checked()
    assert any(one in fault for fault in found for one in text.split("|")), found


def test_a_missing_segment_is_damage(tmp_path: Path) -> None:
    tier = Tier(tmp_path, 1)
    tier.path(0, ".log").unlink()
    assert tier.checked() == ["the segment is missing"]


@pytest.mark.parametrize(
    "path",
    [
        "x.log",
        "t-0-AAECAwQFBgcICQoLDA0ODw/7.log",
        "t-0-AAECAwQFBgcICQoLDA0ODw/7-AAECAwQFBgcICQoLDA0ODw.tmp",
        "t-0-AAECAwQFBgcICQoLDA0/7-AAECAwQFBgcICQoLDA0ODw.log",
        "t-0-AAECAwQFBgcICQoLDA0ODw/7-AAECAwQFBgcICQoLDA0ODw.log/more",
    ],
)
def test_other_names_are_no_files_of_segments(path: str) -> None:
    assert stored_file(path, 1) is None


def test_names_are_read_as_they_are_written() -> None:
    path = "a-7-b.c_d-12-AAECAwQFBgcICQoLDA0ODw/00000000000000000042-_____________________w.log"
    found = stored_file(path, 9)
    assert isinstance(found, StoredFile)
    partition = found.segment_id.topic_id_partition
    assert (partition.topic, partition.partition) == ("a-7-b.c_d", 12)
    assert (found.start_offset, found.segment_id.id, found.suffix) == (42, b"\xff" * 16, ".log")
