"""Power cuts around truncations and rolls: what recovery leaves is a prefix of what was written.

A log that goes on behind a hole would differ from its leader's in the same epoch, which no later
truncation by epochs mends.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker_kafka.protocol.records.batch import iter_batch_headers
from pybroker_kafka.storage.checkpoints import CLEANER_FILE
from pybroker_kafka.storage.cleaner.manager import CleanerSettings
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_jobs import CHECKPOINTED
from pybroker_kafka.storage.log_manager import LogManager
from pybroker_kafka.storage.recovery_notes import (
    GAPS_FILE,
    NO_GAPS_FILE,
    STALE_RECOVERY_POINTS_FILE,
)
from tests.support.appends import append_as_leader
from tests.support.cleaning import surviving
from tests.support.faulty_files import FaultyFiles
from tests.support.log_checkpoints import checkpoint_recovery_points, cut
from tests.unit.storage.compacted import Compacted
from tests.unit.storage.helpers import TOPIC_ID, batch_of, config_of, manager_of

SIZE = len(batch_of(b"v" * 20))
A_SEGMENT = {"segment_bytes": 3 * SIZE}

Losses = dict[str, tuple[str, int]]


class Replica:
    """One log of batches of one record, three to a segment, on a disk that can lose power."""

    def __init__(self, root: Path, **overrides: object) -> None:
        self.root = root
        self.files = FaultyFiles()
        self.config = config_of(**(A_SEGMENT | overrides))
        self.open()

    def open(self) -> None:
        self.manager: LogManager = manager_of(self.root, files=self.files, config=self.config)
        self.log: Log = self.manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)

    def append(self, count: int, epoch: int = 0) -> None:
        for _ in range(count):
            append_as_leader(self.log, batch_of(b"v" * 20), leader_epoch=epoch, now_ms=0)

    def flush(self) -> None:
        self.log.flush()
        checkpoint_recovery_points(self.manager)

    def truncate_to(self, offset: int) -> bool:
        return cut(self.log, offset)

    def write_checkpoints(self) -> None:
        for name in CHECKPOINTED:
            for job in self.manager.maintenance.checkpoint_jobs(name):
                job.run()

    def lose_power(self, losses: Losses) -> None:
        """Of the named segments the unsynced bytes, in that way; all else is kept."""
        self.manager.release()
        kept = "cut", 0
        self.files.crash(str(self.root / "t-0"), lambda path, _: losses.get(Path(path).stem, kept))
        self.open()

    @property
    def offsets(self) -> list[int]:
        """Of all batches, segment by segment."""
        found = []
        for segment in self.log.segments:
            data = segment.log_file.read_at(segment.size, 0)
            found += [header.base_offset for _, header in iter_batch_headers(data)]
        return found


@pytest.fixture
def replica(tmp_path: Path) -> Replica:
    return Replica(tmp_path)


def segment(base_offset: int) -> str:
    return f"{base_offset:020d}"


LOSSES: list[tuple[str, int]] = [("cut", SIZE), ("cut", 1), ("zero", 3), ("hole", SIZE)]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_segment_before_the_last_loses_its_tail(replica: Replica, loss: tuple[str, int]) -> None:
    replica.append(7)
    replica.lose_power({segment(3): loss})
    ends_at = 3 if loss[0] == "hole" else 5
    assert replica.offsets == list(range(ends_at))
    assert replica.log.log_end_offset == ends_at


@pytest.mark.parametrize("loss", LOSSES)
def test_what_follows_a_truncation_is_recovered(replica: Replica, loss: tuple[str, int]) -> None:
    """Found by simulation (seed 2218): flushed, cut, written anew over two segments; the checkpoint
    still showed the recovery point of before, in the second one."""
    replica.append(8)
    replica.flush()
    replica.truncate_to(4)
    replica.append(5, epoch=1)
    replica.lose_power({segment(3): loss})
    ends_at = 4 if loss[0] == "hole" else 5
    assert replica.offsets == list(range(ends_at))
    assert replica.log.recovery_point == 4


def test_a_checkpoint_that_is_being_written_during_a_truncation(replica: Replica) -> None:
    replica.append(8)
    replica.log.flush()
    jobs = replica.manager.tick(60_000)
    replica.truncate_to(4)
    for job in jobs:
        job.run()
    replica.append(5, epoch=1)
    replica.lose_power({segment(3): ("cut", SIZE)})
    assert replica.offsets == list(range(5))


def test_a_second_truncation_while_the_checkpoint_of_the_first_is_due(replica: Replica) -> None:
    """The old one is still on disk, though what is about to be written was taken twice over."""
    replica.append(8)
    replica.flush()
    replica.truncate_to(5)
    replica.append(2, epoch=1)
    replica.manager.tick(60_000)
    replica.truncate_to(4)
    replica.append(5, epoch=2)
    replica.lose_power({segment(3): ("cut", SIZE)})
    assert replica.offsets == list(range(5))


def test_truncations_one_after_the_other(replica: Replica) -> None:
    replica.append(8)
    replica.flush()
    replica.truncate_to(2)
    replica.append(6, epoch=1)
    replica.log.flush()
    replica.truncate_to(7)  # what the checkpoint shows has meant 2 since the first one
    replica.append(2, epoch=2)
    replica.lose_power({segment(6): ("zero", 3)})
    assert replica.offsets == list(range(8))
    assert replica.log.recovery_point == 2


def test_a_new_checkpoint_ends_the_doubt(replica: Replica) -> None:
    replica.append(8)
    replica.flush()
    replica.truncate_to(4)
    replica.append(5, epoch=1)
    replica.flush()
    replica.lose_power({})
    assert replica.log.recovery_point == 9
    checkpoint_recovery_points(replica.manager)
    replica.truncate_to(8)
    replica.append(1, epoch=2)
    replica.lose_power({})
    assert replica.log.recovery_point == 8


def test_no_truncation_above_the_recovery_point_is_noted(replica: Replica) -> None:
    replica.append(4)
    replica.flush()
    replica.append(4)
    syncs = replica.files.syncs
    replica.truncate_to(4)
    assert replica.files.syncs == syncs
    assert not (replica.root / "t-0" / STALE_RECOVERY_POINTS_FILE).exists()


@pytest.mark.parametrize("content", [b"", b"\0" * 9, b"0\n1\n4\n", b"0\n1\na b\n"])
def test_a_damaged_note_means_that_nothing_is_certain(replica: Replica, content: bytes) -> None:
    replica.append(8)
    replica.flush()
    replica.truncate_to(4)
    replica.append(5, epoch=1)
    (replica.root / "t-0" / STALE_RECOVERY_POINTS_FILE).write_bytes(content)
    replica.lose_power({segment(3): ("zero", 3)})
    assert replica.offsets == list(range(5))
    assert replica.log.recovery_point == 0


def test_a_new_log_does_not_inherit_a_recovery_point(replica: Replica) -> None:
    replica.append(8)
    replica.flush()
    replica.manager.delete_log("t", 0, 0)
    replica.log = replica.manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    replica.append(8)
    replica.lose_power({segment(3): ("cut", SIZE)})
    assert replica.offsets == list(range(5))


def test_topic_id_of_a_new_log(replica: Replica) -> None:
    """Its file was never forced to disk, whatever the recovery point of the earlier log says."""
    replica.append(8)
    replica.flush()
    replica.manager.delete_log("t", 0, 0)
    replica.manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    replica.lose_power({"partition": ("zero", 20)})
    assert replica.log.topic_id == TOPIC_ID  # as the controller names it
    assert replica.log.log_end_offset == 0


@pytest.mark.parametrize("clean", [True, False])
def test_checkpoints_from_after_a_truncation_count(replica: Replica, clean: bool) -> None:
    replica.append(8)
    replica.flush()
    replica.truncate_to(4)
    replica.append(3, epoch=1)
    replica.log.flush()
    replica.log.update_high_watermark(7)
    replica.log.maybe_increment_log_start_offset(6)
    replica.write_checkpoints()  # a recovery point of 7, which could be one from before
    if clean:
        replica.manager.clean_shutdown()
        replica.open()
        assert (replica.log.log_start_offset, replica.log.high_watermark) == (6, 7)
    else:
        replica.append(2, epoch=1)
        replica.log.flush()
        replica.log.update_high_watermark(9)
        replica.write_checkpoints()
        replica.lose_power({})
        assert (replica.log.log_start_offset, replica.log.high_watermark) == (6, 9)


def test_a_log_that_recovery_cut_does_not_inherit_a_recovery_point(replica: Replica) -> None:
    """Segments below the recovery point are gone (a bad disk): the checkpoint is above the end."""
    replica.append(8)
    replica.flush()
    replica.manager.release()
    for base_offset in (3, 6):
        (replica.root / "t-0" / f"{segment(base_offset)}.log").unlink()
    replica.open()
    assert replica.log.log_end_offset == 3
    replica.append(5, epoch=1)
    replica.lose_power({segment(3): ("cut", SIZE)})
    assert replica.offsets == list(range(5))


@pytest.mark.parametrize("stop", [LogManager.release, LogManager.clean_shutdown])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_truncation_inside_of_a_batch_and_a_roll_leave_no_hole(
    tmp_path: Path, stop: Callable[[LogManager], None], policy: str
) -> None:
    """The segment behind the hole must not be taken for one that has lost what is before it."""
    replica = Replica(tmp_path, cleanup_policy=policy)
    three = batch_of(b"a", b"b", b"c")
    for _ in range(2):
        append_as_leader(replica.log, bytearray(three), leader_epoch=0, now_ms=0)
    assert replica.truncate_to(5)
    assert replica.log.log_end_offset == 3
    replica.log.roll(0)
    replica.append(4)
    stop(replica.manager)
    replica.open()
    assert replica.offsets == [0, 3, 4, 5, 6]
    assert replica.log.log_end_offset == 7


def test_a_truncation_inside_of_the_batch_of_the_log_start_begins_anew(replica: Replica) -> None:
    log = replica.log
    append_as_leader(log, batch_of(b"a", b"b", b"c", b"d"), leader_epoch=0, now_ms=0)
    log.update_high_watermark(2)
    log.maybe_increment_log_start_offset(2)
    assert log.truncate_to(3)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (2, 2, 2)
    assert log.segments.base_offsets == [2]


# Indexes of a segment that was flushed while it was active


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("how", ["cut", "zero", "hole"])
@pytest.mark.parametrize("lost", [1, 8, 13, 40, 1000])
def test_indexes_that_no_flush_has_seen(tmp_path: Path, suffix: str, how: str, lost: int) -> None:
    """All is flushed, then a roll: the indexes of the old segment are below the recovery point."""
    many = {"segment_bytes": 12 * SIZE, "index_interval_bytes": SIZE // 2}
    replica = Replica(tmp_path, **many)
    for number in range(12):
        batch = batch_of(b"v" * 20, timestamp=1000 + number)
        append_as_leader(replica.log, batch, leader_epoch=0, now_ms=0)
    replica.flush()
    replica.log.roll(0)
    path = tmp_path / "t-0" / f"{segment(0)}{suffix}"
    before = path.read_bytes()
    assert len(before) > 80
    replica.manager.release()
    replica.files.crash(
        str(tmp_path / "t-0"), lambda name, _: (how, lost if name == str(path) else 0)
    )
    replica.open()
    assert replica.offsets == list(range(12))
    for number in range(12):
        found = replica.log.offset_for_timestamp(1000 + number)
        assert found is not None
        assert found.offset == number
        read = replica.log.read(number, 1, upper_bound_offset=12).records.read()
        assert next(iter(iter_batch_headers(read)))[1].base_offset == number
    replica.manager.clean_shutdown()
    # Rebuilt, unless entries are only missing, or each look-up finds that the data denies them.
    assert path.read_bytes() == before or how == "cut" or (how, suffix) == ("hole", ".timeindex")


# Gaps that are none of a lost tail


def with_gaps(tmp_path: Path) -> Compacted:
    """Two cleaned segments, each of which ends below the next one's base, and two dirty ones."""
    compacted = Compacted(tmp_path, segment_bytes=600)
    for number in range(2):
        compacted.put([("k", "v" * 100)])
        compacted.put([(str(number), "v" * 100)])
        compacted.put([("k", "v" * 100)])
        compacted.roll()
    compacted.put([("k", "w" * 100)])
    compacted.roll()
    assert compacted.clean()
    compacted.put([("z", "v" * 100)])
    compacted.put([("z", "v" * 100)])
    compacted.roll()
    compacted.put([("z", "w" * 100)])
    segments = list(compacted.log.segments)
    assert [segment.base_offset for segment in segments] == [0, 3, 6, 7, 9]
    assert [segment.next_offset() for segment in segments] == [2, 5, 7, 9, 10]
    return compacted


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_gaps_of_a_cleaning_are_kept_before_its_checkpoint(tmp_path: Path, policy: str) -> None:
    compacted = with_gaps(tmp_path)
    assert not (tmp_path / CLEANER_FILE).exists()
    before = surviving(compacted.log)
    compacted.config = config_of(cleanup_policy=policy, segment_bytes=600)
    compacted.reopen(cleanly=False)
    assert surviving(compacted.log) == before
    assert compacted.log.log_end_offset == 10


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_gap_above_what_was_cleaned_is_a_lost_tail(tmp_path: Path, policy: str) -> None:
    compacted = with_gaps(tmp_path)
    compacted.manager.release()
    dirty = tmp_path / "t-0" / f"{segment(7)}.log"
    data = dirty.read_bytes()
    dirty.write_bytes(data[: len(data) // 2])
    compacted.config = config_of(cleanup_policy=policy, segment_bytes=600)
    compacted.open()
    assert [s.base_offset for s in compacted.log.segments] == [0, 3, 6, 7]
    assert compacted.log.log_end_offset == 8


@pytest.mark.parametrize("checkpointed", [True, False])
@pytest.mark.parametrize("content", [None, b"", b"0\n1\nx\n"])
def test_gaps_of_a_cleaner_that_leaves_no_note_are_kept(
    tmp_path: Path, content: bytes | None, checkpointed: bool
) -> None:
    """Apache Kafka's, which was ended before its checkpoint, in its first cleaning too; or the
    note is damaged."""
    compacted = with_gaps(tmp_path)
    before = surviving(compacted.log)
    compacted.manager.release()
    note = tmp_path / "t-0" / GAPS_FILE
    if content is None:
        note.unlink()  # as Apache Kafka does with files of this suffix
        (tmp_path / "t-0" / NO_GAPS_FILE).unlink()
    else:
        note.write_bytes(content)
    if checkpointed:
        (tmp_path / CLEANER_FILE).write_text("0\n1\nt 0 3\n")
    compacted.open()
    assert surviving(compacted.log) == before
    # What comes now is ours, and noted.
    assert note.read_text() == "0\n1\n10\n" if content is None else note.exists()


def test_a_new_compacted_log_vouches_for_itself(tmp_path: Path) -> None:
    """Its first lost tail is cut, though it was never cleaned; the note costs no sync."""
    replica = Replica(tmp_path, cleanup_policy="compact")
    assert (tmp_path / "t-0" / NO_GAPS_FILE).exists()
    syncs = replica.files.syncs
    replica.append(6)
    assert replica.files.syncs == syncs
    replica.lose_power({segment(0): ("cut", SIZE)})
    assert replica.offsets == [0, 1]


def test_the_note_of_gaps_never_goes_down(tmp_path: Path) -> None:
    compacted = with_gaps(tmp_path)
    note = tmp_path / "t-0" / GAPS_FILE
    assert note.read_text() == "0\n1\n7\n"
    compacted.log.first_dirty_offset = 0
    assert compacted.clean(settings=CleanerSettings(24 * 2, 0.9, 256))
    assert note.read_text() == "0\n1\n7\n"
    assert compacted.clean()
    assert note.read_text() == "0\n1\n9\n"
