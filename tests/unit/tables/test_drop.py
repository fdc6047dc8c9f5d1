"""Tables of deleted topics: dropped with their files, whatever kills the process in the midst."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO

from pybroker_kafka.broker.tables.drops import Drop, TableDrops
from pybroker_kafka.protocol.errors import KafkaError
from pybroker_kafka.storage.table_configs import validate_table_configs
from pybroker_kafka.tables.place import Place
from pybroker_kafka.tables.topic_table import table_of

from .test_formats import FORMATS, keys_of, opened, rows_of


def files_of(directory: Path) -> list[Path]:
    return [one for one in directory.rglob("*") if one.is_file() and one.name != "catalog.db"]


def fill(kind: str, place: Place, topic_id: str = "id") -> None:
    table = opened(kind, place, topic_id)
    for number in range(3):
        table.append(rows_of(number, number + 1), {0: number + 1})
    table.upsert(rows_of(1, 2), pa.array([b"k2"], pa.binary()), "key", {0: 4})


def drop(kind: str, place: Place, topic_id: str = "id") -> None:
    table_of(kind, place, "some.topic", topic_id).drop()


@FORMATS
def test_a_dropped_table_leaves_no_file(kind: str, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    drop(kind, place)
    opened(kind, place)
    drop(kind, place)
    fill(kind, place)
    drop(kind, place)
    assert not files_of(tmp_path)
    assert not list(tmp_path.glob("kafka/*"))
    fill(kind, place)
    assert keys_of(kind, place) == [b"k0", b"k1"]


@FORMATS
def test_the_table_of_another_topic_of_this_name_stays(kind: str, tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    fill(kind, place)
    opened(kind, place, "new").append(rows_of(7, 8), {0: 8})
    drop(kind, place)
    assert b"k7" in opened(kind, place, "new").rows()["key"].to_pylist()
    drop(kind, place, "new")
    assert not files_of(tmp_path)


class Killed(Exception):
    pass


def killed_after_one(patched: pytest.MonkeyPatch, owner: Any, name: str, done: list[str]) -> None:
    real = getattr(owner, name)

    def call(*args: Any, **named: Any) -> Any:
        if done:
            raise Killed
        found = real(*args, **named)
        done.append(name)
        return found

    patched.setattr(owner, name, call)


def test_a_drop_in_iceberg_that_is_killed_after_each_step_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(str(tmp_path))
    fill("iceberg", place)
    count = len(files_of(tmp_path))
    kills = 0
    is_dropped = False
    while not is_dropped:
        with monkeypatch.context() as patched:
            done: list[str] = []
            killed_after_one(patched, PyArrowFileIO, "delete", done)
            killed_after_one(patched, SqlCatalog, "rename_table", done)
            killed_after_one(patched, SqlCatalog, "drop_table", done)
            try:
                drop("iceberg", place)
                is_dropped = True
            except Killed:
                kills += 1
    assert not files_of(tmp_path)
    assert kills == count + 1, "the name, then each file"


def test_a_drop_in_delta_that_was_killed_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def partly(path: str) -> None:
        os.remove(next(Path(path).rglob("*.json")))
        raise Killed

    place = Place(str(tmp_path))
    fill("delta", place)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", partly)
        with pytest.raises(Killed):
            drop("delta", place)
    fill("delta", place, "new")
    drop("delta", place)
    assert keys_of("delta", place) == [b"k0", b"k1"]
    drop("delta", place, "new")
    assert not files_of(tmp_path)


def test_drops_are_known_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "drops"
    drops = TableDrops(str(path))
    one, other = Drop("a.b", "id-1", "iceberg"), Drop("c", "id-2", "delta")
    drops.begin(one)
    drops.begin(other)
    assert list(TableDrops(str(path)).waiting.values()) == [one, other]
    drops.end("id-1")
    drops.end("id-1")
    assert TableDrops(str(path)).waiting == {"id-2": other}
    drops.end("id-2")
    assert not path.exists()
    path.write_bytes(b"[[")
    assert not TableDrops(str(path)).waiting


def test_a_table_of_delta_in_an_object_store_is_not_dropped() -> None:
    configs = {"pybroker.table": "delta", "pybroker.table.on.delete": "drop"}
    validate_table_configs(configs, {"pybroker.table.warehouse": "/srv/warehouse"})
    with pytest.raises(KafkaError, match="is dropped only if"):
        validate_table_configs(configs, {"pybroker.table.warehouse": "s3://warehouse"})
