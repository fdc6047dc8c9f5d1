"""The short way of a follower that has all, and the way of every other fetch: two leaders get the
same fetches, one of them without the short way, and nobody can tell them apart."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker.protocol.messages.fetch import FetchResponsePartitionData
from pybroker.replication.fetches import Fetches
from pybroker.replication.partition import Partition
from pybroker.replication.types import Done, FetchEntry, FetchParams, Isolation
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
    """A follower fetches at the leader's end, less so many; `again`: in its session, unchanged."""

    follower: int
    behind: int
    again: bool
    replica_epoch: int = -1
    log_start_offset: int = 0


@dataclass(slots=True, frozen=True)
class Other:
    """Something else happens."""

    kind: str
    number: int


anew = st.builds(
    Fetch,
    st.sampled_from(FOLLOWERS),
    st.sampled_from([0, 0, 0, 0, 1]),
    st.just(False),
    st.sampled_from([-1, -1, -1, -1, 5]),
    st.sampled_from([0, 0, 0, 1]),
)
once_more = st.builds(Fetch, st.sampled_from(FOLLOWERS), st.just(0), st.just(True))
others = st.builds(
    Other,
    st.sampled_from(["produce", "pass", "shrink", "elect", "follow", "delete", "agree"]),
    st.integers(0, 3),
)
steps = st.one_of(anew, once_more, once_more, others)
# Most fetches that matter come from followers that have all.
CAUGHT_UP = [Fetch(follower, 0, False) for follower in FOLLOWERS * 2]


class Side:
    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.cluster = ReplicaCluster(directory)
        self.leader_epoch = 0
        self.partition_epoch = 0
        self.cluster.publish(ME)
        self.cluster.role(replicas=(ME, *FOLLOWERS))
        self.entries: dict[int, FetchEntry] = {}
        self.heard: list[Any] = []

    def take(self, step: Fetch | Other) -> None:
        if isinstance(step, Fetch):
            self.fetch(step)
        else:
            self.other(step)
        answers: Any = self.cluster.completed()
        for token, results in answers:
            self.heard.append((token, {key: slots(result) for key, result in results.items()}))

    def fetch(self, step: Fetch) -> None:
        entry = self.entries.get(step.follower)
        if entry is None or not step.again:
            end = self.cluster.partition.log.log_end_offset
            entry = self.entries[step.follower] = FetchEntry(
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
        elif step.kind == "agree":
            self.partition_epoch += 1
            leader = ME if self.cluster.partition.is_leader else 2
            self.role((ME, *FOLLOWERS)[: step.number or 3], leader)
        else:
            self.leader_epoch += 1
            self.partition_epoch += 1
            self.role((ME, *FOLLOWERS), leader=ME if step.kind == "elect" else 2)

    def role(self, isr: tuple[int, ...], leader: int = ME) -> None:
        self.cluster.role(
            leader,
            replicas=(ME, *FOLLOWERS),
            isr=isr,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
        )

    def state(self) -> Any:
        partition = self.cluster.partition
        return (
            self.heard,
            slots(partition.stats),
            {broker: slots(replica) for broker, replica in partition.remotes.items()},
            (partition.isr.committed, partition.isr.maximal, partition.isr.proposed),
            (partition.log.high_watermark, partition.log.log_start_offset),
            [type(effect).__name__ for effect in self.cluster.manager.effects],
        )


def slots(one: object) -> dict[str, Any]:
    """Its fields, to compare it by."""
    names = getattr(type(one), "__slots__", None)
    return {name: getattr(one, name) for name in names} if names else {"": one}


@settings(max_examples=200)
@given(st.lists(steps, min_size=3, max_size=14))
def test_both_ways_do_the_same(history: list[Fetch | Other]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        short, long = Side(Path(directory) / "short"), Side(Path(directory) / "long")
        manager = long.cluster.manager
        manager.fetches = LongWay(manager.hosted, manager.reader, manager.waiting)
        for step in (*CAUGHT_UP, *history):
            short.take(step)
            long.take(step)
            assert short.state() == long.state()
