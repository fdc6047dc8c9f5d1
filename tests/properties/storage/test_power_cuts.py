"""What a flush has said is on disk is there after a power cut, on a disk that keeps only what was
forced to it: bytes, names, renames and removals.

Random histories of one log, by their seed: appends of a leader and of a follower, rolls, flushes,
truncations, DeleteRecords and retention, checkpoints, restarts, aborted transactions, moves to
another log directory, and power cuts. `flush.messages=1` acknowledges what is flushed, and claims
no less. After a power cut

- the batches that were flushed, and not cut off or deleted since, are there, byte by byte;
- nobody finds them in two places, or other ones in their place;
- a batch of their producers is known for the duplicate that it is, and their aborted transactions
  are in the index;
- every batch that is there is in its leader epoch.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable

from pybroker_kafka.protocol.records.batch import SimpleRecord, iter_batch_headers
from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.protocol.records.control import ControlRecordType, EndTxnMarker
from pybroker_kafka.storage.append_info import AppendOrigin
from pybroker_kafka.storage.checkpoints import LOG_START_OFFSET_FILE, RECOVERY_POINT_FILE
from pybroker_kafka.storage.local_log import CutNotNoted
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_config import LogConfig
from pybroker_kafka.storage.log_manager import LogManager
from pybroker_kafka.storage.retention import delete_segments_below_start
from tests.support import examples
from tests.support.appends import append_as_leader
from tests.support.forgetful_disk import ForgetfulFiles

SEEDS = int(os.environ.get("POWER_CUT_SEEDS", examples.of(150)))
FIRST_SEED = int(os.environ.get("POWER_CUT_FIRST_SEED", "0"))
STEPS = 30
ROOT = "/disk"
DIRECTORIES = (f"{ROOT}/one", f"{ROOT}/two")
KEY = ("t", 0)
TOPIC_ID = b"\x07" * 16
PRODUCERS = 3
CONFIG = LogConfig.from_overrides(
    {
        "segment.bytes": "700",
        "index.interval.bytes": "100",
        "segment.index.bytes": "96",
        "file.delete.delay.ms": "0",
    },
    {},
)


class History:
    """One log, and what is known of it: the batches, each with the number of the flush after it."""

    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.told: list[str] = []
        self.now_ms = 0
        self.epoch = 0
        self.count = 0  # of records so far, which makes each one different
        self.files = ForgetfulFiles()
        for directory in DIRECTORIES:
            self.files.make_directory(directory)
            self.files.sync_directory(ROOT)
        self.files.root.force()
        self.batches: list[tuple[int, bytes]] = []  # base offset and bytes of all of them
        self.flushed = 0  # up to where the log has said that it is on disk
        self.start = 0
        self.sequences = [0] * PRODUCERS
        self.open()

    def open(self) -> None:
        self.manager = LogManager(DIRECTORIES, self.files, CONFIG, broker_id=1, cluster_id="c")
        self.manager.load(self.now_ms)
        self.log: Log = self.manager.get_or_create_log(*KEY, TOPIC_ID, None, self.now_ms)
        self.log.update_high_watermark(self.log.log_end_offset)

    # What can happen

    def value(self) -> SimpleRecord:
        self.count += 1
        size = self.choose.randint(1, 60)
        return SimpleRecord(self.now_ms, b"k", b"%d:" % self.count + bytes(size))

    def took(self, data: bytearray) -> None:
        self.batches.append((int.from_bytes(data[:8], "big"), bytes(data)))
        self.log.update_high_watermark(self.log.log_end_offset)

    def append(self) -> None:
        data = build_batch([self.value() for _ in range(self.choose.randint(1, 3))])
        append_as_leader(self.log, data, leader_epoch=self.epoch, now_ms=self.now_ms)
        self.took(data)

    def append_many(self) -> None:
        for _ in range(self.choose.randint(3, 12)):
            self.append()

    def append_of_producer(self) -> None:
        producer = self.choose.randrange(PRODUCERS)
        data = build_batch(
            [self.value()],
            producer_id=producer,
            producer_epoch=0,
            base_sequence=self.sequences[producer],
            is_transactional=True,
        )
        append_as_leader(self.log, data, leader_epoch=self.epoch, now_ms=self.now_ms)
        self.sequences[producer] += 1
        self.took(data)

    def abort(self) -> None:
        producer = self.choose.randrange(PRODUCERS)
        entry = self.log.producer_state.entries.get(producer)
        if entry is None or entry.current_txn_first_offset < 0:
            return
        marker = EndTxnMarker(ControlRecordType.ABORT, 0)
        data = build_end_txn_marker(
            marker, timestamp=self.now_ms, producer_id=producer, producer_epoch=0
        )
        origin = AppendOrigin.COORDINATOR
        append_as_leader(self.log, data, leader_epoch=self.epoch, now_ms=self.now_ms, origin=origin)
        self.took(data)

    def append_as_follower(self) -> None:
        offset = self.log.log_end_offset + self.choose.choice([0, 0, 0, 2])
        batches = []
        for _ in range(self.choose.randint(1, 4)):
            data = build_batch([self.value()])
            data[:8] = offset.to_bytes(8, "big")
            data[12:16] = self.epoch.to_bytes(4, "big")
            batches.append(data)
            offset += 1
        self.log.append_as_follower(b"".join(batches), now_ms=self.now_ms)
        for data in batches:
            self.took(data)

    def roll(self) -> None:
        if self.log.segments.active.size:
            self.log.roll(self.now_ms)

    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.log.log_end_offset

    def acknowledge(self) -> None:
        self.choose.choice([self.append, self.append_of_producer, self.append_as_follower])()
        self.flush()

    def pass_time(self) -> None:
        """The jobs that are due are done, or some of them."""
        self.now_ms += self.choose.choice([10, 70_000])
        for _ in self.manager.retain(self.now_ms):
            pass
        jobs = self.manager.tick(self.now_ms)
        done = self.choose.choice([len(jobs), self.choose.randint(0, len(jobs))])
        for job in jobs[:done]:
            job.run()

    def checkpoint(self) -> None:
        for name in (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE):
            for job in self.manager.maintenance.checkpoint_jobs(name):
                job.run()

    def next_epoch(self) -> None:
        self.epoch += 1

    def truncate(self) -> None:
        """As a follower of a new leader, whose epoch what comes next has."""
        offset = self.choose.randint(self.start, self.log.log_end_offset)
        self.once_noted(lambda: self.log.truncate_to(offset, self.now_ms))
        self.cut_to(self.log.log_end_offset)

    def truncate_fully(self) -> None:
        offset = self.choose.randint(0, 60)
        self.once_noted(lambda: self.log.truncate_fully_and_start_at(offset, self.now_ms))
        self.cut_to(0)
        self.start = offset

    def once_noted(self, cut: Callable[[], object]) -> None:
        """A flush notes a cut that is refused; meanwhile the jobs that are due may run."""
        try:
            cut()
        except CutNotNoted:
            self.flush()
            if self.choose.random() < 0.3:
                self.checkpoint()
            self.once_noted(cut)

    def cut_to(self, offset: int) -> None:
        self.epoch += 1
        self.batches = [one for one in self.batches if last_offset(one[1]) < offset]
        self.flushed = min(self.flushed, offset)
        self.start = min(self.start, offset)
        self.count_sequences()

    def count_sequences(self) -> None:
        entries = self.log.producer_state.entries
        for producer in range(PRODUCERS):
            entry = entries.get(producer)
            self.sequences[producer] = 0 if entry is None else entry.last_sequence + 1

    def delete_records(self) -> None:
        self.log.maybe_increment_log_start_offset(
            self.choose.randint(self.log.log_start_offset, self.log.high_watermark)
        )
        delete_segments_below_start(self.log, self.now_ms)
        self.start = self.log.log_start_offset

    def move(self) -> None:
        """To the other log directory."""
        manager, log = self.manager, self.log
        manager.delete_future_log(*KEY, self.now_ms)  # that a power cut has left
        (target,) = {*DIRECTORIES} - {manager.directory_of(*KEY)}
        future = manager.create_future_log(*KEY, target, CONFIG, self.now_ms)
        kept = [one for one in self.batches if last_offset(one[1]) >= self.start]
        begin = kept[0][0] if kept else log.log_end_offset
        future.truncate_fully_and_start_at(begin, self.now_ms)
        for _, batch in kept:
            future.append_as_follower(batch, now_ms=self.now_ms)
        future.update_high_watermark(future.log_end_offset)
        future.maybe_increment_log_start_offset(log.log_start_offset)
        manager.preparation(*KEY)()
        self.log = manager.replace_with_future(*KEY, self.now_ms)
        self.flushed = self.log.recovery_point
        self.count_sequences()  # of producers whose records are deleted it knows none

    def make_anew(self) -> None:
        """The topic is deleted and made again, in the same directory: of two directories the names
        are not forced to disk in an order."""
        path = self.manager.directory_of(*KEY)
        assert path is not None
        self.manager.delete_log(*KEY, self.now_ms)
        self.manager.prefer_directory(*KEY, path)
        self.log = self.manager.get_or_create_log(*KEY, TOPIC_ID, None, self.now_ms)
        self.batches, self.flushed, self.start = [], 0, 0
        self.count_sequences()

    def restart(self) -> None:
        self.manager.clean_shutdown()
        self.flushed = self.log.log_end_offset
        self.open()
        self.look("a restart")

    def kill(self) -> None:
        self.manager.release()
        self.open()
        self.look("a kill")

    def stop_and_lose_power(self) -> None:
        """As whoever switches a machine off."""
        self.manager.clean_shutdown()
        self.flushed = self.log.log_end_offset
        self.lose_power()

    def lose_power(self) -> None:
        self.manager.release()
        strict = self.choose.random() < 0.5
        self.files.lose_power(self.choose, strict=strict)
        self.open()
        self.look(f"a power cut, strict={strict}")

    # What must be so

    def look(self, after: str) -> None:
        wanted = [
            (base, data)
            for base, data in self.batches
            if last_offset(data) >= self.start and last_offset(data) < self.flushed
        ]
        found = self.found()
        end = wanted[-1][0] if wanted else -1
        shown = [one for one in found if last_offset(one[1]) >= self.start and one[0] <= end]
        assert shown == wanted, f"after {after}: {bases(shown)}, not {bases(wanted)}"
        if wanted:
            assert self.log.log_start_offset <= max(self.start, wanted[0][0])
        self.same_producers(wanted)
        indexed = {
            (one.producer_id, one.last_offset)
            for segment in self.log.segments
            for one in segment.transaction_index.entries
        }
        for aborted in self.aborted_in(wanted):
            assert aborted in indexed, f"after {after}: {aborted} of {indexed}"
        for base, data in found:
            ((_, header),) = iter_batch_headers(data)
            epoch = self.log.leader_epochs.epoch_for_offset(max(base, self.log.log_start_offset))
            assert epoch == header.partition_leader_epoch, f"after {after}: {base} in {epoch}"
        # Of what was not flushed the log has what it has; a leader tells it what to cut.
        self.batches = found
        # Deleted records may be back, and gone again with the next power cut.
        self.start = min(max(self.start, self.log.log_start_offset), self.log.log_end_offset)
        self.flushed = min(self.flushed, self.log.log_end_offset)
        self.epoch = max(self.epoch, self.log.latest_epoch or 0) + 1
        self.count_sequences()

    def found(self) -> list[tuple[int, bytes]]:
        """All batches, as a consumer would read them."""
        log, found = self.log, []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = log.read(offset, 1, upper_bound_offset=log.log_end_offset).records.read()
            if not data:
                break
            ((_, header),) = iter_batch_headers(data)
            found.append((header.base_offset, bytes(data)))
            assert header.next_offset > offset
            offset = header.next_offset
        return found

    def same_producers(self, wanted: list[tuple[int, bytes]]) -> None:
        latest: dict[int, int] = {}
        for _, data in wanted:
            ((_, header),) = iter_batch_headers(data)
            if header.producer_id >= 0 and not header.is_control:
                latest[header.producer_id] = header.base_sequence
        for producer, sequence in latest.items():
            assert self.log.producer_state.entries[producer].last_sequence >= sequence

    def aborted_in(self, batches: list[tuple[int, bytes]]) -> list[tuple[int, int]]:
        """Producer and marker's offset of transactions with records here, all of them aborted."""
        begun: set[int] = set()
        ended: list[tuple[int, int]] = []
        for _, data in batches:
            ((_, header),) = iter_batch_headers(data)
            if header.is_control and header.producer_id in begun:
                begun.remove(header.producer_id)
                ended.append((header.producer_id, header.base_offset))
            elif header.producer_id >= 0 and not header.is_control:
                begun.add(header.producer_id)
        return ended

    # Running

    def steps(self) -> list[tuple[int, Callable[[], None]]]:
        return [
            (3, self.append),
            (3, self.append_many),
            (3, self.append_of_producer),
            (2, self.abort),
            (3, self.append_as_follower),
            (2, self.roll),
            (3, self.flush),
            (6, self.acknowledge),
            (3, self.pass_time),
            (2, self.checkpoint),
            (1, self.next_epoch),
            (2, self.truncate),
            (1, self.truncate_fully),
            (1, self.delete_records),
            (2, self.move),
            (1, self.make_anew),
            (1, self.restart),
            (1, self.stop_and_lose_power),
            (1, self.kill),
            (3, self.lose_power),
        ]

    def run(self) -> None:
        weights, steps = zip(*self.steps(), strict=True)
        for _ in range(STEPS):
            (step,) = self.choose.choices(steps, weights)
            self.told.append(step.__name__)
            step()
        self.told.append("lose_power")
        self.lose_power()
        self.manager.release()


