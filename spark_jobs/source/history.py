"""`history=table`: a query reads old records from the topics' tables, new ones from the brokers.

The snapshot that is read has, in its summary, the first offset of each partition that it lacks: the
rows come from the table up to there, and from the brokers from there on. The files are chosen when
a batch is planned; a task reads some of them, and of these the wanted columns and the row groups
with wanted offsets.

A stream plans each of its micro-batches so, each upon the newest snapshot, until it has passed what
the table has: from then on it reads from the brokers alone. Its offsets are those of the topic, so
a micro-batch that is repeated has the same records, wherever they are read from.

Invariants: each committed record between the query's start and end is read once, from the table if
that has it. The snapshot is read as it was when the batch was planned, whatever is committed since.
A topic's table has to have the records themselves: raw columns, each record a row.

Leaves out: tables of Delta. Spark 4.0 tells a source in Python neither columns nor predicates, so
columns are those of `schema(...)`, and predicates are offsets and times of the options.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import trio

from ...client.admin.config_types import ConfigResource, ResourceKind
from ...client.admin.configs import Configs
from ...client.admin.tables import TABLE_CONFIG, Tables, TableView
from ...protocol.uuids import uuid_to_text
from ...storage.table_configs import CATALOG
from .arrow import MAX_ROWS
from .catalogue import Catalogue
from .limits import EARLIEST, Everywhere, Offsets, OptionError
from .options import SourceOptions
from .planning import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.metadata import TableMetadata

TASK_BYTES: Final = 64 * 1024 * 1024  # of files that one task reads, as long as there are several
COLUMNS: Final = frozenset(("key", "value", "headers", "timestamp", "partition", "offset"))
TIMESTAMP_TYPE: Final = "message.timestamp.type"
APPEND_TIME: Final = "LogAppendTime"
Bounds = Mapping[int, tuple[int, int]]


class Cut(NamedTuple):
    """Offsets from the table by partition, each from the first up to, and without, the second; and
    where the brokers' records begin."""

    history: dict[int, tuple[int, int]]
    rest: dict[int, int]


@dataclass(frozen=True, slots=True)
class HistoryFiles:
    """What a task reads: some files of a table, and of their rows those within `bounds`."""

    topic: str
    metadata: str = field(repr=False)  # of the table: its columns
    properties: Mapping[str, str] = field(repr=False)  # of the catalogue: access to the files
    tasks: tuple[FileScanTask, ...]
    bounds: Bounds | None  # None: all rows
    timestamp_type: int


def cut_at(
    start: Mapping[int, int], end: Mapping[int, int], has: Mapping[int, int], *, whole: bool
) -> Cut:
    """`has`: the first offsets that the table lacks. `whole`: the history begins with the table,
    which may have records that the brokers have deleted."""
    history, rest = {}, {}
    for partition, first in start.items():
        begin = 0 if whole else first
        behind = min(has.get(partition, 0), end.get(partition, first))
        if behind > begin:
            history[partition] = (begin, behind)
        rest[partition] = max(first, behind)
    return Cut(history, rest)


class StreamPlan(NamedTuple):
    """What a micro-batch reads, and where the history of partitions ends: behind `past` the brokers
    alone are read."""

    files: list[HistoryFiles]
    rest: list[OffsetRange]
    past: Offsets


class _Topic(NamedTuple):
    view: TableView
    topic_id: str
    timestamp_type: int


class _Stored(NamedTuple):
    """A topic's table as it is now; `has`: the first offsets that it lacks."""

    table: Table
    one: _Topic
    has: dict[int, int]


def plan(
    options: SourceOptions, start: Offsets, end: Offsets
) -> tuple[list[HistoryFiles], Offsets]:
    """The files to read, and the offsets from which on the brokers are read. Raises OptionError,
    ClientError."""
    rest = dict(start)
    found: list[HistoryFiles] = []
    for topic, stored in _stored(options, {topic for topic, _ in start}).items():
        cut = cut_at(_of(topic, start), _of(topic, end), stored.has, whole=_is_whole(options))
        rest |= {(topic, partition): offset for partition, offset in cut.rest.items()}
        found += _files(stored, topic, cut)
    return found, rest


def begin(options: SourceOptions, start: Offsets) -> Offsets:
    """Where a new stream begins: `start`, or the first record of the table if that is before it and
    the stream wants all. Raises OptionError, ClientError."""
    found = dict(start)
    for topic, stored in _stored(options, {topic for topic, _ in start}).items():
        firsts = _first_offsets(stored.table) if _is_whole(options) else {}
        for partition, first in firsts.items():
            if first < stored.has.get(partition, 0):
                key = topic, partition
                found[key] = min(first, found.get(key, first))
    return found


