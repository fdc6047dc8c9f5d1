"""The pictures of docs/SPARK.md: `python -m tests.pictures` runs each pipeline, and draws it.

A local cluster, the real flights and their weather, and the pipelines as people run them; about
five minutes. `--only NAME` draws one. Not alike to the pixel: lag and kills are in real time.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pyarrow.parquet as pq
from kafka import KafkaConsumer

from pybroker_kafka.spark_jobs.demo import draw_chart, local_cluster
from pybroker_kafka.spark_jobs.flights import (
    produce,
    read_airlines,
    read_flights,
    read_weather,
    records_of,
)
from tests.support.pipelines import lake_rows
from tests.support.processes import ROOT
from tests.support.spark_job import spark_job

mpl.use("Agg")
from matplotlib import pyplot

IMAGES = ROOT / "docs" / "images"
LAG_SECONDS = 90
LAKE_PARTS = 3
SOME = 60_000  # flights, the first of the year


class Row:
    """Fields of a row as attributes, as Spark's rows have them."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__ = fields


class Studio:
    """A cluster with data, and a directory to work in."""

    def __init__(self, servers: str, directory: Path) -> None:
        self.servers, self.directory = servers, directory
        by_time = sorted(read_flights(), key=lambda row: str(row["time_hour"]))
        self.flights = list(records_of(by_time, "carrier"))

    def run(self, name: str, *arguments: str) -> str:
        with spark_job(
            name, self.directory, "--bootstrap-servers", self.servers, *arguments
        ) as job:
            said = job.end()
        sys.stderr.write(said)
        return said

    def flight_delays(self) -> None:
        produce(self.servers, "flights", self.flights)
        self.run("flight_delays", "--watermark", "14 days")
        rows = pq.read_table(self.directory / "flight-delays" / "windows").to_pylist()
        rows.sort(key=lambda row: int(row["batch_id"]))
        newest = {(row["carrier"], row["window_start"]): row for row in rows}
        draw_chart([Row(row) for row in newest.values()], IMAGES / "flight-delays.png")

    def sessions(self) -> None:
        produce(self.servers, "flights-by-time", self.flights[:SOME])
        self.run("sessions", "--input-topic", "flights-by-time")
        rows = pq.read_table(self.directory / "sessions" / "sessions").to_pylist()
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5))
        flown = Counter(min(row["flights"], 12) for row in rows)
        left.bar(list(flown), list(flown.values()))
        left.set_xlabel("flights out of New York in a session (12: or more)")
        left.set_ylabel("sessions")
        hours = [
            (row["last_departure"] - row["first_departure"]).total_seconds() / 3600 for row in rows
        ]
        right.hist([hour for hour in hours if hour > 0], bins=40)
        right.set_xlabel("hours from first to last departure, if there are two")
        figure.suptitle(f"{len(rows):,} sessions of {len({r['tailnum'] for r in rows}):,} aircraft")
        finish(figure, "sessions.png")

    def lake(self) -> None:
        """Files after each run; they are put together in the run after there are too many."""
        files, written = [], []
        step = SOME // LAKE_PARTS
        # The same days in each part, so that each batch brings a file to each date.
        for part in range(LAKE_PARTS):
            produce(self.servers, "lake-flights", self.flights[part::LAKE_PARTS][:step])
            self.run("lake", "--input-topic", "lake-flights", "--compact-after", "1")
            table = self.directory / "lake" / "table"
            files.append(sum(1 for _ in table.glob("event_date=*/slice=*/*.parquet")))
            written.append(sum(1 for _ in table.glob("event_date=*")) * (part + 1))
        days = Counter(row["_timestamp"] and row["time_hour"][:10] for row in lake_rows(table))
        figure, (upper, lower) = pyplot.subplots(2, 1, figsize=(11, 6))
        dates = sorted(days)
        upper.bar(range(len(dates)), [days[date] for date in dates], width=1.0)
        upper.set_ylabel("rows")
        upper.set_xlabel(f"event date, {dates[0]} to {dates[-1]}")
        runs = range(1, LAKE_PARTS + 1)
        lower.plot(runs, written, marker="o", linestyle=":", label="files written")
        lower.plot(runs, files, marker="o", label="files there")
        lower.set_xticks(runs)
        lower.set_xlabel("batch")
        lower.legend()
        figure.suptitle(
            f"{sum(days.values()):,} rows by event date, and files put together after 1 slice"
        )
        finish(figure, "lake.png")

    def enrich(self) -> None:
        produce(self.servers, "some-flights", self.flights[:SOME])
        produce(self.servers, "weather", records_of(read_weather(), "origin"))
        produce(self.servers, "airlines", records_of(read_airlines(), "carrier"))
        self.run("enrich", "--input-topic", "some-flights")
        delays: dict[str, list[int]] = defaultdict(list)
        for row in pq.read_table(self.directory / "enrich" / "flights").to_pylist():
            if row["visib"] is not None and row["dep_delay"] is not None:
                sight = "10" if row["visib"] >= 10 else "5-10" if row["visib"] >= 5 else "0-5"
                delays[sight].append(row["dep_delay"])
        figure, axes = pyplot.subplots(figsize=(8, 4.5))
        names = [name for name in ("0-5", "5-10", "10") if name in delays]
        bars = axes.bar(names, [sum(delays[name]) / len(delays[name]) for name in names])
        axes.bar_label(bars, [f"{len(delays[name]):,} flights" for name in names])
        axes.set_xlabel("visibility at the airport, miles")
        axes.set_ylabel("mean departure delay, minutes")
        axes.set_title("Flights joined with the weather at their departure")
        finish(figure, "enrich.png")

    def consumer_lag(self) -> None:
        """A topic that grows, a group that keeps pace, and one that stops in the middle."""
        topic, over = "lag-flights", threading.Event()
        feed = records_of(islice(read_flights(), 200_000), "carrier")
        produce(self.servers, topic, islice(feed, 1000))
        threads = [
            threading.Thread(target=produce, args=(self.servers, topic, until(over, feed), 1500.0)),
            threading.Thread(target=self._consume, args=(topic, "steady", over, LAG_SECONDS)),
            threading.Thread(target=self._consume, args=(topic, "stops", over, LAG_SECONDS / 3)),
        ]
        given = ["--continuous", "--trigger-interval", "2 seconds", "--bootstrap-servers"]
        image = str(IMAGES / "consumer-lag.png")
        more = [self.servers, "--plot", image]
        # So that there are commits, and a topic for them, before the first batch.
        self._consume(topic, "steady", over, 3)
        with spark_job("consumer_lag", self.directory, *given, *more) as job:
            job.wait_for("consumer-lag: batch 0")
            for thread in threads:
                thread.start()
            over.wait(LAG_SECONDS)
            over.set()
            for thread in threads:
                thread.join()
            job.signal(signal.SIGTERM)
            sys.stderr.write(job.end())

    def _consume(self, topic: str, group: str, over: threading.Event, seconds: float) -> None:
        from time import monotonic

        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=self.servers,
            group_id=group,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=1000,
        )
        began = monotonic()
        while not over.is_set() and monotonic() - began < seconds:
            consumer.poll(500)
        consumer.close()

    def word_count(self) -> None:
        image = str(IMAGES / "word-count.png")
        self.run("word_count_exactly_once", "--kills", "4", "--plot", image)


def until(over: threading.Event, records: Iterator[tuple[bytes, bytes]]) -> Iterator[Any]:
    for record in records:
        if over.is_set():
            return
        yield record


def finish(figure: Any, name: str) -> None:
    figure.tight_layout()
    figure.savefig(IMAGES / name, dpi=100)
    pyplot.close(figure)


@contextmanager
def studio() -> Iterator[Studio]:
    with local_cluster() as servers, tempfile.TemporaryDirectory() as directory:
        yield Studio(servers, Path(directory))


PICTURES: dict[str, Callable[[Studio], None]] = {
    "flight_delays": Studio.flight_delays,
    "sessions": Studio.sessions,
    "lake": Studio.lake,
    "enrich": Studio.enrich,
    "consumer_lag": Studio.consumer_lag,
    "word_count": Studio.word_count,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PICTURES, action="append", help="may be repeated")
    IMAGES.mkdir(exist_ok=True)
    with studio() as found:
        for name in parser.parse_args().only or PICTURES:
            PICTURES[name](found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
