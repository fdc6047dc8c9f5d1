"""A streaming query that is killed in the middle of batches, and started again: `make spark`.

What the source promises: with a sink to which a batch may be written twice, every record counts
once. What the sink promises: every record is written, those of an unfinished batch again.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.parquet
import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from pybroker_kafka import BlockingAdmin
from pybroker_kafka.client.admin.config_types import (
    Alteration,
    ConfigOperation,
    ConfigResource,
    ResourceKind,
)
from pybroker_kafka.testing import KafkaCluster
from tests.support.processes import ROOT, BrokerProcess

WAIT_SECONDS = 240.0
KILLS = 2
LOG, TOLD_CHARACTERS = "job.log", 4000
PARTITIONS = 2
PAUSES_SECONDS = 0.0, 1.5  # from the plan of the first batch to the kill
PORTION = 500  # records that are written while a query runs, after each start

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


@contextlib.contextmanager
def copying(
    servers: str, source: str, target: str, directory: Path, *options: str
) -> Iterator[Callable[[], None]]:
    """The job; what is returned kills it, its JVM and its Python workers."""
    arguments = [servers, source, target, str(directory), *options]
    with (directory / LOG).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.spark_copy", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def kill() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    try:
        yield kill
    finally:
        kill()


def wait_for(is_so: Callable[[], bool], directory: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, (directory / LOG).read_text()[-TOLD_CHARACTERS:]
        time.sleep(0.002)


def numbers(directory: Path) -> set[int]:
    return {int(path.name) for path in directory.glob("*") if path.name.isdecimal()}


def produce(servers: str, topic: str, first: int) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in range(first, first + PORTION):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(WAIT_SECONDS) == 0


def copied(directory: Path) -> Counter[bytes]:
    """How often each value is in the Parquet files of batches whose writing has ended."""
    found: Counter[bytes] = Counter()
    for done in directory.glob("rows/*/_SUCCESS"):
        for path in done.parent.glob("*.parquet"):
            found.update(pyarrow.parquet.read_table(path).column("value").to_pylist())
    return found


def written(servers: str, topic: str) -> set[bytes | None]:
    place = TopicPartition(topic, 0)
    found: set[bytes | None] = set()
    consumer = KafkaConsumer(bootstrap_servers=servers, enable_auto_commit=False)
    with closing(consumer):
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end = consumer.end_offsets([place])[place]
        while consumer.position(place) < end:
            for records in consumer.poll(timeout_ms=100).values():
                found |= {record.value for record in records}
    return found


def test_killed_in_the_middle_of_batches(shared_broker: BrokerProcess, tmp_path: Path) -> None:
    servers = shared_broker.bootstrap
    source, target = (f"topic-{uuid.uuid4().hex[:8]}" for _ in range(2))
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        admin.create_topics([NewTopic(source, PARTITIONS, 1), NewTopic(target, 1, 1)])
    planned, finished = (tmp_path / "checkpoint" / name for name in ("offsets", "commits"))
    killed: set[int] = set()
    values = {b"%d" % number for number in range((KILLS + 1) * PORTION)}

    def is_in_a_new_batch() -> bool:
        return bool(numbers(planned) - numbers(finished) - killed)

    def is_done() -> bool:
        return numbers(planned) == numbers(finished) and len(copied(tmp_path)) == len(values)

    for start in range(KILLS):
        produce(servers, source, start * PORTION)
        with copying(servers, source, target, tmp_path) as kill:
            wait_for(is_in_a_new_batch, tmp_path)
            kill()
        killed |= numbers(planned) - numbers(finished)
    produce(servers, source, KILLS * PORTION)
    with copying(servers, source, target, tmp_path):
        wait_for(is_done, tmp_path)
    found = copied(tmp_path)
    assert set(found) == values
    assert set(found.values()) == {1}
    assert written(servers, target) == values
    assert killed


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_killed_in_the_middle_of_history(kind: str, tmp_path: Path) -> None:
    """A stream that begins with the topic's table, of whose records the brokers lack some."""
    configs = {"pybroker.table": kind, "pybroker.table.target.lag.ms": 100}
    planned, finished = (tmp_path / "checkpoint" / name for name in ("offsets", "commits"))
    with KafkaCluster() as cluster, BlockingAdmin(cluster.bootstrap) as admin:
        servers = cluster.bootstrap
        source, target = cluster.topic("source", PARTITIONS, config=configs), cluster.topic("copy")
        produce(servers, source, 0)
        cluster.table(source, timeout=600)
        late = Alteration("pybroker.table.target.lag.ms", ConfigOperation.SET, "3600000")
        admin.configs.alter({ConfigResource(ResourceKind.TOPIC, source): [late]})
        produce(servers, source, PORTION)  # these are not in the table
        admin.records.delete_before({(source, number): 100 for number in range(PARTITIONS)})
        for pause in PAUSES_SECONDS:
            with copying(servers, source, target, tmp_path, "history=table") as kill:
                wait_for(lambda: bool(numbers(planned) - numbers(finished)), tmp_path)
                time.sleep(pause)
                kill()
        produce(servers, source, 2 * PORTION)
        values = {b"%d" % number for number in range(3 * PORTION)}
        with copying(servers, source, target, tmp_path, "history=table"):
            wait_for(lambda: len(copied(tmp_path)) == len(values), tmp_path)
    found = copied(tmp_path)
    assert set(found) == values
    assert set(found.values()) == {1}
