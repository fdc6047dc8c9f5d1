"""Spark's side of source and sink: the classes that Spark calls, on the driver and in its tasks.

Spark keeps a stream's offsets, as the official connector writes them, in the query's checkpoint;
nothing is committed to Kafka. From version 4.2 on Spark passes the start of a batch and whether it
may be limited; with older versions, limits are refused.

Spark starts a new Python for each step (one asks for the columns, one plans, others read), and each
of them imports this file: modules that only one step needs, above all the client, are imported in
that step.

Mirrors: KafkaBatch, KafkaMicroBatchStream. Leaves out: continuous processing, which Python sources
do not have.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from .columns import COLUMNS, HEADERS
from .limits import Offsets, OptionError, offsets_from_json, offsets_to_json
from .options import SinkOptions, SourceOptions
from .planning import OffsetRange, cut, limited

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Row

    from .history_files import HistoryFiles
    from .ranges import Ranges

if TYPE_CHECKING:

    class ReadLimit:
        """Spark's class, from 4.2 on; the types of 4.0 lack it."""

    class ReadAllAvailable(ReadLimit): ...

    class ReadMaxRows(ReadLimit):
        def __init__(self, max_rows: int) -> None: ...

    class SupportsTriggerAvailableNow: ...

    HAS_LIMITS: bool
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxRows,
            SupportsTriggerAvailableNow,
        )

        HAS_LIMITS = True
    except ImportError:  # Spark 4.0 and 4.1
        ReadAllAvailable = ReadLimit = ReadMaxRows = type(None)
        SupportsTriggerAvailableNow = object
        HAS_LIMITS = False

JsonOffsets = dict[str, dict[str, int]]

FORMAT = "pybroker"
NO_LIMIT = 2**62


@dataclass
class RangePartition(InputPartition):
    """The offset range that a task reads."""

    wanted: OffsetRange


@dataclass
class HistoryPartition(InputPartition):
    """The files of a table that a task reads."""

    wanted: HistoryFiles


