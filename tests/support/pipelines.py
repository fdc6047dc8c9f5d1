"""Pipelines in processes of their own, over records that come meanwhile, interrupted and checked.

A `Ground` says where they run and what happens to them in between; the checks are the same on each:
what they have written is compared with what plain Python finds in the same flights.
"""

from __future__ import annotations

import collections
import json
import re
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from pybroker_kafka.spark_jobs.flights import read_airlines, read_flights, read_weather, records_of
from pybroker_kafka.spark_jobs.pipelines.lake import Slice, visible
from pybroker_kafka.spark_jobs.pipelines.sessions import HOUR_MS, Session, merged
from tests.support.spark_job import SparkJob, spark_job

WAIT_SECONDS = 120.0
FLIGHTS = 6000
END = "2014-06-01T00:00:00Z"  # of an event that lets the watermarks pass all others
CHUNK = 100
PAUSE_SECONDS = 0.05
# What Spark says of a Python process that has not started within 10 s, a limit of its own.
GAVE_UP = "Python worker failed to connect back"
BUSY_RUNS = 3

Records = Sequence[tuple[bytes | None, bytes | None]]


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


@dataclass
class Ground:
    """Where pipelines run. `interrupt` is what happens to the first run while it works; the second
    one goes on from its checkpoint, to the end."""

    servers: str
    directory: Path
    first_master: str
    second_master: str
    interrupt: Callable[[SparkJob, str], None]
    replicas: int = 1

    def new_topics(self, *names: str, partitions: int = 2) -> list[str]:
        made = [f"{name}-{uuid.uuid4().hex[:6]}" for name in names]
        with closing(KafkaAdminClient(bootstrap_servers=self.servers)) as admin:
            admin.create_topics([NewTopic(name, partitions, self.replicas) for name in made])
        return made

    def first(self, name: str, *arguments: str) -> AbstractContextManager[SparkJob]:
        given = ("--bootstrap-servers", self.servers, "--master", self.first_master)
        return spark_job(name, self.directory, *given, *arguments)

    def second(self, name: str, *arguments: str) -> AbstractContextManager[SparkJob]:
        given = ("--bootstrap-servers", self.servers, "--master", self.second_master)
        return spark_job(name, self.directory, *given, *arguments)

    def run_twice(
        self,
        name: str,
        topic: str,
        records: Records,
        *arguments: str,
        between: Callable[[], None] = lambda: None,
    ) -> str:
        """Over records that come while the first run works; what the second one said."""
        query = name.replace("_", "-")
        given = ("--input-topic", topic, *arguments)
        produce(self.servers, topic, records[:CHUNK])
        more = ("--continuous", "--trigger-interval", "0 seconds")
        with self.first(name, *given, *more) as job:
            job.wait_for(f"{query}: batch 0")
            with produced_slowly(self.servers, topic, records[CHUNK:]):
                job.wait_for(f"{query}: batch 1")
                self.interrupt(job, query)
        between()
        return self.finish(name, *given)

    def finish(self, name: str, *arguments: str) -> str:
        """A second run to its end; what it said. Where the machine is so busy that Spark gives up
        on its own processes, it is begun again, as people would."""
        for _ in range(BUSY_RUNS):
            with self.second(name, *arguments) as job:
                if not job.failed_with(GAVE_UP):
                    break
        return job.end()


def kill(job: SparkJob, query: str) -> None:
    """All of the pipeline, Spark's JVM too."""
    job.kill()


def check_read_to_the_end(said: str) -> None:
    """By a second run, unless the first one had read all before it was stopped."""
    assert "lag 0" in said or "done: 0 records in 0 batches" in said, said


def check_counted(ground: Ground, output: str, records: Records) -> None:
    """Whether the newest windows in a topic count each flight once, carrier by carrier."""
    expected = collections.Counter((key or b"").decode() for key, _ in records)
    newest = {key: json.loads(value) for key, value in contents(ground.servers, output)}
    counted: collections.Counter[str] = collections.Counter()
    for row in newest.values():
        counted[row["carrier"]] += row["flights"]
    assert counted == expected