def last_offset(data: bytes) -> int:
    ((_, header),) = iter_batch_headers(data)
    return header.last_offset


def bases(batches: list[tuple[int, bytes]]) -> list[int]:
    return [base for base, _ in batches]


def test_what_was_flushed_survives() -> None:
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        history = History(seed)
        try:
            history.run()
        except BaseException:
            print(f"POWER_CUT_FIRST_SEED={seed} POWER_CUT_SEEDS=1: {' '.join(history.told)}")
            raise


# What single forgotten steps would do, one after the other.


def start() -> History:
    history = History(0)
    history.choose = random.Random(1)
    return history


def append(history: History, *sizes: int) -> None:
    data = build_batch([SimpleRecord(0, b"k", bytes(size)) for size in sizes])
    append_as_leader(history.log, data, leader_epoch=history.epoch, now_ms=0)
    history.took(data)


def lose_all_that_was_not_forced(history: History) -> None:
    history.manager.release()
    history.files.lose_power(history.choose, strict=True)
    history.open()
    history.look("a power cut")


def test_a_segment_that_was_cut_off_is_not_back() -> None:
    history = start()
    for _ in range(4):
        append(history, 200)
    history.flush()
    assert [segment.base_offset for segment in history.log.segments] == [0, 2]
    history.log.truncate_to(1)
    history.cut_to(1)
    history.epoch = 0  # with a new one the file of epochs would be written, in a forced directory
    append(history, 1, 1, 1, 1, 1)
    history.flush()
    assert len(history.log.segments) == 1
    lose_all_that_was_not_forced(history)
    assert [segment.base_offset for segment in history.log.segments] == [0]
    assert history.log.log_end_offset == 6


def test_an_aborted_transaction_is_known_after_a_stop() -> None:
    history = start()
    history.append_of_producer()
    history.flush()
    while not any(segment.transaction_index.entries for segment in history.log.segments):
        history.abort()
    history.manager.clean_shutdown()
    history.flushed = history.log.log_end_offset
    lose_all_that_was_not_forced(history)
    assert [len(segment.transaction_index.entries) for segment in history.log.segments] == [1]


def test_a_start_is_not_taken_for_clean_twice() -> None:
    history = start()
    append(history, 200)
    history.restart()
    append(history, 200)
    data = history.log.segments.active.path
    history.manager.release()
    history.files.lose_power(history.choose, strict=True)
    half = history.files.open(data)
    half.write_at(b"half a batch", half.size())  # of what was written last
    history.open()
    history.look("a power cut")
    append(history, 200)
