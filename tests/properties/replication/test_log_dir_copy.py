"""A replica that moves between directories, against a dumb twin: a list of batches.

Whatever happens on the way (appends, truncations by a new leader, deletions, rolls, other targets,
crashes), the log has the bytes of the twin, before the swap and after it.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pybroker_kafka.protocol.records.batch import assign_offset_and_epoch
from pybroker_kafka.replication import log_dir_moves
from pybroker_kafka.replication.hosted_partitions import Move
from pybroker_kafka.replication.log_dir_moves import Over, Pause, Prepare, Read
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.retention import delete_segments_below_start
from tests.support.replication import KEY, ME, NOW, ReplicaCluster, batch

DIRECTORIES = 3
STEPS = 150
DIVERGING_SHARE = 0.4
WEIGHTS = {
    "append": 8,
    "follow_another": 2,
    "start_over": 0.2,
    "delete_records": 2,
    "delete_segments": 1,
    "roll": 1,
    "ask": 2,
    "step": 12,
    "crash": 1,
    "finish": 0.5,
}


class Mover:
    def __init__(self, place: Path, chance: random.Random) -> None:
        self.place = place
        self.random = chance
        self.begun = 0
        self.epoch = 0
        self.number = 0
        self.batches: list[tuple[int, bytes]] = []  # last offset, bytes
        self.start = self.end = 0
        self.deleted_below = 0
        self.now_ms = NOW
        self.pending: tuple[Move, bytes] | None = None  # a piece that a thread has read
        self.open()

    def open(self) -> None:
        self.cluster = ReplicaCluster(
            self.place, dirs=DIRECTORIES, topic_config={"segment.bytes": "3000"}
        )
        self.now_ms += 1
        self.cluster.now_ms = self.now_ms
        self.follow()

    def follow(self) -> None:
        self.epoch += 1
        self.cluster.role(2, replicas=(ME, 2), leader_epoch=self.epoch)

    @property
    def log(self) -> Log:
        return self.cluster.partition.log

    @property
    def move(self) -> Move | None:
        return self.cluster.manager.moves.active.get(KEY)

    # The log

    def append(self) -> None:
        size = self.random.choice([1, 80_000, 80_000])
        count = self.random.randint(1, 3)
        self.number += 1
        data = batch(*[self.number.to_bytes(4, "big") * (size // 4 + 1)] * count)
        assign_offset_and_epoch(data, 0, self.end, self.epoch)
        self.cluster.partition.append_as_follower(data, leader_epoch=self.epoch, now_ms=NOW)
        self.end += count
        self.batches.append((self.end - 1, bytes(data)))
        self.log.update_high_watermark(max(self.start, self.end - 4))

    def follow_another(self) -> None:
        """A new leader that lacks the end of our log, which is not much."""
        self.follow()
        ends = [last + 1 for last, _ in self.batches if last >= self.start]
        offset = self.random.choice([*ends[-4:], self.end])
        self.log.truncate_to(offset)
        self.batches = [entry for entry in self.batches if entry[0] < offset]
        self.end = self.log.log_end_offset

    def maybe_diverge(self) -> None:
        if self.random.random() < DIVERGING_SHARE:
            self.follow_another()
            self.append()

    def start_over(self) -> None:
        """The leader's log begins behind the end of ours."""
        self.end = self.start = self.end + self.random.randint(1, 50)
        self.log.truncate_fully_and_start_at(self.end)
        self.batches = []

    def delete_records(self) -> None:
        self.start = self.random.randint(self.start, self.log.high_watermark)
        self.log.maybe_increment_log_start_offset(self.start)

    def delete_segments(self) -> None:
        for log in (self.log, self.cluster.log_manager.future_log(*KEY)):
            if log is not None:
                delete_segments_below_start(log, NOW)

    def roll(self) -> None:
        if self.log.segments.active.size:
            self.log.roll(NOW)

    # The move

    def ask(self) -> None:
        path = self.random.choice(self.cluster.log_manager.directories).path
        answer = self.cluster.manager.moves.alter_log_dirs({KEY: path}, self.now_ms)
        assert answer == {KEY: 0}
        here = self.cluster.log_manager.directory_of(*KEY) == path
        assert (self.move is None) == here
        self.begun += not here

    def step(self) -> None:
        """Also what comes of a piece that a thread has read before other things happened."""
        if self.pending is not None:
            begun, data = self.pending
            self.maybe_diverge()
            self.cluster.manager.moves.copied(begun, data, self.now_ms)
            self.pending = None
        elif (move := self.move) is not None:
            done = self.cluster.manager.moves.next_step(move, self.now_ms)
            if isinstance(done, Read):
                self.pending = move, log_dir_moves.read_piece(move, done.piece)
            elif isinstance(done, Prepare):
                done.run()
                log_dir_moves.prepared(move)
            elif isinstance(done, Pause):
                assert move.future.producers.is_being_rebuilt
            else:
                assert isinstance(done, Over)
                assert self.log is move.future
                # A crash may have brought back what was deleted, here but not in the copy.
                assert self.log.log_start_offset <= self.deleted_below
                self.start = max(self.start, self.log.log_start_offset)

    def crash(self) -> None:
        """The process is gone, most often near the end of a move; what it wrote is there."""
        while (move := self.move) is not None and not move.is_prepared:
            self.step()
        self.maybe_diverge()
        target = self.cluster.log_manager.future_directory_of(*KEY)
        self.cluster.log_manager.release()
        self.pending = None
        self.open()
        assert self.cluster.log_manager.future_directory_of(*KEY) == target
        assert (self.move is None) == (target is None)
        # What was not written down before the crash, or is in no batch.
        self.start, self.end = self.log.log_start_offset, self.log.log_end_offset
        # No checkpoint either: the leader says how far it is safe.
        self.log.update_high_watermark(max(self.start, self.end - 4))

    def finish(self) -> None:
        while self.move is not None:
            self.step()

    # What must hold

    def the_log_is_the_twin(self) -> None:
        log = self.log
        self.deleted_below = max(self.deleted_below, self.start)
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        found = b""
        offset = self.start
        while offset < self.end:
            read = log.read(offset, 1 << 30, upper_bound_offset=self.end)
            data = read.records.read()
            if not data:
                break
            found += data
            offset = int.from_bytes(data[_last_batch(data) :][:8], "big") + _count(data)
        assert found == b"".join(data for last, data in self.batches if last >= self.start)


def _last_batch(data: bytes) -> int:
    position = 0
    while True:
        following = position + 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        if following >= len(data):
            return position
        position = following


def _count(data: bytes) -> int:
    position = _last_batch(data)
    return int.from_bytes(data[position + 23 : position + 27], "big") + 1


@pytest.mark.parametrize("seed", range(12))
def test_a_replica_is_the_same_wherever_it_is(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    mover = Mover(tmp_path, chance)
    for name in chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS):
        getattr(mover, name)()
        mover.the_log_is_the_twin()
    mover.finish()
    mover.the_log_is_the_twin()
    assert mover.begun >= 1
    mover.cluster.log_manager.release()
