"""JSON Schema: its text in one form, references, and verdicts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pybroker_kafka.registry.entities import JSON, Content, Reference
from pybroker_kafka.registry.errors import BadSchema, Rejected
from pybroker_kafka.registry.formats import parse
from pybroker_kafka.registry.json_schema import JsonSchema
from tests.support.registry import Desk


def schema(given: Any, **references: Any) -> JsonSchema:
    texts = {name: json.dumps(one) for name, one in references.items()}
    found = parse(Content(json.dumps(given), JSON), texts, strict=True)
    assert isinstance(found, JsonSchema)
    return found


def closed(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def opened(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


INT, TEXT = {"type": "integer"}, {"type": "string"}
A, AB = {"a": INT}, {"a": INT, "b": TEXT}

# Before, after, and the first harmful difference, or "".
VERDICTS: list[tuple[Any, Any, str]] = [
    (INT, INT, ""),
    (INT, {"type": "number"}, ""),
    ({"type": "number"}, INT, "TYPE_NARROWED"),
    (INT, TEXT, "TYPE_CHANGED"),
    (INT, True, ""),
    (INT, {}, ""),
    (True, INT, "TYPE_CHANGED"),
    (False, INT, ""),
    (INT, {"type": ["integer", "string"]}, ""),
    ({"type": ["integer", "string"]}, INT, "TYPE_CHANGED"),
    ({"type": ["integer", "null"]}, {"type": ["integer", "null", "string"]}, ""),
    ({**TEXT, "maxLength": 5}, {**TEXT, "maxLength": 6}, ""),
    ({**TEXT, "maxLength": 6}, {**TEXT, "maxLength": 5}, "MAX_LENGTH_DECREASED"),
    (TEXT, {**TEXT, "minLength": 1}, "MIN_LENGTH_ADDED"),
    ({**TEXT, "pattern": "a"}, TEXT, ""),
    (TEXT, {**TEXT, "pattern": "a"}, "PATTERN_ADDED"),
    ({**TEXT, "pattern": "a"}, {**TEXT, "pattern": "b"}, "PATTERN_CHANGED"),
    ({**INT, "minimum": 5}, {**INT, "minimum": 4}, ""),
    ({**INT, "minimum": 4}, {**INT, "minimum": 5}, "MINIMUM_INCREASED"),
    ({**INT, "multipleOf": 10}, {**INT, "multipleOf": 5}, ""),
    ({**INT, "multipleOf": 5}, {**INT, "multipleOf": 10}, "MULTIPLE_OF_EXPANDED"),
    ({**INT, "multipleOf": 5}, {**INT, "multipleOf": 7}, "MULTIPLE_OF_CHANGED"),
    ({"enum": [1, 2]}, {"enum": [1, 2, 3]}, ""),
    ({"enum": [1, 2]}, {"enum": [1]}, "ENUM_ARRAY_NARROWED"),
    ({"enum": [1, 2]}, {"enum": [1, 3]}, "ENUM_ARRAY_CHANGED"),
    ({"const": 1}, {"const": 2}, "ENUM_ARRAY_CHANGED"),
    (opened(A), opened(AB), "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
    (opened(A), opened({"a": INT, "b": {}}), ""),
    (opened(AB), opened(A), ""),
    (closed(A), closed(AB), ""),
    (closed(AB), closed(A), "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"),
    (closed(A), closed(AB, required=["b"]), "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"),
    (closed(A), closed({"a": INT, "b": {**TEXT, "default": ""}}, required=["b"]), ""),
    (opened(A), opened(A, required=["a"]), "REQUIRED_ATTRIBUTE_ADDED"),
    (opened(A, required=["a"]), opened(A), ""),
    (closed(A), opened(A), ""),
    (opened(A), closed(A), "ADDITIONAL_PROPERTIES_REMOVED"),
    (opened(A), opened(A, additionalProperties=TEXT), "ADDITIONAL_PROPERTIES_NARROWED"),
    (opened(A, additionalProperties=TEXT), opened(A), ""),
    (opened(A, additionalProperties=TEXT), opened(AB, additionalProperties=TEXT), ""),
    (
        opened(A, additionalProperties=INT),
        opened(AB, additionalProperties=INT),
        "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    (opened(AB, additionalProperties=TEXT), opened(A, additionalProperties=TEXT), ""),
    (opened({"a": INT}), opened({"a": TEXT}), "TYPE_CHANGED"),
    (opened(A, maxProperties=1), opened(A, maxProperties=2), ""),
    (opened(A), opened(A, dependencies={"a": ["b"]}), "DEPENDENCY_ARRAY_ADDED"),
    ({"type": "array", "items": INT}, {"type": "array", "items": TEXT}, "TYPE_CHANGED"),
    ({"type": "array", "items": INT}, {"type": "array"}, ""),
    ({"type": "array"}, {"type": "array", "items": INT}, "SCHEMA_ADDED"),
    ({"type": "array"}, {"type": "array", "uniqueItems": True}, "UNIQUE_ITEMS_ADDED"),
    (
        {"type": "array", "items": [INT], "additionalItems": False},
        {"type": "array", "items": [INT, TEXT], "additionalItems": False},
        "",
    ),
    ({"type": "array", "items": [INT]}, {"type": "array", "items": [INT, TEXT]}, "ITEM_ADDED_TO"),
    ({"oneOf": [INT, TEXT]}, {"oneOf": [INT, TEXT, {"type": "null"}]}, ""),
    ({"oneOf": [INT, TEXT]}, {"oneOf": [INT]}, "SUM_TYPE_NARROWED"),
    ({"oneOf": [INT, TEXT]}, {"anyOf": [TEXT, INT]}, ""),
    ({"anyOf": [INT, TEXT]}, {"oneOf": [TEXT, INT]}, "COMBINED_TYPE_CHANGED"),
    ({"oneOf": [INT, TEXT]}, {"oneOf": [INT, {"type": "null"}]}, "SUBSCHEMAS_CHANGED"),
    ({"allOf": [INT, {"minimum": 1}]}, {"allOf": [INT]}, ""),
    ({"allOf": [INT]}, {"allOf": [INT, {"minimum": 1}]}, "PRODUCT_TYPE_EXTENDED"),
    ({"not": INT}, {"not": {**INT, "minimum": 5}}, ""),
    ({"not": {**INT, "minimum": 5}}, {"not": INT}, "NOT_TYPE_EXTENDED"),
    ({**INT, "title": "x", "description": "y"}, {**INT, "title": "z", "default": 5}, ""),
]


@pytest.mark.parametrize(("old", "new", "kind"), VERDICTS)
def test_verdicts(old: Any, new: Any, kind: str) -> None:
    found = schema(new).problems_reading(schema(old))
    assert (any(kind in one for one in found)) if kind else found == []


def test_recursive_schemas_end() -> None:
    old = {
        "$ref": "#/definitions/n",
        "definitions": {"n": closed({"next": {"$ref": "#/definitions/n"}, "v": INT})},
    }
    new: Any = json.loads(json.dumps(old).replace('"integer"', '"number"'))
    assert schema(new).problems_reading(schema(old)) == []
    assert "TYPE_NARROWED" in schema(old).problems_reading(schema(new))[0]


def test_a_schema_that_is_too_complex_is_none() -> None:
    """Each of many definitions refers to all others."""
    names = [f"n{number}" for number in range(60)]
    every = [{"$ref": f"#/definitions/{name}"} for name in names]
    one = {name: {"oneOf": [*every, {**INT, "title": name}]} for name in names}
    given = {"definitions": one, "oneOf": every}
    other = json.loads(json.dumps(given).replace("integer", "string"))
    with pytest.raises(BadSchema, match="too complex"):
        schema(given).problems_reading(schema(other))


def test_references() -> None:
    desk = Desk()
    desk.register("inner", json.dumps({"$id": "http://x/inner.json", **INT}), JSON)
    for reference in ("inner.json", "http://x/inner.json"):
        text = json.dumps(opened({"a": {"$ref": reference}}))
        names = (Reference("inner.json", "inner", 1),)
        desk.register(f"outer {reference}", text, JSON, references=names)
    with pytest.raises(Rejected, match="in no schema"):
        desk.register("other", json.dumps({"$ref": "none.json"}), JSON)
    with pytest.raises(Rejected, match="in no schema"):
        desk.register("other", json.dumps({"$ref": "http://127.0.0.1:1/x.json"}), JSON)
    anchored = {"$ref": "#a", "definitions": {"x": {"$id": "#a", **INT}}}
    assert schema(anchored).problems_reading(schema(INT)) == []


def test_forms() -> None:
    given = {"type": "object", "properties": {"b": INT, "a": TEXT}}
    one = schema(given)
    assert one.text == json.dumps(given, separators=(",", ":"))
    assert one.normalized() == json.dumps(given, separators=(",", ":"), sort_keys=True)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "5",
        '{"type": "text"}',
        '{"properties": 5}',
        '{"$ref": "#/definitions/none"}',
        '{"minimum": "x"}',
        '{"not":' * 200 + "{}" + "}" * 200,
        "[" * 100_000,
    ],
)
def test_a_text_that_is_no_schema(text: str) -> None:
    with pytest.raises(BadSchema):
        parse(Content(text, JSON), {}, strict=True)


def test_a_reference_to_itself() -> None:
    with pytest.raises(BadSchema, match="itself"):
        schema({"$ref": "#"}).problems_reading(schema(INT))
