"""Tables in an object store, moto's S3, and in catalogues of several kinds: Apache Iceberg's REST
catalogue, a database, and Delta, which has none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import psutil
import pyarrow as pa
import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from pybroker_kafka.spark_jobs.java import JavaNotFoundError, find_java_home
from pybroker_kafka.storage.table_configs import CATALOG, WAREHOUSE
from pybroker_kafka.storage.table_places import CATALOG_PREFIX, STORE_PREFIX
from pybroker_kafka.tables.errors import Conflict
from pybroker_kafka.tables.iceberg import open_catalog
from pybroker_kafka.tables.place import Place
from pybroker_kafka.tables.raw import RAW
from pybroker_kafka.tables.reading import rows_of
from pybroker_kafka.tables.topic_table import table_of
from tests.support.moto_s3 import ACCESS_KEY, BUCKET, REGION, SECRET_KEY, MotoS3
from tests.support.patience import until
from tests.support.processes import BrokerProcess, running_broker
from tests.support.rest_catalogue import TOKEN, rest_catalogue

SPARK_SECONDS = 500.0
SECRETS = (TOKEN, SECRET_KEY)

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def store() -> Iterator[MotoS3]:
    with MotoS3().running() as store:
        yield store


def s3_configs(store: MotoS3, prefix: str) -> dict[str, str]:
    settings = {
        "endpoint": store.url,
        "client.allow_http": "true",
        "region": REGION,
        "access_key_id": ACCESS_KEY,
        "secret_access_key": SECRET_KEY,
    }
    named = {STORE_PREFIX + name: text for name, text in settings.items()}
    return {WAREHOUSE: f"s3://{BUCKET}/{prefix}", **named}


def place_of(configs: dict[str, str]) -> Place:
    return Place.reached(configs[WAREHOUSE], "kafka", configs)


def fill(broker: BrokerProcess, topic: str, first: int, count: int) -> None:
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")) as producer:
        for number in range(first, first + count):
            producer.send(topic, b"%d" % number, partition=number % 2)


def create(broker: BrokerProcess, topic: str, kind: str, **configs: str) -> None:
    named = {"pybroker.table": kind, "pybroker.table.target.lag.ms": "200"}
    named |= {f"pybroker.table.{name.replace('_', '.')}": text for name, text in configs.items()}
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.create_topics([NewTopic(topic, 2, 1, topic_configs=named)])


def numbers(kind: str, place: Place, topic: str) -> list[int]:
    """What the table's rows have as values, [] without a table."""
    try:
        rows = rows_of(kind, place, topic)
    except Exception:  # each format has its own for a table that is not there yet
        return []
    return sorted(int(value) for value in rows["value"].to_pylist())


def writers_of(broker: BrokerProcess) -> list[psutil.Process]:
    children = psutil.Process(broker.pid).children(recursive=True)
    return [one for one in children if "pybroker_kafka.tables.worker" in one.cmdline()]


def command_lines(broker: BrokerProcess) -> str:
    return json.dumps([one.cmdline() for one in writers_of(broker)])


def check_kills(broker: BrokerProcess, place: Place, kind: str, topic: str) -> None:
    """Records come once, although the writer is killed as they come."""
    fill(broker, topic, 0, 300)
    until(lambda: bool(numbers(kind, place, topic)))
    fill(broker, topic, 300, 300)
    for one in writers_of(broker):
        one.kill()
    until(lambda: len(numbers(kind, place, topic)) >= 600)
    assert numbers(kind, place, topic) == list(range(600))


def counted(rows: pa.Table) -> object:
    """What DuckDB counts and sums."""
    with duckdb.connect() as duck:
        duck.register("found", rows)
        return duck.sql('select count(*), sum("offset") from found').limit(1).fetchall()[0]


def check_conflict(place: Place, kind: str) -> None:
    """Of two commits upon one state the store takes one."""
    one, other = (table_of(kind, place, "two-writers", "an-id") for _ in range(2))
    for each in (one, other):
        each.open(RAW, ())
    one.append(RAW.empty_table(), {0: 1})
    with pytest.raises(Conflict):
        other.append(RAW.empty_table(), {0: 1})


