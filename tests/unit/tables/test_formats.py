"""Iceberg and Delta as the writer uses them: offsets, conflicts, upserts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pybroker_kafka.storage.table_configs import PartitionField, table_settings
from pybroker_kafka.tables.errors import Conflict, TableError
from pybroker_kafka.tables.place import Place
from pybroker_kafka.tables.raw import RAW
from pybroker_kafka.tables.topic_table import TopicTable, table_of

FORMATS = pytest.mark.parametrize("kind", ["iceberg", "delta"])


def rows_of(first: int, end: int) -> pa.Table:
    count = end - first
    times = pa.array([3_600_000_000 * number for number in range(first, end)], pa.int64())
    columns = [
        pa.array([b"k%d" % number for number in range(first, end)], pa.binary()),
        pa.array([b"v%d" % number for number in range(first, end)], pa.binary()),
        pa.array([[]] * count, RAW.field("headers").type),
        times.cast(RAW.field("timestamp").type),
        pa.array([0] * count, pa.int32()),
        pa.array(range(first, end), pa.int64()),
    ]
    return pa.table(columns, schema=RAW)


def opened(kind: str, place: Place, topic_id: str = "id", by: str = "") -> TopicTable:
    settings = table_settings({"pybroker.table": kind, "pybroker.table.partition.by": by})
    assert settings is not None
    table = table_of(kind, place, "some.topic", topic_id)
    table.open(RAW, settings.partition_by)
    return table


def keys_of(kind: str, place: Place) -> list[bytes]:
    rows = opened(kind, place).rows()
    return sorted(rows["key"].to_pylist())


@FORMATS
def test_rows_and_offsets_are_one_commit(kind: str, tmp_path: Path) -> None:
    place = Place(str(tmp_path / "not" / "there yet"))
    first, second = opened(kind, place), opened(kind, place)
    assert first.offsets() == {}
    first.append(rows_of(0, 3), {0: 3, 1: 0})
    first.append(rows_of(3, 5), {0: 5, 1: 0})
    with pytest.raises(Conflict):
        second.append(rows_of(0, 3), {0: 3, 1: 0})
    second.open(RAW, ())
    assert second.offsets() == {0: 5, 1: 0}
    second.append(rows_of(5, 6), {0: 6, 1: 0})
    with pytest.raises(Conflict):
        first.append(rows_of(5, 6), {0: 6, 1: 0})
    assert keys_of(kind, place) == [b"k%d" % number for number in range(6)]


@FORMATS
def test_a_topic_that_was_created_again_begins_anew(kind: str, tmp_path: Path) -> None:
    place = Place(str(tmp_path / "not" / "there yet"))
    opened(kind, place).append(rows_of(0, 3), {0: 3})
    again = opened(kind, place, "another id")
    assert again.offsets() == {}
    again.append(rows_of(0, 2), {0: 2})
    assert opened(kind, place, "another id").offsets() == {0: 2}


@FORMATS
def test_upserts_replace_and_delete(kind: str, tmp_path: Path) -> None:
    place = Place(str(tmp_path / "not" / "there yet"))
    table = opened(kind, place)
    table.upsert(rows_of(0, 4), pa.array([b"absent"], pa.binary()), "key", {0: 4})
    table.upsert(rows_of(1, 2), pa.array([b"k2", b"absent"], pa.binary()), "key", {0: 8})
    assert keys_of(kind, place) == [b"k0", b"k1", b"k3"]
    table.upsert(rows_of(0, 0), pa.array([b"absent"], pa.binary()), "key", {0: 9})
    assert opened(kind, place).offsets() == {0: 9}


@FORMATS
def test_partitions_of_the_table(kind: str, tmp_path: Path) -> None:
    place = Place(str(tmp_path / "not" / "there yet"))
    by = "day(timestamp), bucket(2, key)" if kind == "iceberg" else "partition"
    opened(kind, place, by=by).append(rows_of(0, 48), {0: 48})
    assert len(keys_of(kind, place)) == 48
    table = table_of(kind, place, "other", "id")
    with pytest.raises(TableError, match="there is no column colour"):
        table.open(RAW, [PartitionField("colour")])
