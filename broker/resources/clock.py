"""The clock of a broker's machines."""

from __future__ import annotations

from time import time_ns


def wall_clock_ms() -> int:
    """Milliseconds since the epoch; it may be set, also back."""
    return time_ns() // 1_000_000
