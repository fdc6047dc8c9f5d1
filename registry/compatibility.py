"""Compatibility levels: the earlier versions that a new schema is compared with, and the direction.

    BACKWARD   the new schema reads data of the latest version
    FORWARD    the latest version reads data of the new schema
    FULL       both
    ..._TRANSITIVE   the same with every version, the newest first; the first problem ends it
    NONE       nothing

Mirrors: CompatibilityChecker and SchemaValidatorBuilder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from .parsed import Parsed

LEVELS: Final = (
    "NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL",
    "FULL_TRANSITIVE",
)  # fmt: skip
MAX_SHOWN_CHARACTERS: Final = 10 * 1024  # of an earlier schema in an error
OTHER_FORMAT: Final = "Incompatible because of different schema type"


class Earlier(NamedTuple):
    """A version of the subject; `parse` gives its schema when it is compared."""

    version: int
    kind: str
    text: str
    parse: Callable[[], Parsed]


def problems(level: str, kind: str, new: Parsed, earlier: Sequence[Earlier]) -> list[str]:
    """Why the new schema is not compatible with the earlier versions, which ascend; empty if it
    is."""
    if level == "NONE":
        return []
    compared = earlier if level.endswith("_TRANSITIVE") else earlier[-1:]
    for one in reversed(compared):
        found = [OTHER_FORMAT] if one.kind != kind else _with_one(level, new, one)
        if found:
            return found
    return []


def _with_one(level: str, new: Parsed, one: Earlier) -> list[str]:
    old, found = one.parse(), []
    if level.startswith(("FORWARD", "FULL")):
        found += [_named(text, "old", "new") for text in old.problems_reading(new)]
    if level.startswith(("BACKWARD", "FULL")):
        found += [_named(text, "new", "old") for text in new.problems_reading(old)]
    if not found:
        return []
    shown = f"'{one.text}'"
    if len(one.text) > MAX_SHOWN_CHARACTERS:
        shown = f"<truncated> '{one.text[:MAX_SHOWN_CHARACTERS]}...'"
    return [*found, f"{{oldSchemaVersion: {one.version}}}", f"{{oldSchema: {shown}}}"]


def _named(text: str, reader: str, writer: str) -> str:
    return text.replace("%s", reader, 1).replace("%s", writer, 1)
