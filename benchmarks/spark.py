"""Spark reads topics with the official connector and with ours, which needs no jar, compared.

Both run the same query over the same topics of one broker: it counts the records and sums the
lengths of their values. One topic has a gigabyte of records of 1 KiB, one a gigabyte of 100 bytes.
The query runs with `local[2]`, as a batch and as a stream with `availableNow`. The sources take
turns in one session, after a warm-up.

The figures are the seconds from the start of the query to its answer, the CPU seconds of the Python
workers and of the JVM, and the maximum memory (RSS) of one Python worker. Run `make bench-spark`,
or `python -m benchmarks.spark --help`. It needs Java, a C compiler, and the connector's jar in
Ivy's cache or Maven Central.

For each stream of the Python source Spark starts a Python process that plans its batches. It takes
0.6 s to import pyspark (0.4) and our client (0.2), while nothing else runs. A query pays that once,
however long it runs; a query that reads a gigabyte in two seconds does not hide it. Spark's other
Python processes run since the warm-up.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.brokers import PyBroker
from benchmarks.frames import create_topic
from benchmarks.loads.bulk import PRODUCER
from benchmarks.machine import ROOT, describe_machine
from benchmarks.native import bulk_produce
from pybroker_kafka.spark_jobs.session import kafka_session
from pybroker_kafka.spark_jobs.source.data_source import FORMAT

OFFICIAL = "kafka"
SOURCES = (OFFICIAL, FORMAT)
TITLES = {OFFICIAL: "official connector", FORMAT: "pybroker, no jar"}
COLOURS = {OFFICIAL: "#c8c5bd", FORMAT: "#0b7a75"}
MODES = ("batch", "stream")
CORES = 2
WARM_UP_MEGABYTES = 60
SAMPLE_SECONDS = 0.05
STREAM_SECONDS = 300
RESULTS = ROOT / "benchmarks" / "SPARK.md"


class Cost(NamedTuple):
    """Of one query."""

    seconds: float
    worker_cpu: float
    jvm_cpu: float
    worker_mb: float


class Workers:
    """The JVM of a session, and Python's processes below it."""

    def __init__(self, session: Any) -> None:
        self._jvm = psutil.Process(session.sparkContext._jvm.ProcessHandle.current().pid())
        self._ended = threading.Event()
        self._most_bytes = 0

    def cpu(self) -> tuple[float, float]:
        """Seconds of Python's processes, those that have ended included, and of the JVM."""
        own = self._jvm.cpu_times()
        python = own.children_user + own.children_system
        for process in self._jvm.children(recursive=True):
            try:
                spent = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            python += spent.user + spent.system + spent.children_user + spent.children_system
        return python, own.user + own.system

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the memory of each of Python's processes all the time."""
        self._most_bytes, self._ended = 0, threading.Event()
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            for process in self._jvm.children(recursive=True):
                try:
                    if not process.name().startswith("python"):  # the JVM's own, as it forks
                        continue
                    self._most_bytes = max(self._most_bytes, process.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue

    @property
    def most_mb(self) -> float:
        return self._most_bytes / 1e6


def measure(session: Any, workers: Workers, query: Query) -> Cost:
    """Raises RuntimeError for a wrong answer."""
    with workers.watched(), tempfile.TemporaryDirectory(prefix="spark-bench-") as checkpoint:
        python, jvm = workers.cpu()
        began = time.monotonic()
        found = query.run(session, Path(checkpoint))
        seconds = time.monotonic() - began
        python_after, jvm_after = workers.cpu()
    wanted = (query.records, query.records * query.record_bytes)
    if found != wanted:
        raise RuntimeError(f"{query.source} read {found}, and not {wanted}")
    return Cost(seconds, python_after - python, jvm_after - jvm, workers.most_mb)


class Query(NamedTuple):
    source: str
    mode: str
    servers: str
    topic: str
    records: int
    record_bytes: int

    def run(self, session: Any, checkpoint: Path) -> tuple[int, int]:
        """How many records, and how many bytes of values."""
        options = {
            "kafka.bootstrap.servers": self.servers,
            "subscribe": self.topic,
            "startingOffsets": "earliest",
        }
        wanted = ("count(*) AS records", "coalesce(sum(length(value)), 0) AS size")
        if self.mode == "batch":
            rows = session.read.format(self.source).options(**options).load().selectExpr(*wanted)
            return tuple(rows.first())
        query = (
            session.readStream.format(self.source)
            .options(**options)
            .load()
            .selectExpr(*wanted)
            .writeStream.format("memory")
            .queryName("answer")
            .outputMode("complete")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        if not query.awaitTermination(STREAM_SECONDS):
            raise RuntimeError(f"{self.source} does not end in {STREAM_SECONDS} s")
        return tuple(session.table("answer").first())


def fill(servers: str, name: str, megabytes: int, record_bytes: int, partitions: int) -> int:
    """How many records the topic has got."""
    records = megabytes * 1_000_000 // record_bytes
    create_topic(servers, name, partitions)
    bulk_produce(servers, name, records, record_bytes, PRODUCER | {"acks": "1"})
    return records


class Row(NamedTuple):
    """A line of the table: medians by source."""

    record_bytes: int
    mode: str
    costs: dict[str, Cost]

    @property
    def ratio(self) -> float:
        if len(self.costs) < len(SOURCES):
            return 0.0
        return self.costs[OFFICIAL].seconds / self.costs[FORMAT].seconds


def median(costs: Sequence[Cost]) -> Cost:
    """Of each; but the most memory of all."""
    return Cost(
        statistics.median(cost.seconds for cost in costs),
        statistics.median(cost.worker_cpu for cost in costs),
        statistics.median(cost.jvm_cpu for cost in costs),
        max(cost.worker_mb for cost in costs),
    )


def table(rows: Sequence[Row], megabytes: int) -> str:
    lines = [
        "| values of | query | source | seconds | MB/s | Python CPU s | JVM CPU s | worker MB | "
        "times as fast |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        for source, cost in row.costs.items():
            ratio = f"**{row.ratio:.2f}**" if source == FORMAT and row.ratio else ""
            lines.append(
                f"| {row.record_bytes} B | {row.mode} | {TITLES[source]} | {cost.seconds:.2f} | "
                f"{megabytes / cost.seconds:.0f} | {cost.worker_cpu:.1f} | {cost.jvm_cpu:.1f} | "
                f"{cost.worker_mb:.0f} | {ratio} |"
            )
    return "\n".join(lines)


def draw(rows: Sequence[Row], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(8, 4))
    width = 0.8 / len(SOURCES)
    for place, source in enumerate(SOURCES):
        at = [index + place * width for index in range(len(rows))]
        bars = axis.bar(
            at,
            [row.costs[source].seconds for row in rows],
            width,
            color=COLOURS[source],
            label=TITLES[source],
        )
        axis.bar_label(bars, fmt="%.1f", fontsize=9)
    axis.set_xticks(
        [index + width / 2 for index in range(len(rows))],
        [f"{row.record_bytes} B, {row.mode}" for row in rows],
    )
    axis.set_title("Seconds to count a gigabyte in Spark, local[2]", loc="left")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    pyplot.close(figure)


def page(rows: Sequence[Row], arguments: argparse.Namespace) -> str:
    facts = describe_machine()
    import pyarrow
    import pyspark

    facts |= {"pyspark": pyspark.__version__, "pyarrow": pyarrow.__version__}
    about = (__doc__ or "").partition("\n\n")
    return (
        f"# {about[0]}\n\n{about[2].strip()}\n\n"
        f"Medians of {arguments.rounds} rounds of {arguments.megabytes} MB in "
        f"{arguments.partitions} partitions, uncompressed.\n\n"
        f"{table(rows, arguments.megabytes)}\n\n![seconds](plots/spark.png)\n\n"
        + "".join(f"- {name}: {text}\n" for name, text in facts.items())
    )


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument(
        "--megabytes", type=int, default=1000, help="megabytes of values in each topic"
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[1024, 100], help="bytes of a value"
    )
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=MODES)
    parser.add_argument("--sources", nargs="+", default=list(SOURCES), choices=SOURCES)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.relative_to(ROOT)}")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    arguments = parse(words)
    with tempfile.TemporaryDirectory(prefix="spark-bench-") as directory:
        cluster = PyBroker(Path(directory) / "broker")
        cluster.start()
        try:
            rows = measure_all(cluster.bootstrap, arguments)
        finally:
            cluster.discard()
    print(table(rows, arguments.megabytes))
    if arguments.write:
        RESULTS.write_text(page(rows, arguments))
        draw(rows, RESULTS.parent / "plots" / "spark.png")
    return 0


def measure_all(servers: str, arguments: argparse.Namespace) -> list[Row]:
    counts: dict[int, int] = {}
    loads = len(arguments.sizes) * len(arguments.modes) * len(arguments.sources)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=2 * len(arguments.sizes) + 1 + loads * (arguments.rounds + 1))
        for size in arguments.sizes:
            bar.update(task, description=f"a topic of {size} B")
            counts[size] = fill(
                servers, f"values-{size}", arguments.megabytes, size, arguments.partitions
            )
            bar.advance(task)
            fill(servers, f"warm-{size}", WARM_UP_MEGABYTES, size, arguments.partitions)
            bar.advance(task)
        bar.update(task, description="Spark starts")
        session = kafka_session(
            "pybroker-bench", master=f"local[{CORES}]", shuffle_partitions=CORES,
            official_connector=OFFICIAL in arguments.sources,
        )  # fmt: skip
        bar.advance(task)
        workers = Workers(session)
        found: dict[tuple[int, str], dict[str, list[Cost]]] = {}
        for round_, size, mode in product(
            range(-1, arguments.rounds), arguments.sizes, arguments.modes
        ):
            costs = found.setdefault((size, mode), {name: [] for name in arguments.sources})
            for source in arguments.sources[:: -1 if round_ % 2 else 1]:
                topic, records = f"values-{size}", counts[size]
                if round_ < 0:
                    topic, records = f"warm-{size}", WARM_UP_MEGABYTES * 1_000_000 // size
                what = f"{size} B, {mode}, {source}"
                name = "warm-up" if round_ < 0 else f"round {round_ + 1}"
                bar.update(task, description=f"{name}: {what}")
                cost = measure(session, workers, Query(source, mode, servers, topic, records, size))
                bar.console.print(f"{name}: {what}: {cost}", highlight=False)
                bar.advance(task)
                if round_ >= 0:
                    costs[source].append(cost)
    session.stop()
    return [
        Row(size, mode, {source: median(some) for source, some in costs.items()})
        for (size, mode), costs in found.items()
    ]


if __name__ == "__main__":
    sys.exit(main())