def plan_ranges(options: SourceOptions, ranges: Sequence[OffsetRange], past: Offsets) -> StreamPlan:
    """A micro-batch of a stream, which Spark may plan several times.

    A partition's history ends with the batch that reads beyond the table's last offset, or begins
    behind it. A topic that has no table any more, or none yet, is read from the brokers too. Raises
    OptionError, ClientError.
    """
    plan = StreamPlan([], [], {})
    topics = {
        one.topic
        for one in ranges
        if one.start < past.get((one.topic, one.partition), one.start + 1)
    }
    found = _stored(options, topics, may_lack=True) if topics else {}
    cuts: dict[str, Cut] = {}
    for topic, stored in found.items():
        wanted = [one for one in ranges if one.topic == topic]
        start = {one.partition: one.start for one in wanted}
        end = {one.partition: one.end for one in wanted}
        cuts[topic] = cut_at(start, end, stored.has, whole=False)
        plan.files.extend(_files(stored, topic, cuts[topic]))
    for one in ranges:
        key, first, behind = (one.topic, one.partition), one.start, 0
        if one.topic in found:
            first = cuts[one.topic].rest[one.partition]
            behind = found[one.topic].has.get(one.partition, 0)
        plan.rest.append(OffsetRange(*key, first, max(first, one.end)))
        if not one.start < behind >= one.end:
            plan.past[key] = min(one.end, past.get(key, one.end))
    return plan


def _is_whole(options: SourceOptions) -> bool:
    """Whether the history begins with the table, which may have what the brokers have deleted."""
    return options.start == Everywhere(EARLIEST)


def _stored(
    options: SourceOptions, topics: Collection[str], *, may_lack: bool = False
) -> dict[str, _Stored]:
    """The tables, without those that no writer has begun. `may_lack`: nor those that a topic does
    not have."""
    found: dict[str, _Stored] = {}
    for topic, one in trio.run(_look, options, sorted(topics), may_lack).items():
        _check(one.view)
        if one.view.report is not None:
            table = _load(options, one.view)
            found[topic] = _Stored(table, one, _offsets(table, one))
    return found


async def _look(options: SourceOptions, topics: Sequence[str], may_lack: bool) -> dict[str, _Topic]:
    async with Catalogue(options).cluster() as cluster:
        views = {view.topic: view for view in await Tables(cluster).list(topics)}
        asked = [ConfigResource(ResourceKind.TOPIC, topic) for topic in topics]
        described = await Configs(cluster).describe(asked, names=[TIMESTAMP_TYPE])
        kinds = {one.name: entries[0].value for one, entries in described.all().items() if entries}
        found = {}
        for topic in topics:
            if topic not in views:
                if may_lack:
                    continue
                raise OptionError(
                    f"history=table: topic {topic!r} has no table; make one with: pybroker topics "
                    f"alter {topic} --set {TABLE_CONFIG}=iceberg; or leave the option out"
                )
            topic_id = uuid_to_text((await cluster.topic(topic)).topic_id)
            kind = int(kinds.get(topic) == APPEND_TIME)
            found[topic] = _Topic(views[topic], topic_id, kind)
        return found


def _check(view: TableView) -> None:
    configs = view.configs
    if configs[TABLE_CONFIG] != "iceberg":
        raise OptionError(f"history=table: the table of {view.topic} is of Delta, not of Iceberg")
    if configs[f"{TABLE_CONFIG}.schema"] != "raw" or configs[f"{TABLE_CONFIG}.mode"] != "append":
        raise OptionError(
            f"history=table: the table of {view.topic} does not have the records themselves: that "
            f"needs {TABLE_CONFIG}.schema=raw and {TABLE_CONFIG}.mode=append; read the table "
            "itself with pybroker_kafka.spark_jobs.tables"
        )


def _load(options: SourceOptions, view: TableView) -> Table:
    from ...tables.errors import INSTALL
    from ...tables.place import Place

    try:
        from ...tables.iceberg import open_catalog
    except ImportError as error:
        raise OptionError(f"history=table: {error}: {INSTALL}") from None
    report = view.report
    assert report is not None
    namespace = report.name.split(".")[0]
    configs = dict(options.history_settings)
    if options.history_catalog is not None:
        configs[CATALOG] = options.history_catalog
    place = Place.reached(options.history_warehouse or report.warehouse, namespace, configs)
    table = open_catalog(place).load_table((namespace, place.table_name(view.topic)))
    if not COLUMNS.issubset(table.schema().column_names):
        raise OptionError(
            f"history=table: the table of {view.topic} has other columns than the records; write "
            f"it anew with: pybroker tables rebuild {view.topic}"
        )
    return table


def _offsets(table: Table, one: _Topic) -> dict[int, int]:
    from ...tables.iceberg import is_of_several_topics, offsets_of

    if is_of_several_topics(table):
        raise OptionError(
            f"history=table: the table of {one.view.topic} also has the records of an older topic "
            f"of this name; write it anew with: pybroker tables rebuild {one.view.topic}"
        )
    return offsets_of(table, one.topic_id)


