"""A running cluster on one ZooKeeper gets three, and one again: brokers and producers go on.

The brokers keep their sessions, and learn the new members: the first is killed afterwards.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from pybroker_kafka.local import cluster_state
from pybroker_kafka.local.cluster_control import command_node
from pybroker_kafka.testing import ClusterError, KafkaCluster
from tests.support.local_cluster import LocalCluster, local_cluster
from tests.support.patience import until

TOPIC = "orders"


class Writer(threading.Thread):
    """Writes numbers, one after the other, until told to end."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.acked: list[str] = []
        self.failures: list[object] = []
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "message.timeout.ms": 240_000}
        )
        self._ending = threading.Event()

    def run(self) -> None:
        number = 0
        while not self._ending.wait(0.005):
            number += 1
            self._producer.produce(TOPIC, str(number), partition=0, on_delivery=self._delivered)
            self._producer.poll(0)

    def end(self) -> None:
        self._ending.set()
        self.join()
        assert self._producer.flush(240) == 0
        assert not self.failures

    def _delivered(self, error: object, message: confluent_kafka.Message) -> None:
        if error is not None:
            self.failures.append(error)
        else:
            self.acked.append((message.value() or b"").decode())


@contextmanager
def writing(bootstrap: str) -> Iterator[Writer]:
    writer = Writer(bootstrap)
    writer.start()
    until(lambda: bool(writer.acked))
    yield writer
    writer.end()


def sessions(connect: str, login: str | None = None) -> dict[str, int]:
    """Of the brokers, by their ids."""
    client = KazooClient(hosts=connect, auth_data=[("digest", login)] if login else None)
    client.start(timeout=60)
    try:
        return {
            one: client.get(f"/brokers/ids/{one}")[1].ephemeralOwner
            for one in client.get_children("/brokers/ids")
        }
    finally:
        client.stop()
        client.close()


def sessions_in(cluster: LocalCluster) -> dict[str, int]:
    return sessions(cluster_state.load(cluster.directory).zookeeper_connect)


def create_topic(cluster: LocalCluster, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, 1, 3)], request_timeout=120)[name].result(180)


def names(cluster: LocalCluster) -> list[str]:
    return [node.name for node in cluster_state.load(cluster.directory).nodes]


def logs(cluster: LocalCluster) -> list[str]:
    return [Path(one.log_file).read_text() for one in cluster_state.load(cluster.directory).brokers]


def test_one_becomes_three_and_one_again(tmp_path: Path) -> None:
    with local_cluster(tmp_path / "data", brokers=3) as cluster:
        cluster.zookeeper_port = 0
        cluster.start()
        create_topic(cluster, TOPIC)
        before = sessions_in(cluster)
        assert len(before) == 3
        brokers = ["broker 1", "broker 2", "broker 3"]
        with writing(cluster.bootstrap) as writer:
            assert "3 ZooKeepers are ready after" in cluster.succeed("zookeepers", "3")
            assert names(cluster) == ["zookeeper-1", "zookeeper-2", "zookeeper-3", *brokers]
            assert sessions_in(cluster) == before
            until(lambda: all("ZooKeeper is reached at" in log for log in logs(cluster)))
            # That one has the only address with which the brokers were started.
            cluster.succeed("kill", "zookeeper-1")
            create_topic(cluster, "others")
            assert sessions_in(cluster) == before
            cluster.succeed("restart", "zookeeper-1")
            assert "1 ZooKeeper is ready after" in cluster.succeed("zookeepers", "1")
            assert names(cluster) == ["zookeeper", *brokers]
            assert sessions_in(cluster) == before
            create_topic(cluster, "more")
        found = set(cluster.consume(TOPIC))
        assert not [value for value in writer.acked if value not in found]


@pytest.mark.nightly
def test_a_secured_one_becomes_three_and_one_again() -> None:
    with KafkaCluster(brokers=2, secure=True) as kafka:
        login = (kafka.data_dir / "security" / "zookeeper").read_text().strip()
        before = sessions(kafka.zookeeper, login)
        for number in ("3", "1"):
            command_node(kafka.data_dir, "zookeepers", number)
            connect = cluster_state.load(kafka.data_dir).zookeeper_connect
            assert len(connect.split(",")) == int(number)
            assert sessions(connect, login) == before
            topic = kafka.topic(f"orders-{number}")
            kafka.produce(topic, "x")


def test_what_cannot_be_changes_nothing() -> None:
    with KafkaCluster(brokers=1) as kafka:
        before = sessions(kafka.zookeeper)
        for wanted in ("0", "8", "1", "many"):
            with pytest.raises(ClusterError, match=r"1 to 7 ZooKeepers|has 1 already"):
                command_node(kafka.data_dir, "zookeepers", wanted)
        in_the_way = kafka.data_dir / "zookeeper-2.staged"
        in_the_way.touch()
        with pytest.raises(ClusterError, match=r"File exists.*; the cluster has 1 again"):
            command_node(kafka.data_dir, "zookeepers", "3")
        assert sessions(kafka.zookeeper) == before
        in_the_way.unlink()
        command_node(kafka.data_dir, "zookeepers", "3")
        assert sessions(cluster_state.load(kafka.data_dir).zookeeper_connect) == before
