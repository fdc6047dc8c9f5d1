"""Durations as Java writes them, like PT36H and P1DT2H3M4.5S.

Mirrors java.time.Duration.parse.
"""

from __future__ import annotations

import re
from typing import Final

_DURATION: Final = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?\d+)D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?\d+)H)?(?:(?P<minutes>[-+]?\d+)M)?"
    r"(?:(?P<seconds>[-+]?\d+)(?:[.,](?P<fraction>\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_MAX_DIGITS: Final = 15
_MS_PER_UNIT: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


def duration_ms(text: str) -> int | None:
    """The milliseconds of a duration, rounded down; None if the text is none."""
    match = _DURATION.fullmatch(text)
    if match is None or (match["time"] or "").upper() == "T":
        return None
    parts = {unit: match[unit] for unit in _MS_PER_UNIT if match[unit] is not None}
    if not parts or any(len(number) > _MAX_DIGITS for number in parts.values()):
        return None
    nanos = sum(int(number) * _MS_PER_UNIT[unit] for unit, number in parts.items()) * 1_000_000
    fraction = int((match["fraction"] or "").ljust(9, "0"))
    nanos += -fraction if parts.get("seconds", "").startswith("-") else fraction
    return (-nanos if match["sign"] == "-" else nanos) // 1_000_000
