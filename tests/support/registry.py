"""A registry of schemas without a cluster: decisions applied at once; and one in a process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pybroker_kafka.registry.entities import AVRO, Content, Reference, Registered
from pybroker_kafka.registry.reads import Reads
from pybroker_kafka.registry.records import (
    Record,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from pybroker_kafka.registry.state import State
from pybroker_kafka.registry.writes import Change, Request, Writes
from pybroker_kafka.testkit.commands import Command

USER = {"type": "record", "name": "User", "fields": [{"name": "id", "type": "long"}]}


def with_fields(*fields: dict[str, Any], name: str = "User") -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


ID: dict[str, Any] = {"name": "id", "type": "long"}
MAIL: dict[str, Any] = {"name": "mail", "type": ["null", "string"], "default": None}
AGE: dict[str, Any] = {"name": "age", "type": "int"}


class Desk:
    """Applies each change through the bytes of its records, as an instance does."""

    def __init__(self) -> None:
        self.log: list[tuple[bytes, bytes | None]] = []
        self.state = State()
        self.reads = Reads(self.state)
        self.writes = Writes(self.reads)

    def take(self, change: Change) -> Any:
        for record in change.records:
            self.apply(record)
        return change.answer

    def apply(self, record: Record) -> str:
        return self.apply_bytes(encode_key(record.key), encode_value(record.value))

    def apply_bytes(self, key: bytes, value: bytes | None) -> str:
        self.log.append((key, value))
        found = decode_key(key)
        return "" if found is None else self.state.apply(found, decode_value(value))

    def register(
        self,
        subject: str,
        text: str,
        kind: str = AVRO,
        *,
        references: tuple[Reference, ...] = (),
        normalize: bool = False,
        number: int = -1,
        version: int = 0,
        **parts: Any,
    ) -> Registered:
        content = Content(text, kind, references, **parts)
        request = Request(content, number, version)
        found: Registered = self.take(self.writes.register(subject, request, normalize=normalize))
        return found

    def replayed(self) -> Desk:
        """Another instance, after the same records."""
        other = Desk()
        for key, value in self.log:
            other.apply_bytes(key, value)
        return other


@contextmanager
def registry_process(bootstrap: str, output: Path, *options: str) -> Iterator[tuple[str, Command]]:
    """The URL of an instance on any free port, and its process."""
    words = ("registry", "--port", "0", "--bootstrap-server", bootstrap, *options)
    with Command(*words, output=output) as command:
        yield command.wait_for("schema registry:").split()[-1], command
