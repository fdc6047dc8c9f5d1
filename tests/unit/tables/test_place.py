"""How tables are reached, in the words of each library, and texts without their secrets."""

from __future__ import annotations

import json

from pybroker_kafka.spark_jobs.tables import AWS_PACKAGE, PREFIX, SQLITE_DRIVER, parts_of
from pybroker_kafka.storage.table_places import STORE_SETTINGS
from pybroker_kafka.tables import stores
from pybroker_kafka.tables.place import Place

CONFIGS = {
    "pybroker.table.catalog": "https://catalogue:8181",
    "pybroker.table.catalog.credential": "client:open-sesame",
    "pybroker.table.catalog.warehouse": "prod",
    "pybroker.table.catalog.header.X-Pass": "let-me-in",
    "pybroker.table.store.endpoint": "http://minio:9000",
    "pybroker.table.store.client.allow_http": "true",
    "pybroker.table.store.region": "eu-central-1",
    "pybroker.table.store.access_key_id": "someone",
    "pybroker.table.store.secret_access_key": "hunter2",
}
PLACE = Place.reached("s3://bucket/tables", "kafka", CONFIGS)


def test_pyiceberg_and_deltalake_get_the_same_store() -> None:
    assert PLACE.catalog_properties == {
        "type": "rest",
        "uri": "https://catalogue:8181",
        "warehouse": "prod",
        "credential": "client:open-sesame",
        "header.X-Pass": "let-me-in",
        "s3.endpoint": "http://minio:9000",
        "s3.region": "eu-central-1",
        "s3.access-key-id": "someone",
        "s3.secret-access-key": "hunter2",
    }
    assert PLACE.delta_options == {
        "endpoint": "http://minio:9000",
        "allow_http": "true",
        "region": "eu-central-1",
        "access_key_id": "someone",
        "secret_access_key": "hunter2",
    }


def test_each_setting_of_a_store_has_its_words() -> None:
    store = dict.fromkeys(STORE_SETTINGS, "x")
    assert len(stores.for_pyiceberg(store)) == len(STORE_SETTINGS) - 1  # TLS is in its URL
    assert len(stores.for_deltalake(store)) == len(STORE_SETTINGS)


def test_a_session_of_spark_has_them_too() -> None:
    packages, settings = parts_of(PLACE, "4.0.1")
    assert AWS_PACKAGE in packages
    assert SQLITE_DRIVER not in packages
    ours = {name.removeprefix(f"{PREFIX}."): text for name, text in settings.items()}
    assert ours["type"] == "rest"
    assert ours["warehouse"] == "prod"
    assert ours["credential"] == "client:open-sesame"
    assert ours["s3.path-style-access"] == "true"
    assert ours["client.region"] == "eu-central-1"
    sqlite = Place("s3://bucket/tables", settings={"uri": "sqlite:////srv/catalog.db"})
    packages, settings = parts_of(sqlite, "4.0.1")
    assert {AWS_PACKAGE, SQLITE_DRIVER} < set(packages)
    assert settings[f"{PREFIX}.warehouse"] == "s3://bucket/tables"


def test_no_text_has_a_secret() -> None:
    for secret in ("client:open-sesame", "open-sesame", "hunter2", "let-me-in"):
        assert secret not in repr(PLACE)
        told = PLACE.without_secrets(f"401 for {secret!r} at minio:9000")
        assert secret not in told
        assert told.endswith(" at minio:9000")
    database = Place("/srv", settings={"uri": "postgresql://me:p%40ss@host/db"})
    assert database.catalog_properties["type"] == "sql"
    assert "p@ss" not in database.without_secrets("password p@ss (p%40ss) is wrong")


def test_it_comes_back_from_json() -> None:
    message = {
        "warehouse": PLACE.warehouse,
        "namespace": "kafka",
        "catalog": PLACE.catalog,
        "registry": None,
        "settings": PLACE.settings,
        "store": PLACE.store,
    }
    assert Place.from_json(json.loads(json.dumps(message))) == PLACE
