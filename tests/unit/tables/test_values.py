"""Values to columns: which ones fit, and what is said of the others."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.registry.protobuf import read as read_proto
from pybroker_kafka.tables.columns import avro_columns, json_columns
from pybroker_kafka.tables.errors import TableError
from pybroker_kafka.tables.protobuf_values import ProtobufReader
from pybroker_kafka.tables.values import AvroReader, JsonReader, divided

JSON_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["a"],
    "properties": {
        "a": {"type": "integer"},
        "t": {"type": ["string", "null"], "format": "date-time"},
        "s": {
            "type": "object",
            "properties": {"x": {"type": "array", "items": {"type": "string"}}},
        },
    },
}
AVRO_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "a", "type": "int"},
        {"name": "u", "type": ["null", {"type": "string", "logicalType": "uuid"}]},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def avro(**fields: Any) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(AVRO_SCHEMA), fields)
    return file.getvalue()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b'{"a":"x"}', "changed from number to string"),
        (b'{"t":null}', "a is missing"),
        (b'{"a":null}', "a is missing"),
        (b"", "Invalid value"),
        (b"[1]", "changed from object to array"),
        (b"null", "it is no JSON object"),
        (b"\xff", "Invalid UTF8"),
        (b'{"a":9}{"a":8}', "Missing a comma"),
        (b'{"a":4}}\n{"row":1,"value":{"a":5}', "it is not one JSON value"),
        (b'{"a":1.5}', "Failed to convert JSON to int64"),
        (b'{"a":1,"t":"yesterday"}', "yesterday"),
    ],
)
def test_a_value_that_does_not_fit_is_alone_to_blame(value: bytes, why: str) -> None:
    values = pa.array([b'{"a":1}', value, b'{"a":2}', b'{"a":3,\n"z":[]}'], pa.binary())
    table, rows, bad = divided(values, JsonReader(JSON_SCHEMA).read)
    assert (table["a"].to_pylist(), rows) == ([1, 2, 3], [0, 2, 3])
    assert [one.row for one in bad] == [1]
    assert why in bad[0].reason


def test_values_of_avro() -> None:
    good = avro(a=1, u=None, t=5)
    values = pa.array([good, b"\x01", good + b"x", good], pa.binary())
    table, rows, bad = divided(values, AvroReader(AVRO_SCHEMA).read)
    assert rows == [0, 3]
    assert table.schema == avro_columns(AVRO_SCHEMA)
    assert table["a"].to_pylist() == [1, 1]
    assert [(one.row, one.reason) for one in bad] == [
        (1, "EOFError"),
        (2, "bytes follow the value"),
    ]


VALUES = st.one_of(
    st.builds(
        lambda a, x: json.dumps({"a": a, "s": {"x": x}}).encode(),
        st.integers(-(2**63), 2**63 - 1),
        st.lists(st.text(), max_size=2),
    ),
    st.binary(max_size=8),
    st.sampled_from([b"{}", b'{"a":', b"}", b'{"a":true}', b"\n", b'{"a":1}\n']),
)


@given(st.lists(VALUES, max_size=12))
def test_many_values_are_read_as_each_alone(values: list[bytes]) -> None:
    """The twin reads one value at a time."""
    reader = JsonReader(JSON_SCHEMA)
    table, rows, bad = divided(pa.array(values, pa.binary()), reader.read)
    alone = []
    for row, value in enumerate(values):
        found, _, faults = divided(pa.array([value], pa.binary()), reader.read)
        if not faults:
            alone.append((row, found.to_pylist()[0]))
    assert list(zip(rows, table.to_pylist(), strict=True)) == alone
    assert sorted([*rows, *(one.row for one in bad)]) == list(range(len(values)))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": {"$ref": "#/x"}}},
        {"type": "object", "properties": {"a": {"type": ["string", "integer"]}}},
    ],
)
def test_a_json_schema_without_columns(schema: dict[str, Any]) -> None:
    with pytest.raises(TableError):
        json_columns(schema)


def test_an_avro_schema_without_columns() -> None:
    with pytest.raises(TableError, match="no Avro record"):
        avro_columns("string")
    union = {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["int", "string"]}]}
    with pytest.raises(TableError, match="a: a union of several types"):
        avro_columns(union)


def test_a_type_may_be_named_again_but_not_within_itself() -> None:
    place = {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}
    fields = [{"name": "a", "type": place}, {"name": "b", "type": ["null", "Place"]}]
    columns = avro_columns({"type": "record", "name": "R", "namespace": "n", "fields": fields})
    assert columns.field("a").type == columns.field("b").type == pa.struct([("city", pa.string())])
    fields = [{"name": "next", "type": ["null", "R"]}]
    with pytest.raises(TableError, match="next: a type within itself has no column"):
        avro_columns({"type": "record", "name": "R", "fields": fields})


PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Order {
  enum State { NEW = 0; SENT = 1; }
  message Line { string what = 1; uint32 count = 2; }
  int64 id = 1;
  optional string note = 2;
  State state = 3;
  repeated Line lines = 4;
  map<string, double> prices = 5;
  google.protobuf.Timestamp at = 6;
  google.protobuf.BoolValue paid = 7;
  bytes raw = 8;
  Line first = 9;
}
message Other { Other next = 1; }
"""


