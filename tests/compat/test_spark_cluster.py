"""Every pipeline, source and sink on a Spark cluster, with machines that die: `make spark-cluster`.

A standalone master with two workers and three brokers. The first run of each pipeline loses, in the
middle, a worker with its executors and a broker that leads partitions, by SIGKILL; it has to go on
by itself, and is then stopped with SIGTERM. The second run, on `local-cluster[2,1,1024]` (executors
in processes of their own, too), finishes what is left, and the counts are checked.
"""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from pybroker_kafka.spark_jobs.cluster import SparkCluster
from pybroker_kafka.spark_jobs.flights import read_flights, records_of
from pybroker_kafka.testing import KafkaCluster
from tests.support import pipelines
from tests.support.pipelines import Ground
from tests.support.spark_job import SparkJob

LOCAL_CLUSTER = "local-cluster[2,1,1024]"
BROKERS = 3

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(2400)]


class Machines:
    """Two workers and three brokers, some of which are dead at times."""

    def __init__(self, spark: SparkCluster, brokers: KafkaCluster) -> None:
        self.spark, self.brokers = spark, brokers
        self.worker = 1  # the one that dies next
        self.broker = 1

    def lose_some(self, job: SparkJob, query: str) -> None:
        """A worker and a broker die; the query must do two more batches, and ends when told to."""
        done = max(int(number) for number in re.findall(rf"{query}: batch (\d+)", job.text))
        self.spark.kill_worker(self.worker)
        self.brokers.kill(self.broker)
        job.wait_for(rf"{query}: batch ({done + 2}|{done + 3})\b")
        job.signal(signal.SIGTERM)
        assert "stopped" in job.end()

    def repair(self) -> None:
        self.worker = self.spark.start_worker()
        self.brokers.restart(self.broker)
        self.broker = self.broker % BROKERS + 1


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    place, config = tmp_path_factory.mktemp("brokers"), {"min.insync.replicas": "1"}
    with (
        SparkCluster() as spark,
        KafkaCluster(brokers=BROKERS, config=config, data_dir=place) as brokers,
    ):
        yield Machines(spark.start(), brokers)


@pytest.fixture
def ground(machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    servers, url = machines.brokers.bootstrap, machines.spark.url
    yield Ground(servers, tmp_path, url, LOCAL_CLUSTER, machines.lose_some, replicas=BROKERS)
    machines.repair()


@pytest.mark.parametrize(
    "name", ["flight_delays", "sessions", "enrich", "consumer_lag", "lake", "word_count"]
)
def test_pipelines(ground: Ground, name: str) -> None:
    getattr(pipelines, f"check_{name}")(ground)


def test_the_official_source_and_sink(ground: Ground) -> None:
    """The connector beside ours: what holds for one on a cluster holds for the other."""
    topic, output, dead = ground.new_topics("flights", "delays", "dead")
    records = list(records_of(islice(read_flights(), 2000), "carrier"))
    said = ground.run_twice(
        "flight_delays", topic, records, "--source", "kafka",
        "--output-topic", output, "--dead-letter-topic", dead,
    )  # fmt: skip
    pipelines.check_read_to_the_end(said)
    pipelines.check_counted(ground, output, records)
