"""The cut between a table and the brokers, and what is read of a real table's files."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.client.admin.tables import TableView
from pybroker_kafka.spark_jobs.source import history
from pybroker_kafka.spark_jobs.source.delta_history import DeltaFiles, DeltaHistory
from pybroker_kafka.spark_jobs.source.history import (
    Cut,
    _check,
    _files,
    _Stored,
    _Topic,
    begin,
    cut_at,
    plan_ranges,
)
from pybroker_kafka.spark_jobs.source.history_files import HistoryFiles, HistoryTable, read
from pybroker_kafka.spark_jobs.source.iceberg_history import IcebergFiles, IcebergHistory
from pybroker_kafka.spark_jobs.source.limits import OptionError
from pybroker_kafka.spark_jobs.source.options import SourceOptions
from pybroker_kafka.spark_jobs.source.planning import OffsetRange
from pybroker_kafka.storage.table_configs import PartitionField
from pybroker_kafka.tables.delta import DeltaTopicTable
from pybroker_kafka.tables.iceberg import IcebergTable, open_catalog
from pybroker_kafka.tables.place import Place
from pybroker_kafka.tables.raw import RAW

NAMES = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
CONFIGS = {
    "pybroker.table": "iceberg",
    "pybroker.table.schema": "raw",
    "pybroker.table.mode": "append",
}
OFFSETS = st.dictionaries(st.integers(0, 3), st.integers(0, 9))


@given(OFFSETS, OFFSETS, OFFSETS, st.booleans())
def test_each_offset_is_read_once(
    start: Mapping[int, int], end: Mapping[int, int], has: Mapping[int, int], whole: bool
) -> None:
    cut = cut_at(start, end, has, whole=whole)
    assert cut.rest.keys() == start.keys()
    for partition, first in start.items():
        last = end.get(partition, first)
        begin, behind = cut.history.get(partition, (first, first))
        from_table = list(range(begin, behind))
        from_brokers = list(range(cut.rest[partition], last))
        assert all(offset < has[partition] for offset in from_table)
        if whole:
            from_table = [offset for offset in from_table if offset >= first]
        assert from_table + from_brokers == list(range(first, last))


def rows_of(partition: int, offsets: range) -> pa.Table:
    rows = [
        {
            "key": None if offset % 2 else b"k",
            "value": b"%d" % offset,
            "headers": [{"key": "h", "value": b"1"}] if offset % 3 == 0 else [],
            "timestamp": None if offset == 4 else offset * 1000,
            "partition": partition,
            "offset": offset,
        }
        for offset in offsets
    ]
    return pa.Table.from_pylist(rows, schema=RAW)


Written = IcebergTable | DeltaTopicTable


def written(kind: str, place: Place, topic_id: str = "id") -> Written:
    """The table as the topic's writer has it."""
    if kind == "delta":
        return DeltaTopicTable(place, "t", topic_id)
    return IcebergTable(open_catalog(place), place, "t", topic_id)


def loaded(kind: str, place: Place, topic_id: str = "id") -> HistoryTable:
    """The table as a query has it."""
    if kind == "delta":
        return DeltaHistory(place, "t", topic_id)
    return IcebergHistory(place, "t", topic_id)


class Stored:
    """A table with offsets 0 to 9 of partition 0 and 0 to 5 of partition 1, in two files."""

    def __init__(
        self, kind: str, directory: Path, partition_by: tuple[PartitionField, ...] = ()
    ) -> None:
        self.kind = kind
        self.place = Place(str(directory))
        table = written(kind, self.place)
        table.open(RAW, partition_by)
        table.append(rows_of(0, range(10)), {0: 10, 1: 0})
        table.append(rows_of(1, range(6)), {0: 10, 1: 6})
        self.topic = _Topic(TableView("t", CONFIGS, 1, None, {}, 0), "id", 0)

    def files(self, start: Mapping[int, int], end: Mapping[int, int]) -> list[HistoryFiles]:
        """As a task gets them."""
        stored = self.stored()
        found = _files(stored, "t", cut_at(start, end, stored.has, whole=False))
        return [pickle.loads(pickle.dumps(one)) for one in found]

    def stored(self) -> _Stored:
        table = loaded(self.kind, self.place)
        return _Stored(table, self.topic, table.offsets())


@pytest.fixture(scope="module", params=["iceberg", "delta"])
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return Stored(request.param, tmp_path_factory.mktemp("warehouse"))


