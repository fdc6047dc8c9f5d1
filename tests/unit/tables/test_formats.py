"""Iceberg and Delta as the writer uses them: offsets, conflicts, upserts."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from pybroker_kafka.storage.table_configs import PartitionField, table_settings
from pybroker_kafka.tables.delta import DeltaTopicTable
from pybroker_kafka.tables.errors import Conflict, TableError
from pybroker_kafka.tables.iceberg import IcebergTable
from pybroker_kafka.tables.place import Place
from pybroker_kafka.tables.raw import RAW
from pybroker_kafka.tables.topic_table import TopicTable, table_of
from pybroker_kafka.tables.upkeep import ENOUGH_FILES

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


def files_in(directory: Path) -> set[Path]:
    return set(directory.rglob("*.parquet"))


def files_of(kind: str, place: Place) -> int:
    count = opened(kind, place).facts().files
    assert count is not None
    return count


@FORMATS
@pytest.mark.parametrize("by", ["", "offset"])
def test_merged_files_have_the_same_rows(kind: str, by: str, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    table = opened(kind, place, by=by)
    for number in range(ENOUGH_FILES * 2):
        table.append(rows_of(number % 2, number % 2 + 1), {0: number + 1})
    before = sorted(map(str, table.rows().to_pylist()))
    stale = opened(kind, place, by=by)
    assert table.compact(1 << 20)
    assert table.offsets() == {0: ENOUGH_FILES * 2}
    while table.compact(1 << 20):
        pass
    assert files_of(kind, place) == (2 if by else 1)
    assert sorted(map(str, opened(kind, place).rows().to_pylist())) == before
    with pytest.raises(Conflict):
        stale.compact(1 << 20)
    table.append(rows_of(0, 1), {0: 99})
    assert opened(kind, place).offsets() == {0: 99}


def test_deltalake_merges_files_that_were_merged_since(tmp_path: Path) -> None:
    """Why the merge of Delta is not deltalake's. If this test fails, it can be."""
    place = Place(str(tmp_path))
    table = opened("delta", place)
    for number in range(3):
        table.append(rows_of(number, number + 1), {0: number + 1})
    first, second = (DeltaTable(place.delta_url("some.topic")) for _ in range(2))
    for one in (first, second):
        one.optimize.compact()
    assert len(keys_of("delta", place)) == 6


def test_merges_in_delta_are_those_of_its_protocol(tmp_path: Path) -> None:
    """Of partitions with odd values, a column that was added, with the bounds of the files; no data
    changes, and who has changed the table since is not overwritten."""
    schema = pa.schema(
        [("name", pa.string()), ("at", pa.timestamp("us", "UTC")), ("n", pa.int64())]
    )
    place = Place(str(tmp_path))
    settings = table_settings({"pybroker.table": "delta", "pybroker.table.partition.by": "name"})
    assert settings is not None
    table = DeltaTopicTable(place, "some.topic", "id")
    for number in range(2 * ENOUGH_FILES):
        if number == 2:
            schema = schema.append(pa.field("late", pa.float64()))
        table.open(schema, settings.partition_by)
        row = {"name": (None, "a/b =%")[number % 2], "at": number * 1000, "n": number, "late": 0.5}
        table.append(pa.Table.from_pylist([row], schema=schema), {0: number + 1})
    before = sorted(map(str, table.rows().to_pylist()))
    while table.compact(1 << 20):
        pass
    table = DeltaTopicTable(place, "some.topic", "id")
    table.open(schema, settings.partition_by)
    assert sorted(map(str, table.rows().to_pylist())) == before
    actions = pa.table(table.table.get_add_actions()).to_pylist()
    assert [one["num_records"] for one in actions] == [ENOUGH_FILES] * 2
    for one in actions:
        assert one["max"]["n"] - one["min"]["n"] == 2 * ENOUGH_FILES - 2
        assert (one["max"]["at"] - one["min"]["at"]).microseconds == 14_000
        assert one["null_count"]["n"] == 0
    log = (tmp_path / "kafka" / "some_topic" / "_delta_log").glob("*.json")
    actions = [
        one for line in max(log).read_text().splitlines() for one in json.loads(line).items()
    ]
    assert [one["dataChange"] for kind, one in actions if kind in ("add", "remove")] == [False] * 9
    named = table.table.to_pyarrow_dataset(file_pruning_predicate="name = 'a/b =%'")
    assert named.count_rows() == ENOUGH_FILES


