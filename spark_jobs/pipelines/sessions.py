"""Service sessions of aircraft: flights of one tail number without a long gap between them.

    flights -> parse JSON -> watermark -> group by aircraft -> state and timers -> foreachBatch
                                                                  |-> topic, keyed aircraft|start
                                                                  `-> Parquet, batch_id=N

The state of each aircraft holds its open sessions (`transformWithState`, Spark 4.0). Each session
has a timer, which fires when the watermark reaches the end of the session. Then no flight can
extend the session any more: it is written once and its state is dropped. Flights behind the
watermark are late: Spark drops them, and the progress lines count them.

Needs pandas, pyarrow and protobuf on the driver and on the executors:
pip install 'pybroker-kafka[spark]'.

    python -m pybroker_kafka.spark_jobs.flights --bootstrap-servers localhost:9092 --by-time
    python -m pybroker_kafka.spark_jobs.pipelines.sessions --bootstrap-servers localhost:9092
    python -m pybroker_kafka.spark_jobs.pipelines.sessions --bootstrap-servers localhost:9092 \\
        --gap-hours 24
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

# Named in full: spark-submit runs this file alone, as a script.
from pybroker_kafka.spark_jobs import pipeline, schemas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "sessions"
HOUR_MS = 3_600_000
FLIGHT_SCHEMA = "tailnum STRING, distance INT, time_hour STRING"
REQUIRED = ("parsed.tailnum", "try_to_timestamp(parsed.time_hour)")
STATE_SCHEMA = "start_ms LONG, last_ms LONG, flights LONG, miles LONG"
OUTPUT_SCHEMA = f"tailnum STRING, {STATE_SCHEMA}"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass(slots=True, frozen=True, kw_only=True)
class SessionOptions(pipeline.Options):
    """`gap_hours` without a flight end a session."""

    output_topic: str = NAME
    gap_hours: int = 12
    watermark: str = "1 day"


class Session(NamedTuple):
    """A session of one aircraft, by its first and its last departure; `miles` is the distance flown
    in it."""

    start_ms: int
    last_ms: int
    flights: int
    miles: int


def merged(sessions: Iterable[Session], gap_ms: int) -> list[Session]:
    """Sessions in order of time; sessions less than a gap apart are merged."""
    found: list[Session] = []
    for session in sorted(sessions):
        if found and session.start_ms - found[-1].last_ms < gap_ms:
            before = found[-1]
            found[-1] = Session(
                before.start_ms,
                max(before.last_ms, session.last_ms),
                before.flights + session.flights,
                before.miles + session.miles,
            )
        else:
            found.append(session)
    return found


class SessionProcessor(StatefulProcessor):
    """Spark calls it for each aircraft with new flights, and for each expired timer."""

    def __init__(self, gap_ms: int) -> None:
        self._gap_ms = gap_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._open = handle.getListState("open", STATE_SCHEMA)

    def handleInputRows(  # noqa: N802
        self,
        key: tuple[str],
        rows: Iterator[Any],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[Any]:
        import pandas as pd

        sessions = self._sessions()
        for frame in rows:
            times, miles = frame["event_ms"].tolist(), frame["distance"].tolist()
            for at_ms, distance in zip(times, miles, strict=True):
                sessions.append(Session(at_ms, at_ms, 1, int(distance)))
        self._keep(merged(sessions, self._gap_ms))
        yield pd.DataFrame(columns=["tailnum", *Session._fields])

    def handleExpiredTimer(  # noqa: N802
        self,
        key: tuple[str],
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        import pandas as pd

        watermark_ms = timerValues.getCurrentWatermarkInMs()
        sessions = self._sessions()
        ended = [session for session in sessions if self._end_ms(session) <= watermark_ms]
        if ended:
            self._keep([session for session in sessions if session not in ended])
        yield pd.DataFrame(
            [(key[0], *session) for session in ended], columns=["tailnum", *Session._fields]
        )

    def close(self) -> None:
        pass

    def _end_ms(self, session: Session) -> int:
        return session.last_ms + self._gap_ms

    def _sessions(self) -> list[Session]:
        return [Session(*row) for row in self._open.get()] if self._open.exists() else []

    def _keep(self, sessions: list[Session]) -> None:
        """Replace the open sessions by these, with a timer at the end of each."""
        wanted = {self._end_ms(session) for session in sessions}
        known = set(self._handle.listTimers())
        for expiry_ms in known - wanted:
            self._handle.deleteTimer(expiry_ms)
        for expiry_ms in wanted - known:
            self._handle.registerTimer(expiry_ms)
        if sessions:
            self._open.put([tuple(session) for session in sessions])
        else:
            self._open.clear()


def sessions(flights: DataFrame, options: SessionOptions) -> DataFrame:
    """A row for each session that has ended."""
    from pyspark.sql import functions as f

    return (
        flights.select(
            "parsed.tailnum",
            f.coalesce("parsed.distance", f.lit(0)).alias("distance"),
            f.to_timestamp("parsed.time_hour").alias("event_time"),
        )
        .withColumn("event_ms", f.unix_millis("event_time"))
        .withWatermark("event_time", options.watermark)
        .groupBy("tailnum")
        .transformWithStateInPandas(
            SessionProcessor(options.gap_hours * HOUR_MS),
            OUTPUT_SCHEMA,
            outputMode="append",
            timeMode="EventTime",
        )
        .select(
            "tailnum",
            f.timestamp_millis("start_ms").alias("first_departure"),
            f.timestamp_millis("last_ms").alias("last_departure"),
            "flights",
            "miles",
        )
    )


def _options() -> SessionOptions:
    parser = pipeline.parser(__doc__ or "", input_topic="flights", output_dir=NAME)
    parser.add_argument("--output-topic", default=NAME, metavar="TOPIC")
    parser.add_argument(
        "--gap-hours", type=int, default=12, help="hours without a flight that end a session"
    )
    parser.add_argument("--watermark", default="1 day", help="maximum lateness of a flight")
    return SessionOptions(**pipeline.options_of(parser.parse_args()))


def main() -> int:
    options = _options()
    state = {"spark.sql.streaming.stateStore.providerClass": ROCKS_DB}
    with pipeline.spark(options, NAME, state) as session:
        from pybroker_kafka.spark_jobs.progress import run

        def write_batch(batch: DataFrame, batch_id: int) -> None:
            from pyspark.sql import functions as f

            batch.persist()
            pipeline.write_parquet(batch, batch_id, f"{options.output_dir}/sessions")
            key = f.concat_ws("|", "tailnum", "first_departure")
            pipeline.write_topic(pipeline.as_records(batch, key), options, options.output_topic)
            batch.unpersist()

        def begin() -> list[StreamingQuery]:
            records = pipeline.read_topic(session, options)
            parts = schemas.parse_json(
                records, FLIGHT_SCHEMA, required=REQUIRED, count_as=pipeline.MALFORMED
            )
            letters = pipeline.start_dead_letters(parts.dead, options)
            writer = sessions(parts.good, options).writeStream.foreachBatch(write_batch)
            return [pipeline.start(writer, options, NAME), *letters]

        status = run(session, options, begin)
        if status == 0:
            _show(session, options)
    return status


def _show(session: SparkSession, options: SessionOptions) -> None:
    """Show the longest sessions."""
    rows = session.read.parquet(f"{options.output_dir}/sessions").drop("batch_id")
    rows.orderBy("flights", ascending=False).show(10, truncate=False)


if __name__ == "__main__":
    sys.exit(main())
