"""Weekly delays a carrier: a topic of flights in, windows out, to a topic and to Parquet.

    Kafka topic -> parse JSON -> watermark -> window(event time, carrier) -> foreachBatch
                                                                 |-> topic, keyed carrier|window
                                                                 `-> Parquet, batch_id=N

Every record is counted once, also when the job is killed and started again: the checkpoint holds
offsets and window state of the last finished batch, an unfinished batch runs again with the same
offsets and the same id, and its Parquet directory is overwritten. Its topic records are written
again, under the same keys: the newest value of a key is the result (the topic suits compaction).

Run it on any master:
    python -m pybroker.spark_jobs.flight_delays --bootstrap-servers localhost:9092
    spark-submit spark_jobs/flight_delays.py --bootstrap-servers broker:9092 --continuous
    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 \\
        spark_jobs/flight_delays.py --bootstrap-servers broker:9092 --source kafka
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FLIGHT_SCHEMA = (
    "carrier STRING, flight INT, origin STRING, dest STRING, dep_time INT, "
    "dep_delay INT, arr_delay INT, distance INT, time_hour STRING"
)


@dataclass(slots=True, frozen=True)
class PipelineOptions:
    """Where the pipeline reads and writes. Durations are Spark's interval texts (`7 days`).

    `source` is `pybroker`, or `kafka` for the official connector.
    """

    bootstrap_servers: str
    input_topic: str = "flights"
    output_topic: str = "flight-delays"
    output_dir: str = "flight-delays"
    starting_offsets: str = "earliest"
    window: str = "7 days"
    watermark: str = "365 days"
    max_offsets_per_trigger: int | None = None
    source: str = "pybroker"
    continuous: bool = False
    trigger_interval: str = "2 seconds"

    @property
    def parquet_dir(self) -> str:
        return f"{self.output_dir}/windows"

    @property
    def checkpoint_dir(self) -> str:
        return f"{self.output_dir}/checkpoint"


def read_topic(session: SparkSession, options: PipelineOptions) -> DataFrame:
    """The input topic as a stream."""
    reader = (
        session.readStream.format(options.source)
        .option("kafka.bootstrap.servers", options.bootstrap_servers)
        .option("subscribe", options.input_topic)
        .option("startingOffsets", options.starting_offsets)
        .option("failOnDataLoss", "true")
    )
    if options.max_offsets_per_trigger is not None:
        reader = reader.option("maxOffsetsPerTrigger", options.max_offsets_per_trigger)
    return reader.load()


def windows(records: DataFrame, options: PipelineOptions) -> DataFrame:
    """Flights, cancellations and mean delays a carrier and window of event time."""
    from pyspark.sql import functions as f

    flights = records.select(
        f.from_json(f.col("value").cast("string"), FLIGHT_SCHEMA).alias("flight")
    ).select("flight.*")
    return (
        flights.withColumn("event_time", f.to_timestamp("time_hour"))
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


def start_pipeline(session: SparkSession, options: PipelineOptions) -> StreamingQuery:
    """Start the streaming query; with `continuous` it runs until it is stopped."""

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        from pyspark.sql import functions as f

        batch.persist()
        batch.coalesce(1).write.mode("overwrite").parquet(
            f"{options.parquet_dir}/batch_id={batch_id}"
        )
        (
            batch.select(
                f.concat_ws("|", "carrier", "window_start").alias("key"),
                f.to_json(f.struct("*")).alias("value"),
            )
            .write.format(options.source)
            .option("kafka.bootstrap.servers", options.bootstrap_servers)
            .option("topic", options.output_topic)
            .mode("append")
            .save()
        )
        batch.unpersist()

    writer = (
        windows(read_topic(session, options), options)
        .writeStream.queryName("flight-delays")
        .outputMode("update")
        .option("checkpointLocation", options.checkpoint_dir)
        .foreachBatch(write_batch)
    )
    if options.continuous:
        return writer.trigger(processingTime=options.trigger_interval).start()
    return writer.trigger(availableNow=True).start()


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


def _parse_arguments() -> tuple[PipelineOptions, str]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", required=True, metavar="HOST:PORT")
    parser.add_argument("--input-topic", default="flights")
    parser.add_argument("--output-topic", default="flight-delays")
    parser.add_argument("--output-dir", default="flight-delays", help="Parquet and checkpoint")
    parser.add_argument("--starting-offsets", default="earliest", help="earliest, latest or JSON")
    parser.add_argument("--window", default="7 days")
    parser.add_argument("--watermark", default="365 days", help="how late a record may come")
    parser.add_argument(
        "--source",
        choices=("pybroker", "kafka"),
        default="pybroker",
        help="kafka: the official connector, whose jar Spark fetches once",
    )
    parser.add_argument(
        "--max-offsets-per-trigger", type=int, help="of a batch; pybroker's source needs Spark 4.2"
    )
    parser.add_argument("--continuous", action="store_true", help="go on until stopped")
    parser.add_argument("--master", default="local[*]", help="ignored under spark-submit")
    arguments = vars(parser.parse_args())
    master = arguments.pop("master")
    return PipelineOptions(**arguments), master


def main() -> None:
    # Named in full: spark-submit runs this file alone, as a script.
    from pybroker.spark_jobs.session import kafka_session

    options, master = _parse_arguments()
    session = kafka_session(
        "flight-delays", master=master, official_connector=options.source == "kafka"
    )
    Path(options.output_dir).mkdir(parents=True, exist_ok=True)
    query = start_pipeline(session, options)
    query.awaitTermination()
    read_result(session, options).groupBy("carrier").sum("flights", "cancelled").orderBy(
        "carrier"
    ).show(50)
    session.stop()


if __name__ == "__main__":
    main()
