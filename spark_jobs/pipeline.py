"""The parts that all pipelines share: options, reading and writing topics, dead letters, sessions.

A pipeline reads a topic as a stream, from the offsets in its checkpoint on. Unless it is
`--continuous` it ends when it has read the records that were there when it began; the next run
continues from there, also after a kill. SIGINT and SIGTERM stop it; the next run completes an
unfinished batch.

Each progress line counts the records that do not parse. With a dead-letter topic a second query
writes them there at least once, with the reason and their topic, partition and offset.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SOURCES = ("pybroker", "kafka")
MALFORMED = "malformed"  # prefix of the observations that count records that do not parse
_HAS_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.IGNORECASE)


@dataclass(slots=True, frozen=True, kw_only=True)
class Options:
    """The options of every pipeline. Durations are Spark's interval texts (`7 days`).

    `source` is `pybroker`, or `kafka` for the official connector. `kafka` holds settings of a
    client, for TLS and logins. `output_dir` is a local directory, or a URL that Spark's cluster can
    reach.
    """

    bootstrap_servers: str
    input_topic: str
    output_dir: str
    checkpoint: str | None = None
    source: str = "pybroker"
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    starting_offsets: str = "earliest"
    max_offsets_per_trigger: int | None = None
    continuous: bool = False
    trigger_interval: str = "2 seconds"
    dead_letter_topic: str | None = None
    metrics_port: int | None = None
    master: str = "local[*]"

    @property
    def checkpoint_dir(self) -> str:
        return self.checkpoint or f"{self.output_dir}/checkpoint"

    def client(self) -> dict[str, str]:
        """The options `kafka.*` of sources and sinks."""
        servers = {"kafka.bootstrap.servers": self.bootstrap_servers}
        return {f"kafka.{name}": value for name, value in self.kafka.items()} | servers


def parser(description: str, *, input_topic: str, output_dir: str) -> argparse.ArgumentParser:
    """The arguments that all pipelines have. `options_of` turns them into options."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--bootstrap-servers", required=True, metavar="HOST:PORT")
    made.add_argument("--input-topic", default=input_topic, metavar="TOPIC")
    made.add_argument(
        "--output-dir", default=output_dir, metavar="DIR", help="directory of the output"
    )
    made.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="directory of the checkpoint [default: checkpoint in --output-dir]",
    )
    made.add_argument(
        "--source",
        choices=SOURCES,
        default=SOURCES[0],
        help="kafka: the official connector; Spark downloads its jar once",
    )
    made.add_argument(
        "--command-config",
        metavar="FILE",
        help="client properties for TLS and logins, as for Kafka's tools",
    )
    made.add_argument(
        "--starting-offsets",
        default="earliest",
        help="where to start without a checkpoint: earliest, latest or JSON",
    )
    made.add_argument(
        "--max-offsets-per-trigger",
        type=int,
        metavar="N",
        help="maximum records per batch; the source pybroker needs Spark 4.2 for this",
    )
    made.add_argument("--continuous", action="store_true", help="run until stopped")
    made.add_argument(
        "--trigger-interval", default="2 seconds", help="time between batches with --continuous"
    )
    made.add_argument(
        "--dead-letter-topic", metavar="TOPIC", help="topic for records that do not parse"
    )
    made.add_argument(
        "--metrics-port",
        type=int,
        metavar="PORT",
        help="serve Prometheus metrics here; 0: any free port",
    )
    made.add_argument(
        "--master", default="local[*]", help="Spark master; with spark-submit use its own --master"
    )
    return made


def options_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Arguments as keywords of `Options`, or of a subclass. Paths are made absolute."""
    found = vars(arguments) | {"kafka": {}}
    properties = found.pop("command_config")
    if properties is not None:
        from javaproperties import loads

        found["kafka"] = loads(Path(properties).read_text())
    for name in ("output_dir", "checkpoint"):
        path = found[name]
        if path is not None and not _HAS_SCHEME.match(path):
            found[name] = os.path.abspath(path)
    return found


def read_topic(session: SparkSession, options: Options, topic: str | None = None) -> DataFrame:
    """A topic as a stream; the input topic by default."""
    reader = (
        session.readStream.format(options.source)
        .options(**options.client())
        .option("subscribe", topic or options.input_topic)
        .option("startingOffsets", options.starting_offsets)
        .option("failOnDataLoss", "true")
    )
    if options.max_offsets_per_trigger is not None:
        reader = reader.option("maxOffsetsPerTrigger", options.max_offsets_per_trigger)
    return reader.load()


def read_table(session: SparkSession, options: Options, topic: str) -> DataFrame:
    """A compacted topic as a table, as of now: the newest value of each key, without tombstones."""
    from pyspark.sql import functions as f

    records = (
        session.read.format(options.source)
        .options(**options.client())
        .option("subscribe", topic)
        .load()
    )
    newest = f.max_by(f.struct("value"), f.struct("timestamp", "offset"))
    return (
        records.groupBy("key")
        .agg(newest.alias("newest"))
        .select("key", "newest.value")
        .where("value IS NOT NULL")
    )


def write_topic(frame: DataFrame, options: Options, topic: str) -> None:
    """Append the columns key, value and headers of a batch to a topic."""
    frame.write.format(options.source).options(**options.client()).option("topic", topic).mode(
        "append"
    ).save()


def write_parquet(batch: DataFrame, batch_id: int, directory: str) -> None:
    """Write a batch as one file in a directory of its own, replacing an earlier run of the same
    batch."""
    path = f"{directory}/batch_id={batch_id}"
    batch.coalesce(1).write.mode("overwrite").parquet(path)


def as_records(frame: DataFrame, key: Column) -> DataFrame:
    """Rows as records: this key, and the row as JSON."""
    from pyspark.sql import functions as f

    return frame.select(key.alias("key"), f.to_json(f.struct("*")).alias("value"))


def start(
    writer: DataStreamWriter, options: Options, name: str, checkpoint: str | None = None
) -> StreamingQuery:
    """Start a query that ends as the options say, with their checkpoint unless one is given."""
    writer = writer.queryName(name).option(
        "checkpointLocation", checkpoint or options.checkpoint_dir
    )
    if options.continuous:
        return writer.trigger(processingTime=options.trigger_interval).start()
    return writer.trigger(availableNow=True).start()


def start_dead_letters(dead: DataFrame, options: Options) -> list[StreamingQuery]:
    """The query that writes dead letters (of `schemas.Parts`) to their topic, if one is named."""
    if options.dead_letter_topic is None:
        return []
    writer = (
        dead.writeStream.format(options.source)
        .options(**options.client())
        .option("topic", options.dead_letter_topic)
    )
    checkpoint = f"{options.checkpoint_dir}-dead-letters"
    return [start(writer, options, "dead-letters", checkpoint)]


@contextlib.contextmanager
def spark(
    options: Options,
    name: str,
    settings: Mapping[str, str] | None = None,
    packages: tuple[str, ...] = (),
) -> Iterator[SparkSession]:
    """A session for a pipeline, stopped at the end. `packages` are Maven coordinates, `settings`
    Spark's."""
    from rich.console import Console

    from .session import kafka_session

    with Console(stderr=True).status(f"{name}: starting Spark ..."):
        session = kafka_session(
            name,
            master=options.master,
            official_connector=options.source == "kafka",
            settings=settings,
            packages=packages,
        )
    try:
        yield session
    finally:
        session.stop()