def places_of(files: list[HistoryFiles]) -> list[tuple[int, int]]:
    rows = [batch for one in files for batch in read(one, ("partition", "offset"))]
    return sorted((row["partition"], row["offset"]) for one in rows for row in one.to_pylist())


def test_all_of_a_table_needs_no_filter(stored: Stored) -> None:
    files = stored.files({0: 0, 1: 0}, {0: 12, 1: 9})
    assert [one.bounds for one in files] == [None]
    assert places_of(files) == [(0, n) for n in range(10)] + [(1, n) for n in range(6)]


def test_of_other_offsets_only_their_files_and_rows_are_read(stored: Stored) -> None:
    (one,) = files = stored.files({0: 3, 1: 6}, {0: 7, 1: 9})
    assert files_in(one) == 1, "the file of partition 1 is not read"
    assert places_of(files) == [(0, n) for n in range(3, 7)]
    assert stored.files({0: 10}, {0: 12}) == []


def files_in(one: HistoryFiles) -> int:
    group: Any = one.group
    return len(group.tasks if isinstance(group, IcebergFiles) else group.files)


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
@pytest.mark.parametrize("fields", ["partition", "offset", "timestamp"])
def test_a_partitioned_table_has_all_of_it(kind: str, fields: str, tmp_path: Path) -> None:
    """In Delta the files lack the columns by which it is partitioned."""
    stored = Stored(kind, tmp_path, (PartitionField(fields),))
    files = stored.files({0: 3, 1: 2}, {0: 7, 1: 9})
    assert places_of(files) == [(0, n) for n in range(3, 7)] + [(1, n) for n in range(2, 6)]
    assert stored.stored().table.first_offsets() == {0: 0, 1: 0}
    rows = [row for one in files for batch in read(one, NAMES) for row in batch.to_pylist()]
    assert [row["value"] for row in sorted(rows, key=lambda row: row["offset"])] == [
        b"%d" % n for n in (2, 3, 3, 4, 4, 5, 5, 6)
    ]