@pytest.mark.nightly
def test_a_rest_catalogue_and_a_warehouse_on_s3(tmp_path: Path, store: MotoS3) -> None:
    """Readers find each record once; no command line and no log has a secret."""
    configs = s3_configs(store, "rest")
    with rest_catalogue(tmp_path, store.url, configs[WAREHOUSE]) as url:
        configs |= {CATALOG: url, CATALOG_PREFIX + "token": TOKEN}
        place = place_of(configs)
        with running_broker(tmp_path / "broker", configs) as broker:
            create(broker, "flights", "iceberg", on_delete="drop")
            check_kills(broker, place, "iceberg", "flights")
            told = command_lines(broker)
            table = open_catalog(place).load_table("kafka.flights")
            assert table.location().startswith(configs[WAREHOUSE])
            assert counted(table.scan().to_arrow()) == (600, 89700)
            assert read_with_spark(broker, configs, tmp_path) in (None, "600 89700, 600 89700")
            # Files of a commit that a killed writer did not finish stay.
            files = {one.file.file_path for one in table.scan().plan_files()}
            assert files
            with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
                admin.delete_topics(["flights"])
            until(lambda: not files & {f"s3://{BUCKET}/{one}" for one in store.objects})
            told += broker.log_text
        check_conflict(place, "iceberg")
    assert not [one for one in SECRETS if one in told]


SPARK = """
import json, os
from pybroker_kafka.spark_jobs.tables import table_session
from pybroker_kafka.storage.table_places import CATALOG_PREFIX, STORE_PREFIX, settings_under

configs = json.loads(os.environ["CONFIGS"])
warehouse, catalog = configs["pybroker.table.warehouse"], configs["pybroker.table.catalog"]
spark = table_session(
    "places", warehouse, catalog=catalog,
    catalog_settings=settings_under(CATALOG_PREFIX, configs),
    store=settings_under(STORE_PREFIX, configs),
)
count = "count(*)", "sum(`offset`)"
of_table = spark.table("kafka.flights").selectExpr(*count).first()
topic = spark.read.format("pybroker").option("subscribe", "flights").option("history", "table")
topic = topic.option("kafka.bootstrap.servers", os.environ["KAFKA_BOOTSTRAP"])
for name, text in configs.items():
    if name not in ("pybroker.table.warehouse", "pybroker.table.catalog"):
        topic = topic.option(name, text)
topic = topic.option("historyCatalog", catalog)
of_both = topic.schema("partition INT, offset LONG").load().selectExpr(*count).first()
print("found:", *of_table, end=", ")
print(*of_both)
"""


def read_with_spark(broker: BrokerProcess, configs: dict[str, str], folder: Path) -> str | None:
    """Count and sum of the offsets by the table, and by history and the rest; None without Java."""
    try:
        find_java_home()
    except JavaNotFoundError:
        return None
    here = {"CONFIGS": json.dumps(configs), "KAFKA_BOOTSTRAP": broker.bootstrap}
    done = subprocess.run(
        [sys.executable, "-c", SPARK],
        cwd=folder,
        env={**os.environ, **here},
        capture_output=True,
        text=True,
        timeout=SPARK_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout.partition("found: ")[2].strip()


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_warehouse_on_s3(tmp_path: Path, store: MotoS3, kind: str) -> None:
    """Tables of Iceberg with a catalogue in a database, and of Delta, which needs none."""
    configs = s3_configs(store, f"of-{kind}") | {CATALOG: f"sqlite:///{tmp_path}/catalog.db"}
    place = place_of(configs)
    with running_broker(tmp_path / "broker", configs) as broker:
        create(broker, "flights", kind)
        check_kills(broker, place, kind, "flights")
        assert counted(rows_of(kind, place, "flights")) == (600, 89700)
    check_conflict(place, kind)
