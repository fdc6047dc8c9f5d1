"""Snapshots of many producers: what a roll costs, when they are written, what becomes of one that
is overtaken; and how many producers a log knows."""

from __future__ import annotations

import errno
import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pybroker_kafka.broker.resources.heap import NEVER, YOUNG_COLLECTIONS, YOUNG_OBJECTS
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import read_batch_header
from pybroker_kafka.storage.append_info import AppendOrigin
from pybroker_kafka.storage.descriptors import OutOfDescriptors
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_manager import LogManager, LogManagerConfig
from pybroker_kafka.storage.producer_entry import BatchMetadata, ProducerEntry
from pybroker_kafka.storage.producer_snapshot import (
    MIN_INTERVAL_MS,
    ROWS_AT_ONCE,
    decode_snapshot,
    encode_snapshot,
)
from pybroker_kafka.storage.producer_state import ProducerState
from pybroker_kafka.storage.producer_table import (
    IDLE_MS,
    IDS_OF_ANY_LOG,
    KEPT_AFTER_START_MS,
    ProducerLimits,
)
from tests.support.appends import append_as_leader
from tests.support.faulty_files import FaultyFiles
from tests.unit.storage.helpers import TOPIC_ID, batch_of, config_of, manager_of

MANY = 99_999
SOME = ROWS_AT_ONCE + 1
# Of CPU time; a broker gives nobody more of its loop at once.
MAX_HELD_MS = 10.0
DAY_MS = 86_400_000


def log_with(
    directory: Path, count: int, files: FaultyFiles | None = None, **settings: object
) -> tuple[LogManager, Log]:
    """A log with so many producers, one batch each; those of the last are in the log."""
    manager = manager_of(
        directory, files=files, config=config_of(segment_bytes=10_000_000, **settings)
    )
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    entries = []
    for producer_id in range(count):
        entry = ProducerEntry(producer_id, 0)
        entries.append(entry)
        entry.batches.append(BatchMetadata(0, 0, 0, 5))
        entry.last_timestamp = 5
        entry.seen_ms = 0
    log.producer_state.load(entries, 0)
    produce(log, count, 0)
    return manager, log


def produce(log: Log, producer_id: int, sequence: int, now_ms: int = 0) -> None:
    batch = batch_of(b"v", producer_id=producer_id, epoch=0, sequence=sequence)
    append_as_leader(log, batch, leader_epoch=0, now_ms=now_ms)


def look_after(manager: LogManager, now_ms: int) -> None:
    """A tick, with all its jobs; a snapshot may take several."""
    for step in manager.look_after_producers(now_ms):
        if step is not None:
            step.run()


def held_ms(what: Callable[[], object]) -> float:
    began = time.thread_time()
    what()
    return (time.thread_time() - began) * 1000


def assert_moments(directory: Path, take: Callable[[Path], list[float]]) -> None:
    """`take` does the same steps in each directory; no third one holds the loop for long.

    A step is long if it is in each of three runs: beside other work any step finds cold caches.
    Two are the collector's, which looks through the objects that the test has just made.
    """
    took = [0.0]
    for run in range(3):
        again = take(directory / str(run))
        took = [min(pair) for pair in zip(took, again, strict=True)] if run else again
        if sorted(took)[-3] < MAX_HELD_MS:
            return
    pytest.fail(f"steps of {sorted(took)[-5:]} ms")


def snapshots(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in (directory / "t-0").glob("*.snapshot"))


def with_later_batches(
    directory: Path, count: int, files: FaultyFiles | None = None
) -> tuple[LogManager, Log]:
    """As `log_with`, with a snapshot, and behind it eight batches of the last producer."""
    manager, log = log_with(directory, count, files)
    log.roll(0)
    while not snapshots(directory):
        look_after(manager, 0)
    for sequence in range(1, 9):
        produce(log, count, sequence)
    return manager, log


# What a roll costs


def test_a_roll_with_very_many_producers_holds_the_loop_for_a_moment(tmp_path: Path) -> None:
    _, log = log_with(tmp_path, MANY)
    took = []
    for sequence in range(1, 4):
        produce(log, MANY, sequence)
        took.append(held_ms(lambda: log.roll(0)))
    assert min(took) < MAX_HELD_MS, took


