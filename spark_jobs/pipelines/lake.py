"""A topic as a data lake: JSON records in Parquet or Delta, by event date, exactly once.

    topic -> parse JSON -> foreachBatch -> DIR/event_date=2013-01-01/slice=b00000003-00000003-g0/

A slice holds the records of one batch for one date. A batch that runs again after a kill first
deletes its own slices, so each record is stored once. When a date has more than `--compact-after`
slices, a compaction merges them into one, which covers all batches from its first to its last. A
wider slice hides a narrower one, and of two equal slices the higher generation hides the lower.
This rule (`visible`) makes a compaction safe at any moment; `ParquetLake.read` applies it. A plain
`spark.read.parquet(DIR)` does not: it reads rows twice between the rename and the deletions of a
compaction, or until the next run if the compaction is killed there.

The schema may grow: add columns to `--schema`, and they are null in older rows. A column must keep
its type; the pipeline refuses a change before it writes.

Backfill: `--from` and `--to` are times of records. The pipeline reads that part of the topic again
with the same code and replaces the rows of the same topic, partition and offset. Stop the stream
while a backfill runs. On object stores without a rename use `--table delta`, which does all this
with its own log: pip install 'pybroker-kafka[delta]'; Spark downloads its jars from Maven once.

    python -m pybroker_kafka.spark_jobs.pipelines.lake --bootstrap-servers localhost:9092
    python -m pybroker_kafka.spark_jobs.pipelines.lake --bootstrap-servers localhost:9092 \\
        --table delta
    python -m pybroker_kafka.spark_jobs.pipelines.lake --bootstrap-servers localhost:9092 \\
        --from 2026-11-01T00:00:00Z --to 2026-11-02T00:00:00Z
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

# Named in full: spark-submit runs this file alone, as a script.
from pybroker_kafka.spark_jobs import pipeline, schemas
from pybroker_kafka.spark_jobs.session import DELTA_PACKAGE, DELTA_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "lake"
FLIGHT_SCHEMA = (
    "carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, dep_time INT, "
    "dep_delay INT, arr_delay INT, air_time INT, distance INT, time_hour STRING"
)
# The origin of a row, for people and for backfills.
PLACE = ("_topic", "_partition", "_offset")
_SLICE = re.compile(r"b(\d+)-(\d+)-g(\d+)")


class LakeError(ValueError):
    """The request does not fit the stored table; the message names both."""


@dataclass(slots=True, frozen=True, kw_only=True)
class LakeOptions(pipeline.Options):
    """`schema` is Spark's DDL; `event_time` is a column in it that can be read as a time."""

    table: str = "parquet"
    schema: str = FLIGHT_SCHEMA
    event_time: str = "time_hour"
    compact_after: int = 8
    from_time: str | None = None
    to_time: str | None = None

    @property
    def table_dir(self) -> str:
        return f"{self.output_dir}/table"


class Slice(NamedTuple):
    """Rows of the batches `first` to `last`, numbered from 1; 0 is for rows that no batch has
    written."""

    first: int
    last: int
    generation: int = 0

    def __str__(self) -> str:
        return f"b{self.first:08}-{self.last:08}-g{self.generation}"

    @classmethod
    def parse(cls, text: str) -> Slice | None:
        found = _SLICE.fullmatch(text)
        return None if found is None else cls(*map(int, found.groups()))

    def hides(self, other: Slice) -> bool:
        if self == other or not (self.first <= other.first and other.last <= self.last):
            return False
        same = self[:2] == other[:2]
        return not same or self.generation > other.generation


def visible(slices: Collection[Slice]) -> set[Slice]:
    """Of the slices of one date, those that hold its visible rows."""
    return {found for found in slices if not any(other.hides(found) for other in slices)}


def together(slices: Collection[Slice]) -> Slice:
    """The slice that hides all of these; `slices` must not be empty."""
    first, last = min(s.first for s in slices), max(s.last for s in slices)
    same = [s.generation for s in slices if (s.first, s.last) == (first, last)]
    return Slice(first, last, max(same, default=-1) + 1)


def _by_slice(slices: dict[str, set[Slice]]) -> dict[Slice, list[str]]:
    """The slices that hide those of each date, each with the dates that share it."""
    found: dict[Slice, list[str]] = defaultdict(list)
    for date, there in slices.items():
        found[together(there or {Slice(0, 0)})].append(date)
    return found


