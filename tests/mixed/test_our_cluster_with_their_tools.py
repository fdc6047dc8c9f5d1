"""Three brokers of ours, moved about by Apache Kafka's own tools while a group consumes.

kafka-reassign-partitions moves all replicas of a topic and cancels a move, kafka-leader-election
gives leadership back and forces an unclean one, kafka-topics says how it went; the legacy znodes
do the same. Skipped without Java and Maven.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from pybroker_kafka.protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.support.apache_kafka import kafka_jars
from tests.support.audit import log_bytes
from tests.support.cluster import Cluster, cluster
from tests.support.consumed import collect_errors
from tests.support.kafka_tools import kafka_tool

pytestmark = pytest.mark.timeout(600)

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
RECORDS = 300
FLUSH_SECONDS = 60
# Leaders stay where the tests put them, and no busy machine drops a replica from an ISR.
CONFIG = {
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "30000",
    "controller.socket.timeout.ms": "30000",
}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    kafka_jars()
    with cluster(tmp_path_factory.mktemp("ours"), config=CONFIG) as running:
        yield running


def plan(path: Path, topic: str, target: dict[int, list[int]]) -> str:
    partitions = [
        {"topic": topic, "partition": index, "replicas": replicas}
        for index, replicas in target.items()
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


def reassign(running: Cluster, file: str, *action: str) -> str:
    bootstrap = running.nodes[running.serving[-1]].bootstrap
    return kafka_tool(
        REASSIGN, "--bootstrap-server", bootstrap, "--reassignment-json-file", file, *action
    )


def elect(running: Cluster, topic: str, partition: int, kind: str) -> str:
    return kafka_tool(
        ELECT,
        *("--bootstrap-server", running.nodes[running.serving[0]].bootstrap),
        *("--election-type", kind, "--topic", topic, "--partition", str(partition)),
    )


def described(running: Cluster, topic: str) -> dict[int, tuple[int, list[int]]]:
    """Leader and replicas by kafka-topics."""
    bootstrap = running.nodes[running.serving[0]].bootstrap
    output = kafka_tool(TOPICS, "--bootstrap-server", bootstrap, "--describe", "--topic", topic)
    pattern = re.compile(r"Partition: (\d+)\s+Leader: (-?\d+|none)\s+Replicas: ([\d,]+)")
    return {
        int(index): (-1 if leader == "none" else int(leader), [int(r) for r in replicas.split(",")])
        for index, leader, replicas in pattern.findall(output)
    }


def produce(running: Cluster, topic: str, partitions: int) -> None:
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": running.bootstrap, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(
            topic,
            b"record %d" % number,
            partition=number % partitions,
            on_delivery=collect_errors(errors),
        )
    assert producer.flush(FLUSH_SECONDS) == 0
    assert errors == []


def consume(running: Cluster, topic: str, group: str) -> int:
    consumer = Consumer(
        {
            "bootstrap.servers": running.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    count = 0
    try:
        while count < RECORDS:
            batch = consumer.consume(RECORDS, timeout=FLUSH_SECONDS)
            assert batch, f"only {count} records of {RECORDS} came"
            count += sum(message.error() is None for message in batch)
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return count


def placed(running: Cluster, topic: str, target: dict[int, list[int]]) -> bool:
    """Every node says that the partitions are where they should be, and in sync."""
    return all(
        list(view.replicas) == target[index] and view.isr == set(target[index])
        for node in running.serving
        for index, view in running.partitions(topic, node).items()
    )


def test_a_topic_moves_with_its_data(ours: Cluster, tmp_path: Path) -> None:
    here, there = {0: [1], 1: [1]}, {0: [2, 3], 1: [3, 1]}
    ours.create_topic("moved", assignment=here, config={"min.insync.replicas": "1"})
    produce(ours, "moved", len(here))
    before = {index: log_bytes(ours.nodes[1].log_dir / f"moved-{index}") for index in here}
    file = plan(tmp_path / "plan.json", "moved", there)
    assert "Successfully started partition reassignments" in reassign(ours, file, "--execute")
    ours.wait_for(lambda: placed(ours, "moved", there), "the topic has moved")
    verified = reassign(ours, file, "--verify")
    assert len(re.findall("is completed", verified)) == len(there)
    assert {index: replicas for index, (_, replicas) in described(ours, "moved").items()} == there
    for index, replicas in there.items():
        for node in replicas:
            assert log_bytes(ours.nodes[node].log_dir / f"moved-{index}") == before[index]
    assert consume(ours, "moved", "movers") == RECORDS
    ours.wait_for(
        lambda: not list(ours.nodes[1].log_dir.glob("moved-0")), "the old replica is deleted"
    )


def test_a_move_to_a_broker_that_stands_still_is_cancelled(ours: Cluster, tmp_path: Path) -> None:
    controller = ours.controller()
    origin, target = (node for node in ours.nodes if node != controller)
    ours.create_topic("waiting", assignment={0: [origin]}, config={"min.insync.replicas": "1"})
    produce(ours, "waiting", 1)
    ours.pause(target)
    asked = ReassignablePartition(partition_index=0, replicas=[target])
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name="waiting", partitions=[asked])]
    )
    (result,) = ours.ask(controller, request).responses
    assert [partition.error_code for partition in result.partitions] == [0]
    ours.wait_for(
        lambda: ours.partitions("waiting", controller)[0].replicas == (target, origin), "it moves"
    )
    file = plan(tmp_path / "plan.json", "waiting", {0: [target]})
    assert "Successfully cancelled" in reassign(ours, file, "--cancel", "--preserve-throttles")
    ours.wait_for(
        lambda: ours.partitions("waiting", controller)[0].replicas == (origin,), "it is cancelled"
    )
    ours.resume(target)
    ours.wait_for(lambda: target in ours.brokers(), "the target is back")
    assert consume(ours, "waiting", "waiters") == RECORDS


def test_elections_by_the_tool_and_by_the_legacy_znode(ours: Cluster) -> None:
    ours.create_topic("elected", assignment={0: [3, 1], 1: [3, 2]})
    ours.stop(3)
    ours.wait_for(
        lambda: {v.leader for v in ours.partitions("elected").values()} == {1, 2}, "others lead"
    )
    ours.start(3)
    ours.wait_for_isr("elected")
    assert "Successfully completed" in elect(ours, "elected", 0, "preferred")
    assert ours.partitions("elected", 1)[0].leader == 3
    assert "Valid replica already elected" in elect(ours, "elected", 0, "preferred")
    (server,) = ours.zookeepers
    zookeeper = KazooClient(f"127.0.0.1:{server.port}")
    zookeeper.start()
    try:
        path = "/admin/preferred_replica_election"
        partitions = [{"topic": "elected", "partition": 1}]
        zookeeper.create(path, json.dumps({"version": 1, "partitions": partitions}).encode())
        ours.wait_for(lambda: ours.partitions("elected")[1].leader == 3, "the znode is obeyed")
        ours.wait_for(lambda: zookeeper.exists(path) is None, "the znode is removed")
        path = "/admin/reassign_partitions"
        partitions = [{"topic": "elected", "partition": 0, "replicas": [1, 2]}]
        zookeeper.create(path, json.dumps({"version": 1, "partitions": partitions}).encode())
        ours.wait_for(
            lambda: placed(ours, "elected", {0: [1, 2], 1: [3, 2]}), "the partition has moved"
        )
        ours.wait_for(lambda: zookeeper.exists(path) is None, "the znode is removed")
        with pytest.raises(NoNodeError):
            zookeeper.get(path)
    finally:
        zookeeper.stop()
        zookeeper.close()


def test_an_unclean_election(ours: Cluster) -> None:
    ours.create_topic("unclean", assignment={0: [1, 2]}, config={"min.insync.replicas": "1"})
    ours.kill(2)
    ours.wait_for_isr("unclean", {1})
    ours.kill(1)
    ours.start(2)
    ours.wait_for(
        lambda: any(view.leader == -1 for view in ours.partitions("unclean", 2).values()),
        "nobody leads",
    )
    assert "Successfully completed" in elect(ours, "unclean", 0, "unclean")
    assert ours.partitions("unclean", 2)[0].leader == 2
    ours.start(1)
    ours.wait_for_isr("unclean")
