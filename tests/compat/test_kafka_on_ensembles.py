"""A running cluster on an ensemble of both kinds: its members are killed and replaced in turn.

One of ours among two of Apache ZooKeeper, and the other way round. Records are acknowledged all the
time; none is lost, no broker loses its session, and topics are made without each member.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import confluent_kafka
import pytest

from pybroker_kafka.testing import KafkaCluster
from tests.compat.test_zookeeper_ensembles import MIXED, assert_equal_trees, skip_without_java
from tests.support.ensembles import OTHER_KIND, Ensemble, ensemble
from tests.support.patience import until
from tests.support.repeated import repeated

CALL_SECONDS = 120.0


class Ledger:
    """Writes records one after the other, and notes the acknowledged ones."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5,
        }  # fmt: skip
        self._topic = topic
        self.acknowledged: list[bytes] = []

    def _acknowledge(self, error: object, message: confluent_kafka.Message) -> None:
        if error is None:
            self.acknowledged.append(message.value() or b"")

    @contextmanager
    def writing(self) -> Iterator[None]:
        producer = confluent_kafka.Producer(self._settings)
        numbers = count()

        def write() -> None:
            producer.produce(self._topic, b"%d" % next(numbers), on_delivery=self._acknowledge)
            producer.poll(0)

        with repeated(write, 0.01):
            yield
        producer.flush(CALL_SECONDS)


def registrations(running: Ensemble) -> dict[str, int]:
    """The zxid at which each broker has registered."""
    with running.client() as client:
        ids = client.get_children("/kafka/brokers/ids")
        return {one: client.exists(f"/kafka/brokers/ids/{one}").czxid for one in ids}


def without(running: Ensemble, kafka: KafkaCluster, number: int) -> None:
    """Kill a member, and have the cluster do something that it needs ZooKeeper for."""
    running.kill(number)
    running.await_leader(*[one for one in running.members if one != number])
    kafka.topic("without")


@pytest.mark.timeout(600)
@pytest.mark.nightly
@pytest.mark.parametrize("kinds", MIXED, ids="-".join)
def test_members_die_and_are_replaced_below_a_cluster(
    tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    skip_without_java(kinds)
    with ensemble(tmp_path, kinds) as running:
        running.launch()
        running.await_leader()
        connect = running.connect_string() + "/kafka"
        config = {"zookeeper.session.timeout.ms": 10_000, "min.insync.replicas": 2}
        with KafkaCluster(brokers=3, zookeeper=connect, config=config) as kafka:
            topic = kafka.topic("ledger")
            before = registrations(running)
            ledger = Ledger(kafka.bootstrap, topic)
            with ledger.writing():
                for number in (3, 2, 1):
                    without(running, kafka, number)
                    running.launch(number)
                    running.await_leader()
                # The leader of the ensemble and that of the partition, at the same moment.
                leaders = running.await_leader(), kafka.leader(topic)
                assert registrations(running) == before
                running.kill(leaders[0])
                kafka.kill(leaders[1])
                until(lambda: kafka.leader(topic) != leaders[1])
                running.launch(leaders[0])
                running.await_leader()
                kafka.restart(leaders[1])
                kafka.wait_for_isr(topic, 3)
                before = registrations(running)
                # Each member in turn is replaced by a server of the other kind.
                for number, kind in enumerate(kinds, 1):
                    port = running.members[number].port
                    without(running, kafka, number)
                    running.place(number, OTHER_KIND[kind], port=port)
                    running.launch(number)
                    running.await_leader()
            assert registrations(running) == before
            found = {one.value for one in kafka.records(topic)}
            assert len(ledger.acknowledged) > 100
            assert set(ledger.acknowledged) <= found
        assert_equal_trees(running)
