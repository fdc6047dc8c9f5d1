"""confluent-kafka: an answer that is lost, and a leader that dies."""

from __future__ import annotations

import confluent_kafka
import pytest

from pybroker_kafka.testing import KafkaCluster


def send(bootstrap: str, topic: str, value: bytes, *, idempotent: bool) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": "shop",
            "enable.idempotence": idempotent,
        }
    )
    producer.produce(topic, value)
    assert producer.flush(30) == 0


@pytest.mark.parametrize(("idempotent", "copies"), [(True, 1), (False, 2)])
def test_a_lost_answer(kafka: KafkaCluster, idempotent: bool, copies: int) -> None:
    orders = kafka.topic("orders")
    with kafka.requests.lose_answer("Produce", client_id="shop") as lost:
        send(kafka.bootstrap, orders, b"one order", idempotent=idempotent)
    assert lost.hits == 1
    assert len(kafka.records(orders)) == copies


@pytest.mark.kafka(brokers=3, config={"min.insync.replicas": 2})
def test_a_leader_dies(kafka: KafkaCluster) -> None:
    orders = kafka.topic("orders")
    kafka.wait_for_isr(orders, 3)
    with kafka.kill(kafka.leader(orders)):
        send(kafka.bootstrap, orders, b"one order", idempotent=True)
    kafka.wait_for_isr(orders, 3)
    assert len(kafka.records(orders)) == 1
