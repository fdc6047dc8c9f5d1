"""A request to the registry, read and checked: path, query, and body; and its answer as JSON.

Limits: MAX_BODY_BYTES, MAX_LISTED results. Mirrors: the request entities of Confluent's client.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import unquote

from starlette.requests import Request as HttpRequest

from .entities import AVRO, NO_ID, Content, references_of
from .errors import UNPROCESSABLE, Rejected
from .subjects import within
from .writes import Request

MAX_BODY_BYTES: Final = 2 * 1024 * 1024
MAX_LISTED: Final = 20_000

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
CONTENT_TYPES: Final = (
    CONTENT_TYPE,
    "application/vnd.schemaregistry+json",
    "application/json",
)
TAKEN_TYPES: Final = (*CONTENT_TYPES, "application/octet-stream", "")

T = TypeVar("T")


class Call(NamedTuple):
    """A request; `names` are the parts of its path that its route leaves open."""

    http: HttpRequest
    path: tuple[str, ...]
    context: str | None  # of /contexts/CONTEXT/...
    body: bytes
    names: tuple[str, ...] = ()

    def subject(self, place: int = 0) -> str:
        return within(self.context or ".", self.names[place])

    def scope(self) -> str | None:
        """The subject of a config or a mode; None: the default context."""
        if self.names:
            found = self.subject()
            return None if found == "" else found
        return None if self.context in (None, ".") else f":{self.context}:"

    def asks(self, name: str) -> bool:
        return self.http.query_params.get(name, "").lower() == "true"

    def text(self, name: str, default: str = "") -> str:
        return self.http.query_params.get(name, default)

    def number(self, name: str, default: int) -> int:
        text = self.http.query_params.get(name)
        if text is None:
            return default
        try:
            return int(text)
        except ValueError:
            raise Rejected(404, 404, "HTTP 404 Not Found") from None

    def page(self, found: Sequence[T]) -> list[T]:
        """The part of a list that `offset` and `limit` ask for."""
        first, limit = max(0, self.number("offset", 0)), self.number("limit", -1)
        if not 0 < limit <= MAX_LISTED:
            limit = MAX_LISTED
        return list(found[first : first + limit])

    def json(self) -> dict[str, Any]:
        """Raises Rejected."""
        kind = self.http.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in TAKEN_TYPES:
            raise Rejected(415, 415, f"HTTP 415 Unsupported Media Type: {kind}")
        try:
            found = json.loads(self.body)
            json.dumps(found, ensure_ascii=False).encode()  # no halves of surrogate pairs
        except (ValueError, RecursionError) as error:
            raise Rejected(400, 400, f"the body is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise Rejected(400, 400, "the body is no JSON object")
        return found

    def schema(self) -> Request:
        """The body as a schema to register or look up. Raises Rejected."""
        found = self.json()
        try:
            content = Content(
                _typed(found, "schema", str, ""),
                _typed(found, "schemaType", str, AVRO),
                references_of(_typed(found, "references", list, [])),
                _typed(found, "metadata", dict, None),
                _typed(found, "ruleSet", dict, None),
            )
            return Request(
                content, _typed(found, "id", int, NO_ID), _typed(found, "version", int, 0)
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            text = f"the body is no schema: {type(error).__name__}: {error}"
            raise Rejected(UNPROCESSABLE, UNPROCESSABLE, text) from None


def _typed(found: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = found.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{name} is no {kind.__name__}")
    return value


def split_path(raw: bytes) -> tuple[str, ...]:
    """The parts of a path, whose names may contain encoded slashes. Raises Rejected."""
    try:
        parts = raw.partition(b"?")[0].decode("ascii").strip("/").split("/")
        return tuple(unquote(part, errors="strict") for part in parts)
    except ValueError:
        raise Rejected(400, 400, "the path is not UTF-8") from None


def answer_type(accept: str) -> str | None:
    """The content type that suits the client; None if none does."""
    asked = [one.partition(";")[0].strip().lower() for one in accept.split(",") if one.strip()]
    if not asked or "*/*" in asked or "application/*" in asked:
        return CONTENT_TYPE
    return next((one for one in CONTENT_TYPES if one in asked), None)
