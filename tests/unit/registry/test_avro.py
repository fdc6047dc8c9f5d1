"""Avro: the text in one form, and verdicts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pybroker_kafka.registry.entities import Content
from pybroker_kafka.registry.errors import BadSchema
from pybroker_kafka.registry.formats import AvroSchema, parse


def schema(given: Any) -> AvroSchema:
    text = given if isinstance(given, str) else json.dumps(given)
    found = parse(Content(text), {}, strict=True)
    assert isinstance(found, AvroSchema)
    return found


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def fixed(size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": "F", "size": size}


# The form that Java's Schema.toString() writes.
FORMS = [
    ('"int"', '"int"'),
    ("int", '"int"'),
    ({"type": "int"}, '"int"'),
    ({"type": {"type": "int"}}, '"int"'),
    (
        {"logicalType": "date", "type": "int"},
        '{"type":"int","logicalType":"date"}',
    ),
    (
        {"fields": [], "doc": "d", "namespace": "a.b", "name": "R", "type": "record", "x": 1},
        '{"type":"record","name":"R","namespace":"a.b","doc":"d","fields":[],"x":1}',
    ),
    (
        record(
            field("f", {"type": "enum", "name": "a.E", "symbols": ["X"]}, order="ignore"),
            field("g", "a.E", default="X", aliases=["h"], order="ascending"),
            name="a.R",
            aliases=["Old"],
        ),
        '{"type":"record","name":"R","namespace":"a","fields":[{"name":"f","type":{"type":"enum",'
        '"name":"E","symbols":["X"]},"order":"ignore"},{"name":"g","type":"E","default":"X",'
        '"aliases":["h"]}],"aliases":["Old"]}',
    ),
    (
        record(field("f", record(name="b.Inner")), name="a.R"),
        '{"type":"record","name":"R","namespace":"a","fields":[{"name":"f","type":{"type":"record",'
        '"name":"Inner","namespace":"b","fields":[]}}]}',
    ),
    (
        {"items": ["null", {"type": "map", "values": "long"}], "type": "array"},
        '{"type":"array","items":["null",{"type":"map","values":"long"}]}',
    ),
]


@pytest.mark.parametrize(("given", "text"), FORMS)
def test_the_written_form(given: Any, text: str) -> None:
    assert schema(given).text == text
    assert schema(text).text == text


def test_the_normal_form() -> None:
    one = record(field("f", fixed(2)), name="R", namespace="a", z=1, b={"d": 1, "c": 2})
    other = record(field("f", {**fixed(2), "namespace": "a"}), name="a.R", b={"c": 2, "d": 1}, z=1)
    assert schema(one).text != schema(other).text
    assert schema(one).normalized() == schema(other).normalized()
    assert '"name":"a.R"' in schema(one).normalized()


@pytest.mark.parametrize(
    "given",
    [
        "x",
        [],
        {},
        {"type": "array"},
        {"type": "map"},
        {"type": "enum", "name": "E"},
        {"type": "fixed", "name": "F", "size": -1},
        {"type": "fixed", "name": "F"},
        enum("A", "A"),
        enum("A", default="B"),
        enum("1"),
        record(field("f", "int"), field("f", "int")),
        record(field("f", "int", default="x")),
        record(field("f", "int", order="up")),
        record(field("1", "int")),
        record(field("f", ["null", "null"])),
        record(field("f", ["null", ["int"]])),
        record(field("f", record(), default={}), name="S", fields=5),
        record(name="a-b"),
        record(name=""),
        record(field("f", record())),
        record(aliases="x"),
    ],
)
def test_what_is_no_schema(given: Any) -> None:
    if given == []:
        assert schema(given).text == "[]"  # an empty union, as in Java
        return
    with pytest.raises(BadSchema):
        schema(given)


def test_older_schemas_may_break_rules() -> None:
    given = record(field("f", "int", default="x"), name="a-b")
    assert parse(Content(json.dumps(given)), {}, strict=False).text


# The writer's schema, the reader's, and the first problem, or "".
VERDICTS: list[tuple[Any, Any, str]] = [
    ("int", "int", ""),
    ("int", "long", ""),
    ("int", "double", ""),
    ("long", "float", ""),
    ("long", "int", "TYPE_MISMATCH"),
    ("double", "float", "TYPE_MISMATCH"),
    ("string", "bytes", ""),
    ("bytes", "string", ""),
    ("int", "string", "TYPE_MISMATCH"),
    ("int", ["null", "int"], ""),
    ("int", ["null", "long"], ""),
    ("int", ["null", "string"], "MISSING_UNION_BRANCH"),
    (["null", "int"], "int", "TYPE_MISMATCH"),
    (["int"], "int", ""),
    (["null", "int"], ["int", "null", "string"], ""),
    (["null", "int", "string"], ["null", "int"], "MISSING_UNION_BRANCH"),
    (enum("A"), enum("A", "B"), ""),
    (enum("A", "B"), enum("A"), "MISSING_ENUM_SYMBOLS"),
    (enum("A", "B"), enum("A", default="A"), ""),
    (fixed(2), fixed(2), ""),
    (fixed(2), fixed(3), "FIXED_SIZE_MISMATCH"),
    (fixed(2), {**fixed(2), "name": "G"}, "NAME_MISMATCH"),
    (fixed(2), {**fixed(2), "namespace": "other"}, ""),
    (fixed(2), {**fixed(2), "name": "G", "aliases": ["F"]}, ""),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, ""),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "null"}, "TYPE_MISMATCH"),
    ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}, "TYPE_MISMATCH"),
    (record(field("a", "int")), record(), ""),
    (record(), record(field("a", "int")), "READER_FIELD_MISSING_DEFAULT_VALUE"),
    (record(), record(field("a", "int", default=1)), ""),
    (record(), record(field("a", ["null", "int"], default=None)), ""),
    (record(field("a", "int")), record(field("b", "int", aliases=["a"])), ""),
    (record(field("a", "int")), record(field("a", "string")), "TYPE_MISMATCH"),
    (record(field("a", "int")), record(field("a", "int"), name="S"), "NAME_MISMATCH"),
    (
        record(field("n", ["null", "R"]), field("v", "int")),
        record(field("n", ["null", "R"]), field("v", "long")),
        "",
    ),
    (
        record(field("n", ["null", "R"]), field("v", "long")),
        record(field("n", ["null", "R"]), field("v", "int")),
        "TYPE_MISMATCH",
    ),
]


@pytest.mark.parametrize(("writer", "reader", "kind"), VERDICTS)
def test_verdicts(writer: Any, reader: Any, kind: str) -> None:
    found = schema(reader).problems_reading(schema(writer))
    assert (kind in found[0]) if kind else found == []


def test_a_message_has_its_place() -> None:
    found = schema(record(field("a", "int"))).problems_reading(schema(record()))
    assert found == [
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'a' at path "
        "'/fields/0' in the %s schema has no default value and is missing in the %s schema', "
        "additionalInfo:'a'}"
    ]
