"""Loading after clean and unclean stops: torn tails at every byte, missing and damaged files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pybroker_kafka.protocol.records.batch import iter_batch_headers
from pybroker_kafka.storage import checkpoints
from pybroker_kafka.storage.files import Files
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_manager import LogManager
from tests.support.appends import append_as_leader
from tests.support.log_checkpoints import checkpoint_recovery_points
from tests.support.nightly import chosen
from tests.unit.storage.helpers import TOPIC_ID, batch_of, config_of, manager_of


def stopped_directory(root: Path, batches: int = 4, *, clean: bool, **overrides: object) -> Path:
    """A log directory with some batches of three records, its broker stopped or killed."""
    manager = manager_of(root, config=config_of(**overrides))
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    for number in range(batches):
        append_as_leader(
            log,
            batch_of(
                b"a" * 30,
                b"b" * 30,
                b"c" * 30,
                timestamp=1000 + number,
                producer_id=9,
                epoch=0,
                sequence=3 * number,
            ),
            leader_epoch=number // 2,
            now_ms=0,
        )
    if clean:
        manager.clean_shutdown()
    else:
        manager.release()
    return root / "t-0"


def reopened(root: Path, **overrides: object) -> tuple[LogManager, Log]:
    manager = manager_of(root, config=config_of(**overrides))
    log = manager.get_log("t", 0)
    assert log is not None
    return manager, log


def offsets_in(log: Log) -> list[int]:
    found: list[int] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20, upper_bound_offset=log.log_end_offset).records.read()
        for _, header in iter_batch_headers(data):
            found += range(header.base_offset, header.next_offset)
        offset = found[-1] + 1
    return found


@pytest.mark.parametrize("filler", chosen(["cut", "zeros", "ones"], ["cut", "zeros"]))
def test_a_torn_tail_at_every_byte(tmp_path: Path, filler: str) -> None:
    partition = stopped_directory(tmp_path / "made", clean=False)
    name = "00000000000000000000.log"
    whole = (partition / name).read_bytes()
    last = [position for position, _ in iter_batch_headers(whole)][-1]
    for length in range(last, len(whole)):
        root = tmp_path / f"{filler}{length}"
        shutil.copytree(tmp_path / "made", root)
        torn = whole[:length]
        if filler != "cut":
            torn += (b"\0" if filler == "zeros" else b"\xff") * (len(whole) - length)
        if torn == whole:
            continue
        (root / "t-0" / name).write_bytes(torn)
        manager, log = reopened(root)
        assert log.log_end_offset == 9
        assert os.path.getsize(root / "t-0" / name) == last
        assert log.producer_state.entries[9].last_sequence == 8
        assert log.leader_epochs.entries == [(0, 0), (1, 6)]
        info = append_as_leader(log, batch_of(b"next"), leader_epoch=2, now_ms=0)
        assert info.first_offset == 9
        manager.release()
        shutil.rmtree(root)


def test_a_flipped_byte_cuts_the_log_there_and_drops_later_segments(tmp_path: Path) -> None:
    partition = stopped_directory(tmp_path, 6, clean=False, segment_bytes=400)
    logs = sorted(p.name for p in partition.glob("*.log"))
    assert len(logs) >= 3
    damaged = partition / logs[1]
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    _, log = reopened(tmp_path, segment_bytes=400)
    kept = sorted(p.name for p in partition.glob("*.log"))
    assert kept == logs[:2]
    assert offsets_in(log) == list(range(log.log_end_offset))
    assert log.log_end_offset < 18


def test_flushed_segments_are_not_read_again(tmp_path: Path) -> None:
    """Recovery begins at the recovery point: damage before it is not looked for."""
    manager = manager_of(tmp_path, config=config_of(segment_bytes=400))
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    for _ in range(6):
        append_as_leader(log, batch_of(b"a" * 30, b"b" * 30, b"c" * 30), leader_epoch=0, now_ms=0)
    log.flush()
    checkpoint_recovery_points(manager)
    manager.release()
    first = tmp_path / "t-0" / "00000000000000000000.log"
    data = bytearray(first.read_bytes())
    data[100] ^= 1
    first.write_bytes(data)
    _, log = reopened(tmp_path, segment_bytes=400)
    assert log.log_end_offset == 18
    assert log.recovery_point == 18


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    ("suffix", "how"),
    [
        ("index", "missing"),
        ("index", "odd size"),
        ("index", "zeros"),
        ("timeindex", "missing"),
        ("timeindex", "odd size"),
    ],
)
def test_indexes_are_rebuilt(tmp_path: Path, suffix: str, how: str, clean: bool) -> None:
    settings = {"segment_bytes": 500, "index_interval_bytes": 100}
    partition = stopped_directory(tmp_path, 8, clean=clean, **settings)
    good = {p.name: p.read_bytes() for p in partition.glob(f"*.{suffix}")}
    for name, data in good.items():
        path = partition / name
        if how == "missing":
            path.unlink()
        elif how == "odd size":
            path.write_bytes(data + b"\x01")
        else:
            path.write_bytes(bytes(len(data)))
    manager, log = reopened(tmp_path, **settings)
    assert offsets_in(log) == list(range(24))
    for number in range(8):
        found = log.offset_for_timestamp(1000 + number)
        assert found is not None
        assert found[:2] == (1000 + number, 3 * number)
    manager.clean_shutdown()
    if suffix == "index":
        assert {p.name: p.read_bytes() for p in partition.glob("*.index")} == {
            name: (partition / name).read_bytes() for name in good
        }


def test_a_clean_stop_trims_and_a_start_grows_the_active_indexes(tmp_path: Path) -> None:
    partition = stopped_directory(tmp_path, 8, clean=True, index_interval_bytes=100)
    base = partition / "00000000000000000000"
    assert base.with_suffix(".index").stat().st_size % 8 == 0
    assert 0 < base.with_suffix(".index").stat().st_size < 100
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    manager, log = reopened(tmp_path, index_interval_bytes=100)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert base.with_suffix(".index").stat().st_size == 10 * 1024 * 1024
    assert base.with_suffix(".timeindex").stat().st_size == 10 * 1024 * 1024 // 12 * 12
    assert log.recovery_point == log.log_end_offset == 24
    assert log.producer_state.entries[9].last_sequence == 23
    manager.release()


def test_snapshots_are_kept_at_segment_bases_and_the_end(tmp_path: Path) -> None:
    partition = stopped_directory(tmp_path, 8, clean=True, segment_bytes=500)
    bases = {p.stem for p in partition.glob("*.log")}
    snapshots = {p.stem for p in partition.glob("*.snapshot")}
    assert snapshots == (bases - {"0" * 20}) | {f"{24:020d}"}


def test_a_log_that_ends_below_its_start_is_dropped(tmp_path: Path) -> None:
    """All its records were deleted; a power cut took its end, which nobody wants any more."""
    stopped_directory(tmp_path, 2, clean=False)
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 100\n")
    checkpoints.write_offsets(
        Files(), str(tmp_path / checkpoints.LOG_START_OFFSET_FILE), {("t", 0): 100}
    )
    _, log = reopened(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert [s.base_offset for s in log.segments] == [100]


def test_high_watermark_is_bounded_by_the_log(tmp_path: Path) -> None:
    stopped_directory(tmp_path, 2, clean=False)
    checkpoints.write_offsets(
        Files(), str(tmp_path / checkpoints.HIGH_WATERMARK_FILE), {("t", 0): 100}
    )
    _, log = reopened(tmp_path)
    assert log.high_watermark == log.log_end_offset == 6


def test_files_of_interrupted_work_are_tidied_up(tmp_path: Path) -> None:
    partition = stopped_directory(tmp_path, 2, clean=True)
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000003.log.cleaned",
        "00000000000000000003.index.cleaned",
        "00000000000000000099.index",
    ):
        (partition / name).write_bytes(b"x" * 10)
    reopened(tmp_path)
    names = set(os.listdir(partition))
    assert not {n for n in names if n.endswith((".deleted", ".cleaned"))}
    assert "00000000000000000099.index" not in names


def test_a_complete_swap_replaces_the_segments_it_was_made_from(tmp_path: Path) -> None:
    partition = stopped_directory(tmp_path, 8, clean=True, segment_bytes=500)
    first, second, *rest = sorted(p.name for p in partition.glob("*.log"))
    merged = (partition / first).read_bytes() + (partition / second).read_bytes()
    (partition / f"{first}.swap").write_bytes(merged)
    _, log = reopened(tmp_path, segment_bytes=500)
    assert sorted(p.name for p in partition.glob("*.log")) == [first, *rest]
    assert (partition / first).read_bytes() == merged
    assert offsets_in(log) == list(range(24))


def test_a_topic_id_is_kept(tmp_path: Path) -> None:
    stopped_directory(tmp_path, 1, clean=False)
    _, log = reopened(tmp_path)
    assert log.topic_id == TOPIC_ID


@pytest.mark.parametrize("name", ["leader-epoch-checkpoint", "partition.metadata"])
@pytest.mark.parametrize("content", [b"", b"\0" * 20, b"0\n9\n"])
def test_metadata_damaged_before_its_first_sync(tmp_path: Path, name: str, content: bytes) -> None:
    partition = stopped_directory(tmp_path, 4, clean=False)
    (partition / name).write_bytes(content)
    _, log = reopened(tmp_path)
    assert log.leader_epochs.entries == [(0, 0), (1, 6)]
    assert log.topic_id == (None if name == "partition.metadata" else TOPIC_ID)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("wrong", [7, 100, 2**63 - 1])
def test_a_log_start_that_the_epochs_do_not_know_is_wrong(
    tmp_path: Path, clean: bool, wrong: int
) -> None:
    """No damaged number takes records away."""
    stopped_directory(tmp_path, 4, clean=clean)
    checkpoints.write_offsets(
        Files(), str(tmp_path / checkpoints.LOG_START_OFFSET_FILE), {("t", 0): wrong}
    )
    _, log = reopened(tmp_path)
    assert (log.log_start_offset, log.log_end_offset) == (0, 12)


def test_epochs_that_cannot_be_read_are_in_the_batches(tmp_path: Path) -> None:
    partition = stopped_directory(tmp_path / "a", 4, clean=True)
    epochs = (partition / "leader-epoch-checkpoint").read_bytes()
    for damaged in (b"0\n9\n", b"", b"\xff\xfe", b"0\n2\n5 0\n4 3\n", b"0\n1\n3000000000 0\n"):
        (partition / "leader-epoch-checkpoint").write_bytes(damaged)
        manager = manager_of(tmp_path / "a", tmp_path / "b")
        assert len(manager.online_directories()) == 2
        assert manager.get_log("t", 0) is not None
        assert (partition / "leader-epoch-checkpoint").read_bytes() == epochs
        manager.clean_shutdown()


def test_recovery_of_a_later_segment_keeps_where_its_epoch_began(tmp_path: Path) -> None:
    """Found by simulation: the epoch seemed to begin at the first segment that was recovered, so
    followers kept batches of an older epoch below it."""
    manager = manager_of(tmp_path, config=config_of(segment_bytes=250))
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    for number in range(4):
        append_as_leader(log, batch_of(b"a" * 60, b"b" * 60), leader_epoch=min(number, 1), now_ms=0)
    assert log.segments.base_offsets == [0, 2, 4, 6]
    log.flush(6)
    checkpoint_recovery_points(manager)
    manager.release()
    _, log = reopened(tmp_path, segment_bytes=250)
    assert log.recovery_point == 6
    assert log.leader_epochs.entries == [(0, 0), (1, 2)]
    assert log.end_offset_for_epoch(0) == (0, 2)


def killed_after_five_batches(directory: Path) -> None:
    manager = manager_of(directory)
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    for sequence in range(5):
        batch = batch_of(b"v", producer_id=7, epoch=0, sequence=sequence)
        append_as_leader(log, batch, leader_epoch=0, now_ms=0)
    manager.release()


def offsets_of_retries(log: Log, sequences: range) -> list[int]:
    retries = (batch_of(b"v", producer_id=7, epoch=0, sequence=number) for number in sequences)
    return [
        append_as_leader(log, batch, leader_epoch=0, now_ms=0).first_offset for batch in retries
    ]


def test_each_batch_that_a_crash_left_unanswered_is_known_as_a_duplicate(tmp_path: Path) -> None:
    """Found with librdkafka: of several batches that it sent again after a SIGKILL only the last
    was known, and it took OUT_OF_ORDER_SEQUENCE_NUMBER for the first as data lost: a fatal error.
    """
    killed_after_five_batches(tmp_path)
    _, log = reopened(tmp_path)
    assert offsets_of_retries(log, range(5)) == [0, 1, 2, 3, 4]
    assert log.log_end_offset == 5


def test_duplicates_are_known_after_two_crashes(tmp_path: Path) -> None:
    killed_after_five_batches(tmp_path)
    manager, _ = reopened(tmp_path)
    manager.release()
    _, log = reopened(tmp_path)
    assert offsets_of_retries(log, range(5)) == [0, 1, 2, 3, 4]


def test_duplicates_are_known_after_a_truncation_down_to_a_snapshot(tmp_path: Path) -> None:
    killed_after_five_batches(tmp_path)
    _, log = reopened(tmp_path)
    later = batch_of(b"v", producer_id=7, epoch=0, sequence=5)
    append_as_leader(log, later, leader_epoch=0, now_ms=0)
    assert log.truncate_to(5)
    assert log.producers.snapshots.offsets == [5]
    assert offsets_of_retries(log, range(1, 5)) == [1, 2, 3, 4]
    assert log.log_end_offset == 5


@pytest.mark.parametrize(("flush_messages", "is_flushed"), [(1, True), (3, True), (4, False)])
def test_what_has_to_be_on_disk_is_when_the_log_is_loaded(
    tmp_path: Path, flush_messages: int, is_flushed: bool
) -> None:
    """Or the HW of its leader would wait for that, and clients with it."""
    stopped_directory(tmp_path, 1, clean=False, flush_messages=flush_messages)
    _, log = reopened(tmp_path, flush_messages=flush_messages)
    assert (log.log_end_offset, log.unflushed_from) == (3, -1)
    assert log.recovery_point == (3 if is_flushed else 0)
