"""What a session that reads tables is started with."""

from __future__ import annotations

import pytest

from pybroker_kafka.spark_jobs.tables import PREFIX, delta_parts, parts_of, table_session
from pybroker_kafka.tables.place import Place


def test_the_catalogue_of_a_directory_is_in_sqlite() -> None:
    packages, settings = parts_of(Place("/srv/warehouse"), "4.0.1")
    assert packages[0].startswith("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:")
    assert packages[1].startswith("org.xerial:sqlite-jdbc:")
    assert settings[f"{PREFIX}.type"] == "jdbc"
    assert settings[f"{PREFIX}.uri"].startswith("jdbc:sqlite:/srv/warehouse/catalog.db?")
    assert settings[f"{PREFIX}.warehouse"] == "file:///srv/warehouse"
    assert settings["spark.sql.defaultCatalog"] == "pybroker"


def test_a_catalogue_behind_rest_needs_no_driver() -> None:
    place = Place("s3://bucket/warehouse", catalog="http://catalog:8181")
    packages, settings = parts_of(place, "4.0.1")
    assert [one.split(":")[1] for one in packages] == [
        "iceberg-spark-runtime-4.0_2.13",
        "iceberg-aws-bundle",
    ]
    assert settings[f"{PREFIX}.uri"] == "http://catalog:8181"


@pytest.mark.parametrize("catalog", [None, "postgresql+psycopg2://me@host/tables"])
def test_other_databases_need_settings_of_their_own(catalog: str | None) -> None:
    with pytest.raises(ValueError, match="in a database other than SQLite"):
        table_session("tables", "s3://bucket/warehouse", catalog=catalog)


def test_tables_of_delta_are_in_directories_and_for_spark_4_0() -> None:
    packages, settings = delta_parts(Place("/srv/warehouse"), "4.0.1")
    assert packages == ("io.delta:delta-spark_2.13:4.0.0",)
    assert "spark.sql.defaultCatalog" not in settings
    with pytest.raises(ValueError, match="give Delta's package in packages="):
        delta_parts(Place("/srv/warehouse"), "4.1.0")
    with pytest.raises(ValueError, match=r"s3://bucket/kafka/TOPIC"):
        delta_parts(Place("s3://bucket"), "4.0.0")
