"""Tables in Iceberg that are written anew, and merged upon request."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from pybroker_kafka.protocol.errors import KafkaError
from pybroker_kafka.storage.table_configs import PartitionField, table_settings
from pybroker_kafka.tables.errors import Conflict, TableError
from pybroker_kafka.tables.iceberg import IcebergTable
from pybroker_kafka.tables.place import Place
from pybroker_kafka.tables.raw import RAW
from pybroker_kafka.tables.topic_table import table_of

from .test_formats import files_in, files_of, keys_of, opened, rows_of

OTHER = pa.schema(
    [
        ("key", pa.int64()),  # it was bytes
        ("nested", pa.struct([("x", pa.list_(pa.int64()))])),
        RAW.field("partition"),
        RAW.field("offset"),
    ]
)


def others(first: int, end: int) -> pa.Table:
    rows = [
        {"key": number, "nested": {"x": [number]}, "partition": 0, "offset": number}
        for number in range(first, end)
    ]
    return pa.Table.from_pylist(rows, OTHER)


def test_readers_see_the_old_table_or_the_new_one(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    by = "day(timestamp), bucket(2, offset)"
    table = opened("iceberg", place, by=by)
    for number in range(3):
        table.append(rows_of(number, number + 1), {0: number + 1})
    old = table.facts().snapshot
    with pytest.raises(TableError, match="cannot become"):
        table.open(OTHER, ())
    table.open(OTHER, (), generation=1)
    new_fields = (PartitionField("offset", "truncate", 10), PartitionField("key"))
    table.begin_rebuild(OTHER, new_fields)
    for number in range(10, 15):
        table.append(others(number, number + 1), {0: number + 1})
    assert keys_of("iceberg", place) == [b"k0", b"k1", b"k2"]
    table.finish_rebuild(1)
    again = table_of("iceberg", place, "some.topic", "id")
    again.open(OTHER, new_fields, generation=1)
    assert again.offsets() == {0: 15}
    assert again.facts().generation == 1
    rows = again.rows().sort_by("offset")
    assert rows.schema.names == OTHER.names
    assert rows.to_pylist() == others(10, 15).to_pylist()
    again.append(others(15, 16), {0: 16})
    again.compact(1 << 20, whole=True)
    assert again.rows().num_rows == 6
    assert isinstance(again, IcebergTable)
    before = again.table.scan(snapshot_id=int(old or "")).to_arrow()
    assert sorted(before["key"].to_pylist()) == [b"k0", b"k1", b"k2"]


def test_a_column_of_partitions_keeps_its_type(tmp_path: Path) -> None:
    table = opened("iceberg", Place(str(tmp_path)), by="key")
    with pytest.raises(TableError, match="cannot be rebuilt with this schema"):
        table.begin_rebuild(OTHER, ())


def test_a_rebuild_beside_another_writer_changes_nothing(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    table, other = opened("iceberg", place), opened("iceberg", place)
    table.append(rows_of(0, 1), {0: 1})
    table.begin_rebuild(RAW, ())
    table.append(rows_of(0, 1), {0: 1})
    other.open(RAW, ())
    other.append(rows_of(1, 2), {0: 2})
    with pytest.raises(Conflict):
        table.finish_rebuild(1)
    assert keys_of("iceberg", place) == [b"k0", b"k1"]
    table.open(RAW, ())
    assert (table.offsets(), table.facts().generation) == ({0: 2}, 0)


def test_upserts_of_a_rebuild_replace_rows_of_its_earlier_pieces(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    table = opened("iceberg", place)
    table.append(rows_of(0, 9), {0: 9})
    table.begin_rebuild(RAW, ())
    nothing = pa.array([], pa.binary())
    table.upsert(rows_of(0, 4), nothing, "key", {0: 4})
    table.upsert(rows_of(1, 2), pa.array([b"k2"], pa.binary()), "key", {0: 6})
    table.upsert(rows_of(3, 6), pa.array([b"k0"], pa.binary()), "key", {0: 10})
    table.finish_rebuild(7)
    assert keys_of("iceberg", place) == [b"k1", b"k3", b"k4", b"k5"]
    assert opened("iceberg", place).offsets() == {0: 10}


def test_a_rebuild_that_fails_leaves_no_file(tmp_path: Path) -> None:
    table = opened("iceberg", Place(str(tmp_path)))
    for number in range(2):
        table.append(rows_of(number, number + 1), {0: number + 1})
    before = files_in(tmp_path)
    table.begin_rebuild(RAW, ())
    table.append(rows_of(0, 4), {0: 4})
    table.upsert(rows_of(1, 2), pa.array([b"k2"], pa.binary()), "key", {0: 6})
    assert len(files_in(tmp_path)) > len(before)
    table.abandon_rebuild()
    left = files_in(tmp_path)
    assert before <= left
    assert len(left) <= len(before) + 1, "one that the rebuild itself has replaced"
    table.append(rows_of(7, 8), {0: 8})
    table.abandon_rebuild()
    assert table.rows().num_rows == 3


def test_an_empty_topic_makes_an_empty_table(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    for generation in (1, 2):
        table = opened("iceberg", place)
        table.begin_rebuild(RAW, ())
        table.finish_rebuild(generation)
        table = opened("iceberg", place)
        assert (keys_of("iceberg", place), table.offsets()) == ([], {})
        table.append(rows_of(0, 3), {0: 3})
    assert table.facts().generation == 2
    assert opened("iceberg", place, "new id").facts().generation == 0


def test_files_are_merged_upon_request_though_they_are_few(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    table = opened("iceberg", place)
    for number in (1, 400, 1):
        table.append(rows_of(0, number), {0: number})
    assert not table.compact(1 << 20)
    while table.compact(1 << 20, whole=True):
        pass
    table.note_compaction(1)
    assert files_of("iceberg", place) == 1
    assert len(keys_of("iceberg", place)) == 402
    assert opened("iceberg", place).facts().compaction == 1


@pytest.mark.parametrize(
    ("configs", "why"),
    [
        ({"": "delta", ".generation": "1"}, "a table of Delta is not rebuilt"),
        ({"": "iceberg", ".compaction": "1", ".file.bytes": "0"}, "so no file is merged"),
    ],
)
def test_what_cannot_be_is_refused(configs: dict[str, str], why: str) -> None:
    with pytest.raises(KafkaError, match=why):
        table_settings({f"pybroker.table{name}": text for name, text in configs.items()})
