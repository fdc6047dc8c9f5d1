"""From fetched records to the rows of a table, as its schema asks: raw, inline, or a subject's.

A row of a schema has the value's fields, then the record's own as `kafka_key`, `kafka_headers`,
`kafka_timestamp`, `kafka_partition` and `kafka_offset`. A record without a value has null fields.

A subject's columns are those of all its versions, by name, numbers as wide as the widest. A value
names the version that wrote it. One that is not known yet makes the shaper read the subject again:
if there are new or wider columns, `NewColumns` asks for the table to be opened with them. Of
Protobuf the columns are those of one message, which `SUBJECT#MESSAGE` names.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ..storage.table_configs import RAW as RAW_SCHEMA
from .errors import TableError
from .raw import RAW
from .values import Bad, Reader, divided, reader_of

PREFIX: Final = "kafka_"
MESSAGE: Final = "#"  # between a subject and the name of a message
HEAD_BYTES: Final = 5  # of a value: a zero, and the number of its schema
# Without an end, Arrow multiplies 2**63 by the count of values: an even one is an error.
MAX_VALUE_BYTES: Final = 2**31 - 1
FETCH_SECONDS: Final = 10.0
MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
_OF_RECORD: Final = ("key", "headers", "timestamp", "partition", "offset")
RECORD_COLUMNS: Final = [RAW.field(name).with_name(PREFIX + name) for name in _OF_RECORD]


class NewColumns(Exception):
    """The subject has columns that the table has not, or wider ones."""


class Shaper(Protocol):
    key: str  # the column of the record's key
    columns: pa.Schema

    def load(self) -> None:
        """Read the schema. Raises TableError."""

    def shape(self, raw: pa.RecordBatch) -> tuple[pa.Table, list[Bad]]:
        """The rows in the order of the records, and the records that do not fit. Raises NewColumns,
        TableError."""


def shaper_of(schema: str, registry: str | None) -> Shaper:
    """Raises TableError."""
    if schema == RAW_SCHEMA:
        return RawShaper()
    if schema.startswith("{"):
        return InlineShaper(schema)
    if registry is None:
        raise TableError(
            f"pybroker.table.schema={schema} is a subject, and pybroker.table.registry is not set",
            "start the brokers with pybroker.table.registry=http://HOST:8081 in server.properties; "
            "or: pybroker start --registry",
        )
    return SubjectShaper(schema, registry)


class RawShaper:
    key = "key"
    columns = RAW

    def load(self) -> None:
        pass

    def shape(self, raw: pa.RecordBatch) -> tuple[pa.Table, list[Bad]]:
        return pa.Table.from_batches([raw]), []


def _with_record(columns: pa.Schema) -> pa.Schema:
    taken = {field.name for field in RECORD_COLUMNS} & set(columns.names)
    if taken:
        raise TableError(f"the schema has the columns {', '.join(taken)}, which are the record's")
    return pa.schema([*columns, *RECORD_COLUMNS])


class _Pieces:
    """The parts of a batch's rows, put into the order of its records."""

    def __init__(self, raw: pa.RecordBatch, columns: pa.Schema) -> None:
        self._raw = raw
        self._columns = columns
        self._tables = [columns.empty_table()]
        self._rows: list[int] = []

    def add(self, values: pa.Table, rows: list[int]) -> None:
        """Values of these records; columns that they lack are null. Raises NewColumns, and
        pa.ArrowInvalid for a value that its column cannot hold."""
        if set(values.schema.names) - set(self._columns.names):
            raise NewColumns
        of_record = self._raw.take(pa.array(rows, pa.int64()))
        found = []
        for field in self._columns:
            if field in RECORD_COLUMNS:
                found.append(of_record[field.name.removeprefix(PREFIX)])
            elif field.name in values.schema.names:
                found.append(values[field.name].cast(field.type))
            else:
                found.append(pa.nulls(len(rows), field.type))
        self._tables.append(pa.table(found, schema=self._columns))
        self._rows += rows

    def table(self) -> pa.Table:
        order = pc.array_sort_indices(pa.array(self._rows, pa.int64()))
        return pa.concat_tables(self._tables).take(order)


def _add_tombstones(pieces: _Pieces, values: pa.Array) -> None:
    empty = pc.indices_nonzero(pc.is_null(values)).to_pylist()
    pieces.add(pa.table({"": pa.nulls(len(empty))}).drop_columns([""]), empty)


def _add_values(pieces: _Pieces, reader: Reader, values: pa.Array, rows: list[int]) -> list[Bad]:
    """Read the values of these records; returns those that do not fit."""
    found, good, bad = divided(values, reader.read)
    pieces.add(found, [rows[number] for number in good])
    return [Bad(rows[one.row], one.reason) for one in bad]


