"""Spark reads the table of a topic with Iceberg's own code, as the page has it.

It starts a JVM of its own: a session cannot get jars later.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pybroker_kafka.spark_jobs.java import JavaNotFoundError, find_java_home
from pybroker_kafka.testing import KafkaCluster
from tests.support.page_blocks import blocks
from tests.support.processes import ROOT

TIMEOUT_SECONDS = 500.0
CONFIGS = {"pybroker.table": "iceberg", "pybroker.table.target.lag.ms": 100}

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


def run(cluster: KafkaCluster, folder: Path, *words: str) -> str:
    """What the program prints; it must end well."""
    try:
        find_java_home()
    except JavaNotFoundError as error:
        pytest.skip(str(error))
    here = {"PYBROKER_DATA_DIR": str(cluster.data_dir), "KAFKA_BOOTSTRAP": cluster.bootstrap}
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, **here},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def block(name: str) -> str:
    note = f"tests/compat/test_spark_tables.py::{name}"
    (found,) = (one for one in blocks(ROOT / "docs" / "TABLES.md") if one.noted("run by ") == note)
    return found.text


def test_the_page(tmp_path: Path) -> None:
    with KafkaCluster() as cluster:
        flights = cluster.topic("flights", exact=True, config=CONFIGS)
        cluster.produce(flights, "1", "2", "3")
        cluster.table(flights, timeout=600)
        told = run(cluster, tmp_path, "-c", block("test_the_page"))
    assert re.search(r"\| *NULL\| *3\|", told), told


READ_DELTA = """
from pybroker_kafka.spark_jobs.tables import table_session

spark = table_session("flights", table_format="delta")
spark.table("kafka.flights").groupBy("key").count().show()
print(len(spark.table("kafka.flights").inputFiles()), "files")
"""


def test_tables_of_delta(tmp_path: Path) -> None:
    """With files that were merged by the topic's writer."""
    with KafkaCluster() as cluster:
        configs = {**CONFIGS, "pybroker.table": "delta"}
        flights = cluster.topic("flights", exact=True, config=configs)
        for number in range(3):
            cluster.produce(flights, str(number))
            cluster.table(flights, timeout=600)
        run(cluster, tmp_path, "-m", "pybroker_kafka", "tables", "compact", flights)
        told = run(cluster, tmp_path, "-c", READ_DELTA)
    assert re.search(r"\| *NULL\| *3\|", told), told
    assert "1 files" in told
    assert not list(tmp_path.iterdir()), "Spark made nothing here"
