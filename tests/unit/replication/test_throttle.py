"""Replication throttles: the rate itself, and both sides of a reassignment that is throttled."""

from pathlib import Path

import pytest

from pybroker_kafka.protocol.apis.fetch import FetchRequest
from pybroker_kafka.replication.follower_steps import Exchange, Wait
from pybroker_kafka.replication.throttle import MIN_PIECE_BYTES, UNLIMITED, ReplicationQuota
from tests.support.followers import Nodes, content
from tests.support.replication import KEY

VALUE = b"v" * 1000


@pytest.fixture
def quota() -> ReplicationQuota:
    quota = ReplicationQuota(7)
    quota.limit = 1000
    return quota


def test_which_replicas(quota: ReplicationQuota) -> None:
    assert quota.throttles(3, ["*"])
    assert quota.throttles(3, ["1:2", "3:7"])
    assert not quota.throttles(3, ["3:70", "7:3"])
    assert not quota.throttles(3, [])
    quota.limit = UNLIMITED
    assert not quota.throttles(3, ["*"])


def test_the_rate_is_over_eleven_windows(quota: ReplicationQuota) -> None:
    assert not quota.is_exceeded(5_000)
    quota.record(1000, 5_000)
    assert not quota.is_exceeded(5_000)  # one window at least: 1000 a second
    quota.record(1, 5_500)
    assert quota.is_exceeded(5_500)
    assert not quota.is_exceeded(6_100)
    quota.record(4000, 6_500)
    assert quota.rate() == pytest.approx(5001 / 1.5)
    assert not quota.is_exceeded(10_100)
    # The oldest window goes as a whole, eleven seconds after its last event.
    quota.is_exceeded(16_400)
    assert quota.rate() == pytest.approx(5001 / 11.4)
    quota.is_exceeded(16_600)
    assert quota.rate() == pytest.approx(4000 / 10.1)
    quota.is_exceeded(17_600)
    assert quota.rate() == 0


def cluster(path: Path, side: str) -> Nodes:
    nodes = Nodes(
        path,
        (1, 2),
        topic_config={f"{side}.replication.throttled.replicas": "0:1,0:2"},
    )
    nodes.elect(1, isr=[1])
    nodes.leader.manager.leader_quota.limit = 5_000
    nodes[2].manager.follower_quota.limit = 5_000
    return nodes


def test_what_is_left_of_the_rate(quota: ReplicationQuota) -> None:
    assert quota.left(5_000) == 1000
    quota.record(400, 5_000)
    assert quota.left(5_000) == 600
    assert quota.left(7_000) == 1600
    quota.record(2_000, 7_000)
    assert quota.left(7_000) == 0
    quota.limit = UNLIMITED
    assert quota.left(7_000) > 2**60


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttle_bites_from_the_first_byte(side: str, tmp_path: Path) -> None:
    """2 MB at 1 byte a second (ReassignPartitionsCommandTest.testCancellation): a first fetch took
    all of it, before anything was counted."""
    nodes = cluster(tmp_path, side)
    nodes.leader.manager.leader_quota.limit = 1
    nodes[2].manager.follower_quota.limit = 1
    for _ in range(200):
        nodes.produce(b"v" * 10_000)
    began_ms = nodes.now_ms
    while nodes.now_ms - began_ms < 60_000:
        step = nodes.step(2)
        if isinstance(step, Wait):
            assert step.until_ms is not None
            nodes.pass_time(step.until_ms - nodes.now_ms)
    # At most MIN_PIECE_BYTES each time that the quota has forgotten.
    assert 0 < nodes[2].log.log_end_offset < 20
    assert nodes.leader.manager.partitions[KEY].isr.committed == {1}


def test_the_leader_gives_a_throttled_newcomer_no_more_than_its_rate(tmp_path: Path) -> None:
    nodes = cluster(tmp_path, "leader")
    for _ in range(60):
        nodes.produce(VALUE)
    began_ms = nodes.now_ms
    while nodes[2].log.log_end_offset < 60:
        nodes.step(2)
        assert nodes.now_ms - began_ms < 14_000
    # 60 KB at 5 KB a second.
    assert nodes.now_ms - began_ms > 7_000
    nodes.catch_up(2)
    assert content(nodes[2].log) == content(nodes.leader.log)


def test_members_of_the_isr_are_not_throttled_by_the_leader(tmp_path: Path) -> None:
    nodes = cluster(tmp_path, "leader")
    nodes.leader.manager.leader_quota.limit = 500
    nodes.elect(1, isr=[1, 2])
    nodes.catch_up(2)
    for _ in range(20):
        nodes.produce(VALUE)
        nodes.step(2)
        nodes.step(2)
    assert nodes.leader.manager.leader_quota.is_exceeded(nodes.now_ms)
    nodes.produce(VALUE)
    nodes.step(2)
    assert nodes[2].log.log_end_offset == 21


def test_a_throttled_follower_does_not_ask(tmp_path: Path) -> None:
    nodes = cluster(tmp_path, "follower")
    for _ in range(30):
        nodes.produce(VALUE)
    nodes.step(2)
    assert MIN_PIECE_BYTES / 1_200 < nodes[2].log.log_end_offset < 30
    fetcher = nodes[2].fetcher(1)
    assert fetcher is not None
    (state,) = fetcher.table.states.values()
    state.lag = 10  # as if there were more
    assert nodes[2].manager.follower_quota.is_exceeded(nodes.now_ms)
    step = nodes.step(2)
    assert isinstance(step, Exchange)
    assert isinstance(step.request, FetchRequest)
    assert step.request.forgotten_topics_data
    began_ms = nodes.now_ms
    step = nodes.step(2)
    assert isinstance(step, Wait)
    nodes.produce(VALUE)
    nodes.catch_up(2)
    assert nodes.now_ms - began_ms >= 2_000
    assert nodes.leader.manager.partitions[KEY].isr.committed == {1, 2}