def test_a_merge_of_delta_is_refused_after_a_deletion_by_others(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    table = opened("delta", place)
    for number in range(ENOUGH_FILES):
        table.append(rows_of(number, number + 1), {0: number + 1})
    DeltaTable(place.delta_url("some.topic")).delete("offset = 3")
    with pytest.raises(Conflict):
        table.compact(1 << 20)
    assert len(keys_of("delta", place)) == ENOUGH_FILES - 1


@FORMATS
def test_a_request_to_merge_all_is_noted(kind: str, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    table = opened(kind, place)
    for number in range(3):
        table.append(rows_of(number, number + 1), {0: number + 1})
    assert not table.compact(1 << 20)
    while table.compact(1 << 20, whole=True):
        pass
    table.note_compaction(2)
    table.append(rows_of(3, 4), {0: 4})
    again = opened(kind, place)
    assert (again.facts().compaction, again.facts().files, again.offsets()) == (2, 2, {0: 4})


@FORMATS
def test_after_an_expiry_beside_another_writer_the_offsets_tell(kind: str, tmp_path: Path) -> None:
    """The writer compares them: its table may have a later state than it committed upon."""
    place = Place(str(tmp_path))
    table, other = opened(kind, place), opened(kind, place)
    table.append(rows_of(0, 1), {0: 1})
    other.open(RAW, ())
    other.append(rows_of(1, 2), {0: 2})
    with contextlib.suppress(Conflict):
        table.expire(0)
        if table.offsets() == {0: 1}:
            with pytest.raises(Conflict):
                table.append(rows_of(1, 2), {0: 2})
    assert keys_of(kind, place) == [b"k0", b"k1"]


@FORMATS
def test_old_snapshots_go_with_their_files(kind: str, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    table = opened(kind, place)
    for number in range(ENOUGH_FILES):
        table.append(rows_of(number, number + 1), {0: number + 1})
    table.compact(1 << 20)
    table.upsert(rows_of(3, 4), pa.array([b"k2"], pa.binary()), "key", {0: 21})
    written = files_in(tmp_path)
    table.expire(3_600_000)
    assert files_in(tmp_path) == written, "nothing is so old"
    table.expire(0)
    table.append(rows_of(21, 22), {0: 22})
    assert table.offsets() == {0: 22}
    assert len(files_in(tmp_path)) == files_of(kind, place) < len(written)
    kept = [number for number in range(ENOUGH_FILES) if number != 2]
    assert keys_of(kind, place) == sorted(b"k%d" % number for number in [*kept, 21])


def test_branches_keep_all_snapshots(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    table = opened("iceberg", place)
    for number in range(3):
        table.append(rows_of(number, number + 1), {0: number + 1})
    assert isinstance(table, IcebergTable)
    first = table.table.snapshots()[0].snapshot_id
    table.table.manage_snapshots().create_tag(first, "audited").commit()
    table.expire(0)
    assert len(table.table.snapshots()) == 3


@FORMATS
def test_partitions_of_the_table(kind: str, tmp_path: Path) -> None:
    place = Place(str(tmp_path / "not" / "there yet"))
    by = "day(timestamp), bucket(2, key)" if kind == "iceberg" else "partition"
    opened(kind, place, by=by).append(rows_of(0, 48), {0: 48})
    assert len(keys_of(kind, place)) == 48
    table = table_of(kind, place, "other", "id")
    with pytest.raises(TableError, match="there is no column colour"):
        table.open(RAW, [PartitionField("colour")])


def test_delta_is_not_partitioned_by_bytes(tmp_path: Path) -> None:
    """deltalake reads such a value as the text of its escapes, and a merge writes it like that."""
    table = table_of("delta", Place(str(tmp_path)), "other", "id")
    with pytest.raises(TableError, match="key has bytes"):
        table.open(RAW, [PartitionField("key")])
