"""Records out of text: JSON lines, as `record_format` prints them, and hexadecimal; pure."""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from .options import UserError
from .record_format import Headers

MAX_LINE_SHOWN = 80


class RecordInput(NamedTuple):
    """A record from the input; None for fields that options choose."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None


def parse_json(line: bytes, number: int) -> RecordInput:
    """A record from one JSON line. Raises UserError, which names the line."""
    where = f"line {number}"
    try:
        found = json.loads(line)
    except ValueError as error:
        raise UserError(f"{where} is not JSON ({error}): {_shown(line)}") from None
    if not isinstance(found, dict):
        raise UserError(
            f'{where} is not an object, as {{"key": "k", "value": "v"}}: {_shown(line)}'
        )
    known = {
        "topic", "partition", "offset", "timestamp", "key", "key_base64", "value", "value_base64",
        "headers",
    }  # fmt: skip
    unknown = sorted(found.keys() - known)
    if unknown:
        raise UserError(f"{where} has {unknown[0]!r}; there are: {', '.join(sorted(known))}")
    try:
        headers = [
            (str(name), _data({"value": value} if not isinstance(value, dict) else value, "value"))
            for name, value in found.get("headers") or []
        ]
        return RecordInput(
            key=_data(found, "key"),
            value=_data(found, "value"),
            headers=headers,
            partition=_number(found, "partition"),
            timestamp_ms=_number(found, "timestamp"),
        )
    except (ValueError, TypeError) as error:
        raise UserError(f"{where}: {error}: {_shown(line)}") from None


def _number(found: dict[str, Any], name: str) -> int | None:
    value = found.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise ValueError(f"its {name} is no number")
    return value


def _data(found: dict[str, Any], name: str) -> bytes | None:
    """The bytes of a field: text as it is, other JSON as JSON, null as null."""
    encoded = found.get(f"{name}_base64")
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    value = found.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, ensure_ascii=False).encode()


def parse_hex(line: bytes, number: int) -> bytes:
    """Raises UserError."""
    try:
        return bytes.fromhex(line.decode("ascii"))
    except ValueError:
        raise UserError(f"line {number} is not hexadecimal: {_shown(line)}") from None


def _shown(line: bytes) -> str:
    return repr(line[:MAX_LINE_SHOWN])


def parse_header(text: str) -> tuple[str, bytes | None]:
    """`NAME=VALUE`, or `NAME` for null. Raises UserError."""
    name, separator, value = text.partition("=")
    if not name:
        raise UserError(f"--header {text!r} is not NAME=VALUE")
    return name, value.encode() if separator else None