class ParquetLake:
    """The table in a directory, on any file system that Spark supports."""

    def __init__(self, session: SparkSession, directory: str) -> None:
        self._session = session
        self._directory = directory
        context = session.sparkContext
        assert context._jvm is not None
        hadoop = context._jvm.org.apache.hadoop.fs
        self._path = hadoop.Path
        configuration = context._jsc.hadoopConfiguration()
        self._files = hadoop.Path(directory).getFileSystem(configuration)

    def slices(self) -> dict[str, set[Slice]]:
        """The stored slices by date (`2013-01-01`), hidden ones too."""
        found: dict[str, set[Slice]] = defaultdict(set)
        pattern = f"{self._directory}/event_date=*/slice=*"
        for status in self._files.globStatus(self._path(pattern)) or ():
            path = status.getPath()
            part = Slice.parse(path.getName().partition("=")[2])
            if part is not None:
                found[path.getParent().getName().partition("=")[2]].add(part)
        return found

    def read(self, slices: dict[str, set[Slice]] | None = None) -> DataFrame | None:
        """The visible rows, or the rows of `slices` if given; None for an empty table."""
        chosen = slices
        if chosen is None:
            chosen = {date: visible(there) for date, there in self.slices().items()}
        paths = [self._place(date, part) for date in sorted(chosen) for part in chosen[date]]
        if not paths:
            return None
        reader = self._session.read.option("basePath", self._directory)
        return reader.option("mergeSchema", "true").parquet(*paths)

    def write(self, rows: DataFrame, part: Slice) -> None:
        """Write the rows as this slice of each of their dates, one file per date."""
        from pyspark.sql import functions as f

        (
            rows.withColumn("slice", f.lit(str(part)))
            .repartition("event_date")
            .write.mode("overwrite")
            .option("partitionOverwriteMode", "dynamic")
            .partitionBy("event_date", "slice")
            .parquet(self._directory)
        )

    def write_batch(self, rows: DataFrame, batch_id: int, compact_after: int) -> None:
        """Delete the slices that an unfinished run of this batch has left, then write the batch."""
        number = batch_id + 1
        there = self.slices()
        for date, found in there.items():
            self._delete(date, {part for part in found if part.first == number})
        self.compact(compact_after, before=number)
        self.write(rows, Slice(number, number))

    def compact(self, compact_after: int, before: int) -> None:
        """Merge the slices of each date that has more than `compact_after`, of batches before
        `before`."""
        full: dict[str, set[Slice]] = {}
        for date, found in self.slices().items():
            old = {part for part in found if part.last < before}
            kept = visible(old)
            self._delete(date, old - kept)
            if len(kept) > compact_after:
                full[date] = kept
        for wider, dates in _by_slice(full).items():
            rows = self.read({date: full[date] for date in dates})
            assert rows is not None
            self.write(rows.drop("slice"), wider)
            for date in dates:
                self._delete(date, full[date])

    def replace(self, rows: DataFrame) -> None:
        """Write rows that replace those from the same topic, partition and offset."""
        there = self.slices()
        found = [str(row.event_date) for row in rows.select("event_date").distinct().collect()]
        touched = {date: visible(there.get(date, set())) for date in found}
        for wider, dates in _by_slice(touched).items():
            new = rows.where(rows.event_date.cast("string").isin(dates))
            old = self.read({date: touched[date] for date in dates})
            if old is not None:
                rest = old.drop("slice").join(new.select(*PLACE), list(PLACE), "left_anti")
                new = rest.unionByName(new, allowMissingColumns=True)
            self.write(new, wider)
            for date in dates:
                self._delete(date, there.get(date, set()))

    def _place(self, date: str, part: Slice) -> str:
        return f"{self._directory}/event_date={date}/slice={part}"

    def _delete(self, date: str, slices: Collection[Slice]) -> None:
        for part in slices:
            self._files.delete(self._path(self._place(date, part)), True)


class DeltaLake:
    """The same in a Delta table, whose log records the batches written."""

    def __init__(self, session: SparkSession, directory: str, checkpoint: str) -> None:
        self._session = session
        self._directory = directory
        self._checkpoint = checkpoint

    def read(self) -> DataFrame | None:
        from delta.tables import DeltaTable

        if not DeltaTable.isDeltaTable(self._session, self._directory):
            return None
        return self._session.read.format("delta").load(self._directory)

    def write_batch(self, rows: DataFrame, batch_id: int, compact_after: int) -> None:
        (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", self._checkpoint)
            .option("txnVersion", batch_id)
            .option("mergeSchema", "true")
            .partitionBy("event_date")
            .save(self._directory)
        )
        if (batch_id + 1) % (compact_after + 1) == 0:
            self._table().optimize().executeCompaction()

    def replace(self, rows: DataFrame) -> None:
        same = " AND ".join(f"old.{name} = new.{name}" for name in PLACE)
        merge = self._table().alias("old").merge(rows.alias("new"), same)
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    def _table(self) -> Any:
        from delta.tables import DeltaTable

        return DeltaTable.forPath(self._session, self._directory)


