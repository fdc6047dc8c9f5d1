"""Columns of a subject whose versions come one after the other."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from pybroker_kafka.registry.protobuf import read as read_proto
from pybroker_kafka.tables.errors import TableError
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


class Messages(SubjectShaper):
    """Of a Protobuf file to which a message was added."""

    def _ask(self, path: str) -> Any:
        assert path.startswith("/subjects/a%2Fb%20c/versions")
        if path.endswith("/versions"):
            return [1, 2]
        version = int(path.rpartition("/")[2].partition("?")[0])
        late = "message Late { string name = 1; }" if version == 2 else ""
        text = f'syntax = "proto3"; message First {{ int64 id = 1; }} {late}'
        serialized = base64.b64encode(read_proto(text, "a.proto").SerializeToString()).decode()
        text = serialized if "serialized" in path else text
        return {"id": version, "schema": text, "schemaType": "PROTOBUF"}


def test_a_message_of_the_subject_has_the_columns() -> None:
    subject = Messages("a/b c#Late", "http://registry")
    subject.load()
    assert "name" in subject.columns.names
    assert "id" not in subject.columns.names
    late = b"\0\0\0\0\2\2\2" + b"\n\1x"
    first = b"\0\0\0\0\1\0" + b"\x08\7"
    rows = [{"value": value, "headers": [], "partition": 0, "offset": 0} for value in (late, first)]
    found, (bad,) = subject.shape(pa.RecordBatch.from_pylist(rows, schema=RAW))
    assert found["name"].to_pylist() == ["x"]
    assert (bad.row, bad.reason) == (1, "its schema has no message Late")
    with pytest.raises(TableError, match="no version of a/b c has the message None"):
        Messages("a/b c#None", "http://registry").load()
    other = Subject()
    other.versions, other._message = [record_of("int")], "Late"
    with pytest.raises(TableError, match="of the kind AVRO, which has no message Late"):
        other.load()