def test_no_step_of_a_snapshot_or_of_expiry_holds_the_loop_for_long(tmp_path: Path) -> None:
    def take(directory: Path) -> list[float]:
        manager, log = log_with(directory, MANY)
        log.roll(0)
        took = []
        for tick in range(10):
            steps = manager.look_after_producers(DAY_MS + tick)  # all expire at the first tick
            while True:
                began = time.thread_time()
                step = next(steps, "over")
                took.append((time.thread_time() - began) * 1000)
                if step == "over":
                    break
                if step is not None and not isinstance(step, str):
                    step.run()
        assert snapshots(directory) == [log.log_end_offset]
        assert not log.producer_state.entries
        return took

    assert_moments(tmp_path, take)


@pytest.fixture
def brokers_collector() -> Iterator[None]:
    """Full collections of garbage come when the broker wants them."""
    thresholds = gc.get_threshold()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, NEVER)
    yield
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("brokers_collector")
def test_a_truncation_of_very_many_producers_takes_turns(tmp_path: Path) -> None:
    def take(directory: Path) -> list[float]:
        _, log = with_later_batches(directory, MANY)
        end = log.log_end_offset - 4
        took = [held_ms(lambda: log.truncate_to(end))]
        is_over = False

        def go_on() -> None:
            nonlocal is_over
            is_over = log.rebuild_some()

        while not is_over:
            took.append(held_ms(go_on))
        assert len(took) > MANY / ROWS_AT_ONCE
        entries = log.producers.known.entries
        assert len(entries) == MANY + 1
        assert entries[MANY].last_sequence == 4
        assert entries[MANY].seen_ms == 0  # that it was cut is no reason to expire
        assert len(entries[MANY].batches) == 5
        return took

    assert_moments(tmp_path, take)


@pytest.mark.usefixtures("brokers_collector")
def test_to_start_over_lets_go_of_very_many_producers_in_turns(tmp_path: Path) -> None:
    def take(directory: Path) -> list[float]:
        _, log = log_with(directory, MANY)
        took = [held_ms(lambda: log.truncate_fully_and_start_at(0))]
        assert not log.producer_state.entries
        took.append(held_ms(log.rebuild_some))
        while not log.rebuild_some():
            took.append(held_ms(log.rebuild_some))
        return took

    assert_moments(tmp_path, take)


# After a truncation, before all of them were built anew


def cut(
    directory: Path, count: int = SOME, files: FaultyFiles | None = None
) -> tuple[LogManager, Log]:
    """A log of which four batches were cut; the last producer has five left."""
    manager, log = with_later_batches(directory, count, files)
    log.truncate_to(log.log_end_offset - 4)
    return manager, log


def test_an_append_finds_the_producers_as_they_are_at_the_log_end(tmp_path: Path) -> None:
    _, log = cut(tmp_path)
    with pytest.raises(KafkaError) as refused:
        produce(log, SOME, 9)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    produce(log, SOME, 5)
    assert log.producer_state.entries[SOME].last_sequence == 5


@pytest.mark.usefixtures("brokers_collector")
def test_an_append_does_not_wait_for_very_many_producers(tmp_path: Path) -> None:
    """It is refused with an error that clients retry, and others have their turns."""

    def take(directory: Path) -> list[float]:
        _, log = cut(directory, MANY)
        refused = []

        def append() -> None:
            try:
                produce(log, MANY, 5)
            except KafkaError as error:
                refused.append(error.code)

        took = [held_ms(append) for _ in range(20)]
        assert refused == [ErrorCode.NOT_ENOUGH_REPLICAS] * 20
        while not log.rebuild_some():
            pass
        append()
        assert len(refused) == 20
        assert log.producer_state.entries[MANY].last_sequence == 5
        return took

    assert_moments(tmp_path, take)


def test_a_damaged_batch_ends_the_rebuild(tmp_path: Path) -> None:
    """The log takes no appends then; it does for a log that is cut below the damage."""
    manager, log = cut(tmp_path)
    path = Path(log.segments.active.path)
    data = bytearray(path.read_bytes())
    second = read_batch_header(data).size_in_bytes
    good = data[second + 8 : second + 12]
    data[second + 8 : second + 12] = bytes(4)  # the length of the second batch
    path.write_bytes(data)
    for _ in range(2):
        with pytest.raises(KafkaError) as refused:
            produce(log, SOME, 5)
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    look_after(manager, 1)
    with pytest.raises(KafkaError):
        log.rebuild_some()
    data[second + 8 : second + 12] = good
    path.write_bytes(data)
    log.truncate_to(log.log_end_offset - 1)
    produce(log, SOME, 4)
    assert log.producer_state.entries[SOME].last_sequence == 4