def lake_of(session: SparkSession, options: LakeOptions) -> ParquetLake | DeltaLake:
    if options.table == "delta":
        return DeltaLake(session, options.table_dir, options.checkpoint_dir)
    return ParquetLake(session, options.table_dir)


def parse(records: DataFrame, options: LakeOptions) -> schemas.Parts:
    required = (f"try_to_timestamp(parsed.{options.event_time})",)
    return schemas.parse_json(
        records, options.schema, required=required, count_as=pipeline.MALFORMED
    )


def rows_of(good: DataFrame, options: LakeOptions) -> DataFrame:
    """The table's rows: the parsed values, their date, and their origin."""
    from pyspark.sql import functions as f

    return good.select(
        "parsed.*",
        f.to_date(f.to_timestamp(f"parsed.{options.event_time}")).alias("event_date"),
        *(f.col(name.removeprefix("_")).alias(name) for name in PLACE),
        f.col("timestamp").alias("_timestamp"),
    )


def check_schema(stored: DataFrame | None, wanted: DataFrame) -> None:
    """Columns may be added, but their types may not change. Raises LakeError."""
    types = {} if stored is None else {field.name: field.dataType for field in stored.schema}
    for field in wanted.schema:
        known = types.get(field.name)
        if known is not None and known != field.dataType:
            raise LakeError(
                f"the column {field.name!r} is {known.simpleString()} in the lake and "
                f"{field.dataType.simpleString()} in --schema: give it another name"
            )


def backfill(session: SparkSession, options: LakeOptions) -> None:
    """Read the records of a time range once more, and replace their rows."""
    reader = session.read.format(options.source).options(**options.client())
    reader = reader.option("subscribe", options.input_topic)
    limits = (("starting", options.from_time), ("ending", options.to_time))
    for side, text in limits:
        if text is not None:
            ms = int(datetime.fromisoformat(text).timestamp() * 1000)
            reader = reader.option(f"{side}Timestamp", ms)
    reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
    rows = rows_of(parse(reader.load(), options).good, options).persist()
    lake = lake_of(session, options)
    check_schema(lake.read(), rows)
    lake.replace(rows)
    sys.stderr.write(f"backfill: {rows.count():,} records\n")


def _options() -> LakeOptions:
    parser = pipeline.parser(__doc__ or "", input_topic="flights", output_dir=NAME)
    parser.add_argument("--table", choices=("parquet", "delta"), default="parquet")
    parser.add_argument(
        "--schema", default=FLIGHT_SCHEMA, help="schema of the records, as Spark DDL"
    )
    parser.add_argument("--event-time", default="time_hour", metavar="COLUMN")
    parser.add_argument(
        "--compact-after",
        type=int,
        default=8,
        metavar="N",
        help="slices per date before a compaction",
    )
    parser.add_argument("--from", dest="from_time", metavar="TIME", help="backfill from this time")
    parser.add_argument("--to", dest="to_time", metavar="TIME", help="backfill up to this time")
    return LakeOptions(**pipeline.options_of(parser.parse_args()))


def main() -> int:
    options = _options()
    is_delta = options.table == "delta"
    packages, settings = ((DELTA_PACKAGE,), DELTA_SETTINGS) if is_delta else ((), {})
    with pipeline.spark(options, NAME, settings, packages) as session:
        from pybroker_kafka.spark_jobs.progress import run

        lake = lake_of(session, options)

        def write_batch(batch: DataFrame, batch_id: int) -> None:
            batch.persist()
            lake.write_batch(batch, batch_id, options.compact_after)
            batch.unpersist()

        def begin() -> list[StreamingQuery]:
            parts = parse(pipeline.read_topic(session, options), options)
            letters = pipeline.start_dead_letters(parts.dead, options)
            rows = rows_of(parts.good, options)
            check_schema(lake.read(), rows)
            writer = rows.writeStream.foreachBatch(write_batch)
            return [pipeline.start(writer, options, NAME), *letters]

        status = 0
        try:
            if options.from_time is not None or options.to_time is not None:
                backfill(session, options)
            else:
                status = run(session, options, begin)
        except LakeError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        rows = lake.read()
        if status == 0 and rows is not None:
            rows.groupBy("event_date").count().orderBy("event_date").show(10)
    return status


if __name__ == "__main__":
    sys.exit(main())
