"""The short way of a follower that has all, and the way of every other fetch: two leaders get the
same fetches, one of them without the short way, and nobody can tell them apart."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pybroker_kafka.protocol.apis.fetch import FetchResponsePartitionData
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.fetches import Fetches
from pybroker_kafka.replication.partition import Partition
from pybroker_kafka.replication.types import AlterIsr, Done, FetchEntry, FetchParams, Isolation
from tests.support.fields import fields_of
from tests.support.replication import KEY, ME, TOPIC, TOPIC_ID, ReplicaCluster

FOLLOWERS = (2, 3)


class LongWay(Fetches):
    __slots__ = ()

    def _idle(
        self, partition: Partition, params: FetchParams, entry: FetchEntry, now_ms: int
    ) -> FetchResponsePartitionData | None:
        return None


@dataclass(slots=True, frozen=True)
class Fetch:
    """A follower fetches at the leader's end, less so many; `again`: in a session, unchanged."""

    follower: int
    behind: int
    again: bool
    replica_epoch: int = -1
    log_start_offset: int = 0
    session: int = 0


@dataclass(slots=True, frozen=True)
class Other:
    """Something else happens."""

    kind: str
    number: int


STEPS = 2_500
SHOWN = 12
USUAL = [Fetch(follower, 0, again) for follower in FOLLOWERS for again in (False, True)]
OTHERS = ("pass", "shrink", "elect", "follow", "delete", "agree", "lapse")


def some_step(random: Random) -> Fetch | Other:
    """Mostly followers that have all, and records for them; the odd things are rare."""
    kind = random.random()
    if kind < 0.55:
        return random.choice(USUAL)
    if kind < 0.75:
        return Other("produce", random.randint(0, 1))
    if kind < 0.88:
        return Fetch(
            random.choice(FOLLOWERS),
            random.randint(0, 1),
            random.random() < 0.5,
            random.choice((-1, -1, 5)),
            random.randint(0, 1),
            random.randint(0, 1),
        )
    return Other(random.choice(OTHERS), random.randint(0, 3))


class Side:
    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.cluster = ReplicaCluster(directory)
        self.leader_epoch = 0
        self.cluster.publish(ME)
        self.cluster.role(replicas=(ME, *FOLLOWERS))
        self.entries: dict[tuple[int, int], FetchEntry] = {}
        self.heard: list[Any] = []

    def take(self, step: Fetch | Other) -> None:
        if isinstance(step, Fetch):
            self.fetch(step)
        else:
            self.other(step)
        answers: Any = self.cluster.completed()
        for token, results in answers:
            self.heard.append((token, {key: fields_of(result) for key, result in results.items()}))

    def fetch(self, step: Fetch) -> None:
        entry = self.entries.get((step.follower, step.session))
        if entry is None or not step.again:
            end = self.cluster.partition.log.log_end_offset
            entry = self.entries[step.follower, step.session] = FetchEntry(
                TOPIC, 0,
                fetch_offset=max(0, end - step.behind), max_bytes=1 << 20, topic_id=TOPIC_ID,
                current_leader_epoch=self.leader_epoch, last_fetched_epoch=self.leader_epoch,
                log_start_offset=step.log_start_offset,
            )  # fmt: skip
        params = FetchParams(
            step.follower, 0, 1, 1 << 20, Isolation.LOG_END, replica_epoch=step.replica_epoch
        )
        outcome = self.cluster.manager.fetches.fetch("f", params, [entry], self.cluster.now_ms)
        assert isinstance(outcome, Done)
        (data,) = outcome.result
        self.heard.append(
            (
                data.error_code, data.high_watermark, data.last_stable_offset,
                data.log_start_offset, data.diverging_epoch.epoch, data.diverging_epoch.end_offset,
                data.records is None or len(data.records),
            )
        )  # fmt: skip

    def other(self, step: Other) -> None:
        cluster, manager = self.cluster, self.cluster.manager
        if step.kind == "produce":
            cluster.produce("p", b"value", acks=(1, -1)[step.number % 2])
        elif step.kind == "pass":
            cluster.now_ms += (1, 100, 20_000, 40_000)[step.number]
            manager.waiting.tick(cluster.now_ms)
        elif step.kind == "shrink":
            manager.isr_changes.maybe_shrink(cluster.now_ms)
        elif step.kind == "delete":
            manager.offsets.delete_records("d", {KEY: step.number}, 1000, cluster.now_ms)
        elif step.kind == "lapse":
            for kind in ("pass", "shrink", "agree"):
                self.other(Other(kind, 3))
        elif step.kind == "agree":
            for effect in manager.take_effects():
                if isinstance(effect, AlterIsr):
                    answer = (ErrorCode.NONE, effect.isr, effect.partition_epoch + 1)
                    manager.isr_changes.altered(effect, *answer, cluster.now_ms)
        else:
            self.leader_epoch += 1
            self.cluster.role(
                ME if step.kind == "elect" else 2,
                replicas=(ME, *FOLLOWERS),
                leader_epoch=self.leader_epoch,
                partition_epoch=100 * self.leader_epoch,
            )

    def state(self) -> Any:
        partition = self.cluster.partition
        return (
            self.heard,
            fields_of(partition.stats),
            {broker: fields_of(replica) for broker, replica in partition.remotes.items()},
            (partition.isr.committed, partition.isr.maximal, partition.isr.proposed),
            (partition.log.high_watermark, partition.log.log_start_offset),
            [type(effect).__name__ for effect in self.cluster.manager.effects],
        )


@pytest.mark.parametrize("seed", range(4))
def test_both_ways_do_the_same(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    short, long = Side(tmp_path / "short"), Side(tmp_path / "long")
    manager = long.cluster.manager
    manager.fetches = LongWay(manager.hosted, manager.reader, manager.waiting)
    history: deque[Fetch | Other] = deque(maxlen=SHOWN)
    for _ in range(STEPS):
        step = some_step(random)
        history.append(step)
        short.take(step)
        long.take(step)
        assert short.state() == long.state(), history
        short.heard.clear()
        long.heard.clear()