def test_a_log_whose_producers_are_lost_is_closed_without_a_snapshot(tmp_path: Path) -> None:
    _, log = cut(tmp_path)
    before = snapshots(tmp_path)
    path = Path(log.segments.active.path)
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(KafkaError):
        produce(log, SOME, 5)
    log.close()
    assert snapshots(tmp_path) == before


@pytest.mark.parametrize("file", [".snapshot", ".log"])
def test_a_rebuild_that_lacks_descriptors_begins_anew(tmp_path: Path, file: str) -> None:
    """Never does the state before the cut, which has truncated batches, count again."""
    files = FaultyFiles()
    _, log = cut(tmp_path, files=files)
    files.fail("read", errno.EMFILE, path_part=file)
    with pytest.raises(OutOfDescriptors):
        produce(log, SOME, 9)
    with pytest.raises(KafkaError) as refused:
        produce(log, SOME, 9)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    produce(log, SOME, 5)


@pytest.mark.usefixtures("brokers_collector")
def test_a_deleted_log_frees_very_many_producers_in_turns(tmp_path: Path) -> None:
    def take(directory: Path) -> list[float]:
        manager, log = log_with(directory, MANY)
        held = [log]
        del log
        took = [held_ms(lambda: manager.delete_log("t", 0, now_ms=0)), held_ms(held.clear)]
        steps = manager.look_after_producers(0)
        count = 0
        while True:
            began = time.thread_time()
            step = next(steps, "over")
            took.append((time.thread_time() - began) * 1000)
            if step == "over":
                break
            count += 1
        assert count > 10
        return took

    assert_moments(tmp_path, take)


def test_it_is_cut_again(tmp_path: Path) -> None:
    _, log = cut(tmp_path)
    log.rebuild_some()
    log.truncate_to(log.log_end_offset - 2)
    assert log.producer_state.entries[SOME].last_sequence == 2
    assert log.producer_state.map_end_offset == log.log_end_offset
    log.truncate_fully_and_start_at(1)
    assert not log.producer_state.entries
    assert log.producer_state.map_end_offset == 1


def test_what_is_deleted_meanwhile_is_not_read(tmp_path: Path) -> None:
    manager, log = cut(tmp_path)
    manager.delete_log("t", 0, now_ms=0)
    assert not log.rebuild_some() or log.rebuild_some()
    assert log.health.error is None


def test_segments_that_are_deleted_meanwhile_were_read_before(tmp_path: Path) -> None:
    _, log = cut(tmp_path)
    log.update_high_watermark(log.log_end_offset)
    log.delete_segments([log.segments.first], 0)
    assert log.producers.known.entries[SOME].last_sequence == 4
    assert log.health.error is None


def test_who_is_nobody_s_to_look_after_is_built_anew_by_the_upkeep(tmp_path: Path) -> None:
    manager, log = cut(tmp_path)
    look_after(manager, 1)
    assert log.producers.known.entries[SOME].last_sequence == 4
    assert log.rebuild_some()


# What is in it, and when


def test_a_snapshot_has_the_producers_as_they_were_when_the_segment_began(tmp_path: Path) -> None:
    manager, log = log_with(tmp_path, SOME)
    log.roll(0)
    as_it_was = sorted(decode_rows(encode_snapshot(log.producer_state.entries.values())))
    base = log.log_end_offset
    assert snapshots(tmp_path) == []
    steps = manager.look_after_producers(0)
    changed = 0
    for step in steps:
        if step is not None:
            step.run()
        for producer_id in range(changed, min(changed + 100, SOME)):
            produce(log, producer_id, 1)
        produce(log, SOME + 1 + changed, 0)
        changed += 100
    assert snapshots(tmp_path) == [base]
    written = (tmp_path / "t-0" / f"{base:020d}.snapshot").read_bytes()
    assert sorted(decode_rows(written)) == as_it_was
    assert len(as_it_was) == SOME + 1


def decode_rows(data: bytes) -> list[tuple[object, ...]]:
    return [
        (e.producer_id, e.epoch, e.last_timestamp, e.current_txn_first_offset, *e.batches[-1])
        for e in decode_snapshot(data)
    ]


def test_of_those_that_wait_the_last_one_is_written_and_one_in_an_interval(tmp_path: Path) -> None:
    manager, log = log_with(tmp_path, SOME)
    written = []
    for second in range(41):
        for _ in range(3):
            produce(log, SOME, log.log_end_offset)
            log.roll(0)
        before = len(snapshots(tmp_path))
        look_after(manager, second * 1000)
        if len(snapshots(tmp_path)) > before:
            written.append(second)
            assert snapshots(tmp_path)[-1] == log.log_end_offset
    assert written == [0, 10, 20, 30, 40]
    assert MIN_INTERVAL_MS == 10_000