def _files(stored: _Stored, topic: str, cut: Cut) -> list[HistoryFiles]:
    if not cut.history:
        return []
    table, one, has = stored
    is_all = cut.history == {partition: (0, behind) for partition, behind in has.items() if behind}
    bounds = None if is_all else cut.history
    tasks = list(table.scan(row_filter=_filter(bounds)).plan_files())
    columns = _columns_alone(table.metadata)
    properties = dict(table.io.properties)  # with those that a REST catalogue gives for the table
    return [
        HistoryFiles(topic, columns, properties, group, bounds, one.timestamp_type)
        for group in _groups(tasks)
    ]


def _columns_alone(metadata: TableMetadata) -> str:
    """The metadata without snapshots, as JSON. A task has no use for the file: a writer keeps the
    newest hundred of them, which may be those of two minutes."""
    nothing: dict[str, Any] = {"current_snapshot_id": None, "refs": {}, "statistics": []}
    nothing |= {"snapshots": [], "snapshot_log": [], "metadata_log": []}
    return metadata.model_copy(update=nothing).model_dump_json()


def _first_offsets(table: Table) -> dict[int, int]:
    """An offset for each partition, before which the table has no record, by the files' bounds."""
    from pyiceberg.conversions import from_bytes
    from pyiceberg.types import IntegerType, LongType

    partition, offset = (table.schema().find_field(name) for name in ("partition", "offset"))
    found: dict[int, int] = {}
    for task in table.scan().plan_files():
        lows, highs = task.file.lower_bounds or {}, task.file.upper_bounds or {}
        if not (
            {partition.field_id, offset.field_id} <= lows.keys() and partition.field_id in highs
        ):
            return {}
        first = int(from_bytes(LongType(), lows[offset.field_id]))
        low, high = (
            int(from_bytes(IntegerType(), bounds[partition.field_id])) for bounds in (lows, highs)
        )
        for one in range(low, high + 1):
            found[one] = min(first, found.get(one, first))
    return found


def _groups(tasks: Sequence[FileScanTask]) -> Iterator[tuple[FileScanTask, ...]]:
    group: list[FileScanTask] = []
    size = 0
    for task in tasks:
        if group and size + task.file.file_size_in_bytes > TASK_BYTES:
            yield tuple(group)
            group, size = [], 0
        group.append(task)
        size += task.file.file_size_in_bytes
    if group:
        yield tuple(group)


def _filter(bounds: Bounds | None) -> BooleanExpression:
    from pyiceberg.expressions import AlwaysTrue, And, EqualTo, GreaterThanOrEqual, LessThan, Or

    if bounds is None:
        return AlwaysTrue()
    parts = [
        And(
            EqualTo("partition", partition),  # type: ignore[call-arg, arg-type]
            GreaterThanOrEqual("offset", first),  # type: ignore[call-arg, arg-type]
            LessThan("offset", behind),  # type: ignore[call-arg, arg-type]
        )
        for partition, (first, behind) in bounds.items()
    ]
    return parts[0] if len(parts) == 1 else Or(*parts)


def _of(topic: str, offsets: Offsets) -> dict[int, int]:
    return {partition: offset for (name, partition), offset in offsets.items() if name == topic}


def read(wanted: HistoryFiles, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """In a task: the rows of these files, with the source's columns of these names."""
    from pyiceberg.io import load_file_io
    from pyiceberg.io.pyarrow import ArrowScan
    from pyiceberg.table.metadata import TableMetadataUtil

    metadata = TableMetadataUtil.parse_raw(wanted.metadata)
    io = load_file_io(dict(wanted.properties), metadata.location)
    columns = COLUMNS & set(names)
    if "timestampType" in names:
        columns |= {"timestamp"}
    # A row that has none of them is there all the same.
    fields = metadata.schema().select(*sorted(columns or {"partition"}))
    scan = ArrowScan(metadata, io, fields, _filter(wanted.bounds))
    for task in wanted.tasks:
        for batch in scan.to_record_batches([task]):
            for start in range(0, len(batch), MAX_ROWS):
                yield _row_batch(wanted, batch.slice(start, MAX_ROWS), names)


def _row_batch(wanted: HistoryFiles, rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    from .arrow import HEADERS, TIMESTAMP

    def column(name: str) -> Any:
        if name == "topic":
            return pa.repeat(pa.scalar(wanted.topic), len(rows))
        if name == "timestampType":
            is_known = pc.is_valid(rows["timestamp"])
            return pc.if_else(is_known, wanted.timestamp_type, -1).cast(pa.int32())
        if name == "timestamp":  # of a record without one: -1 ms
            return pc.fill_null(rows[name].cast(TIMESTAMP), pa.scalar(-1000, TIMESTAMP))
        if name == "headers":
            has_some = pc.greater(pc.list_value_length(rows[name]), 0)
            return pc.if_else(has_some, rows[name].cast(HEADERS), pa.scalar(None, HEADERS))
        kinds = {"key": pa.binary(), "value": pa.binary(), "partition": pa.int32()}
        return rows[name].cast(kinds.get(name, pa.int64()))

    return pa.RecordBatch.from_arrays([column(name) for name in names], names=list(names))
