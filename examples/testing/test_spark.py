"""PySpark reads what is in a topic; needs the extra `spark` and Java 17, and takes a while."""

from __future__ import annotations

import pytest

from pybroker_kafka.testing import KafkaCluster

pytest.importorskip("pyspark")


def test_a_batch(kafka: KafkaCluster) -> None:
    from kafka import KafkaProducer

    from pybroker_kafka import kafka_session

    words = kafka.topic("words", partitions=2)
    with KafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        for word in (b"one", b"two", b"three"):
            producer.send(words, word)
    spark = kafka_session("a test")
    try:
        rows = (
            spark.read.format("pybroker")
            .option("kafka.bootstrap.servers", kafka.bootstrap)
            .option("subscribe", words)
            .load()
            .selectExpr("CAST(value AS STRING)")
            .collect()
        )
    finally:
        spark.stop()
    assert sorted(row[0] for row in rows) == ["one", "three", "two"]
