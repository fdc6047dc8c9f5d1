"""Transactions in a log against a dumb twin: what is stable, and what read_committed may see.

The twin keeps every batch in a list and looks at all of it for each question. Random producers
begin, write to and end transactions beside plain batches, while the high watermark moves, segments
roll, the log is truncated, and the broker restarts cleanly or dies. After each step the log and the
twin must agree on the last stable offset, on open transactions, and, through the rules by which a
consumer drops aborted batches, on the records that a reader sees from any offset, in one fetch or
in many. A follower that is fed from the log must agree as well.

In every other run transactions are of version 2: each marker has a higher epoch than its
transaction. Batches and markers of transactions before come again, late, and are refused.

A restart finds everything replicated: producer snapshots, ours like Apache Kafka's, do not say
which markers were not when they were taken.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import (
    ControlRecordType,
    EndTxnMarker,
    iter_batch_headers,
    iter_records,
)
from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.storage.append_info import AppendInfo, AppendOrigin
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_manager import LogManager
from tests.support import examples
from tests.support.appends import append_as_leader
from tests.support.faulty_files import FaultyFiles
from tests.support.log_checkpoints import cut
from tests.unit.storage.helpers import TOPIC_ID, config_of

SEEDS = range(examples.of(24))
STEPS = 80
STEPS_PER_READ = 4
PRODUCERS = (1, 2, 3)
SMALL = 200  # bytes of a fetch that gets few batches


@dataclass(slots=True)
class Entry:
    """A batch as the twin knows it."""

    base: int
    values: list[bytes]
    producer: int = -1
    transactional: bool = False
    kind: ControlRecordType | None = None
    epoch: int = 0

    @property
    def next_offset(self) -> int:
        return self.base + (len(self.values) or 1)


class Twin:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.end = 0

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.end = entry.next_offset

    def cut(self, offset: int) -> None:
        self.entries = [entry for entry in self.entries if entry.next_offset <= offset]
        self.end = offset

    def marker_of(self, entry: Entry) -> Entry | None:
        """The marker that ends the transaction of a batch."""
        later = (e for e in self.entries if e.base > entry.base and e.producer == entry.producer)
        return next((e for e in later if e.kind is not None), None)

    def is_open(self, producer: int) -> bool:
        mine = [e for e in self.entries if e.producer == producer and e.transactional]
        return bool(mine) and mine[-1].kind is None

    def epoch_of(self, producer: int) -> int:
        """The one of its last batch or marker; -1: it has none."""
        return next((e.epoch for e in reversed(self.entries) if e.producer == producer), -1)

    def takes_marker(self, producer: int, epoch: int) -> bool:
        """In version 2: a new one, or the last one again while nothing has begun."""
        current = self.epoch_of(producer)
        return epoch > current or (epoch == current and not self.is_open(producer))

    def last_stable_offset(self, high_watermark: int) -> int:
        unstable = [high_watermark]
        for entry in self.entries:
            if entry.transactional and entry.kind is None:
                marker = self.marker_of(entry)
                if marker is None or marker.base >= high_watermark:
                    unstable.append(entry.base)
        return min(unstable)

    def committed(self, start: int, end: int) -> list[bytes]:
        """The values that a reader sees in a range of offsets."""
        seen = []
        for entry in self.entries:
            if entry.kind is not None:
                continue
            if entry.transactional:
                marker = self.marker_of(entry)
                if marker is None or marker.kind is ControlRecordType.ABORT:
                    continue
            for offset, value in enumerate(entry.values, entry.base):
                if start <= offset < end:
                    seen.append(value)
        return seen


def consume(log: Log, start: int, max_bytes: int) -> list[bytes]:
    """What a consumer with read_committed gets, fetch after fetch."""
    seen: list[bytes] = []
    offset, end = start, log.last_stable_offset
    while offset < end:
        read = log.read(offset, max_bytes, upper_bound_offset=end, include_aborted=True)
        data = read.records.read()
        assert data, f"nothing at {offset} below {end}"
        assert read.aborted_transactions is not None
        waiting = sorted(read.aborted_transactions, key=lambda aborted: aborted.first_offset)
        aborted: set[int] = set()
        for position, header in iter_batch_headers(data):
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            offset = header.next_offset
            records = list(iter_records(data, position))
            if header.is_control:
                if EndTxnMarker.parse(records[0].key, records[0].value).kind == 0:
                    aborted.discard(header.producer_id)
                continue
            if header.is_transactional and header.producer_id in aborted:
                continue
            seen += [r.value or b"" for r in records if start <= r.offset < end]
    return seen


class World:
    def __init__(self, directory: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.raises = seed % 2 == 1  # transactions of version 2
        self.directory = directory
        self.twin = Twin()
        self.high_watermark = 0
        self.sequences = dict.fromkeys(PRODUCERS, 0)
        self.count = 0
        self.files = FaultyFiles()
        self.config = config_of(segment_bytes=900, segment_index_bytes=96, index_interval_bytes=80)
        self.open()

    def open(self) -> None:
        self.manager = LogManager(
            [str(self.directory)], self.files, self.config, broker_id=1, cluster_id="c"
        )
        self.manager.load(0)
        self.log = self.manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)

    # Steps

    def write(self, producer: int, transactional: bool) -> None:
        values = [b"%d" % (self.count + i) for i in range(self.chance.randint(1, 3))]
        self.count += len(values)
        epoch = max(self.twin.epoch_of(producer), 0) if producer >= 0 else -1
        is_late = epoch > 0 and self.chance.random() < 0.2
        batch = build_batch(
            [SimpleRecord(0, None, value) for value in values],
            producer_id=producer,
            producer_epoch=epoch - is_late,
            base_sequence=self.sequences.get(producer, -1),
            is_transactional=transactional,
        )
        if is_late:
            with pytest.raises(KafkaError) as refused:
                append_as_leader(self.log, batch, leader_epoch=0, now_ms=0)
            assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
            return
        if producer >= 0 and not transactional and self.twin.is_open(producer):
            with pytest.raises(KafkaError) as refused:
                append_as_leader(self.log, batch, leader_epoch=0, now_ms=0)
            assert refused.value.code is ErrorCode.INVALID_TXN_STATE
            return
        info = append_as_leader(self.log, batch, leader_epoch=0, now_ms=0)
        if producer >= 0:
            self.sequences[producer] += len(values)
        self.twin.add(Entry(info.first_offset, values, producer, transactional, epoch=epoch))

    def end(self, producer: int, kind: ControlRecordType) -> None:
        epoch, version = 0, 0
        if self.raises:
            current, version = self.twin.epoch_of(producer), 2
            epoch = max(current + self.chance.choice((1, 1, 1, 0, -1)), 0)
        marker = build_end_txn_marker(
            EndTxnMarker(kind, 0), timestamp=0, producer_id=producer, producer_epoch=epoch
        )

        def append() -> AppendInfo:
            return append_as_leader(
                self.log, marker, leader_epoch=0, now_ms=0, origin=AppendOrigin.COORDINATOR,
                transaction_version=version,
            )  # fmt: skip

        if self.raises and not self.twin.takes_marker(producer, epoch):
            with pytest.raises(KafkaError) as refused:
                append()
            assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
            return
        info = append()
        if epoch != self.twin.epoch_of(producer):
            self.sequences[producer] = 0
        self.twin.add(Entry(info.first_offset, [], producer, True, kind, epoch))

    def replicate(self) -> None:
        """Followers have whole batches."""
        ends = [e.next_offset for e in self.twin.entries if e.next_offset > self.high_watermark]
        self.high_watermark = self.chance.choice([self.high_watermark, *ends])
        self.log.update_high_watermark(self.high_watermark)

    def truncate(self) -> None:
        """As a follower does: whole batches above the high watermark."""
        ends = [e.next_offset for e in self.twin.entries if e.next_offset >= self.high_watermark]
        offset = self.chance.choice([*ends, self.twin.end])
        cut(self.log, offset)
        self.twin.cut(offset)
        for producer in PRODUCERS:
            epoch = self.twin.epoch_of(producer)
            mine = [
                e
                for e in self.twin.entries
                if e.producer == producer and e.kind is None and e.epoch == epoch
            ]
            self.sequences[producer] = sum(len(e.values) for e in mine)

    def restart(self, *, clean: bool) -> None:
        self.high_watermark = self.twin.end
        if clean:
            self.manager.clean_shutdown()
        else:
            self.log.flush()
            self.manager.release()
        self.open()
        assert self.log.log_end_offset == self.twin.end
        self.log.update_high_watermark(self.high_watermark)

    def step(self) -> None:
        producer = self.chance.choice(PRODUCERS)
        dice = self.chance.random()
        if dice < 0.4:
            self.write(producer, transactional=True)
        elif dice < 0.5:
            self.write(producer, transactional=False)
        elif dice < 0.55:
            self.write(-1, transactional=False)
        elif dice < 0.75:
            kinds = (ControlRecordType.COMMIT, ControlRecordType.ABORT)
            self.end(producer, self.chance.choice(kinds))
        elif dice < 0.92:
            self.replicate()
        elif dice < 0.94:
            self.log.roll(0)
        elif dice < 0.97:
            self.truncate()
        else:
            self.restart(clean=self.chance.random() < 0.5)

    # What must hold

    def check(self, *, reads: bool) -> None:
        expected = self.twin.last_stable_offset(self.high_watermark)
        assert self.log.last_stable_offset == expected
        assert self.log.last_stable_offset <= self.log.high_watermark <= self.log.log_end_offset
        state = self.log.producer_state
        for producer in PRODUCERS:
            assert state.has_open_transaction(producer) == self.twin.is_open(producer)
        if not reads:
            return
        start = self.chance.randint(0, expected)
        for max_bytes in (SMALL, 1 << 20):
            assert consume(self.log, start, max_bytes) == self.twin.committed(start, expected)

    def check_follower(self, directory: Path) -> None:
        manager = LogManager([str(directory)], self.files, self.config, broker_id=2, cluster_id="c")
        manager.load(0)
        follower = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
        while follower.log_end_offset < self.log.log_end_offset:
            read = self.log.read(
                follower.log_end_offset, 400, upper_bound_offset=self.log.log_end_offset
            )
            follower.append_as_follower(bytearray(read.records.read()), now_ms=0)
        follower.update_high_watermark(self.high_watermark)
        assert follower.last_stable_offset == self.log.last_stable_offset
        assert consume(follower, 0, SMALL) == consume(self.log, 0, SMALL)
        manager.release()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_log_agrees_with_its_twin(tmp_path: Path, seed: int) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "follower").mkdir()
    world = World(tmp_path / "log", seed)
    for step in range(STEPS):
        world.step()
        world.check(reads=step % STEPS_PER_READ == 0)
    world.check_follower(tmp_path / "follower")
    world.manager.release()
