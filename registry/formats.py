"""The parsers of all formats.

`parse` takes a content and the texts of its references, inner ones first, and raises BadSchema.
JSON Schema and Protobuf need `pip install pybroker-kafka[schemas]`; Avro needs nothing.
Mirrors: SchemaProvider, and AvroSchema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from . import avro, avro_rules
from .entities import AVRO, JSON, PROTOBUF, Content
from .errors import BadSchema
from .parsed import Parsed

NEEDED: Final = "pip install 'pybroker-kafka[schemas]'"


def parse(content: Content, references: Mapping[str, str], *, strict: bool) -> Parsed:
    """`references`: texts by the names that the schema calls them, inner ones first. `strict`
    schemas are new ones. Raises BadSchema."""
    if content.kind == AVRO:
        return AvroSchema(content.text, references, strict=strict)
    try:
        if content.kind == JSON:
            from .json_schema import JsonSchema

            return JsonSchema(content.text, references)
        if content.kind == PROTOBUF:
            from .protobuf import ProtobufSchema

            return ProtobufSchema(content.text, references)
    except ImportError as error:
        raise BadSchema(f"{content.kind} needs {error.name}: {NEEDED}") from None
    raise BadSchema(f"Invalid schema type {content.kind}")


class AvroSchema:
    """See `Parsed`. Form `resolved`: with the types of the references inside."""

    def __init__(self, text: str, references: Mapping[str, str], *, strict: bool) -> None:
        self.node, self._brought = avro.parse(text, references.values(), strict=strict)

    @property
    def text(self) -> str:
        return avro.written(self.node, self._brought)

    def normalized(self) -> str:
        return avro.normalized(self.node, self._brought)

    def problems_reading(self, older: Parsed) -> list[str]:
        assert isinstance(older, AvroSchema)
        return avro_rules.problems(self.node, older.node)

    def formatted(self, form: str) -> str:
        return avro.written(self.node) if form == "resolved" else self.text
