"""The configs of tables of topics: values, and refusals in Kafka's form."""

from __future__ import annotations

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.storage.log_config import validate_topic_configs
from pybroker_kafka.storage.table_configs import (
    WAREHOUSE,
    PartitionField,
    table_settings,
    usable_settings,
    validate_table_configs,
)

WITH_WAREHOUSE = {WAREHOUSE: "/tmp/warehouse"}


def test_a_topic_without_the_key_has_no_table() -> None:
    assert table_settings({}) is None
    assert table_settings({"pybroker.table": "none", "segment.bytes": "100"}) is None
    validate_topic_configs({"segment.bytes": "100"}, {})


def test_all_settings() -> None:
    found = table_settings(
        {
            "pybroker.table": "iceberg",
            "pybroker.table.schema": "flights-value",
            "pybroker.table.partition.by": "day(timestamp), bucket(16, key),carrier",
            "pybroker.table.target.lag.ms": "5000",
            "pybroker.table.mode": "upsert",
            "pybroker.table.dead.letter.topic": "flights-dead",
        }
    )
    assert found is not None
    assert found.partition_by == (
        PartitionField("timestamp", "day"),
        PartitionField("key", "bucket", 16),
        PartitionField("carrier"),
    )
    assert (found.format, found.schema, found.target_lag_ms) == ("iceberg", "flights-value", 5000)
    assert (found.upserts, found.dead_letter_topic) == (True, "flights-dead")


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("pybroker.table", "hudi", "String must be one of: none, iceberg, delta"),
        ("pybroker.table.schema", "", "It is raw, a subject"),
        ("pybroker.table.schema", "{", "The schema is no JSON"),
        ("pybroker.table.schema", '{"type": "string"}', "A schema is an Avro record"),
        ("pybroker.table.schema", "[" * 100_000, "subject of the schema registry has at most"),
        ("pybroker.table.partition.by", "week(timestamp)", "Each field is a column"),
        ("pybroker.table.partition.by", "bucket(0, key)", "Each field is a column"),
        ("pybroker.table.partition.by", "a,,b", "Each field is a column"),
        ("pybroker.table.partition.by", "a,day(a)", "names a column twice"),
        ("pybroker.table.target.lag.ms", "5", "Value must be at least 100"),
        ("pybroker.table.mode", "merge", "String must be one of: append, upsert"),
        ("pybroker.table.dead.letter.topic", "a b", "It is not the name of a topic"),
        ("pybroker.table.colour", "red", "Unknown topic config name"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(name: str, value: str, why: str) -> None:
    with pytest.raises(KafkaError, match=why) as caught:
        validate_topic_configs({"pybroker.table": "iceberg", name: value}, WITH_WAREHOUSE)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_a_broker_without_a_warehouse_refuses_tables() -> None:
    with pytest.raises(KafkaError, match="Tables are disabled in the broker"):
        validate_topic_configs({"pybroker.table": "delta"}, {})
    validate_table_configs({"pybroker.table": "none"}, {})


def test_delta_has_no_functions_of_columns() -> None:
    configs = {"pybroker.table": "delta", "pybroker.table.partition.by": "day(timestamp)"}
    with pytest.raises(KafkaError, match=r"by columns alone, not by day\(timestamp\)"):
        table_settings(configs)
    assert isinstance(usable_settings(configs), KafkaError)
