"""Weekly delays per carrier: reads a topic of flights, writes windows to a topic and to Parquet.

    Kafka topic -> parse JSON -> watermark -> window(event time, carrier) -> foreachBatch
                                                                 |-> topic, keyed carrier|window
                                                                 `-> Parquet, batch_id=N

Every record is counted once, even if the job is killed and started again. The checkpoint holds the
offsets and the window state of the last finished batch. An unfinished batch runs again with the
same offsets and id and overwrites its Parquet directory. It writes its topic records again, with
the same keys; the newest value of a key is the result, so the topic can be compacted.

The watermark bounds the state: windows that end more than `--watermark` before the newest event
are closed. Records for closed windows are late: they are dropped, and the progress lines count
them. A record that does not parse goes to `--dead-letter-topic`.

    python -m pybroker_kafka.spark_jobs.flights --bootstrap-servers localhost:9092
    python -m pybroker_kafka.spark_jobs.pipelines.flight_delays --bootstrap-servers localhost:9092
    spark-submit spark_jobs/pipelines/flight_delays.py --bootstrap-servers broker:9092 --continuous
    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 \\
        spark_jobs/pipelines/flight_delays.py --bootstrap-servers broker:9092 --source kafka
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

# Named in full: spark-submit runs this file alone, as a script.
from pybroker_kafka.spark_jobs import pipeline, schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "flight-delays"
FLIGHT_SCHEMA = (
    "carrier STRING, flight INT, origin STRING, dest STRING, dep_time INT, "
    "dep_delay INT, arr_delay INT, distance INT, time_hour STRING"
)
REQUIRED = ("parsed.carrier", "try_to_timestamp(parsed.time_hour)")


@dataclass(slots=True, frozen=True, kw_only=True)
class PipelineOptions(pipeline.Options):
    """Durations are Spark's interval texts (`7 days`)."""

    input_topic: str = "flights"
    output_topic: str = NAME
    output_dir: str = NAME
    window: str = "7 days"
    # The file's months run 1, 10, 11, 12, 2, ... 9: event times step back by up to 334 days.
    watermark: str = "365 days"

    @property
    def parquet_dir(self) -> str:
        return f"{self.output_dir}/windows"


def parse_flights(session: SparkSession, options: PipelineOptions) -> schemas.Parts:
    """The input topic as a stream, parsed."""
    records = pipeline.read_topic(session, options)
    return schemas.parse_json(
        records, FLIGHT_SCHEMA, required=REQUIRED, count_as=pipeline.MALFORMED
    )


def windows(flights: DataFrame, options: PipelineOptions) -> DataFrame:
    """Flights, cancellations and mean delays per carrier and window of event time."""
    from pyspark.sql import functions as f

    return (
        flights.select("parsed.*")
        .withColumn("event_time", f.to_timestamp("time_hour"))
        .withWatermark("event_time", options.watermark)
        .groupBy(f.window("event_time", options.window), "carrier")
        .agg(
            f.count("*").alias("flights"),
            f.sum(f.col("dep_time").isNull().cast("int")).alias("cancelled"),
            f.avg("dep_delay").alias("mean_departure_delay_minutes"),
            f.avg("arr_delay").alias("mean_arrival_delay_minutes"),
        )
        .select(
            f.col("window.start").alias("window_start"),
            f.col("window.end").alias("window_end"),
            "carrier",
            "flights",
            "cancelled",
            "mean_departure_delay_minutes",
            "mean_arrival_delay_minutes",
        )
    )


def start_pipeline(flights: DataFrame, options: PipelineOptions) -> StreamingQuery:
    """Start the streaming query; if `continuous` is set it runs until it is stopped."""

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        from pyspark.sql import functions as f

        batch.persist()
        pipeline.write_parquet(batch, batch_id, options.parquet_dir)
        pipeline.write_topic(
            pipeline.as_records(batch, f.concat_ws("|", "carrier", "window_start")),
            options,
            options.output_topic,
        )
        batch.unpersist()

    writer = windows(flights, options).writeStream.outputMode("update").foreachBatch(write_batch)
    return pipeline.start(writer, options, NAME)


def read_result(session: SparkSession, options: PipelineOptions) -> DataFrame:
    """The newest state of each window from the Parquet output."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    newest_first = Window.partitionBy("window_start", "carrier").orderBy(f.desc("batch_id"))
    return (
        session.read.parquet(options.parquet_dir)
        .withColumn("age", f.row_number().over(newest_first))
        .where("age = 1")
        .drop("age", "batch_id")
    )


def _options() -> PipelineOptions:
    parser = pipeline.parser(__doc__ or "", input_topic="flights", output_dir=NAME)
    parser.add_argument("--output-topic", default=NAME, metavar="TOPIC")
    parser.add_argument("--window", default="7 days")
    parser.add_argument("--watermark", default="365 days", help="maximum lateness of a record")
    return PipelineOptions(**pipeline.options_of(parser.parse_args()))


def main() -> int:
    options = _options()
    with pipeline.spark(options, NAME) as session:
        from pybroker_kafka.spark_jobs.progress import run

        def begin() -> list[StreamingQuery]:
            parts = parse_flights(session, options)
            letters = pipeline.start_dead_letters(parts.dead, options)
            return [start_pipeline(parts.good, options), *letters]

        status = run(session, options, begin)
        if status == 0:
            carriers = read_result(session, options).groupBy("carrier")
            carriers.sum("flights", "cancelled").orderBy("carrier").show(50)
    return status


if __name__ == "__main__":
    sys.exit(main())
