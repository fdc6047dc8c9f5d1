"""The columns that a schema describes: Avro records and JSON Schemas of objects; pure.

Every column may be null: a record without a value has no fields. Unions of several types,
references and other things that no column can hold raise TableError, with the place in the
schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from .errors import TableError
from .raw import TIMESTAMP

_AVRO: Final = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_AVRO_LOGICAL: Final = {
    ("long", "timestamp-millis"): TIMESTAMP,
    ("long", "timestamp-micros"): TIMESTAMP,
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time64("us"),
    ("long", "time-micros"): pa.time64("us"),
}
_JSON: Final = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
}


def avro_columns(schema: Any) -> pa.Schema:
    """Raises TableError."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise TableError("the schema is no Avro record, so a value has no columns")
    return pa.schema(list(_avro_type(schema, "")))


def _avro_type(schema: Any, place: str) -> pa.DataType:
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) != 1:
            raise TableError(f"{place}: a union of several types has no column")
        return _avro_type(others[0], place)
    if isinstance(schema, str):
        if schema not in _AVRO:
            raise TableError(f"{place}: the type {schema} has no column")
        return _AVRO[schema]
    kind = schema["type"]
    if kind == "record":
        fields = schema["fields"]
        return pa.struct(
            [(field["name"], _avro_type(field["type"], _at(place, field))) for field in fields]
        )
    if kind == "array":
        return pa.list_(_avro_type(schema["items"], place))
    if kind == "map":
        return pa.map_(pa.string(), _avro_type(schema["values"], place))
    logical = schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    return _AVRO_LOGICAL.get((kind, logical)) or _avro_type(kind, place)


def _at(place: str, field: Mapping[str, Any]) -> str:
    return f"{place}.{field['name']}" if place else str(field["name"])


def json_columns(schema: Any) -> pa.Schema:
    """Raises TableError."""
    if not isinstance(schema, dict) or not schema.get("properties"):
        raise TableError("the JSON Schema has no properties, so a value has no columns")
    return pa.schema(
        [(name, _json_type(part, name, is_top=True)) for name, part in schema["properties"].items()]
    )


def _json_type(schema: Any, place: str, *, is_top: bool = False) -> pa.DataType:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, list):
        others = [one for one in kind if one != "null"]
        kind = others[0] if len(others) == 1 else None
    if kind == "object" and schema.get("properties"):
        return pa.struct(
            [
                (name, _json_type(part, f"{place}.{name}"))
                for name, part in schema["properties"].items()
            ]
        )
    if kind == "array" and "items" in schema:
        return pa.list_(_json_type(schema["items"], place))
    if kind == "string" and is_top:
        return {"date-time": TIMESTAMP, "date": pa.date32()}.get(schema.get("format"), pa.string())
    if kind not in _JSON:
        raise TableError(f"{place}: this part of the JSON Schema has no column")
    return _JSON[kind]
