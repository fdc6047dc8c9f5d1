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

What is Iceberg's and Delta's own is in `iceberg_history` and `delta_history`. Leaves out: Spark 4.0
tells a source in Python neither columns nor predicates, so columns are those of `schema(...)`, and
predicates are offsets and times of the options.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import trio

from ...client.admin.config_types import ConfigResource, ResourceKind
from ...client.admin.configs import Configs
from ...client.admin.tables import TABLE_CONFIG, Tables, TableView
from ...protocol.uuids import uuid_to_text
from ...storage.table_configs import CATALOG
from .catalogue import Catalogue
from .history_files import COLUMNS, HistoryFiles, HistoryTable
from .limits import EARLIEST, Everywhere, Offsets, OptionError
from .options import SourceOptions
from .planning import OffsetRange

TIMESTAMP_TYPE: Final = "message.timestamp.type"
APPEND_TIME: Final = "LogAppendTime"


class Cut(NamedTuple):
    """Offsets from the table by partition, each from the first up to, and without, the second; and
    where the brokers' records begin."""

    history: dict[int, tuple[int, int]]
    rest: dict[int, int]


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

    table: HistoryTable
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
        firsts = stored.table.first_offsets() if _is_whole(options) else {}
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
            table = _load(options, one)
            found[topic] = _Stored(table, one, table.offsets())
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
    if configs[f"{TABLE_CONFIG}.schema"] != "raw" or configs[f"{TABLE_CONFIG}.mode"] != "append":
        raise OptionError(
            f"history=table: the table of {view.topic} does not have the records themselves: that "
            f"needs {TABLE_CONFIG}.schema=raw and {TABLE_CONFIG}.mode=append; read the table "
            "itself with pybroker_kafka.spark_jobs.tables"
        )


def _load(options: SourceOptions, one: _Topic) -> HistoryTable:
    from ...tables.errors import INSTALL
    from ...tables.place import Place

    report = one.view.report
    assert report is not None
    namespace = report.name.split(".")[0]
    configs = dict(options.history_settings)
    if options.history_catalog is not None:
        configs[CATALOG] = options.history_catalog
    place = Place.reached(options.history_warehouse or report.warehouse, namespace, configs)
    topic = one.view.topic
    table: HistoryTable
    try:
        if one.view.configs[TABLE_CONFIG] == "delta":
            from .delta_history import DeltaHistory

            table = DeltaHistory(place, topic, one.topic_id)
        else:
            from .iceberg_history import IcebergHistory

            table = IcebergHistory(place, topic, one.topic_id)
    except ImportError as error:
        raise OptionError(f"history=table: {error}: {INSTALL}") from None
    if not COLUMNS.issubset(table.columns):
        raise OptionError(
            f"history=table: the table of {topic} has other columns than the records; {table.anew}"
        )
    return table


def _files(stored: _Stored, topic: str, cut: Cut) -> list[HistoryFiles]:
    if not cut.history:
        return []
    table, one, has = stored
    is_all = cut.history == {partition: (0, behind) for partition, behind in has.items() if behind}
    bounds = None if is_all else cut.history
    return [HistoryFiles(topic, group, bounds, one.timestamp_type) for group in table.files(bounds)]


def _of(topic: str, offsets: Offsets) -> dict[int, int]:
    return {partition: offset for (name, partition), offset in offsets.items() if name == topic}
