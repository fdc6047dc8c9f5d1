"""Waiting fetches against a dumb twin, which reads the log for each of them after every change."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.protocol.records.control import ControlRecordType, EndTxnMarker
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.replication.types import (
    Done,
    FetchEntry,
    FetchParams,
    Isolation,
    Parked,
    ReplicatedAppend,
)
from pybroker_kafka.storage.append_info import AppendOrigin
from tests.support import examples
from tests.support.replication import ME, NOW, TOPIC, ReplicaCluster

FOLLOWER = 2
PARTITIONS = 3
STEPS = 150
UNLIMITED = 1 << 30
PRODUCER = 7
DEBUG = -2  # a consumer that reads up to the log end


class Twin:
    """Knows who waits, and reads for all of them."""

    def __init__(self, cluster: ReplicaCluster) -> None:
        self.partitions = cluster.manager.partitions
        self.waiting: dict[object, tuple[FetchParams, list[FetchEntry]]] = {}

    def is_complete(self, token: object) -> bool:
        params, entries = self.waiting[token]
        total = 0
        for entry in entries:
            partition = self.partitions[TOPIC, entry.partition]
            log = partition.log
            end = partition.readable_end_offset(params.isolation)
            if entry.fetch_offset == end:
                continue
            if log.segments.floor(entry.fetch_offset) is not log.segments.floor(end - 1):
                return True
            read = log.read(entry.fetch_offset, 1 << 30, upper_bound_offset=end)
            total += min(len(read.records), entry.max_bytes)
        return total >= min(params.min_bytes, params.max_bytes)


class History:
    def __init__(self, cluster: ReplicaCluster, seed: int) -> None:
        self.cluster = cluster
        self.random = Random(seed)
        self.twin = Twin(cluster)
        self.fetches = 0
        self.deadlines: dict[object, int] = {}
        self.ends = [[0] for _ in range(PARTITIONS)]  # of batches
        self.sequences = [0] * PARTITIONS
        self.is_open = [False] * PARTITIONS
        for index in range(PARTITIONS):
            cluster.role(partition=index, replicas=(ME, FOLLOWER))

    def run(self) -> None:
        steps = [self.fetch, self.fetch, self.produce, self.replicate, self.replicate,
                 self.transact, self.roll, self.wait, self.change]  # fmt: skip
        for _ in range(STEPS):
            self.random.choice(steps)()
            self.compare()

    def partition(self) -> int:
        return self.random.randrange(PARTITIONS)

    def fetch(self) -> None:
        chance = self.random
        isolation = chance.choice(tuple(Isolation))
        indexes = chance.sample(range(PARTITIONS), chance.randint(1, PARTITIONS))
        entries = [
            FetchEntry(
                TOPIC, index, max_bytes=chance.choice([1, 300, UNLIMITED, UNLIMITED]),
                fetch_offset=self.readable_offset(index, isolation),
            )
            for index in indexes
        ]  # fmt: skip
        params = FetchParams(
            DEBUG if isolation is Isolation.LOG_END else -1,
            chance.choice([100, 1000]),
            chance.choice([1, 2, 200, 1000, 5000, 20_000, 1 << 30]),
            chance.choice([500, UNLIMITED]),
            isolation,
        )
        self.fetches += 1
        outcome = self.cluster.manager.fetches.fetch(
            self.fetches, params, entries, self.cluster.now_ms
        )
        if isinstance(outcome, Parked):
            self.twin.waiting[self.fetches] = params, entries
            self.deadlines[self.fetches] = self.cluster.now_ms + params.max_wait_ms

    def readable_offset(self, index: int, isolation: Isolation) -> int:
        """The end, as a rule."""
        end = self.cluster.manager.partitions[TOPIC, index].readable_end_offset(isolation)
        return max(0, end - self.random.choice([0, 0, 0, 1, 3]))

    def append(self, index: int, batch: bytearray, origin: AppendOrigin) -> None:
        self.cluster.manager.appends.append(
            "p", {(TOPIC, index): batch}, ReplicatedAppend(1, 0, self.cluster.now_ms, origin=origin)
        )
        self.ends[index].append(self.cluster.manager.partitions[TOPIC, index].log.log_end_offset)

    def produce(self) -> None:
        records = [
            SimpleRecord(NOW, None, bytes(self.random.choice([1, 90, 900])))
            for _ in range(self.random.randint(1, 3))
        ]
        self.append(self.partition(), build_batch(records), AppendOrigin.CLIENT)

    def transact(self) -> None:
        """Records of a transaction, or its end."""
        index = self.partition()
        if self.is_open[index] and self.random.random() < 0.6:
            marker = build_end_txn_marker(
                EndTxnMarker(ControlRecordType.COMMIT, 0), timestamp=NOW,
                producer_id=PRODUCER, producer_epoch=0,
            )  # fmt: skip
            self.is_open[index] = False
            self.append(index, marker, AppendOrigin.COORDINATOR)
            return
        batch = build_batch(
            [SimpleRecord(NOW, None, b"in a transaction")], producer_id=PRODUCER, producer_epoch=0,
            base_sequence=self.sequences[index], is_transactional=True,
        )  # fmt: skip
        self.sequences[index] += 1
        self.is_open[index] = True
        self.append(index, batch, AppendOrigin.CLIENT)

    def replicate(self) -> None:
        """The follower has more, so the high watermark moves."""
        index = self.partition()
        log = self.cluster.manager.partitions[TOPIC, index].log
        offset = self.random.choice([end for end in self.ends[index] if end >= log.high_watermark])
        entry = FetchEntry(TOPIC, index, fetch_offset=offset, max_bytes=1 << 20, log_start_offset=0)
        params = FetchParams(FOLLOWER, 0, 1, 1 << 30, Isolation.LOG_END)
        self.cluster.manager.fetches.fetch("follower", params, [entry], self.cluster.now_ms)

    def roll(self) -> None:
        log = self.cluster.manager.partitions[TOPIC, self.partition()].log
        if log.segments.active.size:
            log.roll(self.cluster.now_ms)

    def change(self) -> None:
        """Something that may concern anyone, and does not."""
        self.cluster.manager.waiting.check((TOPIC, self.partition()))

    def wait(self) -> None:
        self.cluster.now_ms += self.random.choice([10, 200])
        self.cluster.manager.waiting.tick(self.cluster.now_ms)

    def compare(self) -> None:
        cluster, twin = self.cluster, self.twin
        for token, results in cluster.completed():
            params, entries = twin.waiting[token]
            assert twin.is_complete(token) or cluster.now_ms >= self.deadlines[token]
            del twin.waiting[token]
            fresh = cluster.manager.fetches.fetch(
                "again", FetchParams(params.replica_id, 0, 1, params.max_bytes, params.isolation),
                [FetchEntry(e.topic, e.partition, fetch_offset=e.fetch_offset,
                            max_bytes=e.max_bytes) for e in entries], cluster.now_ms,
            )  # fmt: skip
            assert isinstance(fresh, Done)
            # With limits, what was there when it came may have the room.
            if all(
                limit == UNLIMITED for limit in (params.max_bytes, *(e.max_bytes for e in entries))
            ):
                assert [told(data) for data in results] == [told(data) for data in fresh.result]
        fetches = cluster.manager.waiting.fetches
        assert {operation.token for operation in fetches.waiting()} == twin.waiting.keys()
        assert len(fetches) == len(twin.waiting)
        assert [token for token in twin.waiting if twin.is_complete(token)] == []


def told(data: Any) -> tuple[object, ...]:
    records = data.records or b""
    return (
        *(getattr(data, name) for name in ("high_watermark", "last_stable_offset",
                                            "log_start_offset", "error_code")),
        len(records), data.records.position if records else 0,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(examples.of(30)))
def test_who_is_answered_when_and_with_what(tmp_path: Path, seed: int) -> None:
    History(ReplicaCluster(tmp_path), seed).run()
