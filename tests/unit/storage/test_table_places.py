"""The broker's keys of tables' catalogue and store: what is refused before a start, and why."""

from __future__ import annotations

import pytest

from pybroker_kafka.broker.config.checks import check_config
from pybroker_kafka.broker.config.errors import ConfigError
from pybroker_kafka.broker.config.loading import load_config
from pybroker_kafka.broker.config.passwords import is_secret
from pybroker_kafka.protocol.errors import KafkaError
from pybroker_kafka.storage.table_configs import validate_table_configs
from pybroker_kafka.storage.table_places import check_table_place

CATALOG = "pybroker.table.catalog"
STORE = "pybroker.table.store."
S3 = {"pybroker.table.warehouse": "s3://bucket/tables"}
REST = {CATALOG: "https://catalogue:8181"}
PAIR = {f"{STORE}access_key_id": "someone", f"{STORE}secret_access_key": "hunter2"}
HTTP = {f"{STORE}endpoint": "http://minio:9000"}


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"pybroker.table.warehouse": "/srv/tables"},
        {**S3, **REST, f"{CATALOG}.credential": "id:hunter2", f"{CATALOG}.warehouse": "prod"},
        {**S3, f"{CATALOG}.uri": "postgresql+psycopg2://u:hunter2@host/db", **PAIR},
        {**S3, **PAIR, **HTTP, f"{STORE}client.allow_http": "true"},
        {"pybroker.table.warehouse": "gs://bucket", **REST, f"{CATALOG}.gcs.project-id": "p"},
    ],
)
def test_what_is_taken(values: dict[str, str]) -> None:
    check_table_place(values)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({CATALOG: "catalogue:8181"}, "is no URL of a catalogue: http://HOST:PORT"),
        ({CATALOG: "ftp://catalogue"}, "is no URL of a catalogue"),
        ({f"{CATALOG}.uri": "hunter2"}, "catalog.uri is no URL of a catalogue"),
        ({CATALOG: "postgresql://me:hunter2@host/db"}, "give the whole URL as .*catalog.uri"),
        ({**REST, f"{CATALOG}.uri": "http://other"}, "are the same thing: give one"),
        ({**REST, f"{CATALOG}.type": "glue"}, "decides it; remove the key"),
        ({f"{CATALOG}.token": "hunter2"}, "is of no use without pybroker.table.catalog"),
        ({"pybroker.table.warehouse": "/srv", **PAIR}, "are for S3, and pybroker.table.warehouse"),
        ({**S3, f"{STORE}colour": "red"}, "store.colour is not known; there are access_key_id,"),
        ({**S3, f"{STORE}access_key_id": "me"}, "secret_access_key is missing"),
        ({**S3, f"{STORE}endpoint": "minio:9000"}, "endpoint is no URL"),
        ({**S3, **HTTP}, "without TLS: set pybroker.table.store.client.allow_http=true"),
    ],
)
def test_what_is_refused(values: dict[str, str], reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        check_table_place(values)
    assert "hunter2" not in str(caught.value)


def test_a_broker_does_not_start_with_it() -> None:
    values = {"zookeeper.connect": "localhost:2181", **S3, **PAIR}
    check_config(load_config(overrides=values))
    with pytest.raises(ConfigError, match="allow_http"):
        check_config(load_config(overrides={**values, **HTTP}))


def test_nobody_is_shown_the_values() -> None:
    assert is_secret(f"{STORE}secret_access_key")
    assert is_secret(f"{CATALOG}.token")


def test_a_table_of_iceberg_in_a_store_needs_a_catalogue() -> None:
    validate_table_configs({"pybroker.table": "delta"}, S3)
    validate_table_configs({"pybroker.table": "iceberg"}, {**S3, **REST})
    with pytest.raises(KafkaError, match=r"the broker needs pybroker\.table\.catalog"):
        validate_table_configs({"pybroker.table": "iceberg"}, S3)
