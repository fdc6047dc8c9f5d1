"""kafka-python: the five lines, and a service that is tested as it runs."""

from __future__ import annotations

from kafka import KafkaConsumer, KafkaProducer

from pybroker_kafka.testing import KafkaCluster


def test_orders(kafka: KafkaCluster) -> None:
    orders = kafka.topic("orders", partitions=3)
    KafkaProducer(bootstrap_servers=kafka.bootstrap).send(orders, b"x").get(5)
    assert kafka.records(orders)[0].value == b"x"


def double(bootstrap: str, source: str, target: str, count: int) -> None:
    """What is tested: reads numbers, writes twice as much."""
    consumer = KafkaConsumer(
        source, bootstrap_servers=bootstrap, group_id="doubler", auto_offset_reset="earliest"
    )
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for _ in range(count):
        producer.send(target, str(2 * int(next(consumer).value)).encode())
    producer.close()
    consumer.close()


def test_double(kafka: KafkaCluster) -> None:
    source, target = kafka.topic("numbers"), kafka.topic("doubled")
    with KafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        for number in range(3):
            producer.send(source, str(number).encode())
    double(kafka.bootstrap, source, target, 3)
    assert [record.value for record in kafka.records(target)] == [b"0", b"2", b"4"]
