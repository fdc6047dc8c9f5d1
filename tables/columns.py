"""The columns that a schema describes: Avro records and JSON Schemas of objects; pure.

Every column may be null: a record without a value has no fields. Unions of several types, types
within themselves, references of a JSON Schema and other things that no column can hold raise
TableError, with the place in the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def avro_columns(schema: Any, referenced: Iterable[Any] = ()) -> pa.Schema:
    """`referenced`: schemas whose names this one may use, each after those that it uses itself.
    Raises TableError."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise TableError("the schema is no Avro record, so a value has no columns")
    types = _AvroTypes()
    for other in referenced:
        types.learn(other, "")
    types.learn(schema, "")
    return pa.schema(list(types.column(schema, "", "", ())))


class _AvroTypes:
    """The columns of types, of which those with names are learnt first."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[Any, str]] = {}  # with the namespace of what is within

    def learn(self, schema: Any, namespace: str) -> None:
        """Take up the names within this schema."""
        if isinstance(schema, list):
            for one in schema:
                self.learn(one, namespace)
        if not isinstance(schema, dict):
            return
        if "name" in schema and schema.get("type") in ("record", "enum", "fixed"):
            full = _full_name(schema["name"], schema.get("namespace", namespace))
            namespace = full.rpartition(".")[0]
            self._named[full] = (schema, namespace)
        for field in schema.get("fields", ()):
            self.learn(field["type"], namespace)
        for inner in ("items", "values", "type"):
            self.learn(schema.get(inner), namespace)

    def column(
        self, schema: Any, place: str, namespace: str, within: tuple[str, ...]
    ) -> pa.DataType:
        """`within`: the names of the types around."""
        if isinstance(schema, list):
            others = [one for one in schema if one != "null"]
            if len(others) != 1:
                raise TableError(f"{place}: a union of several types has no column")
            return self.column(others[0], place, namespace, within)
        if isinstance(schema, str):
            return self._of_name(schema, place, namespace, within)
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.column(kind, place, namespace, within)
        if kind == "record":
            full = _full_name(schema.get("name", ""), schema.get("namespace", namespace))
            if full and full in within:
                raise TableError(f"{place}: a type within itself has no column")
            inner = full.rpartition(".")[0]
            return pa.struct(
                [
                    (
                        field["name"],
                        self.column(field["type"], _at(place, field), inner, (*within, full)),
                    )
                    for field in schema["fields"]
                ]
            )
        if kind == "array":
            return pa.list_(self.column(schema["items"], place, namespace, within))
        if kind == "map":
            return pa.map_(pa.string(), self.column(schema["values"], place, namespace, within))
        logical = schema.get("logicalType")
        if logical == "decimal":
            return pa.decimal128(schema["precision"], schema.get("scale", 0))
        return _AVRO_LOGICAL.get((kind, logical)) or self.column(kind, place, namespace, within)

    def _of_name(
        self, name: str, place: str, namespace: str, within: tuple[str, ...]
    ) -> pa.DataType:
        if name in _AVRO:
            return _AVRO[name]
        found = self._named.get(_full_name(name, namespace)) or self._named.get(name)
        if found is None:
            raise TableError(f"{place}: the type {name} has no column")
        schema, namespace = found
        return self.column({"namespace": namespace, **schema}, place, namespace, within)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


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
