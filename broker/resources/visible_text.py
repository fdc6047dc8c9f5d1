"""Text from outside as one visible line: names, addresses and messages that clients, other brokers
and files have made, on their way into a log or onto a terminal.

Invariant: the result has no character that ends a line, moves a cursor, is read backwards or cannot
be encoded. Such a character is written as Python writes it: `\\n`, `\\x1b`, `\\u2028`.
Letters of all languages stay. Leaves out the backslash, which stays single: paths are readable, and
nothing is read back from here.
"""

from __future__ import annotations

import re
from typing import Final

# Controls (C0, DEL, C1), line and paragraph separators, what turns the direction of text, and
# halves of surrogate pairs.
_HIDDEN: Final = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff\\ud800-\\udfff]"
)
_JSON_HIDDEN: Final = re.compile(_HIDDEN.pattern.replace("\\x00-\\x1f", ""))


def visible(text: str) -> str:
    """`text` as one visible line."""
    return _HIDDEN.sub(_escaped, text) if _HIDDEN.search(text) else text


def visible_lines(text: str) -> str:
    """The same, with its line ends (`\\n`) and tabs as they are."""
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in text.split("\n"))


def visible_json(text: str) -> str:
    """JSON with the same meaning: hidden characters can only stand in its strings."""
    return _JSON_HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escaped(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]