class KafkaDataSource(DataSource):
    """`format("pybroker")`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        wants_headers = self.options.get("includeHeaders", "false").strip().lower() == "true"
        return StructType([*COLUMNS, HEADERS] if wants_headers else [*COLUMNS])

    def reader(self, schema: StructType) -> DataSourceReader:
        options = SourceOptions.parse(dict(self.options), streaming=False)
        self._check_schema(schema, options)
        return BatchReader(options, schema.fieldNames())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = SourceOptions.parse(dict(self.options), streaming=True)
        self._check_schema(schema, options)
        return StreamReader(options, schema.fieldNames())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise OptionError("a topic cannot be overwritten: use mode('append')")
        return BatchWriter(self._sink(schema))

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """`overwrite` means the output mode `complete`: all rows are written in each batch."""
        return StreamWriter(self._sink(schema))

    def _sink(self, schema: StructType) -> SinkOptions:
        from .writing import check_columns

        options = SinkOptions.parse(dict(self.options))
        check_columns(schema, options)
        return options

    def _check_schema(self, schema: StructType, options: SourceOptions) -> None:
        if options.has_history:
            if not set(schema.fields) <= set(self.schema().fields):
                raise OptionError(
                    "schema(...) has other columns than the source, whose types are: "
                    + self.schema().simpleString()
                )
        elif schema.fieldNames() != self.schema().fieldNames():
            raise OptionError("the columns of this source are fixed: leave out schema(...)")


class BatchReader(DataSourceReader):
    """Reads from one set of offsets to another; both are resolved when the query is planned."""

    def __init__(self, options: SourceOptions, names: list[str]) -> None:
        self._options = options
        self._names = names

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        ranges = _ranges(options)
        start = ranges.at(options.start, option="startingOffsets")
        end = ranges.at(options.end, option="endingOffsets")
        if not options.has_history:
            return _tasks(options, ranges.between(start, end))
        from .history import plan

        files, rest = plan(options, start, end)
        return [*map(HistoryPartition, files), *_tasks(options, ranges.between(rest, end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, self._names, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Returns the offsets up to which a stream can read, and reads the ranges that Spark requests;
    Spark keeps the offsets."""

    def __init__(self, options: SourceOptions, names: list[str]) -> None:
        if not HAS_LIMITS and options.is_limited:
            import pyspark

            raise OptionError(
                "maxOffsetsPerTrigger and minOffsetsPerTrigger need Spark 4.2: Spark "
                f"{pyspark.__version__} gives a source in Python no beginning of a batch; "
                "leave them out, or use the official connector"
            )
        self._options = options
        self._names = names
        self._past: Offsets = {}  # from where on there is no history
        self._latest: Offsets | None = None
        self._until: Offsets | None = None  # the end of the query with Trigger.AvailableNow
        self._last_trigger = 0.0

    def initialOffset(self) -> JsonOffsets:  # noqa: N802
        found = _ranges(self._options).at(self._options.start, option="startingOffsets")
        if self._options.has_history:
            from .history import begin

            found = begin(self._options, found)
        return offsets_to_json(found)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._until = _ranges(self._options).latest()

    def latestOffset(  # noqa: N802
        self, start: JsonOffsets | None = None, limit: ReadLimit | None = None
    ) -> JsonOffsets:
        """The end of the next batch; `start` if there is nothing new or too little.

        Spark passes both arguments from 4.2 on. `ReadAllAvailable` means no limit.
        """
        ranges = _ranges(self._options)
        latest = self._latest = self._until if self._until is not None else ranges.latest()
        if start is None or isinstance(limit, ReadAllAvailable):
            return offsets_to_json(latest)
        return offsets_to_json(self._limited(ranges, offsets_from_json(start), latest))

    def _limited(self, ranges: Ranges, start: Offsets, latest: Offsets) -> Offsets:
        options = self._options
        if self._until is None and options.min_offsets_per_trigger is not None:
            now = time.monotonic()
            new = sum(max(0, end - start.get(key, 0)) for key, end in latest.items())
            waited_ms = (now - self._last_trigger) * 1000
            if new < options.min_offsets_per_trigger and waited_ms < options.max_trigger_delay_ms:
                return start
            self._last_trigger = now
        if options.max_offsets_per_trigger is None:
            return latest
        known = ranges.with_new_partitions(start, latest)
        return limited(options.max_offsets_per_trigger, known, latest)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Anything but ReadAllAvailable if the options have limits; `latestOffset` applies them."""
        if not self._options.is_limited:
            return ReadAllAvailable()
        return ReadMaxRows(self._options.max_offsets_per_trigger or NO_LIMIT)

    def reportLatestOffset(self) -> JsonOffsets | None:  # noqa: N802
        return None if self._latest is None else offsets_to_json(self._latest)

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        found = _ranges(self._options).between(offsets_from_json(start), offsets_from_json(end))
        if not self._options.has_history:
            return _tasks(self._options, found)
        from .history import plan_ranges

        files, rest, past = plan_ranges(self._options, found, self._past)
        self._past |= past
        return [*map(HistoryPartition, files), *_tasks(self._options, rest)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._options, self._names, partition)

    def commit(self, end: JsonOffsets) -> None:
        """The checkpoint has the offsets; nothing is committed to Kafka, as in the official
        connector."""


@dataclass
class Written(WriterCommitMessage):
    """The number of records that a task has written and the brokers have acknowledged."""

    record_count: int


class BatchWriter(DataSourceWriter):
    """Tasks write; there is nothing to commit or to undo afterwards."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        from .writing import write_rows

        return Written(write_rows(self._options, iterator))


class StreamWriter(DataSourceStreamWriter):
    """The same for each batch of a stream. Spark repeats a batch that it has not recorded as done,
    and the records of that batch are written again."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        from .writing import write_rows

        return Written(write_rows(self._options, iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        pass

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        pass


def _ranges(options: SourceOptions) -> Ranges:
    from .catalogue import Catalogue
    from .ranges import Ranges

    return Ranges(Catalogue(options), fail_on_data_loss=options.fail_on_data_loss)


def _tasks(options: SourceOptions, ranges: Sequence[OffsetRange]) -> list[InputPartition]:
    parts = cut(ranges, options.min_partitions, options.max_records_per_partition)
    return [RangePartition(part) for part in parts]


def _read(
    options: SourceOptions, names: list[str], partition: InputPartition | None
) -> Iterator[pa.RecordBatch]:
    """In a task: a thread fetches chunks while the previous chunk is decoded here.

    If there is nothing to read at all, Spark passes None (4.0) or a partition of its own (4.3).
    """
    if isinstance(partition, HistoryPartition):
        from .history_files import read

        yield from read(partition.wanted, names)
    if not isinstance(partition, RangePartition):
        return
    from ...protocol.records.columns import decode_columns
    from .arrow import ArrowRows
    from .bridge import iterate
    from .range_reader import fetch_range
    from .visible import visible_rows

    wanted = partition.wanted
    rows = ArrowRows(wanted.topic, wanted.partition, include_headers=options.include_headers)
    for chunk in iterate(lambda: fetch_range(options, wanted)):
        columns = decode_columns(chunk.records)
        visible = visible_rows(columns, chunk.aborted, chunk.start, wanted.end)
        for batch in rows.batches(columns, visible):
            yield batch.select(names) if options.has_history else batch
