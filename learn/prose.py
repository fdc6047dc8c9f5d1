"""The prose of a chapter as plain values, for a page that shows text as text only; pure.

Job: the part of Markdown in which the chapters are written: headings, paragraphs, lists, blocks of
code, and inside of a line `code`, **strong**, *stressed* and [links](address).
Leaves out: all else, which is text.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any, Final

Span = tuple[str, ...]  # ("text" | "code" | "strong" | "em", TEXT), or ("link", TEXT, ADDRESS)
Block = dict[str, Any]

_SPAN: Final = re.compile(
    r"`(?P<code>[^`]+)`"
    r"|\*\*(?P<strong>[^*]+)\*\*"
    r"|\*(?P<em>[^*\s][^*]*)\*"
    r"|\[(?P<link>[^]]+)\]\((?P<address>[^)\s]+)\)"
)
_ITEM: Final = re.compile(r"(?:[-*]|(?P<number>\d+)\.) ")
_FENCE: Final = "```"


def spans(text: str) -> list[Span]:
    """The pieces of a line."""
    found: list[Span] = []
    at = 0
    for one in _SPAN.finditer(text):
        if one.start() > at:
            found.append(("text", text[at : one.start()]))
        kind = one.lastgroup
        assert kind is not None
        if kind == "address":
            found.append(("link", one["link"], one["address"]))
        else:
            found.append((kind, one[kind]))
        at = one.end()
    if at < len(text):
        found.append(("text", text[at:]))
    return found


def blocks(source: str) -> list[Block]:
    """`{"kind": "heading" | "paragraph", "spans": ...}`, `{"kind": "list", "is_numbered": ...,
    "items": [spans, ...]}` or `{"kind": "code", "text": ...}`.
    """
    found: list[Block] = []
    lines = source.splitlines()
    while lines:
        line = lines.pop(0)
        if line.startswith(_FENCE):
            end = lines.index(_FENCE) if _FENCE in lines else len(lines)
            found.append({"kind": "code", "text": "\n".join(lines[:end])})
            del lines[: end + 1]
        elif line.startswith("#"):
            found.append({"kind": "heading", "spans": spans(line.lstrip("# "))})
        elif line:
            together = [line]
            while lines and lines[0] and not lines[0].startswith(("#", _FENCE)):
                together.append(lines.pop(0))
            found.append(_together(together))
    return found


def _together(lines: list[str]) -> Block:
    """A list, if its first line is an item, whose items go on in indented lines; a paragraph."""
    first = _ITEM.match(lines[0])
    if first is None:
        return {"kind": "paragraph", "spans": spans(" ".join(lines))}
    number = 0
    numbered: list[tuple[int, str]] = []
    for line in lines:
        item = _ITEM.match(line)
        number += item is not None
        numbered.append((number, line[item.end() :] if item else line.strip()))
    items = [
        spans(" ".join(line for _, line in several))
        for _, several in groupby(numbered, key=lambda one: one[0])
    ]
    return {"kind": "list", "is_numbered": first["number"] is not None, "items": items}