def test_one_that_is_dropped_meanwhile_was_there(tmp_path: Path) -> None:
    manager, log = log_with(tmp_path, SOME)
    log.roll(0)
    state = log.producer_state
    assert sum(state.expire(DAY_MS, DAY_MS, DAY_MS)) == SOME + 1
    produce(log, 3, 7, DAY_MS)
    assert len(state.entries) == 1
    look_after(manager, 0)
    (offset,) = snapshots(tmp_path)
    written = (tmp_path / "t-0" / f"{offset:020d}.snapshot").read_bytes()
    assert sorted(e.producer_id for e in decode_snapshot(written)) == list(range(SOME + 1))


def test_few_producers_are_written_at_once(tmp_path: Path) -> None:
    _, log = log_with(tmp_path, ROWS_AT_ONCE - 1)
    log.roll(0)
    assert snapshots(tmp_path) == [log.log_end_offset]


def test_a_stop_writes_the_last_one_whole(tmp_path: Path) -> None:
    manager, log = log_with(tmp_path, SOME)
    log.roll(0)
    produce(log, 3, 1)
    end = log.log_end_offset
    manager.clean_shutdown()
    assert snapshots(tmp_path) == [end]
    again = manager_of(tmp_path).get_log("t", 0)
    assert again is not None
    assert len(again.producer_state.entries) == SOME + 1
    assert again.producer_state.entries[3].last_sequence == 1


def test_one_that_was_overtaken_by_a_truncation_does_not_count(tmp_path: Path) -> None:
    manager, log = log_with(tmp_path, SOME)
    produce(log, SOME, 1)
    log.roll(0)
    cut = log.log_end_offset
    for step in manager.look_after_producers(0):
        if step is not None:
            step.run()
            log.truncate_to(cut - 1)  # a follower, between the file and its name
    assert cut not in snapshots(tmp_path)
    assert not list((tmp_path / "t-0").glob("*.snapshot.deleted"))
    produce(log, SOME, 1)
    produce(log, SOME, 2)


def test_a_file_that_was_not_finished_is_deleted_by_the_next_start(tmp_path: Path) -> None:
    manager, log = log_with(tmp_path, SOME)
    log.roll(0)
    for step in manager.look_after_producers(0):
        if step is not None:
            step.run()
            break
    (left,) = (tmp_path / "t-0").glob("*.snapshot.deleted")
    manager.release()
    manager_of(tmp_path)
    assert not left.exists()


def test_a_disk_that_fails_takes_its_directory_offline(tmp_path: Path) -> None:
    files = FaultyFiles()
    manager, log = log_with(tmp_path, SOME, files)
    log.roll(0)
    files.fail("write", path_part=".snapshot")
    look_after(manager, 0)
    assert log.health.error is not None


def test_without_descriptors_it_is_tried_again(tmp_path: Path) -> None:
    files = FaultyFiles()
    manager, log = log_with(tmp_path, SOME, files)
    log.roll(0)
    files.fail("open", errno.EMFILE, path_part=".snapshot")
    for step in manager.look_after_producers(0):
        if step is not None:
            with pytest.raises(OSError, match="Too many open files"):
                step.run()
            step.run()
    assert snapshots(tmp_path) == [log.log_end_offset]
    assert log.health.error is None


# How many producers


def limited(of_log: int) -> ProducerState:
    return ProducerState(ProducerLimits(of_log))


def ask(state: ProducerState, producer_id: int, now_ms: int) -> None:
    """As a leader does: judge, append, note."""
    batch = batch_of(b"v", producer_id=producer_id, epoch=0, sequence=0)
    header = read_batch_header(batch)
    state.check(header, batch, AppendOrigin.CLIENT, "t-0", None, now_ms)
    state.apply(header, state.map_end_offset, batch, 5, now_ms)
    state.map_end_offset += 1


def test_an_idle_producer_makes_room_and_one_that_has_just_written_does_not() -> None:
    state = limited(3)
    for producer_id in range(3):
        ask(state, producer_id, producer_id)
    with pytest.raises(KafkaError) as refused:
        ask(state, 3, IDLE_MS - 1)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert sorted(state.entries) == [0, 1, 2]
    ask(state, 3, IDLE_MS + 1)
    assert sorted(state.entries) == [2, 3]
    ask(state, 4, IDLE_MS + 1)
    with pytest.raises(KafkaError):
        ask(state, 5, IDLE_MS + 1)
    ask(state, 2 + 100, IDLE_MS + 2)  # the third has been silent for long enough now
    assert sorted(state.entries) == [3, 4, 102]


