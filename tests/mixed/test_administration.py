"""Topics are made, described, grown, moved and deleted with a controller of either kind.

Apache Kafka's own tools do what has a tool: kafka-topics, kafka-reassign-partitions and
kafka-leader-election, asking a broker of the kind that is not the controller.
"""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.mixed.cluster import KAFKA_A, KAFKA_B, OURS, MixedCluster
from tests.support.audit import log_bytes
from tests.support.consumed import collect_errors
from tests.support.kafka_tools import kafka_tool
from tests.support.processes import BrokerProcess as BrokerNode

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.parametrize("controller", [KAFKA_A, OURS]),
]

RECORDS = 200
RESULT_SECONDS = 120.0
Assignment = dict[int, list[int]]

# The first two change their preferred leader only, the others go from one kind to the other.
HERE: Assignment = {
    0: [OURS, KAFKA_A],
    1: [KAFKA_A, OURS],
    2: [KAFKA_B, KAFKA_A],
    3: [OURS, KAFKA_A],
}
THERE: Assignment = {
    0: [KAFKA_A, OURS],
    1: [OURS, KAFKA_A],
    2: [OURS, KAFKA_A],
    3: [KAFKA_B, KAFKA_A],
}


def other_kind(controller: int) -> int:
    return KAFKA_B if controller == OURS else OURS


def administer(cluster: MixedCluster, operation: str, what: object) -> None:
    """Through any broker: the client finds the controller."""
    client = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in getattr(client, operation)([what], operation_timeout=30).values():
        future.result(timeout=RESULT_SECONDS)


def produce(cluster: MixedCluster, topic: str, partitions: int, records: int = 1) -> None:
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for number in range(records * partitions):
        producer.produce(
            topic,
            b"record %d" % number,
            partition=number % partitions,
            on_delivery=collect_errors(errors),
        )
    assert producer.flush(RESULT_SECONDS) == 0
    assert errors == []


def test_topics_come_grow_and_go(cluster: MixedCluster, controller: int) -> None:
    cluster.elect(controller)
    topic = f"short-lived-{controller}"
    assignment = [[OURS, KAFKA_A], [KAFKA_A, KAFKA_B], [KAFKA_B, OURS]]
    new = NewTopic(topic, len(assignment), replica_assignment=assignment)
    administer(cluster, "create_topics", new)
    cluster.all_know_partitions(topic, 3)
    produce(cluster, topic, 3)
    administer(cluster, "create_partitions", NewPartitions(topic, 4, [[OURS, KAFKA_B]]))
    cluster.all_know_partitions(topic, 4)
    produce(cluster, topic, 4)
    administer(cluster, "delete_topics", topic)
    cluster.all_agree_on_topics(absent=[topic])
    for node in cluster.nodes.values():
        cluster.wait_for(partial(has_no_log, node, topic), f"{topic} is deleted")


def has_no_log(node: BrokerNode, topic: str) -> bool:
    return not list(node.log_dir.glob(f"{topic}-[0-9]"))


def test_kafkas_tools(cluster: MixedCluster, controller: int, tmp_path: Path) -> None:
    cluster.elect(controller)
    topic = f"moved-{controller}"
    cluster.create_topic(topic, assignment=HERE)
    produce(cluster, topic, len(HERE), RECORDS)
    logs = {partition: leaders_log(cluster, topic, partition) for partition in HERE}
    assert all(logs.values())
    bootstrap = cluster.nodes[other_kind(controller)].bootstrap
    described = describe(bootstrap, topic)
    assert described == {p: (nodes[0], nodes, set(nodes)) for p, nodes in HERE.items()}

    plan = tmp_path / "plan.json"
    for target in (THERE, HERE):
        reassign(bootstrap, topic, target, plan, "--execute")
        cluster.all_agree_on_placement(topic, target)
        for partition, log in logs.items():
            assert leaders_log(cluster, topic, partition) == log
        elect_preferred(cluster, bootstrap, topic, plan)
    assert len(re.findall("is completed", reassign(bootstrap, topic, HERE, plan, "--verify"))) == 4
    assert describe(bootstrap, topic) == described


def leaders_log(cluster: MixedCluster, topic: str, partition: int) -> bytes:
    leader = cluster.leader(topic, partition)
    return log_bytes(cluster.nodes[leader].log_dir / f"{topic}-{partition}")


def describe(bootstrap: str, topic: str) -> dict[int, tuple[int, list[int], set[int]]]:
    """Leader, replicas and ISR of each partition, as kafka-topics prints them."""
    output = kafka_tool(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", bootstrap, "--describe", "--topic", topic),
    )
    found = {}
    for line in output.splitlines():
        if "Leader: " in line:
            words = dict(part.split(": ", 1) for part in line.strip().split("\t") if ": " in part)
            replicas, isr = (
                [int(node) for node in words[name].split(",")] for name in ("Replicas", "Isr")
            )
            found[int(words["Partition"])] = (int(words["Leader"]), replicas, set(isr))
    return found


def reassign(bootstrap: str, topic: str, target: Assignment, plan: Path, action: str) -> str:
    partitions = [
        {"topic": topic, "partition": partition, "replicas": replicas}
        for partition, replicas in target.items()
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return kafka_tool(
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        *("--bootstrap-server", bootstrap, "--reassignment-json-file", str(plan), action),
    )


def elect_preferred(cluster: MixedCluster, bootstrap: str, topic: str, plan: Path) -> None:
    """A reassignment leaves the leader where it is, if it stays a replica."""
    by_partition = cluster.partitions(topic)
    assert {p for p, view in by_partition.items() if view.leader != view.replicas[0]} == {0, 1}
    partitions = [{"topic": topic, "partition": partition} for partition in (0, 1)]
    plan.write_text(json.dumps({"partitions": partitions}))
    output = kafka_tool(
        "org.apache.kafka.tools.LeaderElectionCommand",
        *("--bootstrap-server", bootstrap, "--election-type", "preferred"),
        *("--path-to-json-file", str(plan)),
    )
    assert "Successfully completed leader election (PREFERRED)" in output
    cluster.all_agree(
        topic, lambda view: view.leader == view.replicas[0], "preferred replicas lead"
    )
