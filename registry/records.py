"""The records of `_schemas`: JSON keys and values, with Confluent's names and order of fields.

A key is a `Key`; a value is a dict of JSON, or None for a tombstone. Records whose kind is not
known here (Confluent's associations) are read as None and left alone.
Mirrors: SchemaRegistrySerializer and the classes ...Key and ...Value of its package `storage`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from .entities import AVRO, Content, Registered, references_of

NOOP: Final = "NOOP"
SCHEMA: Final = "SCHEMA"
CONFIG: Final = "CONFIG"
MODE: Final = "MODE"
DELETE_SUBJECT: Final = "DELETE_SUBJECT"
CLEAR_SUBJECT: Final = "CLEAR_SUBJECT"
CONTEXT: Final = "CONTEXT"
KINDS: Final = (NOOP, SCHEMA, CONFIG, MODE, DELETE_SUBJECT, CLEAR_SUBJECT, CONTEXT)

SCHEMA_MAGIC: Final = 1
TENANT: Final = "default"

Value = Mapping[str, Any] | None


class Key(NamedTuple):
    """`subject` None: the whole default context (configs, modes)."""

    kind: str
    subject: str | None = None
    version: int = 0  # of a schema
    context: str = ""  # of a context


class Record(NamedTuple):
    """A change to the topic; value None: a tombstone."""

    key: Key
    value: Value


class BadRecord(Exception):
    """A record of the topic that no registry has written."""


def encode_key(key: Key) -> bytes:
    found: dict[str, object] = {"keytype": key.kind}
    if key.kind == CONTEXT:
        found |= {"tenant": TENANT, "context": key.context}
    elif key.subject is not None:
        found["subject"] = key.subject
    if key.kind == SCHEMA:
        found["version"] = key.version
    return _json({**found, "magic": SCHEMA_MAGIC if key.kind == SCHEMA else 0})


def decode_key(data: bytes | None) -> Key | None:
    """None for a kind that is not known here. Raises BadRecord."""
    found = _object(data)
    kind = found.get("keytype")
    if kind not in KINDS:
        return None
    subject = found.get("subject")
    version = found.get("version", 0)
    if not isinstance(subject, str | None) or not isinstance(version, int):
        raise BadRecord(f"{data!r} is no key")
    if kind in (SCHEMA, DELETE_SUBJECT) and subject is None:
        raise BadRecord(f"{data!r} names no subject")
    return Key(kind, subject, version, str(found.get("context", "")))


def encode_value(value: Value) -> bytes | None:
    return None if value is None else _json(value)


def decode_value(data: bytes | None) -> Value:
    """Raises BadRecord."""
    return None if data is None else _object(data)


def schema_record(one: Registered) -> Record:
    """The record of a version; Avro's type and empty parts are left out."""
    content = one.content
    value: dict[str, object] = {"subject": one.subject, "version": one.version, "id": one.id}
    if content.kind != AVRO:
        value["schemaType"] = content.kind
    if content.references:
        value["references"] = [each._asdict() for each in content.references]
    if content.metadata is not None:
        value["metadata"] = content.metadata
    if content.rules is not None:
        value["ruleSet"] = content.rules
    value |= {"schema": content.text, "deleted": one.deleted}
    return Record(Key(SCHEMA, one.subject, one.version), value)


def schema_of(key: Key, value: Mapping[str, Any]) -> Registered:
    """Raises BadRecord."""
    try:
        content = Content(
            str(value["schema"]),
            value.get("schemaType") or AVRO,
            references_of(value.get("references")),
            value.get("metadata"),
            value.get("ruleSet"),
        )
        number = int(value["id"])
    except (KeyError, TypeError, ValueError):
        raise BadRecord(f"the value of {key} is no schema") from None
    assert key.subject is not None
    return Registered(key.subject, key.version, number, content, bool(value.get("deleted")))


def with_subject(subject: str | None, value: Mapping[str, Any]) -> dict[str, Any]:
    """The value of a config or a mode."""
    return dict(value) if subject is None else {"subject": subject, **value}


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _object(data: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(data or b"")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadRecord(f"{data!r} is no JSON object")
    return found
