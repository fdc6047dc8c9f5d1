"""Which log is cleaned, how far, and what comes between: on real files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import (
    ControlRecordType,
    SimpleRecord,
    iter_batch_headers,
)
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.storage.checkpoints import CLEANER_FILE
from pybroker_kafka.storage.cleaner.cleaner import MAX_SOURCES, Cleaner, CleaningAborted
from pybroker_kafka.storage.cleaner.manager import CleanerManager, consider
from pybroker_kafka.storage.local_log import CutNotNoted
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_config import LogConfig
from pybroker_kafka.storage.log_manager import LogManager
from tests.support.appends import append_as_leader
from tests.support.cleaning import (
    SETTINGS,
    clean,
    no_pace,
    run_cleaning,
    surviving,
)
from tests.support.crashing_files import Crash, CrashingFiles
from tests.support.faulty_files import FaultyFiles
from tests.support.log_checkpoints import checkpoint_recovery_points
from tests.unit.storage.compacted import Compacted
from tests.unit.storage.helpers import TOPIC_ID, config_of, manager_of


@pytest.fixture
def compacted(tmp_path: Path) -> Compacted:
    return Compacted(tmp_path)


def test_the_dirtiest_log_is_first_and_a_clean_one_waits(tmp_path: Path) -> None:
    manager = manager_of(tmp_path, config=config_of(cleanup_policy="compact"))
    for partition, dirty in ((0, 1), (1, 3)):
        log = manager.get_or_create_log("t", partition, TOPIC_ID, None, 0)
        for count in (2, dirty):
            for _ in range(count):
                append_as_leader(
                    log,
                    build_batch([SimpleRecord(1, b"%d" % log.log_end_offset, b"v")]),
                    leader_epoch=0,
                    now_ms=0,
                )
            log.roll(0)
        log.update_high_watermark(log.log_end_offset)
        log.first_dirty_offset = 2
    cleaners = CleanerManager(manager, 0)
    cleaning = cleaners.choose(0, SETTINGS)
    assert cleaning is not None
    assert cleaning.key == ("t", 1)
    assert cleaners.max_dirty_ratio == pytest.approx(0.6)
    # One third of the other is dirty; the default is a half. One is cleaned only once at a time.
    assert cleaners.choose(0, SETTINGS) is None
    run_cleaning(manager, cleaners, cleaning, 0)
    assert cleaning.log.first_dirty_offset == 5
    assert cleaners.choose(0, SETTINGS) is None
    manager.release()


def test_compaction_lags(tmp_path: Path) -> None:
    compacted = Compacted(
        tmp_path,
        min_compaction_lag_ms=100,
        max_compaction_lag_ms=1000,
        min_cleanable_dirty_ratio="1.0",
    )
    for timestamp in (1000, 1200, 1400):
        compacted.put([("a", "1")], timestamp=timestamp)
        compacted.roll()
    candidate = consider(compacted.log, 1300)
    assert candidate is not None
    assert (candidate.end_offset, candidate.delay_ms, candidate.is_due) == (2, 0, False)
    assert consider(compacted.log, 1050) is None
    candidate = consider(compacted.log, 2001)
    assert candidate is not None
    assert (candidate.end_offset, candidate.delay_ms, candidate.is_due) == (3, 1, True)
    assert compacted.clean(2001)
    assert compacted.offsets == [2]
    assert not compacted.clean(9000)


def test_a_topic_that_is_not_compacted_is_left_alone(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path, cleanup_policy="delete")
    compacted.put([("a", "1"), ("a", "2")])
    compacted.roll()
    assert not compacted.clean()


def test_compact_and_delete(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path, cleanup_policy="compact,delete", retention_ms=1000)
    for timestamp in (1000, 2000):
        compacted.put([(f"k{timestamp}", "1")], timestamp=timestamp)
        compacted.roll()
    cleaners = CleanerManager(compacted.manager, 0)
    cleaning = cleaners.choose(2500, SETTINGS)
    assert cleaning is not None
    list(cleaners.retain(2500))
    assert compacted.log.log_start_offset == 0  # not while it is being cleaned
    cleaners.ended(cleaning)
    list(cleaners.retain(2500))
    assert compacted.log.log_start_offset == 1
    assert compacted.clean(2500)
    assert compacted.offsets == [1]


def test_the_checkpoint_lives_on(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path)
    compacted.put([("a", "1")])
    compacted.put([("b", "2")])
    compacted.roll()
    compacted.clean()
    compacted.reopen()
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 2\n"
    assert compacted.log.first_dirty_offset == 2
    assert not compacted.clean()
    with pytest.raises(CutNotNoted):
        compacted.log.truncate_to(1, 0)
    compacted.log.flush()
    compacted.log.truncate_to(1, 0)
    assert compacted.log.first_dirty_offset == 1
    for job in compacted.manager.tick(0):
        job.run()
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 1\n"
    # One that is behind the end of the log, as after a loss of data.
    compacted.log.first_dirty_offset = 99
    consider(compacted.log, 0)
    assert compacted.log.first_dirty_offset == 0


def test_gaps_are_no_loss_once_the_topic_is_compacted_no_more(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path, segment_bytes=300)
    for number in range(6):
        compacted.put([("k", "v" * 100)], timestamp=1000 + number)
        compacted.put([(str(number), "v" * 100)], timestamp=1000 + number)
        compacted.put([("k", "v" * 100)], timestamp=1000 + number)
    compacted.roll()
    compacted.clean()
    for job in compacted.manager.maintenance.checkpoint_jobs(CLEANER_FILE):
        job.run()
    before = surviving(compacted.log)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    compacted.config = config_of(cleanup_policy="delete", segment_bytes=300)
    compacted.reopen(cleanly=False)
    assert surviving(compacted.log) == before


def test_a_damaged_batch_makes_the_partition_uncleanable(compacted: Compacted) -> None:
    compacted.put([("a", "1"), ("a", "2")])
    compacted.roll()
    path = compacted.log.segments.first.log_file.path
    with open(path, "r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"?")
    cleaners = CleanerManager(compacted.manager, 0)
    cleaning = cleaners.choose(0, SETTINGS)
    assert cleaning is not None
    with pytest.raises(KafkaError, match="wrong CRC"):
        run_cleaning(compacted.manager, cleaners, cleaning, 0)
    cleaners.failed(cleaning, "wrong CRC")
    home = str(compacted.directory)
    assert cleaners.uncleanable_count(home) == 1
    assert cleaners.uncleanable_bytes(home, 0) == compacted.log.segments.first.size
    assert cleaners.choose(0, SETTINGS) is None
    compacted.manager.delete_log("t", 0, 0)
    assert cleaners.choose(0, SETTINGS) is None
    assert cleaners.uncleanable_count(home) == 0


def test_appends_go_on_meanwhile(compacted: Compacted) -> None:
    compacted.put([("a", "1"), ("a", "2")])
    compacted.roll()
    cleaners = CleanerManager(compacted.manager, 0)
    cleaning = cleaners.choose(0, SETTINGS)
    assert cleaning is not None

    def append_and_roll(_: int) -> None:
        compacted.put([("a", "later")])
        compacted.roll()

    run_cleaning(compacted.manager, cleaners, cleaning, 0, pace=append_and_roll)
    assert compacted.log.log_end_offset > 4
    assert compacted.offsets == list(range(1, compacted.log.log_end_offset))


@pytest.mark.parametrize("what", ["truncate", "truncate and refill", "delete", "restart at"])
def test_a_truncated_or_deleted_log_is_not_touched(compacted: Compacted, what: str) -> None:
    compacted.put([("a", "1")])
    compacted.put([("a", "2")])
    compacted.roll()
    compacted.put([("a", "3")])
    cleaners = CleanerManager(compacted.manager, 0)
    cleaning = cleaners.choose(0, SETTINGS)
    assert cleaning is not None
    assert not cleaners.is_void(cleaning)
    log = compacted.log
    if what == "delete":
        compacted.manager.delete_log("t", 0, 0)
    elif what == "restart at":
        log.truncate_fully_and_start_at(50)
    else:
        log.truncate_to(1, 0)
        if what == "truncate and refill":
            compacted.put([("b", "2")])
            compacted.roll()
            compacted.put([("b", "3")])
    assert cleaners.is_void(cleaning)
    bases = log.segments.base_offsets
    if what != "delete":
        with pytest.raises((CleaningAborted, FileNotFoundError)):
            run_cleaning(compacted.manager, cleaners, cleaning, 0)
        assert log.segments.base_offsets == bases
    cleaners.ended(cleaning)
    assert log.segments.base_offsets == bases


def test_a_truncation_behind_the_cleaned_part_does_not_matter(compacted: Compacted) -> None:
    compacted.put([("a", "1"), ("a", "2")])
    compacted.roll()
    compacted.put([("a", "3")])
    cleaners = CleanerManager(compacted.manager, 0)
    cleaning = cleaners.choose(0, SETTINGS)
    assert cleaning is not None
    compacted.log.truncate_to(2, 0)
    run_cleaning(compacted.manager, cleaners, cleaning, 0, no_pace)
    assert compacted.offsets == [1]


def test_readers_of_the_old_segment_read_on(compacted: Compacted) -> None:
    compacted.put([("a", "1"), ("a", "2")])
    compacted.roll()
    compacted.put([("b", "1")])
    held = compacted.log.read(0, 1 << 20, upper_bound_offset=2).records
    before = held.read()
    compacted.clean()
    for job in compacted.manager.tick(10_000_000):
        job.run()
    assert held.read() == before
    found = compacted.log.read(0, 1 << 20, upper_bound_offset=3)
    assert found.records.read() != before
    found = compacted.log.read(2, 1 << 20, upper_bound_offset=3)
    assert found.records.size


def test_look_ups_in_a_cleaned_segment(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path, index_interval_bytes=50)
    for number in range(40):
        compacted.put([(f"k{number % 25}", f"v{number}")], timestamp=1000 + 10 * number)
    compacted.roll()
    compacted.clean()
    segment = compacted.log.segments.first
    assert segment.index_problem() is None
    assert segment.offset_index.entries > 10
    assert compacted.offsets == list(range(15, 40))
    for offset in range(15, 40):
        found = compacted.log.read(offset, 1, upper_bound_offset=40).records
        ((_, header),) = iter_batch_headers(found.read())
        assert header.base_offset == offset
    found_time = compacted.log.offset_for_timestamp(1205)
    assert found_time is not None
    assert (found_time.offset, found_time.timestamp) == (21, 1210)
    compacted.reopen()
    assert segment.index_problem() is None


def test_a_crash_at_every_step_of_a_cleaning(tmp_path: Path) -> None:
    """And at every step of the load that mends it: nobody sees more than obsolete records."""
    source = tmp_path / "source"
    compacted = Compacted(source, segment_bytes=900)
    for number in range(4):
        compacted.put([(f"k{number % 2}", f"v{number}"), ("k", "v" * 60)], timestamp=1000 + number)
        compacted.put([("aborted", "-")], producer=(7, 0, number), transactional=True)
        compacted.marker(7, ControlRecordType.ABORT)
        compacted.roll()
    compacted.manager.clean_shutdown()
    wanted = {"k0": "v2", "k1": "v3", "k": "v" * 60}
    seen_groups = set()
    steps = 0
    finished = False
    while not finished:
        # Without a crash of the load, and with one.
        for load_steps in (-1, steps % 7):
            directory = tmp_path / f"{steps}-{load_steps}"
            shutil.copytree(source, directory)
            finished = crash_after(directory, compacted.config, steps)
            with opened_after_crash(directory, compacted.config, load_steps) as log:
                found = [(r.key, r.value, r.offset) for r in surviving(log) if r.producer_id < 0]
                offsets = [offset for _, _, offset in found]
                assert offsets == sorted(set(offsets))
                last = {(k or b"").decode(): (v or b"").decode() for k, v, _ in found}
                assert last == wanted
                assert log.log_end_offset == compacted.log.log_end_offset
                assert log.last_stable_offset == log.log_end_offset
                seen_groups.add(tuple(log.segments.base_offsets))
            shutil.rmtree(directory)
        steps += 1
    # Untouched, with the first of two groups swapped, and whole.
    assert len(seen_groups) == 3
    assert steps > 30


def crash_after(directory: Path, config: LogConfig, steps: int) -> bool:
    """Clean until the crash; whether there was none."""
    files = CrashingFiles()
    manager = manager_of(directory, files=files, config=config)
    log = manager.get_log("t", 0)
    assert log is not None
    log.update_high_watermark(log.log_end_offset)
    files.countdown = steps
    try:
        clean(manager)
    except Crash:
        return False
    else:
        return True
    finally:
        manager.release()


@contextmanager
def opened_after_crash(directory: Path, config: LogConfig, load_steps: int) -> Iterator[Log]:
    files = CrashingFiles()
    for countdown in (load_steps, -1):
        files.countdown = countdown
        manager = LogManager([str(directory)], files, config, broker_id=1, cluster_id="cluster")
        try:
            manager.load(0)
            break
        except Crash:
            manager.release()
    files.countdown = -1
    log = manager.get_log("t", 0)
    assert log is not None
    log.update_high_watermark(log.log_end_offset)
    yield log
    manager.release()


@pytest.mark.parametrize("path_part", [".log.cleaned", ".index.cleaned", ".log.swap", "0.log"])
def test_a_swap_that_fails_takes_the_directory_offline(
    compacted: Compacted, path_part: str
) -> None:
    """Half of it done; the next load drops it, or does the other half."""
    compacted.put([("a", "1"), ("a", "2")])
    compacted.roll()
    compacted.put([("b", "1")])
    checkpoint_recovery_points(compacted.manager)
    files = compacted.manager.files
    assert isinstance(files, FaultyFiles)
    files.fail("rename", path_part=path_part)
    with pytest.raises(KafkaError) as caught:
        compacted.clean()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not compacted.manager.directories[0].is_online
    compacted.reopen(cleanly=False)
    found = {key: value for _, key, value in compacted.pairs}
    assert found == {"a": "2", "b": "1"}


def test_what_a_dead_cleaner_left_does_not_undo_the_next_swap(tmp_path: Path) -> None:
    """A load takes `.swap` files behind a `.cleaned` one for half of a swap, and drops them."""
    compacted = Compacted(tmp_path, segment_bytes=100)
    for number in range(3):
        compacted.put([(f"k{number}", "1"), (f"k{number}", "2")])
        compacted.roll()
    checkpoint_recovery_points(compacted.manager)
    left = Path(compacted.log.directory) / f"{1:020d}.log.cleaned"
    left.write_bytes(b"half")
    cleaners = CleanerManager(compacted.manager, 0)
    cleaning = cleaners.choose(0, SETTINGS)
    assert cleaning is not None
    cleaner = Cleaner(compacted.manager.files, cleaning.plan, no_pace)
    groups = list(cleaner.clean_groups(cleaner.build_map()))
    assert not left.exists()
    assert [group.base_offset for group in groups] == [0, 2, 4]
    cleaners.swap(cleaning, groups[0], 0)
    # The second swap ends before its last renames.
    files = compacted.manager.files
    assert isinstance(files, FaultyFiles)
    files.fail("rename", path_part=".swap", times=10)
    with pytest.raises(KafkaError):
        cleaners.swap(cleaning, groups[1], 0)
    compacted.reopen(cleanly=False)
    assert [offset for offset, _, _ in compacted.pairs] == [1, 3, 4, 5]


def test_a_swap_replaces_no_more_than_so_many_segments(compacted: Compacted) -> None:
    """The loop does it in one go."""
    for number in range(MAX_SOURCES + 3):
        compacted.put([("a", str(number))])
        compacted.roll()
    assert compacted.clean()
    assert compacted.log.segments.base_offsets == [0, MAX_SOURCES, MAX_SOURCES + 3]
    assert compacted.offsets == [MAX_SOURCES + 2]
