"""A SparkSession that reads the tables of topics: `spark.table("kafka.flights")`.

    from pybroker_kafka.spark_jobs.tables import table_session

    spark = table_session("flights")
    spark.table("kafka.flights").groupBy("key").count().show()

Tables of Iceberg are in the catalogue that their writers use, which is Spark's default one here, so
a name needs no prefix. Spark reads them itself: columns, files and row groups that a query does not
need are not read. Iceberg's runtime, and the driver of SQLite for the catalogue of a warehouse that
is a directory, come from Maven Central once, through Spark's own Ivy.

Tables of Delta, with `table_format="delta"`, have no catalogue: a session of theirs names, in
memory, those that are in the warehouse when it starts.

Invariant: the session adds no table to a catalogue on disk and creates none of its parts.
Leaves out: catalogues in other databases than SQLite, whose drivers and addresses are Java's own;
tables of Delta in an object store.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ..local.cluster_spec import TABLES
from ..local.cluster_state import default_data_dir
from ..storage.table_places import S3
from ..tables import stores
from ..tables.place import CATALOG_FILE, CATALOG_NAME, Place
from .session import (
    DELTA_PACKAGE,
    DELTA_SETTINGS,
    SCALA_VERSION,
    SparkUnavailableError,
    kafka_session,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ICEBERG_VERSION: Final = "1.10.0"
AWS_PACKAGE: Final = f"org.apache.iceberg:iceberg-aws-bundle:{ICEBERG_VERSION}"
SQLITE_DRIVER: Final = "org.xerial:sqlite-jdbc:3.50.3.0"
PREFIX: Final = f"spark.sql.catalog.{CATALOG_NAME}"
BUSY_MS: Final = 60_000  # while a writer commits


class Parts(NamedTuple):
    """What a session needs to read tables."""

    packages: tuple[str, ...]
    settings: dict[str, str]


def table_session(
    name: str,
    warehouse: str | Path | None = None,
    *,
    catalog: str | None = None,
    catalog_settings: Mapping[str, str] | None = None,
    store: Mapping[str, str] | None = None,
    table_format: Literal["iceberg", "delta"] = "iceberg",
    master: str = "local[*]",
    shuffle_partitions: int = 4,
    packages: tuple[str, ...] = (),
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start a session that reads the tables of a cluster, and topics as `kafka_session` does.

    `warehouse` and `catalog` are the brokers' `pybroker.table.warehouse` and
    `pybroker.table.catalog`, `catalog_settings` and `store` their `pybroker.table.catalog.*` and
    `pybroker.table.store.*`; without a warehouse it is that of `pybroker start` on this machine.
    A session has the tables of one format. The other arguments are those of `kafka_session`. Raises
    ValueError for a catalogue that needs settings of its own; JavaNotFoundError,
    SparkUnavailableError.
    """
    try:
        from pyspark import __version__
    except ImportError as error:
        raise SparkUnavailableError(
            "pyspark is not installed; install it with: pip install 'pybroker-kafka[spark,tables]'"
        ) from error
    place = Place(
        str(default_data_dir() / TABLES if warehouse is None else warehouse),
        catalog=catalog,
        settings=catalog_settings or {},
        store=store or {},
    )
    is_delta = table_format == "delta"
    parts = delta_parts(place, __version__) if is_delta else parts_of(place, __version__)
    session = kafka_session(
        name,
        master=master,
        shuffle_partitions=shuffle_partitions,
        packages=(*parts.packages, *packages),
        settings={**parts.settings, **(settings or {})},
    )
    if is_delta:
        _name_tables(session, place)
    return session


def parts_of(place: Place, spark_version: str) -> Parts:
    """For a Spark of this version. Raises ValueError."""
    spark = ".".join(spark_version.split(".")[:2])
    packages = [
        f"org.apache.iceberg:iceberg-spark-runtime-{spark}_{SCALA_VERSION}:{ICEBERG_VERSION}"
    ]
    settings = {
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        PREFIX: "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.defaultCatalog": CATALOG_NAME,
        # Each look at a table finds its newest snapshot.
        f"{PREFIX}.cache-enabled": "false",
        **{f"{PREFIX}.{key}": text for key, text in _catalog(place).items()},
    }
    if settings[f"{PREFIX}.type"] == "jdbc":
        packages.append(SQLITE_DRIVER)
    if place.warehouse.startswith(S3):
        packages.append(AWS_PACKAGE)
    return Parts(tuple(packages), settings)


def _catalog(place: Place) -> dict[str, str]:
    """The settings of Iceberg's catalogue in Java."""
    files = stores.for_java(place.store) if place.warehouse.startswith(S3) else {}
    url = place.catalog_url
    if url is not None and place.is_rest:
        return {**files, "warehouse": place.warehouse, **place.settings, "type": "rest", "uri": url}
    file = url or f"sqlite:///{os.path.join(place.warehouse, CATALOG_FILE)}"
    if not file.startswith("sqlite:///") or (url is None and not place.is_local):
        raise ValueError(
            f"the catalogue of {place.warehouse} is in a database other than SQLite: give its "
            f"driver in packages=, and {PREFIX}.type, .uri and .warehouse in settings= of "
            "kafka_session"
        )
    path = os.path.abspath(file.removeprefix("sqlite:///"))
    return {
        **files,
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{path}?busy_timeout={BUSY_MS}",
        "jdbc.init-catalog-tables": "false",
        "warehouse": f"file://{os.path.abspath(place.warehouse)}"
        if place.is_local
        else place.warehouse,
    }


def delta_parts(place: Place, spark_version: str) -> Parts:
    """For a Spark of this version. Raises ValueError."""
    if not spark_version.startswith("4.0."):
        raise ValueError(
            f"Delta {DELTA_PACKAGE.rpartition(':')[2]} is for Spark 4.0, not {spark_version}: give "
            "Delta's package in packages=, and its extension and catalogue in settings= of "
            "kafka_session"
        )
    if not place.is_local:
        raise ValueError(
            f"the tables of {place.warehouse} are in an object store: give the package of its file "
            "system in packages= of kafka_session, and read a table by its URL: "
            f'spark.read.format("delta").load("{place.delta_url("TOPIC")}")'
        )
    return Parts((DELTA_PACKAGE,), dict(DELTA_SETTINGS))


def _name_tables(session: SparkSession, place: Place) -> None:
    """In the session's own catalogue, which is in memory."""
    found = sorted(Path(place.warehouse).glob("*/*/_delta_log"))
    for table in (log.parent for log in found if not log.parent.name.startswith(".")):
        name = f"`{table.parent.name}`.`{table.name}`"
        of_all, location = (
            one.absolute().as_uri().replace("'", "%27") for one in (table.parent, table)
        )
        session.sql(f"CREATE DATABASE IF NOT EXISTS `{table.parent.name}` LOCATION '{of_all}'")
        session.sql(f"CREATE TABLE IF NOT EXISTS {name} USING delta LOCATION '{location}'")