def test_messages_of_protobuf_are_rows() -> None:
    file = read_proto(PROTO, "order.proto")
    reader = ProtobufReader(base64.b64encode(file.SerializeToString()).decode())
    order = reader._class
    whole = order(
        id=2**40,
        note="",
        state=1,
        lines=[{"what": "tea", "count": 2**32 - 1}],
        prices={"tea": 1.5},
        at={"seconds": 7, "nanos": 8000},
        paid={"value": True},
        raw=b"\0",
    )
    values = [b"\0" + whole.SerializeToString(), b"\2\0" + order().SerializeToString()]
    first, second = reader.read(pa.array(values, pa.binary())).to_pylist()
    assert first.pop("at").microsecond == 8
    assert first == {
        "id": 2**40,
        "note": "",
        "state": "SENT",
        "lines": [{"what": "tea", "count": 2**32 - 1}],
        "prices": [("tea", 1.5)],
        "paid": True,
        "raw": b"\0",
        "first": None,
    }
    nothing: dict[str, Any] = {
        "id": 0,
        "note": None,
        "state": "NEW",
        "lines": [],
        "prices": [],
        "raw": b"",
    }
    assert second == {**nothing, "at": None, "paid": None, "first": None}
    _, rows, bad = divided(pa.array([values[0], b"\2\2", b"\0\xff"], pa.binary()), reader.read)
    assert rows == [0]
    assert sorted(one.row for one in bad) == [1, 2]


def numbers(*found: int) -> bytes:
    """In zigzag, as Google's own writer has them."""
    message = read_proto('syntax = "proto3"; message Of { repeated sint32 n = 1; }', "n.proto")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(message)
    of = message_factory.GetMessageClass(pool.FindMessageTypeByName("Of"))
    return bytes(of(n=found).SerializeToString()[2:])


@pytest.mark.parametrize("name", ["shop.Order.Line", "Order.Line"])
def test_a_message_that_is_named_is_the_table(name: str) -> None:
    file = read_proto(PROTO, "order.proto")
    serialized = base64.b64encode(file.SerializeToString()).decode()
    reader = ProtobufReader(serialized, name)
    assert reader.columns.names == ["what", "count"]
    line = reader._class(what="tea", count=3).SerializeToString()
    bad = {
        b"\0": "it is the message shop.Order, and the table has shop.Order.Line",
        numbers(1, 1): "it is the message shop.Other, and the table has shop.Order.Line",
        numbers(2, 0, 9): "its schema has no message at the place [0, 9]",
        numbers(1, -1): "its schema has no message at the place [-1]",
        numbers(1, 70_000): "its schema has no message at the place [70000]",
        numbers(-1): "it does not begin with the place of a message",
        numbers(2, 0): "it does not begin with the place of a message",
        b"\xff" * 9: "it does not begin with the place of a message",
        b"": "it does not begin with the place of a message",
    }
    short = (b"", numbers(2, 0))
    others = [place if place in short else place + line for place in bad]
    values = pa.array([numbers(2, 0, 0) + line, *others], pa.binary())
    found, rows, refused = divided(values, reader.read)
    assert (rows, found.to_pylist()) == ([0], [{"what": "tea", "count": 3}])
    assert {one.row: one.reason for one in refused} == dict(enumerate(bad.values(), 1))
    other = ProtobufReader(serialized, "Order.Lin")
    assert other.columns.names == []
    _, rows, refused = divided(values[:1], other.read)
    assert (rows, refused[0].reason) == ([], "its schema has no message Order.Lin")


def test_a_message_within_itself_has_no_columns() -> None:
    file = read_proto('syntax = "proto3"; message Other { Other next = 1; }', "other.proto")
    with pytest.raises(TableError, match="next: a message within itself"):
        ProtobufReader(base64.b64encode(file.SerializeToString()).decode())
