"""A Quix Streams application: upper case, from one topic to another."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pytest

from pybroker_kafka.testing import KafkaCluster

quixstreams = pytest.importorskip("quixstreams")


def test_upper_case(kafka: KafkaCluster, tmp_path: Path) -> None:
    words, loud = kafka.topic("words"), kafka.topic("loud")
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap})
    for word in ("one", "two"):
        producer.produce(words, word)
    producer.flush(30)
    app = quixstreams.Application(
        broker_address=kafka.bootstrap,
        consumer_group="shouters",
        auto_offset_reset="earliest",
        state_dir=str(tmp_path),
    )
    text = {"key_serializer": "str", "value_serializer": "str"}
    source = app.topic(words, value_deserializer="str")
    frame = app.dataframe(source).apply(lambda word: word.upper())
    frame.to_topic(app.topic(loud, **text))
    app.run(count=2, timeout=30)
    assert [record.value for record in kafka.records(loud, at_least=2)] == [b"ONE", b"TWO"]
