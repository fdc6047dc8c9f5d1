"""Records as text: format strings and JSON lines; pure. The other way: `record_input`.

    %t topic   %p partition   %o offset   %k key   %v value   %h headers as name=value,...
    %T timestamp in ms   %d the same as a date   %K length of the key   %V length of the value, in
    bytes, -1 for null   %{k:hex} %{v:hex} %{k:base64} %{v:json} a key or value in another form
    %{k:big64} %{v:little32} a signed number of 8, 16, 32 or 64 bits (hex if it has another length)

JSON lines are objects: topic, partition, offset, timestamp, key, value, headers as a list of
[name, value]; bytes that are no UTF-8 are in key_base64 and value_base64 instead. The lines can be
read again.
Mirrors: the format strings of kcat, with rpk's words for forms.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

from .options import UserError

Headers = Sequence[tuple[str, bytes | None]]


class RecordText(NamedTuple):
    """A record that is to be printed."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


_ESCAPES: Final = {"t": b"\t", "n": b"\n", "r": b"\r", "0": b"\0", "\\": b"\\"}
_SPECIAL: Final = re.compile(
    r"%(?:\{(?P<of>[kv]):(?P<form>\w+)\}|(?P<field>.?))"
    r"|\\(?:x(?P<byte>[0-9a-fA-F]{2})|(?P<escape>.?))",
    re.DOTALL,
)
Piece = Callable[[RecordText], bytes]


class Template:
    """A line format: literal pieces, and fields of a record between them. Raises UserError."""

    def __init__(self, text: str, null_text: str) -> None:
        self._null = null_text.encode()
        self._pieces = list(self._parse(text))

    def line(self, record: RecordText) -> bytes:
        """A record's text, with a line end."""
        return b"".join([piece(record) for piece in self._pieces]) + b"\n"

    def _parse(self, text: str) -> Iterator[Piece]:
        position = 0
        for match in _SPECIAL.finditer(text):
            yield _literal(text[position : match.start()].encode())
            position = match.end()
            yield self._piece(match)
        yield _literal(text[position:].encode())

    def _piece(self, match: re.Match[str]) -> Piece:
        field, escape = match["field"], match["escape"]
        if match["of"]:
            form = _FORMS.get(match["form"])
            if form is not None:
                return self._formed(match["of"], form)
        elif field == "%":
            return _literal(b"%")
        elif field in ("k", "v"):
            return self._formed(field, bytes)
        elif field in _FIELDS:
            return _FIELDS[field]
        elif match["byte"] is not None:
            return _literal(bytes.fromhex(match["byte"]))
        elif escape in _ESCAPES:
            return _literal(_ESCAPES[escape])
        raise UserError(f"--format has no {match[0]}; see pybroker consume --help")

    def _formed(self, of: str, form: Callable[[bytes], bytes]) -> Piece:
        def piece(record: RecordText) -> bytes:
            data = record.key if of == "k" else record.value
            return self._null if data is None else form(data)

        return piece


def _literal(data: bytes) -> Piece:
    return lambda _record: data


def _length(data: bytes | None) -> bytes:
    return b"%d" % (-1 if data is None else len(data))


def date(timestamp_ms: int) -> str:
    """The time in UTC, as ISO 8601; "-" without a timestamp."""
    if timestamp_ms < 0:
        return "-"
    try:
        at = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _headers_text(headers: Headers) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in headers)


def _as_json(data: bytes) -> bytes:
    return json.dumps(data.decode("utf-8", "replace")).encode()


def _number(size: int, order: Literal["big", "little"]) -> Callable[[bytes], bytes]:
    def text(data: bytes) -> bytes:
        if len(data) != size:
            return b"0x" + binascii.hexlify(data)
        return b"%d" % int.from_bytes(data, order, signed=True)

    return text


_FORMS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "hex": binascii.hexlify,
    "base64": base64.b64encode,
    "json": _as_json,
    **{f"big{8 * size}": _number(size, "big") for size in (1, 2, 4, 8)},
    **{f"little{8 * size}": _number(size, "little") for size in (1, 2, 4, 8)},
}
_FIELDS: Final[dict[str, Piece]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % record.timestamp,
    "d": lambda record: date(record.timestamp).encode(),
    "h": lambda record: _headers_text(record.headers),
    "K": lambda record: _length(record.key),
    "V": lambda record: _length(record.value),
}


def json_line(record: RecordText) -> bytes:
    """A record as JSON, with a line end."""
    found: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_json_data("key", record.key),
        **_json_data("value", record.value),
    }
    if record.headers:
        found["headers"] = [_json_header(name, value) for name, value in record.headers]
    return json.dumps(found, ensure_ascii=False).encode() + b"\n"


def _json_data(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _json_header(name: str, value: bytes | None) -> list[Any]:
    """A value that is no text is an object of its own."""
    data = _json_data("value", value)
    return [name, data.get("value", data if "value" not in data else None)]