def test_an_open_transaction_is_never_dropped() -> None:
    state = limited(2)
    for producer_id in range(2):
        batch = batch_of(b"v", producer_id=producer_id, epoch=0, sequence=0, transactional=True)
        state.apply(read_batch_header(batch), producer_id, batch, 5, 0)
    with pytest.raises(KafkaError):
        ask(state, 2, 10 * DAY_MS)
    batch = batch_of(b"v", producer_id=3, epoch=0, sequence=0)
    state.apply(read_batch_header(batch), 2, batch, 5, 0)  # its leader took it
    assert sorted(state.entries) == [0, 1, 3]


def test_a_follower_takes_what_its_leader_took_and_drops_the_longest_idle_one() -> None:
    state = limited(3)
    for number in range(10):
        batch = batch_of(b"v", producer_id=number, epoch=0, sequence=0)
        state.apply(read_batch_header(batch), number, batch, 5, number)
    assert sorted(state.entries) == [7, 8, 9]


def test_where_the_broker_is_full_a_log_may_know_a_thousand() -> None:
    limits = ProducerLimits()
    state = ProducerState(limits)
    limits.is_broker_full = True
    for producer_id in range(IDS_OF_ANY_LOG):
        ask(state, producer_id, 0)
    with pytest.raises(KafkaError):
        ask(state, IDS_OF_ANY_LOG, 0)
    limits.is_broker_full = False
    ask(state, IDS_OF_ANY_LOG, 0)


def test_the_producers_of_all_logs_are_counted(tmp_path: Path) -> None:
    manager = manager_of(tmp_path, settings=LogManagerConfig(producer_ids=3, producer_ids_of_log=9))
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    other = manager.get_or_create_log("u", 0, TOPIC_ID, None, 0)
    limits = log.producer_state.limits
    assert other.producer_state.limits is limits
    assert limits.of_log == 9
    produce(log, 1, 0)
    produce(other, 1, 0)
    look_after(manager, 0)
    assert not limits.is_broker_full
    produce(other, 2, 0)
    look_after(manager, 0)
    assert limits.is_broker_full


# When a producer expires


def test_timestamps_of_a_client_neither_end_nor_keep_its_producer() -> None:
    state = ProducerState()
    for producer_id, timestamp in ((1, 1), (2, 2**62)):
        batch = batch_of(b"v", producer_id=producer_id, epoch=0, sequence=0)
        state.apply(read_batch_header(batch), producer_id, batch, timestamp, 1_000)
    wall_ms = 1_700_000_000_000
    assert sum(state.expire(1_000 + DAY_MS - 1, wall_ms, DAY_MS)) == 0
    assert sum(state.expire(1_000 + DAY_MS, wall_ms, DAY_MS)) == 2


def test_a_truncation_does_not_forget_when_producers_wrote(tmp_path: Path) -> None:
    _, log = log_with(tmp_path, 1)
    produce(log, 0, 1, now_ms=DAY_MS)
    produce(log, 1, 1, now_ms=DAY_MS)
    log.truncate_to(log.log_end_offset - 1)
    assert log.producer_state.entries[1].seen_ms == DAY_MS


def test_what_was_read_from_disk_goes_by_its_timestamp_within_limits() -> None:
    state = ProducerState()
    wall_ms = 1_700_000_000_000
    half = DAY_MS // 2
    for producer_id, timestamp in ((1, 1), (2, 2**62), (3, wall_ms - half)):
        batch = batch_of(b"v", producer_id=producer_id, epoch=0, sequence=0)
        state.apply(read_batch_header(batch), producer_id, batch, timestamp)
    assert sum(state.expire(0, None, DAY_MS)) == 0, "nobody knows the time"
    assert sum(state.expire(0, wall_ms, DAY_MS)) == 0
    assert sum(state.expire(KEPT_AFTER_START_MS - 1, wall_ms, DAY_MS)) == 0
    assert sum(state.expire(KEPT_AFTER_START_MS, wall_ms, DAY_MS)) == 1
    assert sorted(state.entries) == [2, 3]
    assert sum(state.expire(half, wall_ms, DAY_MS)) == 1
    assert sum(state.expire(DAY_MS, wall_ms, DAY_MS)) == 1
