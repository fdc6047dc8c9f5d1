"""High watermark and ISR of a leader against a dumb twin, with random followers and controller.

The twin keeps only histories (every follower fetch of this leader's reign, with the leader's log
end at that moment) and works everything out from the beginning each time. On top of agreement,
the invariants of replication are checked with the followers' true log ends: the HW never goes
back, and everything below it is on each member of the committed ISR.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.types import AlterIsr, ReplicatedAppend
from tests.support.replication import KEY, ME, ReplicaCluster, batch

FOLLOWERS = (2, 3)
REPLICAS = (ME, *FOLLOWERS)
MAX_LAG_MS = 30_000

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("fetch"), st.sampled_from(FOLLOWERS), st.integers(0, 4)),
        st.tuples(st.just("fetch"), st.sampled_from(FOLLOWERS), st.integers(0, 4)),
        st.tuples(st.just("time"), st.sampled_from([1, 10_000, 29_999, 31_000])),
        st.tuples(st.just("shrink")),
        st.tuples(
            st.just("controller"), st.sampled_from(["agree", "agree", "refuse", "await", "again"])
        ),
        st.tuples(st.just("elect"), st.sets(st.sampled_from(FOLLOWERS)), st.booleans()),
        st.tuples(st.just("alive"), st.sets(st.sampled_from(FOLLOWERS))),
    ),
    max_size=50,
)


class Fetch(NamedTuple):
    offset: int
    now_ms: int
    leader_end: int


class Twin:
    def __init__(self, min_isr: int) -> None:
        self.min_isr = min_isr
        self.end = 0
        self.hw = 0
        self.epoch_start = 0
        self.committed: set[int] = set()
        self.proposed: set[int] | None = None
        self.alive = set(REPLICAS)
        # Per follower: what began its reign (time if in the ISR, kept log end) and its fetches.
        self.caught_up_at_start: dict[int, int] = {}
        self.end_before: dict[int, int] = {}
        self.fetch_at_start: dict[int, tuple[int, int]] = {}
        self.fetches: dict[int, list[Fetch]] = {}

    def follower_end(self, follower: int) -> int:
        fetches = self.fetches[follower]
        return fetches[-1].offset if fetches else self.end_before[follower]

    def caught_up_ms(self, follower: int) -> int:
        """The latest time at which the follower is known to have had all that the leader had."""
        known = self.caught_up_at_start[follower]
        previous_ms, previous_end = self.fetch_at_start[follower]
        for fetch in self.fetches[follower]:
            if fetch.offset >= fetch.leader_end:
                known = max(known, fetch.now_ms)
            elif fetch.offset >= previous_end:
                known = max(known, previous_ms)
            previous_ms = fetch.now_ms
            previous_end = max(previous_end, fetch.leader_end)
        return known

    def is_caught_up(self, follower: int, now_ms: int) -> bool:
        lag_ms = now_ms - self.caught_up_ms(follower)
        return self.follower_end(follower) == self.end or lag_ms <= MAX_LAG_MS

    def maximal(self) -> set[int]:
        return self.committed | (self.proposed or set())

    def advance(self, now_ms: int) -> None:
        if len(self.committed) < self.min_isr:
            return
        ends = [self.end]
        for follower in FOLLOWERS:
            joining = follower in self.alive and self.is_caught_up(follower, now_ms)
            if follower in self.maximal() or joining:
                ends.append(self.follower_end(follower))
        self.hw = max(self.hw, min(ends))

    def elect(self, isr: set[int], now_ms: int, *, anew: bool) -> None:
        self.epoch_start = self.end
        self.committed = isr
        self.proposed = None
        for follower in FOLLOWERS:
            in_isr = follower in isr
            known_end = -1 if anew else self.follower_end(follower)
            self.caught_up_at_start[follower] = now_ms if in_isr else 0
            self.end_before[follower] = known_end
            self.fetch_at_start[follower] = (0, -1) if anew else (now_ms if in_isr else 0, self.end)
            self.fetches[follower] = []
        self.advance(now_ms)


class Scenario:
    """Does each step to the replica manager and to the twin."""

    def __init__(self, cluster: ReplicaCluster, min_isr: int) -> None:
        self.cluster = cluster
        self.twin = Twin(min_isr)
        self.epoch = 1
        self.partition_epoch = 1
        cluster.role(replicas=REPLICAS, leader_epoch=1)
        self.twin.elect(set(REPLICAS), cluster.now_ms, anew=True)
        self.true_end = dict.fromkeys(FOLLOWERS, 0)
        self.proposals: list[AlterIsr] = []

    def append(self, count: int) -> None:
        now_ms = self.cluster.now_ms
        self.cluster.manager.appends.append(
            "p", {KEY: batch(*[b"v"] * count)}, ReplicatedAppend(1, 0, now_ms)
        )
        self.twin.end += count
        self.twin.advance(now_ms)

    def fetch(self, follower: int, progress: int) -> None:
        """A follower asks for what comes after its log; it never forgets what it has."""
        twin, now_ms = self.twin, self.cluster.now_ms
        offset = self.true_end[follower] = min(self.true_end[follower] + progress, twin.end)
        self.cluster.follow(follower, offset)
        moved = twin.follower_end(follower) != offset
        twin.fetches[follower].append(Fetch(offset, now_ms, twin.end))
        if moved:
            twin.advance(now_ms)
        is_candidate = follower in twin.alive and follower not in twin.committed
        if is_candidate and twin.proposed is None and offset >= max(twin.hw, twin.epoch_start):
            twin.proposed = twin.committed | {follower}

    def time(self, delta_ms: int) -> None:
        self.cluster.now_ms += delta_ms

    def shrink(self) -> None:
        twin, now_ms = self.twin, self.cluster.now_ms
        self.cluster.manager.isr_changes.maybe_shrink(now_ms)
        lagging = {f for f in twin.committed - {ME} if not twin.is_caught_up(f, now_ms)}
        if lagging and twin.proposed is None:
            twin.proposed = twin.committed - lagging

    def controller(self, answer: str) -> None:
        if not self.proposals:
            return
        twin, now_ms, manager = self.twin, self.cluster.now_ms, self.cluster.manager
        proposal = self.proposals.pop()
        isr = list(proposal.isr)
        assert set(isr) == twin.proposed
        if answer == "agree":
            self.partition_epoch += 1
            manager.isr_changes.altered(proposal, ErrorCode.NONE, isr, self.partition_epoch, now_ms)
            twin.committed, twin.proposed = set(isr), None
        else:
            manager.isr_changes.altered(proposal, _REFUSALS[answer], [], -1, now_ms)
            if answer == "refuse":
                twin.proposed = None
        if answer != "again":
            twin.advance(now_ms)

    def elect(self, others: set[int], anew: bool) -> None:
        twin = self.twin
        # Only who holds all below the HW can be in the ISR of an election.
        isr = {ME} | {f for f in others if self.true_end[f] >= twin.hw}
        if anew:
            self._become(2, REPLICAS)
        self._become(ME, sorted(isr))
        self.proposals.clear()
        twin.elect(isr, self.cluster.now_ms, anew=anew)

    def _become(self, leader: int, isr: Sequence[int]) -> None:
        self.epoch += 1
        self.partition_epoch += 1
        self.cluster.role(
            leader=leader,
            replicas=REPLICAS,
            isr=isr,
            leader_epoch=self.epoch,
            partition_epoch=self.partition_epoch,
        )

    def alive(self, others: set[int]) -> None:
        self.twin.alive = {ME} | others
        self.cluster.alive(sorted(self.twin.alive))

    def check(self, hw_before: int) -> None:
        manager, twin, partition = self.cluster.manager, self.twin, self.cluster.partition
        self.proposals += [e for e in manager.take_effects() if isinstance(e, AlterIsr)]
        assert partition.log.high_watermark == twin.hw
        assert twin.hw >= hw_before
        assert partition.isr.committed == twin.committed
        assert partition.isr.maximal == twin.maximal()
        assert partition.isr.proposed == twin.proposed
        for member in twin.committed - {ME}:
            assert self.true_end[member] >= twin.hw


_REFUSALS = {
    "refuse": ErrorCode.OPERATION_NOT_ATTEMPTED,
    "await": ErrorCode.FENCED_LEADER_EPOCH,
    "again": ErrorCode.UNKNOWN_SERVER_ERROR,
}


@settings(max_examples=250, deadline=None)
@given(min_isr=st.integers(1, 3), steps=_STEPS)
def test_agrees_with_histories(min_isr: int, steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        cluster = ReplicaCluster(
            Path(directory), topic_config={"min.insync.replicas": str(min_isr)}
        )
        scenario = Scenario(cluster, min_isr)
        for name, *arguments in steps:
            hw_before = scenario.twin.hw
            getattr(scenario, name)(*arguments)
            scenario.check(hw_before)
        cluster.log_manager.release()
