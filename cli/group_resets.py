"""The targets of `pybroker groups reset`: the values of `--to`, and files.

Mirrors: the reset specifications of ConsumerGroupCommand.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..client.admin.resets import Reset
from .options import UserError

if TYPE_CHECKING:
    from ..client.admin.group_offsets import CommittedOffset
    from ..protocol.topics import TopicPartition

_DURATION = re.compile(
    r"-P(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_SHORT_DURATION = re.compile(
    r"-(?:(?P<days>\d+)d)?(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m)?(?:(?P<seconds>\d+)s)?"
)
_SECONDS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}
EXPECTED = "earliest, latest, current, OFFSET, +N, -N, @TIME, -PT1H or -1h"


class ResetPlan(NamedTuple):
    """Offsets by partition, as they were and as they are to be."""

    before: Mapping[TopicPartition, CommittedOffset]
    after: Mapping[TopicPartition, int]


class LikeGroup(NamedTuple):
    """The target is another group's offsets."""

    name: str


def parse_reset(
    where: str | None, file: Path | None, group: str | None
) -> Reset | LikeGroup | dict[TopicPartition, int]:
    """Raises UserError."""
    if (where is not None) + (file is not None) + (group is not None) != 1:
        raise UserError(f"say where to: --to {EXPECTED}; or --from-file FILE or --to-group GROUP")
    if file is not None:
        return _read(file)
    if group is not None:
        return LikeGroup(group)
    assert where is not None
    return parse_where(where)


def parse_where(text: str) -> Reset:
    """The target in `--to`. Raises UserError."""
    if text in ("earliest", "latest", "current"):
        return Reset(word=text)
    if re.fullmatch(r"\d+", text):
        return Reset(absolute=int(text))
    if re.fullmatch(r"[+-]\d+", text):
        return Reset(shift=int(text))
    if text.startswith("@"):
        return Reset(at_ms=parse_time(text[1:]))
    ago_ms = _ago_ms(text)
    if ago_ms is not None:
        return Reset(ago_ms=ago_ms)
    raise UserError(f"--to {text!r} is not {EXPECTED}")


def parse_time(text: str) -> int:
    """A time in ms since 1970, as ISO 8601 has it, or so long ago: -1h30m, -PT1H30M. Raises
    UserError."""
    if re.fullmatch(r"\d+", text):
        return int(text)
    ago_ms = _ago_ms(text)
    if ago_ms is not None:
        return int(time.time() * 1000) - ago_ms
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise UserError(
            f"{text!r} is no time: write ms since 1970, 2026-11-23T04:00:00, or -1h for an hour ago"
        ) from None


def _ago_ms(text: str) -> int | None:
    """A duration in ms; None if the text is none."""
    for form in (_DURATION, _SHORT_DURATION):
        found = form.fullmatch(text)
        if found and any(found.groupdict().values()):
            seconds = sum(float(found[unit] or 0) * size for unit, size in _SECONDS.items())
            return int(seconds * 1000)
    return None


def _read(file: Path) -> dict[TopicPartition, int]:
    """Lines of TOPIC,PARTITION,OFFSET. Raises UserError."""
    found: dict[TopicPartition, int] = {}
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        parts = [part.strip().strip('"') for part in line.split(",")]
        if len(parts) != 3 or not parts[1].isdecimal() or not parts[2].isdecimal():
            raise UserError(f"{file}, line {number}: {line!r} is not TOPIC,PARTITION,OFFSET")
        found[parts[0], int(parts[1])] = int(parts[2])
    if not found:
        raise UserError(f"{file} has no lines of TOPIC,PARTITION,OFFSET")
    return found
