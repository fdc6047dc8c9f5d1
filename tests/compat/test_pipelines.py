"""Pipelines as people run them: killed with SIGKILL in the middle, begun again, and all is right.

Each runs twice over records that come while it runs; Spark's start is most of what it costs.
`make test` runs flight_delays, `make spark` all.
"""

from __future__ import annotations

import collections
import json
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from pybroker.spark_jobs.flights import read_flights, records_of
from tests.support.processes import BrokerProcess
from tests.support.spark_job import spark_job

WAIT_SECONDS = 90.0
FLIGHTS = 6000
CHUNK = 100
PAUSE_SECONDS = 0.05

pytestmark = pytest.mark.timeout(600)

Records = Sequence[tuple[bytes | None, bytes | None]]


def new_topics(servers: str, *names: str, partitions: int = 2) -> list[str]:
    made = [f"{name}-{uuid.uuid4().hex[:6]}" for name in names]
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        admin.create_topics([NewTopic(name, partitions, 1) for name in made])
    return made


def produce(servers: str, topic: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> None:
    with closing(KafkaProducer(bootstrap_servers=servers)) as producer:
        for number, (key, value) in enumerate(records):
            producer.send(topic, value, key, partition=number % 2)
        producer.flush(WAIT_SECONDS)


@contextmanager
def produced_slowly(servers: str, topic: str, records: Records) -> Iterator[None]:
    """Records come in chunks while the block runs; at its end all are there."""
    done = threading.Event()

    def work() -> None:
        with closing(KafkaProducer(bootstrap_servers=servers)) as producer:
            for number, (key, value) in enumerate(records):
                producer.send(topic, value, key, partition=number % 2)
                if number % CHUNK == 0:
                    producer.flush(WAIT_SECONDS)
                    done.wait(PAUSE_SECONDS)
            producer.flush(WAIT_SECONDS)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def contents(servers: str, topic: str, partitions: int = 2) -> list[tuple[bytes, bytes]]:
    found = []
    with closing(KafkaConsumer(bootstrap_servers=servers)) as consumer:
        parts = [TopicPartition(topic, number) for number in range(partitions)]
        ends = consumer.end_offsets(parts)
        consumer.assign(parts)
        consumer.seek_to_beginning()
        while any(consumer.position(part) < end for part, end in ends.items()):
            for records in consumer.poll(1000).values():
                found += [(record.key, record.value) for record in records]
    return found


def flights(count: int = FLIGHTS) -> list[tuple[bytes, bytes]]:
    return list(records_of(islice(read_flights(), count), "carrier"))


def killed_and_begun_again(
    name: str, directory: Path, servers: str, topic: str, records: Records, *arguments: str
) -> str:
    """Run a pipeline over records that come in the meantime, kill it while a batch is at work, and
    run it once more to its end; what that run said."""
    query = name.replace("_", "-")
    given = ["--bootstrap-servers", servers, "--input-topic", topic, *arguments]
    given += ["--master", "local[2]"]
    produce(servers, topic, records[:CHUNK])
    with spark_job(
        name, directory, *given, "--continuous", "--trigger-interval", "0 seconds"
    ) as job:
        job.wait_for(f"{query}: batch 0")
        with produced_slowly(servers, topic, records[CHUNK:]):
            job.wait_for(f"{query}: batch 1")
            job.kill()
    with spark_job(name, directory, *given) as job:
        return job.end()


def test_flight_delays(shared_broker: BrokerProcess, tmp_path: Path) -> None:
    servers = shared_broker.bootstrap
    topic, output, dead = new_topics(servers, "flights", "delays", "dead")
    malformed = [(b"1", b"{"), (b"2", b'{"carrier": "AA"}'), (b"3", None)]
    records = [*flights(), *malformed]
    said = killed_and_begun_again(
        "flight_delays", tmp_path, servers, topic, records,
        "--output-topic", output, "--dead-letter-topic", dead,
    )  # fmt: skip
    assert "lag 0" in said
    expected = collections.Counter(key.decode() for key, _ in flights())
    newest = {key: json.loads(value) for key, value in contents(servers, output)}
    counted: collections.Counter[str] = collections.Counter()
    for row in newest.values():
        counted[row["carrier"]] += row["flights"]
    assert counted == expected
    rows = pq.read_table(tmp_path / "flight-delays" / "windows").to_pylist()
    newest_rows = {
        (row["carrier"], row["window_start"]): row
        for row in sorted(rows, key=lambda row: int(row["batch_id"]))
    }
    assert sum(row["flights"] for row in newest_rows.values()) == FLIGHTS
    assert set(contents(servers, dead)) == set(malformed)
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"flight-delays"}
