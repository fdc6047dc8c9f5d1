"""Values to columns: JSON by Arrow's own reader, Avro by fastavro.

A reader takes the values of many records and fails as a whole. `divided` finds the records to
blame: it halves the values until each half can be read, or is one bad record.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from .columns import avro_columns, json_columns

MAX_REASON_LENGTH: Final = 200
_ROW: Final = "row"
_VALUE: Final = "value"


class Bad(NamedTuple):
    """A record whose value does not fit; `row` counts from the first record."""

    row: int
    reason: str


Read = Callable[[pa.Array], pa.Table]


def divided(values: pa.Array, read: Read) -> tuple[pa.Table, list[int], list[Bad]]:
    """The rows of the values that fit, their numbers, and the others."""
    tables: list[pa.Table] = [read(values.slice(0, 0))]
    rows: list[int] = []
    bad: list[Bad] = []
    waiting = [(0, len(values))]
    while waiting:
        first, end = waiting.pop()
        if first == end:
            continue
        try:
            tables.append(read(values.slice(first, end - first)))
            rows += range(first, end)
        except Exception as error:  # the libraries raise all kinds
            if end - first == 1:
                bad.append(Bad(first, _reason(error)))
            else:
                middle = (first + end) // 2
                waiting += [(middle, end), (first, middle)]
    return pa.concat_tables(tables), rows, bad


def _reason(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:MAX_REASON_LENGTH]


class Reader(Protocol):
    columns: pa.Schema

    def read(self, values: pa.Array) -> pa.Table:
        """The rows of all values. Raises any exception if one of them does not fit."""


class JsonReader:
    """Each value is wrapped into a line with its number, so that a value that holds several, or
    none, is noticed."""

    def __init__(self, schema: Any) -> None:
        self.columns = json_columns(schema)
        self._required = {
            name
            for name in schema.get("required", ())
            if name in self.columns.names and "null" not in schema["properties"][name]["type"]
        }
        # Times are read as text, which Arrow casts with any offset from UTC.
        parsed = pa.struct(
            [
                (field.name, pa.string() if _is_time(field.type) else field.type)
                for field in self.columns
            ]
        )
        self._options = pa_json.ParseOptions(
            explicit_schema=pa.schema([(_ROW, pa.int64()), (_VALUE, parsed)]),
            newlines_in_values=False,
            unexpected_field_behavior="ignore",
        )

    def read(self, values: pa.Array) -> pa.Table:
        count = len(values)
        if not count:
            return self.columns.empty_table()
        texts = pc.replace_substring(values.cast(pa.string()), "\n", " ")
        numbers = pa.array(range(count), pa.int64())
        head, middle = pa.scalar('{"row":'), pa.scalar(',"value":')
        lines = pc.binary_join_element_wise(
            head, numbers.cast(pa.string()), middle, texts, pa.scalar("}\n"), ""
        )
        bounds = pa.array([0, count], pa.int32())
        data = pc.binary_join(pa.ListArray.from_arrays(bounds, lines), "")[0].as_buffer()
        block = pa_json.ReadOptions(use_threads=False, block_size=data.size)
        found = pa_json.read_json(pa.BufferReader(data), block, self._options)
        if not found[_ROW].equals(pa.chunked_array([numbers])):
            raise ValueError("it is not one JSON value")
        value = found[_VALUE].combine_chunks()
        if value.null_count:
            raise ValueError("it is no JSON object")
        columns = []
        for field in self.columns:
            column = pc.struct_field(value, field.name).cast(field.type)
            if column.null_count and field.name in self._required:
                raise ValueError(f"{field.name} is missing")
            columns.append(column)
        return pa.table(columns, schema=self.columns)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


class AvroReader:
    """Of values without a head, each an Avro record and nothing behind it."""

    def __init__(self, schema: Any, referenced: Sequence[Any] = ()) -> None:
        import fastavro

        self.columns = avro_columns(schema, referenced)
        self._fastavro = fastavro
        named: dict[str, Any] = {}
        for other in referenced:
            fastavro.parse_schema(_without_uuids(other), named)
        self._schema = fastavro.parse_schema(_without_uuids(schema), named)

    def read(self, values: pa.Array) -> pa.Table:
        read, schema = self._fastavro.schemaless_reader, self._schema
        found = []
        for value in values.to_pylist():
            file = io.BytesIO(value)
            found.append(read(file, schema, None))
            if file.tell() != len(value):
                raise ValueError("bytes follow the value")
        return pa.Table.from_pylist(found, self.columns)


def _without_uuids(schema: Any) -> Any:
    """UUIDs stay text."""
    text = json.dumps(schema)
    return json.loads(text.replace('"logicalType": "uuid"', '"logicalType": "text"'))


def reader_of(kind: str, text: str, referenced: Sequence[str] = ()) -> Reader:
    """Of a schema of the kind AVRO or JSON; `referenced` as in `avro_columns`. Raises
    TableError."""
    if kind == "AVRO":
        return AvroReader(json.loads(text), [json.loads(one) for one in referenced])
    return JsonReader(json.loads(text))
