"""Flights with the weather at their departure, and with the name of their airline.

    flights -> parse JSON -> watermark -.
                                        join: airport, hour -> foreachBatch -> airline's name
    weather -> parse JSON -> watermark -'                        |-> topic, keyed carrier|flight
                                                                 `-> Parquet, batch_id=N

The pipeline shows two kinds of join. The weather is a stream: a flight or a weather record that
comes first waits in the state for the other side. Both watermarks bound that state. A flight is
written without weather if none has come when the slower watermark passes the hour of the flight.
(After a restart Spark knows the watermark of a stream only after its first record.) The airlines
are a table in a compacted topic: the newest value of a key counts, a tombstone deletes the key.
Each batch reads the table anew and sends it to all executors, so it sees the table of that moment.

    python -m pybroker_kafka.spark_jobs.flights --bootstrap-servers localhost:9092
    python -m pybroker_kafka.spark_jobs.flights --bootstrap-servers localhost:9092 --weather
    python -m pybroker_kafka.spark_jobs.flights --bootstrap-servers localhost:9092 --airlines
    python -m pybroker_kafka.spark_jobs.pipelines.enrich --bootstrap-servers localhost:9092
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

NAME = "enrich"
FLIGHT_SCHEMA = (
    "carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, dep_delay INT, "
    "time_hour STRING"
)
WEATHER_SCHEMA = (
    "origin STRING, time_hour STRING, temp DOUBLE, wind_speed DOUBLE, precip DOUBLE, visib DOUBLE"
)
REQUIRED = ("parsed.origin", "try_to_timestamp(parsed.time_hour)")


@dataclass(slots=True, frozen=True, kw_only=True)
class EnrichOptions(pipeline.Options):
    """The weather is a stream like the flights; the airlines are a compacted topic."""

    weather_topic: str = "weather"
    airlines_topic: str = "airlines"
    output_topic: str = NAME
    watermark: str = "2 days"


def with_weather(flights: DataFrame, weather: DataFrame, watermark: str) -> DataFrame:
    """Join two streams of `schemas.parse_json`: each flight once, with its weather if that came."""
    from pyspark.sql import functions as f

    left = (
        flights.select("parsed.*", f.to_timestamp("parsed.time_hour").alias("event_time"))
        .drop("time_hour")
        .withWatermark("event_time", watermark)
    )
    right = (
        weather.select("parsed.*", f.to_timestamp("parsed.time_hour").alias("weather_time"))
        .drop("time_hour")
        .withColumnRenamed("origin", "airport")
        .withWatermark("weather_time", watermark)
    )
    same = (left.origin == right.airport) & (left.event_time == right.weather_time)
    return left.join(right, same, "leftOuter").drop("airport", "weather_time")


def with_airline(batch: DataFrame, airlines: DataFrame) -> DataFrame:
    """A batch with the column `airline`, from the table of a compacted topic."""
    from pyspark.sql import functions as f

    names = airlines.select(
        f.col("key").cast("string").alias("carrier"),
        f.get_json_object(f.col("value").cast("string"), "$.name").alias("airline"),
    )
    return batch.join(f.broadcast(names), "carrier", "left")


def _options() -> EnrichOptions:
    parser = pipeline.parser(__doc__ or "", input_topic="flights", output_dir=NAME)
    parser.add_argument("--weather-topic", default="weather", metavar="TOPIC")
    parser.add_argument("--airlines-topic", default="airlines", metavar="TOPIC")
    parser.add_argument("--output-topic", default=NAME, metavar="TOPIC")
    parser.add_argument("--watermark", default="2 days", help="maximum lateness of both sides")
    return EnrichOptions(**pipeline.options_of(parser.parse_args()))


def main() -> int:
    options = _options()
    with pipeline.spark(options, NAME) as session:
        from pybroker_kafka.spark_jobs.progress import run

        def write_batch(batch: DataFrame, batch_id: int) -> None:
            from pyspark.sql import functions as f

            airlines = pipeline.read_table(session, options, options.airlines_topic)
            enriched = with_airline(batch, airlines).persist()
            pipeline.write_parquet(enriched, batch_id, f"{options.output_dir}/flights")
            key = f.concat_ws("|", "carrier", "flight", "event_time", "origin")
            pipeline.write_topic(pipeline.as_records(enriched, key), options, options.output_topic)
            enriched.unpersist()

        def begin() -> list[StreamingQuery]:
            flights, weather = (
                schemas.parse_json(
                    pipeline.read_topic(session, options, topic),
                    schema,
                    required=REQUIRED,
                    count_as=f"{pipeline.MALFORMED}_{topic}",
                )
                for topic, schema in (
                    (options.input_topic, FLIGHT_SCHEMA),
                    (options.weather_topic, WEATHER_SCHEMA),
                )
            )
            letters = pipeline.start_dead_letters(flights.dead.union(weather.dead), options)
            joined = with_weather(flights.good, weather.good, options.watermark)
            writer = joined.writeStream.foreachBatch(write_batch)
            return [pipeline.start(writer, options, NAME), *letters]

        status = run(session, options, begin)
        if status == 0:
            _show(session, options)
    return status


def _show(session: SparkSession, options: EnrichOptions) -> None:
    """Show the mean delay of departures by visibility."""
    from pyspark.sql import functions as f

    sight = f.when(f.col("visib") >= 10, "10 miles").when(f.col("visib") >= 2, "2 to 10 miles")
    sight = sight.when(f.col("visib").isNotNull(), "less").otherwise("no weather known")
    rows = session.read.parquet(f"{options.output_dir}/flights")
    rows.groupBy(sight.alias("sight")).agg(
        f.count("*").alias("flights"), f.round(f.avg("dep_delay"), 1).alias("mean_delay")
    ).orderBy("mean_delay").show(truncate=False)


if __name__ == "__main__":
    sys.exit(main())
