"""`inter.broker.protocol.version`: what it leaves in ZooKeeper and tells clients, beside Apache
Kafka 3.9.1 with the same; and a cluster of both that keeps an old version.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest
from pybroker_kafka.protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pybroker_kafka.protocol.apis.init_producer_id import InitProducerIdRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.apis.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from pybroker_kafka.protocol.features import SUPPORTED
from tests.mixed.cluster import KAFKA_A, OURS, MixedCluster
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.real_zookeeper import RealZooKeeper
from tests.support.wire import Topic, WireClient, batch

pytestmark = pytest.mark.timeout(900)

KEY = "inter.broker.protocol.version"
ID = b"\x07" * 16
WAIT_SECONDS = 60.0
NODES = ("/brokers/ids/1", "/brokers/topics/made", "/brokers/topics/made/partitions/0/state",
         "/feature", "/latest_producer_id_block")  # fmt: skip


@pytest.mark.parametrize("version", ["2.5", "2.7", "2.8-IV0", "3.0", "3.3", "3.9"])
def test_one_broker_is_as_apache_kafkas(version: str, tmp_path: Path) -> None:
    kafka_jars()
    told = []
    for kind, place in ((ApacheKafkaProcess, tmp_path / "a"), (BrokerProcess, tmp_path / "b")):
        with zookeeper_process(place) as connect:
            broker = kind(place / "broker", connect, {KEY: version})
            broker.start()
            try:
                told.append(state_of(broker, connect))
            finally:
                broker.kill()
    # Apache Kafka 3.9 supports no feature with ZooKeeper.
    features = [one["/brokers/ids/1"].pop("features", None) for one in told]
    levels = {
        name: {"min_version": max(low, 1), "max_version": high}  # 3.9 reads no 0 there
        for name, (low, high) in SUPPORTED.items()
    }
    assert features == ([None, None] if version < "2.7" else [{}, levels])
    assert told[0] == told[1]
    assert ("topic_id" in told[1]["/brokers/topics/made"]) == (version >= "2.8")


def state_of(broker: BrokerProcess, connect: str) -> dict[str, Any]:
    with WireClient(broker.bootstrap) as client:
        deadline = time.monotonic() + WAIT_SECONDS
        while not client.call(MetadataRequest(topics=[])).brokers:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        topic = client.create_topic(name="made")
        told: dict[str, Any] = {"created": bool(topic.id.strip(b"\0"))}
        client.append(topic.name, b"record")
        features = client.call(ApiVersionsRequest(), 3)
        told["epoch"] = features.finalized_features_epoch
        described = client.call(
            MetadataRequest(topics=[MetadataRequestTopic(name=topic.name)]), 12
        ).topics[0]
        told["described"] = bool(described.topic_id.strip(b"\0"))
        by_id = client.call(
            MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=ID)]), 12
        )
        told["by id"] = by_id.topics[0].error_code
        told["fetched by id"] = client.fetch(Topic("made", ID), 0, 13).error_code
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=ID)], timeout_ms=5_000)
        told["deleted by id"] = client.call(gone, 6).responses[0].error_code
        update = FeatureUpdateKey(feature="none", max_version_level=1)
        answer = client.call(UpdateFeaturesRequest(feature_updates=[update]), 1)
        told["features"] = (answer.error_code, answer.error_message)
        while client.call(InitProducerIdRequest(transactional_id=None)).error_code:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    return {**told, **nodes(connect)}


def nodes(connect: str) -> dict[str, Any]:
    """Without what no two clusters have in common."""
    client = KazooClient(connect)
    client.start(timeout=WAIT_SECONDS)
    try:
        found = {path: json.loads(client.get(path)[0]) for path in NODES}
    finally:
        client.stop()
        client.close()
    registered = found[NODES[0]]
    for name in ("timestamp", "port", "endpoints"):
        registered[name] = bool(registered[name])
    if "topic_id" in found[NODES[1]]:
        found[NODES[1]]["topic_id"] = True
    return found


class OldCluster(MixedCluster):
    """One of ours and one of Apache's, which keep an old version."""

    def __init__(self, directory: Path, zookeeper: RealZooKeeper, version: str) -> None:
        self.version = version
        super().__init__(directory, [zookeeper])

    def _broker(self, node: int, connect: str, config: Mapping[str, str]) -> BrokerProcess:
        return super()._broker(node, connect, {**config, KEY: self.version})


@contextlib.contextmanager
def old_cluster(directory: Path, version: str) -> Iterator[OldCluster]:
    kafka_jars()
    started = OldCluster(directory, RealZooKeeper(directory / "zookeeper"), version)
    try:
        started.start_all()
        yield started
    finally:
        started.close()


@pytest.mark.parametrize("version", ["2.6", "2.7", "3.1"])
def test_both_kinds_in_a_cluster_of_an_old_version(version: str, tmp_path: Path) -> None:
    """Either kind controls, leads and follows; replicas leave the ISR and come back."""
    with old_cluster(tmp_path, version) as cluster:
        for controller in (KAFKA_A, OURS):
            cluster.elect(controller)
            topic = f"kept-{controller}"
            placed = {0: [OURS, KAFKA_A], 1: [KAFKA_A, OURS]}
            cluster.create_topic(topic, assignment=placed, config={"min.insync.replicas": "1"})
            cluster.all_agree_on_in_sync(topic)
            write(cluster, topic, {0: OURS, 1: KAFKA_A})
            for dead, survivor in ((KAFKA_A, OURS), (OURS, KAFKA_A)):
                cluster.kill_and_expire(dead)
                cluster.all_agree_on_loss(topic, dead)
                write(cluster, topic, {0: survivor, 1: survivor})
                cluster.start(dead)
                cluster.all_agree_on_in_sync(topic)
            for partition in (0, 1):
                assert read_all(cluster, topic, partition) == 3


def write(cluster: OldCluster, topic: str, leaders: Mapping[int, int]) -> None:
    """A record into each partition, acknowledged by all in sync."""
    for partition, leader in leaders.items():
        cluster.wait_for(
            lambda p=partition, node=leader: cluster.leader(topic, p) == node,  # type: ignore[misc]
            f"{leader} leads {topic}-{partition}",
        )
        with WireClient(cluster.nodes[leader].bootstrap) as client:
            deadline = time.monotonic() + WAIT_SECONDS
            answer = client.produce(topic, batch(b"record"), partition=partition)
            while answer.error_code:
                story = "\n".join(cluster.story[-20:])
                assert time.monotonic() < deadline, f"{partition} on {leader}: {answer}\n{story}"
                answer = client.produce(topic, batch(b"record"), partition=partition)
                time.sleep(0.1)


def read_all(cluster: OldCluster, topic: str, partition: int) -> int:
    node = cluster.leader(topic, partition)
    with WireClient(cluster.nodes[node].bootstrap) as client:
        assert ApiKey.FETCH in client.advertised or client.versions(ApiKey.FETCH)
        answer = client.fetch(Topic(topic, b""), 0, 12, partition=partition)
        high_watermark: int = answer.high_watermark
        return high_watermark
