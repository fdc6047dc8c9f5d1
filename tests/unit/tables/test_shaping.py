"""Columns of a subject whose versions come one after the other."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from pybroker_kafka.tables.raw import RAW
from pybroker_kafka.tables.shaping import NewColumns, SubjectShaper


class Subject(SubjectShaper):
    """With versions in memory; the number of a version's schema is its own."""

    def __init__(self) -> None:
        super().__init__("users-value", "http://registry")
        self.versions: list[str] = []

    def _ask(self, path: str) -> Any:
        if path.endswith("/versions"):
            return list(range(1, len(self.versions) + 1))
        version = int(path.rpartition("/")[2])
        return {"id": version, "schema": self.versions[version - 1]}


def record_of(kind: str) -> str:
    return json.dumps({"type": "record", "name": "User", "fields": [{"name": "id", "type": kind}]})


def batch_of(version: int, kind: str, number: int) -> pa.RecordBatch:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, json.loads(record_of(kind)), {"id": number})
    value = b"\0" + version.to_bytes(4, "big") + body.getvalue()
    row: dict[str, Any] = {
        "key": None,
        "value": value,
        "headers": [],
        "timestamp": None,
        "partition": 0,
    }
    return pa.RecordBatch.from_pylist([{**row, "offset": 0}], schema=RAW)


def test_a_wider_column_is_asked_for_before_its_values_are_shaped() -> None:
    subject = Subject()
    subject.versions = [record_of("int")]
    subject.load()
    rows, bad = subject.shape(batch_of(1, "int", 7))
    assert (rows["id"].to_pylist(), rows.schema.field("id").type, bad) == ([7], pa.int32(), [])
    subject.versions.append(record_of("long"))
    with pytest.raises(NewColumns):
        subject.shape(batch_of(2, "long", 2**40))
    rows, bad = subject.shape(batch_of(2, "long", 2**40))
    assert (rows["id"].to_pylist(), bad) == ([2**40], [])
