"""The lag of consumer groups over time, from the topic `__consumer_offsets`.

    __consumer_offsets -> Kafka's own bytes, decoded -> newest commit of each group and partition
                                                             | join: where the logs end
                                                             |-> topic, keyed group|topic|partition
                                                             `-> Parquet, batch_id=N; table; plot

A commit is a record: its key is group, topic and partition, its value the offset. The topic is
compacted; the newest record of a key is the committed offset, and a null value deletes it. Spark
cannot decode these bytes, so the executors decode them in Python, with the code of the broker.

A single run prints the present lag as a table. With `--continuous` each trigger takes a sample,
even while no group commits, which is when lag grows. `--plot FILE` draws all samples.

    python -m pybroker_kafka.spark_jobs.pipelines.consumer_lag --bootstrap-servers localhost:9092
    python -m pybroker_kafka.spark_jobs.pipelines.consumer_lag --bootstrap-servers localhost:9092 \\
        --continuous
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

# Named in full: spark-submit runs this file alone, as a script.
from pybroker_kafka.spark_jobs import pipeline

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "consumer-lag"
# `committed` is null after a tombstone; `place` orders the records of a key.
COMMIT_SCHEMA = "group STRING, topic STRING, partition INT, committed LONG, place LONG"
ENDS_SCHEMA = "topic STRING, partition INT, log_end LONG"


@dataclass(slots=True, frozen=True, kw_only=True)
class LagOptions(pipeline.Options):
    """`plot` is the file to draw at the end."""

    output_topic: str = NAME
    plot: str | None = None


def decode_commits(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Commits among the records of the topic. Records of other kinds (group metadata) and records
    that cannot be read are left out."""
    import pyarrow as pa

    from pybroker_kafka.coordinator.group.records import (
        OFFSET_KEY_PREFIXES,
        decode_offset_key,
        decode_offset_value,
    )
    from pybroker_kafka.protocol.errors import ProtocolError

    for batch in batches:
        rows: list[tuple[str, str, int, int | None, int]] = []
        columns = (batch.column(name).to_pylist() for name in ("key", "value", "offset"))
        for key, value, offset in zip(*columns, strict=True):
            if key is None or key[:2] not in OFFSET_KEY_PREFIXES:
                continue
            try:
                group, (topic, partition) = decode_offset_key(key[2:])
                committed = None if value is None else decode_offset_value(value).offset
            except ProtocolError:
                continue
            rows.append((group, topic, partition, committed, offset))
        names = ("group", "topic", "partition", "committed", "place")
        types = (pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int64())
        content = zip(*rows, strict=True) if rows else ([] for _ in names)
        yield pa.RecordBatch.from_arrays(
            [pa.array(list(c), kind) for c, kind in zip(content, types, strict=True)], list(names)
        )


def newest_commits(session: SparkSession, options: LagOptions) -> DataFrame:
    """A row for each group and partition; each batch has all of them (output mode `complete`)."""
    from pyspark.sql import functions as f

    commits = pipeline.read_topic(session, options).mapInArrow(decode_commits, COMMIT_SCHEMA)
    # These rows carry no commits: they only cause a batch in each trigger.
    ticks = session.readStream.format("rate").option("rowsPerSecond", 1).load()
    nothing = [f.lit(None).cast(kind) for kind in ("string", "string", "int", "long", "long")]
    commits = commits.union(ticks.select(*nothing))
    return commits.groupBy("group", "topic", "partition").agg(
        f.max_by("committed", "place").alias("committed")
    )


def with_lag(commits: DataFrame, ends: DataFrame, sampled_at: float) -> DataFrame:
    """Adds `log_end` and `lag` to each commit; `sampled_at` is the time (s) at which the ends were
    read."""
    from pyspark.sql import functions as f

    return (
        commits.where("group IS NOT NULL AND committed IS NOT NULL")
        .join(f.broadcast(ends), ["topic", "partition"])
        .withColumn("lag", f.greatest(f.col("log_end") - f.col("committed"), f.lit(0)))
        .withColumn("sampled_at", f.timestamp_seconds(f.lit(sampled_at)))
        .select("sampled_at", "group", "topic", "partition", "committed", "log_end", "lag")
    )


def log_ends(session: SparkSession, options: LagOptions, commits: DataFrame) -> DataFrame:
    """The log ends of the topics that groups have read, without deleted topics."""
    from pybroker_kafka.spark_jobs.progress import log_ends as ask

    named = commits.where("topic IS NOT NULL").select("topic").distinct().collect()
    ends = ask(options, [row.topic for row in named])
    rows = [(topic, partition, end) for (topic, partition), end in ends.items()]
    return session.createDataFrame(rows, ENDS_SCHEMA)


def write_samples(
    session: SparkSession, options: LagOptions, batch: DataFrame, batch_id: int
) -> None:
    """Write the samples of all groups at this moment, to Parquet and to the topic."""
    from pyspark.sql import functions as f

    batch.persist()
    ends = log_ends(session, options, batch)
    samples = with_lag(batch, ends, time.time()).persist()
    pipeline.write_parquet(samples, batch_id, f"{options.output_dir}/samples")
    key = f.concat_ws("|", "group", "topic", "partition")
    pipeline.write_topic(pipeline.as_records(samples, key), options, options.output_topic)
    samples.unpersist()
    batch.unpersist()


def draw(samples: DataFrame, path: str) -> None:
    """Draw the lag of each group and topic over time."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    rows = samples.groupBy("sampled_at", "group", "topic").sum("lag").orderBy("sampled_at")
    lines: dict[str, tuple[list[Any], list[int]]] = {}
    for at, group, topic, lag in rows.collect():
        times, lags = lines.setdefault(f"{group}: {topic}", ([], []))
        times.append(at)
        lags.append(lag)
    figure, axes = pyplot.subplots(figsize=(11, 5))
    for name, (times, lags) in sorted(lines.items()):
        axes.plot(times, lags, label=name, marker=".")
    axes.set_ylabel("records behind")
    axes.set_title("Consumer lag, out of __consumer_offsets")
    if lines:
        axes.legend()
    figure.autofmt_xdate()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _options() -> LagOptions:
    parser = pipeline.parser(
        __doc__ or "", input_topic="__consumer_offsets", output_dir="consumer-lag"
    )
    parser.add_argument("--output-topic", default=NAME, metavar="TOPIC")
    parser.add_argument("--plot", metavar="FILE", help="draw all samples at the end, as a PNG")
    return LagOptions(**pipeline.options_of(parser.parse_args()))


def main() -> int:
    options = _options()
    with pipeline.spark(options, NAME) as session:
        from pybroker_kafka.spark_jobs.progress import run

        def write_batch(batch: DataFrame, batch_id: int) -> None:
            write_samples(session, options, batch, batch_id)

        def begin() -> list[StreamingQuery]:
            commits = newest_commits(session, options)
            writer = commits.writeStream.outputMode("complete").foreachBatch(write_batch)
            return [pipeline.start(writer, options, NAME)]

        status = run(session, options, begin)
        if status == 0:
            samples = session.read.parquet(f"{options.output_dir}/samples")
            newest = samples.agg({"batch_id": "max"}).collect()[0][0]
            columns = ("group", "topic", "partition", "committed", "log_end", "lag")
            samples.where(samples.batch_id == newest).select(*columns).orderBy(*columns).show(
                50, truncate=False
            )
            if options.plot is not None:
                draw(samples, options.plot)
    return status


if __name__ == "__main__":
    sys.exit(main())
