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


class Referring(SubjectShaper):
    """Orders that have a customer, of another subject, that has an address, of a third one."""

    SCHEMAS = {
        "orders-value": (["customers"], "shop.Order", {"by": "Customer", "to": "geo.Place"}),
        "customers": (["addresses"], "shop.Customer", {"home": "geo.Place"}),
        "addresses": ([], "geo.Place", {"city": "string"}),
    }  # fmt: skip

    def __init__(self) -> None:
        super().__init__("orders-value", "http://registry")

    def _ask(self, path: str) -> Any:
        subject = path.split("/")[2]
        if path.endswith("/versions"):
            return [1]
        others, name, types = self.SCHEMAS[subject]
        fields = [{"name": field, "type": kind} for field, kind in types.items()]
        schema = {"type": "record", "name": name, "fields": fields}
        references = [{"name": one, "subject": one, "version": 1} for one in others]
        return {"id": 1, "schema": json.dumps(schema), "references": references}


def test_types_of_other_subjects_are_columns() -> None:
    shaper = Referring()
    shaper.load()
    place = pa.struct([("city", pa.string())])
    assert shaper.columns.field("to").type == place
    assert shaper.columns.field("by").type == pa.struct([("home", place)])
    body = b"\x08Oslo\x08Lima"
    batch = batch_of(1, "int", 7)
    value = pa.array([b"\0" + (1).to_bytes(4, "big") + body], pa.binary())
    batch = batch.set_column(batch.schema.get_field_index("value"), "value", value)
    rows, bad = shaper.shape(batch)
    assert bad == []
    (row,) = rows.select(["by", "to"]).to_pylist()
    assert row == {"by": {"home": {"city": "Oslo"}}, "to": {"city": "Lima"}}


@pytest.mark.parametrize("count", range(1, 9))
def test_any_number_of_values_has_one_schema(count: int) -> None:
    """Arrow takes the heads off an odd number of values, and fails with an even one, if it is not
    told where the values end."""
    subject = Subject()
    subject.versions = [record_of("int")]
    subject.load()
    batches = [batch_of(1, "int", number) for number in range(count)]
    whole = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
    rows, bad = subject.shape(whole)
    assert (rows["id"].to_pylist(), bad) == (list(range(count)), [])
