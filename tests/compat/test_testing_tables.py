"""`KafkaCluster.table`: what a test asks of a topic's table is all that was committed before."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import trio
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory

from pybroker_kafka.registry.protobuf import read as read_proto
from pybroker_kafka.testing import AsyncKafkaCluster, ClusterError, KafkaCluster
from tests.support.nightly import chosen
from tests.support.patience import until

LAG = {"pybroker.table.target.lag.ms": 100}


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(registry=True) as kafka:
        yield kafka


@pytest.mark.parametrize("kind", chosen(["iceberg", "delta"], ["delta"]))
def test_all_that_was_produced_is_in_the_table(cluster: KafkaCluster, kind: str) -> None:
    topic = cluster.topic("flights", 2, config={**LAG, "pybroker.table": kind})
    cluster.produce(topic, "AA", "UA", partition=0)
    cluster.produce(topic, "LH", partition=1)
    assert sorted(cluster.table(topic, timeout=600)["value"].to_pylist()) == [b"AA", b"LH", b"UA"]
    cluster.produce(topic, "BA", partition=0)

    async def rows() -> int:
        return len((await AsyncKafkaCluster(cluster).table(topic, timeout=600)).to_pandas())

    assert trio.run(rows) == 4


def test_a_subject_of_the_registry_is_the_schema_of_a_table(cluster: KafkaCluster) -> None:
    configs = {"pybroker.table": "iceberg", "pybroker.table.schema": "flown-value"}
    cluster.topic("flown", exact=True, config={**LAG, **configs})
    fields = [{"name": "carrier", "type": "string"}, {"name": "delay", "type": "int"}]
    schema = json.dumps({"type": "record", "name": "Flight", "fields": fields})
    serialize = AvroSerializer(SchemaRegistryClient({"url": cluster.schema_registry_url}), schema)
    context = SerializationContext("flown", MessageField.VALUE)
    producer = Producer(cluster.client_settings("confluent-kafka"))
    producer.produce("flown", serialize({"carrier": "AA", "delay": 7}, context))
    assert producer.flush(60) == 0
    rows = cluster.table("flown", timeout=600).select(["carrier", "delay", "kafka_offset"])
    assert rows.to_pylist() == [{"carrier": "AA", "delay": 7, "kafka_offset": 0}]


def test_a_message_of_protobuf_is_the_schema_of_a_table(cluster: KafkaCluster) -> None:
    """As Confluent's serializer writes it; another message of the file is a dead letter."""
    text = 'syntax = "proto3"; message Plane { string tail = 1; } message Flight { int64 id = 1; }'
    pool = descriptor_pool.DescriptorPool()
    pool.Add(read_proto(text, "messages.proto"))
    client = SchemaRegistryClient({"url": cluster.schema_registry_url})
    configs = {"pybroker.table": "iceberg", "pybroker.table.schema": "messages-value#Flight"}
    configs["pybroker.table.dead.letter.topic"] = cluster.topic("unwritten", exact=True)
    cluster.topic("messages", exact=True, config={**LAG, **configs})
    context = SerializationContext("messages", MessageField.VALUE)
    for name, fields in (("Plane", {"tail": "N1"}), ("Flight", {"id": 7})):
        kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        serialize = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
        cluster.produce("messages", serialize(kind(**fields), context))
    assert cluster.table("messages", timeout=600)["id"].to_pylist() == [7]
    (dead,) = cluster.records("unwritten", at_least=1, timeout=600)
    assert dict(dead.headers)["__connect.errors.exception.message"] == (
        b"it is the message Plane, and the table has Flight"
    )


def test_a_table_that_cannot_be_had_is_explained(cluster: KafkaCluster) -> None:
    plain = cluster.topic("plain")
    with pytest.raises(ClusterError, match="has no table; make it with"):
        cluster.table(plain)
    schema = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})
    configs = {**LAG, "pybroker.table": "delta", "pybroker.table.schema": schema}
    shaped = cluster.topic("shaped", config=configs)
    cluster.produce(shaped, "no JSON")

    def why() -> str:
        with pytest.raises(ClusterError) as caught:
            cluster.table(shaped, timeout=1)
        return str(caught.value)

    until(lambda: "does not fit the schema" in why())
    assert "1 records of topic shaped are not in its table" in why()