class InlineShaper:
    """Of a schema in the topic's config: an Avro record, or a JSON Schema. No value has a head."""

    key = PREFIX + "key"

    def __init__(self, text: str) -> None:
        self._text = text

    def load(self) -> None:
        kind = "AVRO" if json.loads(self._text)["type"] == "record" else "JSON"
        self._reader = reader_of(kind, self._text)
        self.columns = _with_record(self._reader.columns)

    def shape(self, raw: pa.RecordBatch) -> tuple[pa.Table, list[Bad]]:
        pieces = _Pieces(raw, self.columns)
        values = raw["value"]
        _add_tombstones(pieces, values)
        rows = pc.indices_nonzero(pc.is_valid(values)).to_pylist()
        bad = _add_values(pieces, self._reader, values.drop_null(), rows)
        return pieces.table(), bad


class SubjectShaper:
    key = PREFIX + "key"

    def __init__(self, subject: str, registry: str) -> None:
        self._subject, _, self._message = subject.partition(MESSAGE)
        self._url = registry.rstrip("/")
        self._readers: dict[int, Reader] = {}
        self._others: set[int] = set()  # numbers of schemas that are not the subject's

    def load(self) -> None:
        columns = pa.schema([])
        for version in self._ask(_path(self._subject)):
            found = self._ask(_path(self._subject, version))
            reader = self._readers[found["id"]] = self._reader(version, found)
            try:
                columns = pa.unify_schemas([columns, reader.columns], promote_options="permissive")
            except pa.ArrowTypeError:
                continue  # the registry did not compare them; values that do not fit are bad ones
        if self._message and not len(columns):
            raise TableError(f"no version of {self._subject} has the message {self._message}")
        self.columns = _with_record(columns)

    def _reader(self, version: int, found: Any) -> Reader:
        kind = found.get("schemaType", "AVRO")
        if self._message and kind != "PROTOBUF":
            raise TableError(
                f"version {version} of {self._subject} is of the kind {kind}, which has no message "
                f"{self._message}",
                f"set pybroker.table.schema={self._subject}",
            )
        if kind == "AVRO":
            return reader_of(kind, found["schema"], self._referenced(found, set()))
        if found.get("references"):
            raise TableError(
                f"version {version} of {self._subject} is of the kind {kind} with references, and "
                "only those of AVRO have columns"
            )
        if kind == "PROTOBUF":
            from .protobuf_values import ProtobufReader

            path = f"{_path(self._subject, version)}?format=serialized"
            return ProtobufReader(self._ask(path)["schema"], self._message)
        return reader_of(kind, found["schema"])

    def _referenced(self, found: Any, known: set[tuple[str, int]]) -> list[str]:
        """The schemas that a version refers to, each after those that it refers to itself."""
        texts: list[str] = []
        for one in found.get("references") or ():
            place = (one["subject"], one["version"])
            if place not in known:
                known.add(place)
                other = self._ask(_path(*place))
                texts += [*self._referenced(other, known), other["schema"]]
        return texts

    def _ask(self, path: str) -> Any:
        try:
            with urllib.request.urlopen(self._url + path, timeout=FETCH_SECONDS) as answer:
                return json.loads(answer.read(MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            problem = f"status {error.code}"
        except (OSError, ValueError) as error:
            problem = str(error)
        raise TableError(
            f"the schema registry {self._url}{path}: {problem}",
            f"see that the registry answers and has the subject {self._subject}; the writer tries "
            "again by itself",
        )

    def shape(self, raw: pa.RecordBatch) -> tuple[pa.Table, list[Bad]]:
        pieces = _Pieces(raw, self.columns)
        values = raw["value"]
        _add_tombstones(pieces, values)
        heads = pc.binary_slice(values, 0, HEAD_BYTES)
        bad: list[Bad] = []
        for head in pc.unique(heads.drop_null()).to_pylist():
            rows = pc.indices_nonzero(pc.equal(heads, pa.scalar(head, heads.type))).to_pylist()
            reader, reason = self._reader_of(head)
            if reader is None:
                bad += [Bad(row, reason) for row in rows]
                continue
            bodies = pc.binary_slice(
                values.take(pa.array(rows, pa.int64())), HEAD_BYTES, MAX_VALUE_BYTES
            )
            bad += _add_values(pieces, reader, bodies, rows)
        return pieces.table(), bad

    def _reader_of(self, head: bytes) -> tuple[Reader | None, str]:
        if len(head) < HEAD_BYTES or head[0] != 0:
            return None, "the value does not begin with the number of a schema"
        number = int.from_bytes(head[1:], "big")
        if number not in self._readers and number not in self._others:
            before = self.columns
            self.load()
            if number not in self._readers:
                self._others.add(number)
            elif not self.columns.equals(before):
                raise NewColumns
        found = self._readers.get(number)
        return found, "" if found else f"schema {number} is not one of {self._subject}"


def _path(subject: str, version: int | None = None) -> str:
    """Of a subject's versions in the registry, or of one of them."""
    end = "" if version is None else f"/{version}"
    return f"/subjects/{urllib.parse.quote(subject, safe='')}/versions{end}"
