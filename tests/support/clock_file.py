"""A file that says how far a wall clock is ahead: as libfaketime reads it, or by `read`."""

from __future__ import annotations

import time
from pathlib import Path


def write(clock: Path, ahead_seconds: int) -> None:
    """So far ahead of the machine's, or behind it."""
    other = clock.with_suffix(".new")
    other.write_text(f"{ahead_seconds:+d}\n")
    other.rename(clock)  # nobody is to read the half of it


def read(clock: Path) -> int:
    """What the clock shows, in ms since the epoch."""
    return time.time_ns() // 1_000_000 + 1000 * int(clock.read_text())
