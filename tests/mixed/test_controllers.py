"""A cluster of one Apache Kafka broker and one pybroker, with the controller on either side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewPartitions, NewTopic

from tests.support.apache_kafka import ApacheKafkaProcess
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.real_zookeeper import real_zookeeper

KAFKA_ID, OURS_ID = 11, 1
WAIT_SECONDS = 30.0
SIGTERM_EXIT_OF_A_JVM = 143


@pytest.fixture(scope="module", params=["embedded", "real"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ApacheKafkaProcess, BrokerProcess]]:
    """Apache Kafka first, so that it is the controller."""
    directory = tmp_path_factory.mktemp("mixed")
    if request.param == "embedded":
        with zookeeper_process(directory / "zookeeper") as connect:
            yield from _brokers(directory, connect)
    else:
        with real_zookeeper(directory / "zookeeper") as port:
            yield from _brokers(directory, f"127.0.0.1:{port}/mixed")


def _brokers(directory: Path, connect: str) -> Iterator[tuple[ApacheKafkaProcess, BrokerProcess]]:
    config = {"zookeeper.session.timeout.ms": "6000", "log.cleaner.enable": "false"}
    theirs = ApacheKafkaProcess(directory / "kafka", connect, config, KAFKA_ID)
    ours = BrokerProcess(directory / "ours", connect, config, OURS_ID)
    try:
        theirs.start()
        time.sleep(1)  # its election is not over when it answers
        ours.start()
        yield theirs, ours
    finally:
        ours.kill()
        theirs.kill()


def metadata(bootstrap: str) -> ClusterMetadata:
    return AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10)


def seen_by(bootstrap: str) -> tuple[int, list[int], dict[str, list[tuple[int, list[int]]]]]:
    """Controller, brokers, and (leader, sorted ISR) of the partitions of each topic."""
    found = metadata(bootstrap)
    topics = {
        name: [(p.leader, sorted(p.isrs)) for _, p in sorted(topic.partitions.items())]
        for name, topic in found.topics.items()
    }
    return found.controller_id, sorted(found.brokers), topics


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def administer(bootstrap: str, operation: str, what: object) -> None:
    client = AdminClient({"bootstrap.servers": bootstrap})
    for future in getattr(client, operation)([what], operation_timeout=20).values():
        future.result(timeout=30)


def create(bootstrap: str, name: str, assignment: list[list[int]]) -> None:
    topic = NewTopic(name, num_partitions=len(assignment), replica_assignment=assignment)
    administer(bootstrap, "create_topics", topic)


def produce(bootstrap: str, topic: str, partitions: int) -> None:
    """One idempotent record to each partition, wherever it is led."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    errors: list[str] = []
    for partition in range(partitions):
        producer.produce(
            topic, b"x", partition=partition, on_delivery=lambda error, _: errors.append(str(error))
        )
    assert producer.flush(20) == 0
    assert errors == ["None"] * partitions


def test_both_kinds_follow_the_controller_of_the_other(
    cluster: tuple[ApacheKafkaProcess, BrokerProcess],
) -> None:
    theirs, ours = cluster
    both = (theirs.bootstrap, ours.bootstrap)
    each = [[OURS_ID], [KAFKA_ID]]
    in_sync = [OURS_ID, KAFKA_ID]

    # Apache Kafka is the controller.
    for bootstrap in both:
        assert seen_by(bootstrap) == (KAFKA_ID, [OURS_ID, KAFKA_ID], {})
    create(ours.bootstrap, "a", each)
    produce(ours.bootstrap, "a", 2)
    administer(ours.bootstrap, "create_partitions", NewPartitions("a", 3))
    create(ours.bootstrap, "b", [[OURS_ID, KAFKA_ID], [KAFKA_ID, OURS_ID]])
    for bootstrap in both:
        _, _, topics = seen_by(bootstrap)
        assert topics["a"][:2] == [(OURS_ID, [OURS_ID]), (KAFKA_ID, [KAFKA_ID])]
        assert len(topics["a"]) == 3
        assert topics["b"] == [(OURS_ID, in_sync), (KAFKA_ID, in_sync)]
    produce(theirs.bootstrap, "b", 2)  # acks=all: each follows the other
    administer(ours.bootstrap, "delete_topics", "a")
    for bootstrap in both:
        until(lambda b=bootstrap: "a" not in seen_by(b)[2], "all hear of the deletion")

    # It stops under control: its replicas leave the ISR, and we take over.
    assert theirs.stop() == SIGTERM_EXIT_OF_A_JVM
    expected = (OURS_ID, [OURS_ID], {"b": [(OURS_ID, [OURS_ID])] * 2})
    until(lambda: seen_by(ours.bootstrap) == expected, "pybroker is the controller")

    # It comes back under our controller, and follows our leader back into the ISR.
    theirs.start()
    rejoined = (OURS_ID, [OURS_ID, KAFKA_ID], {"b": [(OURS_ID, in_sync)] * 2})
    for bootstrap in both:
        until(lambda b=bootstrap: seen_by(b) == rejoined, "Kafka follows pybroker's leader")
    produce(ours.bootstrap, "b", 2)
    create(theirs.bootstrap, "c", each)
    produce(theirs.bootstrap, "c", 2)
    administer(theirs.bootstrap, "create_partitions", NewPartitions("c", 4))
    for bootstrap in both:
        until(lambda b=bootstrap: len(seen_by(b)[2]["c"]) == 4, "all hear of the new partitions")
    produce(theirs.bootstrap, "c", 4)
    administer(theirs.bootstrap, "delete_topics", "c")
    for bootstrap in both:
        until(lambda b=bootstrap: "c" not in seen_by(b)[2], "all hear of the deletion")
    assert "ERROR" not in ours.log_text
