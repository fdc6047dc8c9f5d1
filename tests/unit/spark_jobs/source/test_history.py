"""The cut between a table and the brokers, and what is read of a real table's files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.client.admin.tables import TableView
from pybroker_kafka.spark_jobs.source.history import (
    Cut,
    HistoryFiles,
    _check,
    _files,
    _offsets,
    _Topic,
    cut_at,
    read,
)
from pybroker_kafka.spark_jobs.source.limits import OptionError
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


class Stored:
    """A table with offsets 0 to 9 of partition 0 and 0 to 5 of partition 1, in two files."""

    def __init__(self, directory: Path) -> None:
        self.place = Place(str(directory))
        table = IcebergTable(open_catalog(self.place), self.place, "t", "id")
        table.open(RAW, ())
        table.append(rows_of(0, range(10)), {0: 10, 1: 0})
        table.append(rows_of(1, range(6)), {0: 10, 1: 6})
        self.table = table.table
        self.topic = _Topic(TableView("t", CONFIGS, 1, None, {}, 0), "id", 0)

    def files(self, start: Mapping[int, int], end: Mapping[int, int]) -> list[HistoryFiles]:
        has = _offsets(self.table, self.topic)
        return _files(self.table, "t", self.topic, cut_at(start, end, has, whole=False), has)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return Stored(tmp_path_factory.mktemp("warehouse"))


def places_of(files: list[HistoryFiles]) -> list[tuple[int, int]]:
    rows = [batch for one in files for batch in read(one, ("partition", "offset"))]
    return sorted((row["partition"], row["offset"]) for one in rows for row in one.to_pylist())


def test_all_of_a_table_needs_no_filter(stored: Stored) -> None:
    files = stored.files({0: 0, 1: 0}, {0: 12, 1: 9})
    assert [one.bounds for one in files] == [None]
    assert places_of(files) == [(0, n) for n in range(10)] + [(1, n) for n in range(6)]


def test_of_other_offsets_only_their_files_and_rows_are_read(stored: Stored) -> None:
    (one,) = files = stored.files({0: 3, 1: 6}, {0: 7, 1: 9})
    assert len(one.tasks) == 1, "the file of partition 1 is not read"
    assert places_of(files) == [(0, n) for n in range(3, 7)]
    assert stored.files({0: 10}, {0: 12}) == []


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
        ("", "delta", "is of Delta"),
        (".schema", "users-value", "does not have the records themselves"),
        (".mode", "upsert", "does not have the records themselves"),
    ],
)
def test_tables_without_the_records_are_refused(name: str, value: str, words: str) -> None:
    configs = {**CONFIGS, f"pybroker.table{name}": value}
    with pytest.raises(OptionError, match=words):
        _check(TableView("t", configs, 1, None, {}, 0))


def test_a_table_of_two_topics_is_refused(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    later = IcebergTable(open_catalog(stored.place), stored.place, "t", "another id")
    later.open(RAW, ())
    with pytest.raises(OptionError, match="pybroker tables rebuild t"):
        _offsets(later.table, stored.topic)
    later.begin_rebuild(RAW, ())
    later.append(rows_of(0, range(2)), {0: 2})
    later.finish_rebuild(1)
    later.open(RAW, ())
    assert _offsets(later.table, stored.topic._replace(topic_id="another id")) == {0: 2}


def test_nothing_is_read_from_an_empty_table() -> None:
    assert cut_at({0: 0}, {0: 5}, {}, whole=True) == Cut({}, {0: 0})
