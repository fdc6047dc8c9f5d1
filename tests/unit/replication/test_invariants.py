"""States of replication that must not exist, made by hand: each is found by the next step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pybroker_kafka.protocol.apis.leader_and_isr import LeaderAndIsrPartitionState
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.invariants import BrokenInvariant
from pybroker_kafka.protocol.timer_wheel import TimerEntry, TimerWheel
from pybroker_kafka.replication.controller.partition_states import _check_elected
from pybroker_kafka.replication.controller.znodes import LeaderAndIsr
from pybroker_kafka.replication.fetch_purgatory import Line
from pybroker_kafka.replication.follower import FollowerPartition, FollowerState
from pybroker_kafka.replication.isr import IsrState
from pybroker_kafka.replication.isr_proposals import IsrProposals
from pybroker_kafka.replication.purgatory import KeyedPurgatory, Operation
from pybroker_kafka.replication.types import AlterIsr, Parked
from tests.support.replication import KEY, ME, TOPIC, TOPIC_ID, ReplicaCluster

REPLICAS = (ME, 2, 3)


@pytest.fixture
def leader(cluster: ReplicaCluster) -> ReplicaCluster:
    """Of epoch 5, with five records, all of them on 2; 3 is not in the ISR and lacks one."""
    cluster.role(replicas=REPLICAS, isr=(ME, 2), leader_epoch=5)
    cluster.produce("token", *[b"v"] * 5, acks=1)
    cluster.follow(2, 5)
    cluster.follow(3, 4)
    return cluster


def state(leader_epoch: int) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        leader=2, leader_epoch=leader_epoch, partition_epoch=9, replicas=list(REPLICAS)
    )


# A partition


def test_a_leader_epoch_that_falls(leader: ReplicaCluster) -> None:
    for take_role in (
        leader.partition.make_follower,
        lambda older: leader.partition.make_leader(older, 0),
    ):
        with pytest.raises(BrokenInvariant, match="go back to epoch 4"):
            take_role(state(4))


def test_a_leader_that_is_among_its_followers(
    leader: ReplicaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader.partition, "broker_id", 9)
    with pytest.raises(BrokenInvariant, match="follows"):
        leader.partition.make_leader(state(6), 0)


def test_a_high_watermark_that_a_member_of_the_isr_has_not_reached(leader: ReplicaCluster) -> None:
    leader.partition.isr.maximal |= {3}
    with pytest.raises(BrokenInvariant, match=r"3 of .* is at 4"):
        leader.partition._check_high_watermark()


def test_a_high_watermark_that_is_not_on_disk(leader: ReplicaCluster) -> None:
    leader.partition._unflushed_from = 3
    with pytest.raises(BrokenInvariant, match="on disk to 3"):
        leader.partition._check_high_watermark()


def test_a_high_watermark_behind_the_log(
    leader: ReplicaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader.produce("token", b"v", acks=1)
    monkeypatch.setattr(type(leader.partition.log), "update_high_watermark", lambda *_: 0)
    with pytest.raises(BrokenInvariant, match=r"the HW of .* is to go to 6"):
        leader.follow(2, 6)


def test_proposals(leader: ReplicaCluster) -> None:
    partition = leader.partition
    for isr, fact in (({2}, "without itself"), ({ME, 2, 3}, "3 at 4"), ({ME, 2, 7}, "7 at None")):
        with pytest.raises(BrokenInvariant, match=fact):
            partition._alter_isr(frozenset(isr))


def test_a_leader_takes_nothing_from_a_leader(leader: ReplicaCluster) -> None:
    with pytest.raises(BrokenInvariant, match="another leader"):
        leader.partition.follow_leader_offsets(5, 0)


def test_another_log_that_ends_elsewhere(leader: ReplicaCluster) -> None:
    other = leader.log_manager.get_or_create_log("other", 0, TOPIC_ID, None, 0)
    with pytest.raises(BrokenInvariant, match="is to replace"):
        leader.partition.replace_log(other)


def test_an_isr_without_its_leader_is_the_controllers_word(leader: ReplicaCluster) -> None:
    """It is input: nothing is proposed, and nothing breaks."""
    leader.role(replicas=REPLICAS, isr=(2,), leader_epoch=6)
    leader.now_ms += 10**9
    assert leader.partition.propose_isr_shrink(leader.now_ms) is None


def test_changes_of_an_isr() -> None:
    isr = IsrState(frozenset({1, 2}))
    changes: list[tuple[Callable[[], object], str]] = [
        (lambda: isr.propose_expand(2), "2 is to join"),
        (lambda: isr.propose_shrink(frozenset({1, 2})), "are to leave"),
        (lambda: isr.propose_shrink(frozenset({3})), "are to leave"),
    ]
    for change, fact in changes:
        with pytest.raises(BrokenInvariant, match=fact):
            change()
    isr.propose_expand(3)
    for change in (lambda: isr.propose_expand(4), lambda: isr.propose_shrink(frozenset({2}))):
        with pytest.raises(BrokenInvariant, match="beside the one"):
            change()


# Who waits


def test_what_is_acknowledged_was_written(cluster: ReplicaCluster) -> None:
    cluster.role(replicas=REPLICAS)
    parked = cluster.produce("token", b"a")
    assert isinstance(parked, Parked)
    operation: Any = parked.operation
    operation.required_acks = 1
    operation.results[KEY].required_offset = 7
    with pytest.raises(BrokenInvariant, match="7 is acknowledged, the log ends at 1"):
        operation.check_partition(KEY, cluster.partition, ErrorCode.NONE)


def test_an_operation_is_answered_once(
    cluster: ReplicaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.role(replicas=REPLICAS)
    assert isinstance(cluster.produce("token", b"a"), Parked)
    monkeypatch.setattr(KeyedPurgatory, "remove", lambda *_: False)
    cluster.follow(2, 1)
    with pytest.raises(BrokenInvariant, match="'token' is answered twice"):
        cluster.follow(3, 1)


def test_a_fetch_is_answered_once(cluster: ReplicaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.role()
    parked = cluster.fetch("token", 0, min_bytes=1)
    assert isinstance(parked, Parked)
    waiting = cluster.manager.waiting
    monkeypatch.setattr(type(waiting.fetches), "remove", lambda *_: False)
    with pytest.raises(BrokenInvariant, match="'token' is answered twice"):
        waiting.answer_now(parked.operation)


def test_purgatories_and_timers() -> None:
    purgatory: KeyedPurgatory[Operation] = KeyedPurgatory("P")
    operation = Operation("token")
    with pytest.raises(BrokenInvariant, match="waits for nothing"):
        purgatory.watch(operation, (), None)
    purgatory.watch(operation, ("key",), None)
    with pytest.raises(BrokenInvariant, match="waited for already"):
        purgatory.watch(operation, ("key",), None)
    purgatory._size = 0
    with pytest.raises(BrokenInvariant, match="none waited"):
        purgatory.remove(operation)
    wheel: TimerWheel[TimerEntry] = TimerWheel(0)
    entry = TimerEntry()
    wheel.schedule(entry, 10)
    with pytest.raises(BrokenInvariant, match="scheduled already"):
        wheel.schedule(entry, 20)


def test_a_line_out_of_order() -> None:
    line = Line()
    waiting: Any = None
    line._entries = [(0, 100, 1, waiting), (0, 50, 2, waiting)]
    with pytest.raises(BrokenInvariant, match="out of order"):
        line.take((0, 10))


def test_a_fetch_is_collected_once_and_while_it_waits(cluster: ReplicaCluster) -> None:
    cluster.role()
    parked = cluster.fetch("token", 0, min_bytes=1)
    assert isinstance(parked, Parked)
    operation: Any = parked.operation
    collected = cluster.manager.waiting.collected
    collected.add(operation, [])
    with pytest.raises(BrokenInvariant, match="collected twice"):
        collected.add(operation, [])


# Followers, proposals, disks


def test_a_follower(cluster: ReplicaCluster) -> None:
    cluster.role(leader=2, replicas=REPLICAS)
    follower = FollowerPartition(cluster.partition, truncates_on_fetch=True)
    with pytest.raises(BrokenInvariant, match="is to fetch at 7"):
        follower.fetch_from(7)
    follower.state = FollowerState.FETCHING
    with pytest.raises(BrokenInvariant, match="cannot become"):
        follower.move_to(FollowerState.FETCHING)


def test_one_request_for_isrs() -> None:
    proposals = IsrProposals(ME)
    proposals.propose(AlterIsr(TOPIC, 0, TOPIC_ID, 0, 0, (ME,)))
    assert proposals.begin()
    with pytest.raises(BrokenInvariant, match="another AlterPartition"):
        proposals.begin()


def test_hosted_and_offline(leader: ReplicaCluster) -> None:
    hosted = leader.manager.hosted
    hosted.offline.add(KEY)
    with pytest.raises(BrokenInvariant, match="hosted and offline"):
        hosted.drop_failed_dirs()


# The controller

BEFORE = LeaderAndIsr(leader=1, leader_epoch=5, isr=(1, 2), partition_epoch=0, controller_epoch=1)


@pytest.mark.parametrize(
    ("leader_id", "isr", "leader_epoch", "unclean", "is_good"),
    [
        (2, (2,), 6, False, True),
        (3, (3,), 6, True, True),
        (2, (1,), 6, False, False),  # not in the ISR
        (3, (3,), 6, False, False),  # unclean, and nobody has allowed it
        (2, (2, 3), 6, True, False),  # 3 joins
        (2, (2,), 5, False, False),  # the epoch stands
    ],
)
def test_an_election(
    leader_id: int, isr: tuple[int, ...], leader_epoch: int, unclean: bool, is_good: bool
) -> None:
    after = LeaderAndIsr(
        leader=leader_id,
        leader_epoch=leader_epoch,
        isr=isr,
        partition_epoch=0,
        controller_epoch=1,
    )
    if is_good:
        _check_elected(KEY, BEFORE, after, unclean=unclean)
        return
    with pytest.raises(BrokenInvariant, match="is elected from"):
        _check_elected(KEY, BEFORE, after, unclean=unclean)