def check_flight_delays(ground: Ground) -> None:
    servers = ground.servers
    topic, output, dead = ground.new_topics("flights", "delays", "dead")
    malformed = [(b"1", b"{"), (b"2", b'{"carrier": "AA"}'), (b"3", None)]
    records = [*flights(), *malformed]
    said = ground.run_twice(
        "flight_delays", topic, records,
        "--output-topic", output, "--dead-letter-topic", dead,
    )  # fmt: skip
    check_read_to_the_end(said)
    check_counted(ground, output, flights())
    rows = pq.read_table(ground.directory / "flight-delays" / "windows").to_pylist()
    newest_rows = {
        (row["carrier"], row["window_start"]): row
        for row in sorted(rows, key=lambda row: int(row["batch_id"]))
    }
    assert sum(row["flights"] for row in newest_rows.values()) == FLIGHTS
    assert set(contents(servers, dead)) == set(malformed)
    assert {path.name for path in ground.directory.iterdir() if path.is_dir()} == {"flight-delays"}


def at(record: dict[str, object]) -> datetime:
    return datetime.fromisoformat(str(record["time_hour"]))


def rows_in(directory: Path) -> list[dict[str, Any]]:
    return list(pq.read_table(directory).to_pylist())


def flight(**fields: object) -> tuple[bytes, bytes]:
    return b"END", json.dumps({"carrier": "END", "time_hour": END, **fields}).encode()


def check_sessions(ground: Ground) -> None:
    """Each session is written once, with all its flights, also those from before the kill."""
    servers = ground.servers
    topic, output = ground.new_topics("flights", "sessions")
    records = [*flights(), flight(tailnum="END", distance=1)]
    ground.run_twice("sessions", topic, records, "--output-topic", output)
    departures = collections.defaultdict(list)
    for row in islice(read_flights(), FLIGHTS):
        if row["tailnum"] is not None:
            ms = int(at(row).timestamp() * 1000)
            departures[row["tailnum"]].append(Session(ms, ms, 1, row["distance"]))
    gap_ms = 12 * HOUR_MS
    expected = {
        (name, *session[:1], *session[2:])
        for name, found in departures.items()
        for session in merged(found, gap_ms)
    }
    rows = rows_in(ground.directory / "sessions" / "sessions")
    found = [
        (r["tailnum"], int(r["first_departure"].timestamp() * 1000), r["flights"], r["miles"])
        for r in rows
    ]
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert {key for key, _ in contents(servers, output)} != set()


def check_enrich(ground: Ground) -> None:
    servers = ground.servers
    names = ground.new_topics("flights", "weather", "airlines", "enriched")
    topic, weather_topic, airlines, output = names
    known = [row for row in read_weather() if at(row) < datetime(2013, 1, 20, tzinfo=UTC)]
    produce(servers, weather_topic, records_of(known, "origin"))
    # In a run of its own a stream's watermark is known once it has brought a record.
    end = [*records_of([{"origin": "END", "time_hour": END}], "origin")]
    rest = [(b"UA", b'{"name": "an old name"}'), (b"ZZ", b"{}"), (b"ZZ", None)]
    produce(servers, airlines, [*rest, *records_of(read_airlines(), "carrier")])
    ground.run_twice(
        "enrich", topic, [*flights(), flight(origin="JFK")],
        "--output-topic", output, "--weather-topic", weather_topic, "--airlines-topic", airlines,
        between=lambda: produce(servers, weather_topic, end),
    )  # fmt: skip
    rows = [r for r in rows_in(ground.directory / "enrich" / "flights") if r["carrier"] != "END"]
    assert len(rows) == FLIGHTS
    hours = {(row["origin"], at(row)): row["visib"] for row in known}
    sights = collections.Counter(
        hours.get((row["origin"], at(row))) for row in islice(read_flights(), FLIGHTS)
    )
    assert collections.Counter(row["visib"] for row in rows) == sights
    names_of = {row["carrier"]: row["name"] for row in read_airlines()}
    assert all(row["airline"] == names_of[row["carrier"]] for row in rows)


