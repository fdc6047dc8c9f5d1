"""Snapshots that are written in pieces, beside appends, against a dumb twin: whenever the broker
dies, whatever was written of them, its next start knows each producer that has a batch in the log.

The twin keeps all batches that were ever appended and not truncated, and looks at all of them for
each question. Random producers write plain batches and transactions; segments roll after a few;
snapshots are made one producer at a time, so that nearly every batch finds one half done; between
two steps the log is truncated, its oldest segments are deleted, its directory is copied as a crash
would leave it and loaded from any recovery point.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pybroker_kafka.protocol.records.batch import ControlRecordType, EndTxnMarker
from pybroker_kafka.protocol.records.builder import build_end_txn_marker
from pybroker_kafka.storage import checkpoints, log_maintenance, producer_snapshot
from pybroker_kafka.storage.append_info import AppendOrigin
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_manager import Job, LogManager
from pybroker_kafka.storage.producer_state import ProducerState
from tests.support.appends import append_as_leader
from tests.support.faulty_files import FaultyFiles
from tests.support.log_checkpoints import cut
from tests.support.sources import needs_sources
from tests.unit.storage.helpers import TOPIC_ID, batch_of, config_of

pytestmark = needs_sources

SEEDS = range(10)
STEPS = 120
PRODUCERS = tuple(range(1, 9))
INTERVAL_MS = 5


class Seen(NamedTuple):
    """What a log knows of a producer, as snapshots have it."""

    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    first_open_offset: int


class Batch(NamedTuple):
    base: int
    producer_id: int
    sequence: int
    size: int
    is_transactional: bool
    is_marker: bool


def seen_by(batches: list[Batch]) -> dict[int, Seen]:
    """The dumb twin."""
    found: dict[int, Seen] = {}
    for one in batches:
        last = found.get(one.producer_id, Seen(0, -1, -1, 0, -1))
        if one.is_marker:
            found[one.producer_id] = last._replace(first_open_offset=-1)
            continue
        first_open = last.first_open_offset
        if one.is_transactional and first_open < 0:
            first_open = one.base
        delta = one.size - 1
        found[one.producer_id] = Seen(0, one.sequence + delta, one.base + delta, delta, first_open)
    return found


def known(state: ProducerState) -> dict[int, Seen]:
    return {
        entry.producer_id: Seen(
            entry.epoch,
            entry.last_sequence,
            entry.last_data_offset,
            entry.last_offset_delta,
            entry.current_txn_first_offset,
        )
        for entry in state.entries.values()
    }


class World:
    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.directory = directory / "live"
        self.copies = directory
        self.now_ms = 0
        self.batches: list[Batch] = []
        self.written = 0
        self.manager, self.log = self.open(self.directory)
        self.maintenance: Iterator[Job | None] = iter(())

    def open(self, directory: Path) -> tuple[LogManager, Log]:
        config = config_of(segment_bytes=400, segment_index_bytes=96, index_interval_bytes=80)
        manager = LogManager([str(directory)], FaultyFiles(), config, broker_id=1, cluster_id="c")
        manager.load(self.now_ms)
        return manager, manager.get_or_create_log("t", 0, TOPIC_ID, None, self.now_ms)

    def check(self, log: Log) -> None:
        """All that has a batch in the log is known as it is. A producer without one may be unknown,
        or known by its marker alone; of a transaction it may be unknown that it began below the log
        start. (So it is in Kafka, whose snapshots go with their segments.)"""
        start, found = log.log_start_offset, known(log.producer_state)
        for producer_id, seen in seen_by(self.batches).items():
            loaded = found.pop(producer_id, None)
            if seen.last_offset < start and (loaded is None or loaded.last_offset < 0):
                continue
            assert loaded is not None, f"{producer_id} is forgotten"
            if 0 <= seen.first_open_offset < start:
                loaded = loaded._replace(first_open_offset=seen.first_open_offset)
            assert loaded == seen
        assert not found

    # What may happen

    def append(self) -> None:
        producer_id = self.chance.choice(PRODUCERS)
        last = known(self.log.producer_state).get(producer_id)
        is_open = last is not None and last.first_open_offset >= 0
        base = self.log.log_end_offset
        if is_open and self.chance.random() < 0.4:
            marker = EndTxnMarker(self.chance.choice(list(ControlRecordType)[:2]), 0)
            data = build_end_txn_marker(
                marker, timestamp=1, producer_id=producer_id, producer_epoch=0
            )
            origin = AppendOrigin.COORDINATOR
            self.batches.append(Batch(base, producer_id, -1, 1, True, True))
        else:
            sequence = 0 if last is None else last.last_sequence + 1
            count = self.chance.randint(1, 3)
            is_transactional = is_open or producer_id % 3 == 0
            data = batch_of(
                *[b"v"] * count,
                producer_id=producer_id,
                epoch=0,
                sequence=sequence,
                transactional=is_transactional,
            )
            origin = AppendOrigin.CLIENT
            self.batches.append(Batch(base, producer_id, sequence, count, is_transactional, False))
        append_as_leader(self.log, data, leader_epoch=0, now_ms=self.now_ms, origin=origin)

    def advance(self) -> None:
        end = self.log.log_end_offset
        self.log.update_high_watermark(self.chance.randint(self.log.high_watermark, end))

    def look_after(self) -> None:
        """A step, as far as a tick goes; a job may end long after it was given out."""
        self.now_ms += self.chance.randint(0, 2)
        for _ in range(self.chance.randint(1, 12)):
            step = next(self.maintenance, "over")
            if step == "over":
                self.maintenance = self.manager.look_after_producers(self.now_ms)
                return
            if isinstance(step, Job):
                step.run()
                self.written += 1
                if self.chance.random() < 0.5:
                    return  # before it counts

    def truncate(self) -> None:
        log = self.log
        offset = self.chance.randint(log.high_watermark, log.log_end_offset)
        cut(log, offset)
        for _ in range(self.chance.choice([0, 1, 3, 1000])):  # of the pieces that follow
            log.rebuild_some()
        end = log.log_end_offset
        self.batches = [one for one in self.batches if one.base < end]

    def delete(self) -> None:
        log = self.log
        segments = list(log.segments)
        chosen = [
            segment
            for segment, following in itertools.pairwise(segments)
            if following.base_offset <= log.high_watermark
        ][: self.chance.randint(1, 4)]
        if chosen:
            log.delete_segments(chosen, self.now_ms)

    def crash(self) -> None:
        """Of a copy: the log itself goes on."""
        copy = self.copies / "copy"
        shutil.copytree(self.directory, copy)
        (copy / ".lock").unlink()
        end = self.log.log_end_offset
        recovery_point = self.chance.choice([0, end, self.chance.randint(0, end)])
        checkpoints.write_offsets(
            FaultyFiles(), str(copy / checkpoints.RECOVERY_POINT_FILE), {("t", 0): recovery_point}
        )
        manager, log = self.open(copy)
        assert log.log_end_offset == end
        self.check(log)
        assert not list(copy.glob("t-0/*.deleted"))
        if self.chance.random() < 0.5:
            manager.clean_shutdown()
            before = known(log.producer_state)
            manager, log = self.open(copy)
            assert known(log.producer_state) == before
        manager.release()
        shutil.rmtree(copy)


@pytest.mark.parametrize("seed", SEEDS)
def test_whenever_the_broker_dies_its_producers_are_known(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_snapshot, "ROWS_AT_ONCE", seed % 3)
    monkeypatch.setattr(producer_snapshot, "MIN_INTERVAL_MS", INTERVAL_MS)
    monkeypatch.setattr(log_maintenance, "SNAPSHOT_ROWS_PER_STEP", 1)
    monkeypatch.setattr(log_maintenance, "SNAPSHOT_STEPS_PER_TICK", 3)
    world = World(tmp_path, seed)
    for number in range(STEPS):
        step = world.chance.choices(
            [world.append, world.advance, world.look_after, world.truncate, world.delete],
            [10, 3, 4, 0.6, 0.8] if seed % 2 else [10, 1, 4, 1.5, 0.8],
        )[0]
        step()
        world.check(world.log)
        if number % 6 == 0:
            world.crash()
    assert world.written
