"""Records of a new partition, and followers whose fetches do not ask for it yet."""

from pathlib import Path

import pytest

from pybroker_kafka.replication.first_fetches import AWAITED_MS, SHORT_WAIT_MS
from pybroker_kafka.replication.types import Parked
from tests.support.replication import ReplicaCluster

ASKED_MS = 500


@pytest.fixture
def cluster(tmp_path: Path) -> ReplicaCluster:
    """Leads a partition that 2 follows in sync and 3 does not; no fetch of theirs has come."""
    cluster = ReplicaCluster(tmp_path)
    cluster.role(replicas=(1, 2, 3), isr=(1, 2))
    return cluster


def wait_ms(cluster: ReplicaCluster, broker_id: int, later_ms: int = 0) -> int:
    first_fetches = cluster.manager.waiting.first_fetches
    return first_fetches.wait_ms(broker_id, ASKED_MS, cluster.now_ms + later_ms)


def test_only_an_in_sync_follower_is_awaited_and_for_a_time(cluster: ReplicaCluster) -> None:
    assert wait_ms(cluster, 2) == ASKED_MS
    cluster.produce("p", b"first")
    assert wait_ms(cluster, 3) == ASKED_MS
    assert wait_ms(cluster, 2, AWAITED_MS - 1) == SHORT_WAIT_MS
    assert wait_ms(cluster, 2, AWAITED_MS) == ASKED_MS
    assert not cluster.manager.waiting.first_fetches.awaited
    cluster.produce("p", b"second")
    assert wait_ms(cluster, 2) == ASKED_MS


def test_a_fetch_for_the_partition_ends_it(cluster: ReplicaCluster) -> None:
    cluster.produce("p", b"first")
    cluster.follow(2, 0)
    assert isinstance(cluster.fetch("f", 1, replica_id=2, log_start_offset=0), Parked)
    assert not cluster.manager.waiting.first_fetches.awaited


def test_the_end_of_the_leadership_ends_it(cluster: ReplicaCluster) -> None:
    cluster.produce("p", b"first")
    cluster.role(leader=2, replicas=(1, 2, 3), isr=(1, 2), leader_epoch=1)
    assert wait_ms(cluster, 2) == ASKED_MS


def test_the_first_records_of_an_epoch_answer_the_polls_of_silent_followers(
    cluster: ReplicaCluster,
) -> None:
    cluster.follow(2, 0)
    cluster.role(replicas=(1, 2, 3), isr=(1, 2, 3), leader_epoch=1)
    assert isinstance(cluster.fetch("of 2", 0, replica_id=2, log_start_offset=0), Parked)
    assert not cluster.manager.waiting.fetches.of_follower(3)
    cluster.produce("p", b"first")
    assert [token for token, _ in cluster.completed()] == ["of 2"]  # it gets the records
    assert wait_ms(cluster, 2) == ASKED_MS
    assert wait_ms(cluster, 3) == SHORT_WAIT_MS
    assert not cluster.manager.waiting.fetches.of_follower(2)