def test_tasks_need_no_file_of_metadata(tmp_path: Path) -> None:
    """A writer that commits each second deletes the file that a plan was made with in two minutes,
    before the last tasks of a large query begin."""
    stored = Stored("iceberg", tmp_path)
    files = stored.files({0: 0, 1: 0}, {0: 10, 1: 6})
    for path in tmp_path.rglob("*.metadata.json"):
        path.unlink()
    assert len(places_of(files)) == 16


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_stream_begins_where_the_table_does(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also before the brokers' first record, and after the topic's first one."""
    place = Place(str(tmp_path))
    table = written(kind, place)
    table.open(RAW, ())
    table.append(rows_of(0, range(5, 10)), {0: 10, 1: 0})
    table.append(rows_of(2, range(3, 4)), {0: 10, 1: 0, 2: 4})
    topic = _Topic(TableView("t", CONFIGS, 1, None, {}, 0), "id", 0)
    found = loaded(kind, place)
    assert found.first_offsets() == {0: 5, 2: 3}
    stored = _Stored(found, topic, found.offsets())
    monkeypatch.setattr(history, "_stored", lambda *_, **__: {"t": stored})
    start = {("t", 0): 8, ("t", 1): 0, ("t", 2): 9}
    assert begin(stream(), start) == {("t", 0): 5, ("t", 1): 0, ("t", 2): 3}
    offsets = '{"t":{"0":8,"1":0,"2":9}}'
    assert begin(stream(startingOffsets=offsets), start) == start


def stream(**options: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "history": "table"}
    given |= {"startingOffsets": "earliest", **options}
    return SourceOptions.parse(given, streaming=True)


STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans(), st.integers(0, 5)), max_size=8
)


@settings(deadline=None)
@given(STEPS)
def test_each_micro_batch_has_its_offsets_once(steps: list[tuple[int, int, bool, int]]) -> None:
    """The topic and its table grow, the query is started again, and batches are planned twice."""
    end = has = at = 0
    past: dict[tuple[str, int], int] = {}
    asked: list[int] = []
    for new, stored, is_restarted, taken in steps:
        end += new
        has = min(end, has + stored)
        to = min(end, at + taken)
        past = {} if is_restarted else past

        def tables(*_: object, has: int = has, **__: object) -> dict[str, _Stored]:
            asked.append(has)
            return {"t": _Stored(None, None, {0: has})}  # type: ignore[arg-type]

        def files(_stored: _Stored, _topic: str, cut: Cut) -> list[HistoryFiles]:
            bounds = [cut.history] if cut.history else []
            nothing: Any = None
            return [HistoryFiles("t", nothing, one, 0) for one in bounds]

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(history, "_stored", tables)
            patched.setattr(history, "_files", files)
            asked.clear()
            plan = plan_ranges(stream(), [OffsetRange("t", 0, at, to)], past)
            assert plan_ranges(stream(), [OffsetRange("t", 0, at, to)], plan.past)[:2] == plan[:2]
        is_past = at >= past.get(("t", 0), at + 1)
        from_table = [n for one in plan.files for n in range(*(one.bounds or {})[0])]
        from_brokers = [n for one in plan.rest for n in range(one.start, one.end)]
        assert from_table + from_brokers == list(range(at, to))
        assert from_table == ([] if is_past else list(range(at, max(at, min(to, has)))))
        assert len(asked) == (0 if is_past else 2 if to > at or not plan.past else 1)
        past, at = past | plan.past, to


def test_a_stream_goes_on_without_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic of a pattern that has none yet, or whose table was taken away; a new one needs it."""

    async def look(_options: SourceOptions, _topics: object, may_lack: bool) -> dict[str, _Topic]:
        await trio.lowlevel.checkpoint()
        if not may_lack:
            raise OptionError("has no table")
        return {}

    monkeypatch.setattr(history, "_look", look)
    found = [OffsetRange("t", 0, 3, 9)]
    assert plan_ranges(stream(), found, {}) == ([], found, {("t", 0): 9})
    with pytest.raises(OptionError, match="has no table"):
        begin(stream(), {("t", 0): 3})


def test_rows_are_those_of_the_source(stored: Stored) -> None:
    (one,) = stored.files({0: 3}, {0: 5})
    (batch,) = read(one, NAMES)
    assert batch.schema.names == list(NAMES)
    third, fourth = batch.to_pylist()
    assert third["timestamp"].microsecond == 3000
    del third["timestamp"]
    assert third == {
        "key": None,
        "value": b"3",
        "topic": "t",
        "partition": 0,
        "offset": 3,
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"1"}],
    }
    assert (fourth["headers"], fourth["timestampType"]) == (None, -1)
    (batch,) = read(one, ("topic",))
    assert batch.to_pylist() == [{"topic": "t"}] * 2


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (".schema", "users-value", "does not have the records themselves"),
        (".mode", "upsert", "does not have the records themselves"),
    ],
)
def test_tables_without_the_records_are_refused(name: str, value: str, words: str) -> None:
    configs = {**CONFIGS, f"pybroker.table{name}": value}
    with pytest.raises(OptionError, match=words):
        _check(TableView("t", configs, 1, None, {}, 0))


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_table_of_two_topics_is_refused(kind: str, tmp_path: Path) -> None:
    stored = Stored(kind, tmp_path)
    assert stored.stored().has == {0: 10, 1: 6}
    later = written(kind, stored.place, "another id")
    later.open(RAW, ())
    later.append(rows_of(0, range(2)), {0: 2})
    table = loaded(kind, stored.place, "another id")
    with pytest.raises(OptionError, match="records of an older topic of this name") as refused:
        table.offsets()
    assert table.anew in str(refused.value)


def test_a_table_that_is_written_anew_is_of_one_topic(tmp_path: Path) -> None:
    stored = Stored("iceberg", tmp_path)
    later = written("iceberg", stored.place, "another id")
    later.open(RAW, ())
    later.begin_rebuild(RAW, ())
    later.append(rows_of(0, range(2)), {0: 2})
    later.finish_rebuild(1)
    later.open(RAW, ())
    assert loaded("iceberg", stored.place, "another id").offsets() == {0: 2}


def test_what_gives_access_is_in_no_repr(tmp_path: Path) -> None:
    place = Place("memory:///w", store={"secret_access_key": "hidden"})
    group = DeltaFiles("memory:///w/t", place.delta_options, RAW, ())
    assert "hidden" not in repr(HistoryFiles("t", group, None, 0))
    with pytest.raises(OptionError, match="historyWarehouse"):
        DeltaHistory(Place(str(tmp_path)), "nothing", "id")


def test_nothing_is_read_from_an_empty_table() -> None:
    assert cut_at({0: 0}, {0: 5}, {}, whole=True) == Cut({}, {0: 0})