def check_consumer_lag(ground: Ground) -> None:
    """The newest sample says what the group's coordinator says, before and after the kill."""
    servers = ground.servers
    topic, output = ground.new_topics("flights", "lag")
    produce(servers, topic, flights(1000))
    group = f"group-{topic}"
    parts = [TopicPartition(topic, number) for number in range(2)]
    given = ["--output-topic", output]

    def commit(offset: int) -> None:
        consumer.commit({part: OffsetAndMetadata(offset, "", -1) for part in parts})

    with closing(KafkaConsumer(bootstrap_servers=servers, group_id=group)) as consumer:
        consumer.assign(parts)
        commit(100)
        more = ["--continuous", "--trigger-interval", "1 second"]
        with ground.first("consumer_lag", *given, *more) as job:
            job.wait_for("consumer-lag: batch 0")
            commit(200)
            job.wait_for("consumer-lag: batch 1")
            ground.interrupt(job, "consumer-lag")
        commit(321)
    ground.finish("consumer_lag", *given, "--plot", "lag.png")
    samples = rows_in(ground.directory / "consumer-lag" / "samples")
    newest = max(row["batch_id"] for row in samples)
    found = {
        (row["partition"], row["committed"], row["log_end"], row["lag"])
        for row in samples
        if row["batch_id"] == newest and row["group"] == group
    }
    assert found == {(0, 321, 500, 179), (1, 321, 500, 179)}
    assert len({row["batch_id"] for row in samples}) > 1
    assert (ground.directory / "lag.png").stat().st_size > 0


def lake_rows(directory: Path) -> list[dict[str, Any]]:
    """As `ParquetLake.read` has them, but without Spark."""
    rows = []
    for date in directory.glob("event_date=*"):
        slices = {Slice.parse(path.name.partition("=")[2]): path for path in date.iterdir()}
        for part in visible([part for part in slices if part is not None]):
            rows += pq.ParquetDataset(slices[part], partitioning=None).read().to_pylist()
    return rows


def check_lake(ground: Ground) -> None:
    """Each record once after a kill; then the schema grows, and a backfill fills the new column."""
    (topic,) = ground.new_topics("flights")
    table = ground.directory / "lake" / "table"
    all_places = {(number % 2, number // 2) for number in range(FLIGHTS)}

    def places() -> list[tuple[int, int]]:
        return [(row["_partition"], row["_offset"]) for row in lake_rows(table)]

    ground.run_twice(
        "lake", topic, flights(), "--compact-after", "1",
        "--schema", "carrier STRING, time_hour STRING",
    )  # fmt: skip
    found = places()
    assert (len(found), set(found)) == (FLIGHTS, all_places)
    given = ["--input-topic", topic]
    grown = ["--schema", "carrier STRING, time_hour STRING, distance INT"]
    said = ground.finish("lake", *given, *grown, "--from", "2020-01-01T00:00:00Z")
    assert f"backfill: {FLIGHTS:,} records" in said
    found = places()
    assert (len(found), set(found)) == (FLIGHTS, all_places)
    flown = sum(row["distance"] for row in islice(read_flights(), FLIGHTS))
    assert sum(row["distance"] for row in lake_rows(table)) == flown
    with ground.second("lake", *given, "--schema", "carrier INT, time_hour STRING") as job:
        job.wait_for("the column 'carrier' is string in the lake")


def check_word_count(ground: Ground) -> None:
    """At most once has lost what it had noted, at least once has doubled what it had written."""
    given = ["--kills", "2", "--lines", "2000", "--plot", "delivery.png"]
    with ground.first("word_count_exactly_once", *given) as job:
        said = job.end()
    rows = dict(re.findall(r"│ ([a-z-]+) +│ +[\d,]+ │ +([\d,]+ │ +[\d,]+) │", said))
    lost_and_doubled = {
        mode: tuple(int(part.replace(",", "")) for part in text.split("│"))
        for mode, text in rows.items()
    }
    assert lost_and_doubled["exactly-once"] == (0, 0)
    lost, doubled = lost_and_doubled["at-most-once"]
    assert lost > 0
    assert doubled == 0
    lost, doubled = lost_and_doubled["at-least-once"]
    assert lost == 0
    assert doubled > 0
    assert (ground.directory / "delivery.png").stat().st_size > 0
