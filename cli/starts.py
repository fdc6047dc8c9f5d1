"""The bounds of reading: `-o` and `--until`; pure.

Mirrors: the -o of kcat.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .group_resets import parse_time
from .options import UserError

EXPECTED = "beginning, end, OFFSET, -N (the last N of each partition) or @TIME"
END = "end"


class Start(NamedTuple):
    """A start; exactly one field is given. `word` is beginning or end."""

    word: str | None = None
    offset: int | None = None
    last: int | None = None
    at_ms: int | None = None

    def offset_in(self, first: int, end: int) -> int | None:
        """The offset in a partition, within its log; None unless the start is a number."""
        if self.last is not None:
            return max(first, end - self.last)
        return self.offset


class End(NamedTuple):
    """None: never; else the log end at the start, or the first record at or after a time."""

    at_end: bool = False
    at_ms: int | None = None


def parse_start(text: str) -> Start:
    """Raises UserError."""
    if text in ("beginning", "earliest"):
        return Start(word="beginning")
    if text in (END, "latest"):
        return Start(word=END)
    if re.fullmatch(r"\d+", text):
        return Start(offset=int(text))
    if re.fullmatch(r"-\d+", text):
        return Start(last=int(text[1:]))
    if text.startswith("@"):
        return Start(at_ms=parse_time(text[1:]))
    raise UserError(f"-o {text!r} is not {EXPECTED}")


def parse_end(text: str | None) -> End:
    """Raises UserError."""
    if text is None:
        return End()
    if text == END:
        return End(at_end=True)
    if text.startswith("@"):
        return End(at_ms=parse_time(text[1:]))
    raise UserError(f"--until {text!r} is not end or @TIME")
