"""An ensemble of ZooKeepers in the test kit: each fault of a member, and the cluster meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker_kafka.testing import ClusterError, KafkaCluster
from tests.support.nightly import chosen
from tests.support.patience import until

QUICK = {"zookeeper.session.timeout.ms": 4000}


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=2, zookeepers=3, network=True, config=QUICK) as kafka:
        yield kafka


@pytest.fixture
def kafka(cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    yield cluster
    cluster.heal()
    cluster.wait_for_zookeepers()
    cluster.wait_for_brokers()


def use(kafka: KafkaCluster) -> None:
    """A topic is made, written and read: ZooKeeper serves writes."""
    topic = kafka.topic("orders")
    kafka.produce(topic, "x")
    assert [one.value for one in kafka.records(topic)] == [b"x"]


@pytest.mark.parametrize("fault", chosen(["kill", "pause", "shut_down", "isolate"], ["isolate"]))
def test_the_leader_of_the_ensemble_is_lost(kafka: KafkaCluster, fault: str) -> None:
    before = kafka.zookeeper_leader()
    with kafka.network.isolate(before) if fault == "isolate" else getattr(kafka, fault)(before):
        until(lambda: kafka.zookeeper_leader() != before)
        use(kafka)
    kafka.wait_for_zookeepers()
    assert kafka.is_whole
    assert kafka.node(before).status == "running"
    use(kafka)


def test_a_broker_moves_from_member_to_member(kafka: KafkaCluster) -> None:
    for member in kafka.zookeepers:
        with kafka.network.cut(1, member), kafka.network.silence(2, member):
            use(kafka)
    kafka.wait_for_brokers()


def test_a_broker_without_any_member_is_missed(kafka: KafkaCluster) -> None:
    topic = kafka.topic("orders")
    kafka.wait_for_isr(topic, 2)
    leader = kafka.leader(topic)
    with kafka.network.cut(leader, "zookeeper"):
        until(lambda: kafka.leader(topic) != leader)
    kafka.wait_for_isr(topic, 2)


@pytest.mark.nightly
def test_two_of_three_are_lost_and_come_back(kafka: KafkaCluster) -> None:
    topic = kafka.topic("orders")
    last, *lost = kafka.zookeepers
    for member in lost:
        kafka.kill(member)
    with pytest.raises(ClusterError, match="no leader"):
        kafka.zookeeper_leader(timeout=2)
    kafka.produce(topic, "meanwhile")
    kafka.heal()
    kafka.wait_for_zookeepers()
    assert kafka.zookeeper_leader() in (last, *lost)
    assert [one.value for one in kafka.records(topic)] == [b"meanwhile"]
    use(kafka)


@pytest.mark.nightly
def test_members_that_are_delayed(kafka: KafkaCluster) -> None:
    leader = kafka.zookeeper_leader()
    others = [one for one in kafka.zookeepers if one != leader]
    for other in others:
        kafka.network.delay(leader, other, 0.05)
    use(kafka)
    assert kafka.zookeeper_leader() == leader


def test_links_and_numbers_that_there_are_not(kafka: KafkaCluster) -> None:
    for a, b in (("client", "zookeeper-1"), ("zookeeper", "zookeeper-2"), (1, "zookeeper-4")):
        with pytest.raises(ClusterError, match="no link"):
            kafka.network.cut(a, b)
    with pytest.raises(ClusterError, match="the nodes are"):
        kafka.kill("zookeeper")
    with pytest.raises(ClusterError, match="1 to 7 ZooKeepers"):
        KafkaCluster(zookeepers=8)
    with pytest.raises(ClusterError, match="those of others"):
        KafkaCluster(zookeepers=3, zookeeper="127.0.0.1:2181")
