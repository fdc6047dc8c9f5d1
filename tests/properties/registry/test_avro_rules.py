"""Verdicts on random Avro schemas: data of the writer is read by fastavro with the reader's schema.

A reader that we call compatible reads every datum. The other way round holds for what fastavro
refuses in the schemas themselves, since some data may still be read by chance.
"""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from fastavro.schema import SchemaParseException
from hypothesis import given, note, settings
from hypothesis import strategies as st

from pybroker_kafka.registry.entities import Content
from pybroker_kafka.registry.formats import AvroSchema, parse

NUMBERS = ("int", "long", "float", "double")
PRIMITIVES = ("null", "boolean", *NUMBERS, "bytes", "string")
DEFAULTS: dict[str, Any] = {
    "null": None, "boolean": True, "int": 1, "long": 2, "float": 1.5, "double": 2.5, "bytes": "b",
    "string": "s",
}  # fmt: skip


def enums() -> st.SearchStrategy[Any]:
    symbols = st.lists(st.sampled_from("ABC"), min_size=1, max_size=3, unique=True)

    def made(given: list[str], has_default: bool) -> dict[str, Any]:
        more = {"default": given[0]} if has_default else {}
        return {"type": "enum", "name": "E", "symbols": given, **more}

    return st.builds(made, symbols, st.booleans())


def simple() -> st.SearchStrategy[Any]:
    return st.sampled_from(PRIMITIVES)


def unions() -> st.SearchStrategy[Any]:
    return st.lists(simple(), min_size=1, max_size=3, unique=True)


def kinds() -> st.SearchStrategy[Any]:
    return st.one_of(
        simple(),
        unions(),
        enums(),
        st.builds(lambda one: {"type": "array", "items": one}, simple()),
        st.builds(lambda one: {"type": "map", "values": one}, unions()),
        st.builds(lambda size: {"type": "fixed", "name": "F", "size": size}, st.integers(1, 2)),
    )


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    fields, named = [], set()
    for name in draw(st.lists(st.sampled_from("abcd"), max_size=3, unique=True)):
        kind = draw(kinds())
        label = kind.get("name") if isinstance(kind, dict) else None
        if label is not None and label in named:
            continue
        named.add(label)
        field: dict[str, Any] = {"name": name, "type": kind}
        first = kind[0] if isinstance(kind, list) else kind
        if isinstance(first, str) and draw(st.booleans()):
            field["default"] = DEFAULTS[first]
        fields.append(field)
    return {"type": "record", "name": draw(st.sampled_from(["R", "R", "S"])), "fields": fields}


def data(kind: Any) -> st.SearchStrategy[Any]:
    if isinstance(kind, list):
        return st.one_of([data(one) for one in kind])
    if isinstance(kind, dict):
        match kind["type"]:
            case "enum":
                return st.sampled_from(kind["symbols"])
            case "fixed":
                return st.binary(min_size=kind["size"], max_size=kind["size"])
            case "array":
                return st.lists(data(kind["items"]), max_size=2)
            case "map":
                return st.dictionaries(st.sampled_from("kl"), data(kind["values"]), max_size=2)
        fields = {one["name"]: data(one["type"]) for one in kind["fields"]}
        return st.fixed_dictionaries(fields)
    strategies: dict[str, st.SearchStrategy[Any]] = {
        "null": st.none(),
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(width=32, allow_nan=False),
        "double": st.floats(allow_nan=False),
        "bytes": st.binary(max_size=3).map(lambda one: bytes(byte % 128 for byte in one)),
        "string": st.text("xyz", max_size=3),
    }
    return strategies[kind]


def ours(given: Any) -> AvroSchema:
    found = parse(Content(json.dumps(given)), {}, strict=True)
    assert isinstance(found, AvroSchema)
    return found


pairs = st.one_of(st.tuples(kinds(), kinds()), st.tuples(records(), records()))


@pytest.mark.nightly
@given(pairs, st.data())
@settings(max_examples=600, deadline=None)
def test_a_compatible_reader_reads_all_data(pair: tuple[Any, Any], draw: st.DataObject) -> None:
    writer, reader = pair
    problems = ours(reader).problems_reading(ours(writer))
    note(f"{writer} read by {reader}: {problems}")
    if problems:
        return
    datum = draw.draw(data(writer))
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(writer), datum)
    file.seek(0)
    fastavro.schemaless_reader(file, fastavro.parse_schema(writer), fastavro.parse_schema(reader))


@given(pairs)
@settings(max_examples=300, deadline=None)
def test_a_schema_reads_itself_and_keeps_its_form(pair: tuple[Any, Any]) -> None:
    for one in pair:
        schema = ours(one)
        assert schema.problems_reading(schema) == []
        again = ours(json.loads(schema.text))
        assert again.text == schema.text
        assert ours(json.loads(schema.normalized())).normalized() == schema.normalized()
        try:
            fastavro.parse_schema(json.loads(schema.text))
        except SchemaParseException as error:
            raise AssertionError(schema.text) from error
