"""The events of a cluster, with their times: for the report of a failed test."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .history import Change

MAX_EVENTS = 1_000
MAX_FAILURES = 8
LOG_TAIL_BYTES = 32 * 1024
LOG_LINES = 8

# The stories of clusters that have ended with an exception since a report was made.
failures: deque[str] = deque(maxlen=MAX_FAILURES)


class Story:
    """The last events, each with its second since the first."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._began_ms = time.time_ns() // 1_000_000  # of the clock that brokers have
        self._events: deque[tuple[float, str]] = deque(maxlen=MAX_EVENTS)
        self._changes: dict[Change, None] = {}  # the added ones, each once

    def tell(self, text: str) -> None:
        self._events.append((time.monotonic() - self._began, text))

    def add(self, changes: Iterable[Change]) -> None:
        """Add changes that brokers saw meanwhile."""
        self._changes.update(dict.fromkeys(changes))
        while len(self._changes) > MAX_EVENTS:
            del self._changes[next(iter(self._changes))]

    def lines(self) -> list[str]:
        seen = [((one.at_ms - self._began_ms) / 1000, one.text) for one in self._changes]
        events = sorted([*self._events, *seen])
        now = time.monotonic() - self._began
        return [*(f"{at:9.3f} s  {text}" for at, text in events), f"{now:9.3f} s  (now)"]


def log_tails(directory: Path) -> list[str]:
    """The last lines of each node's log, and of the supervisor's."""
    lines: list[str] = []
    for path in sorted(directory.glob("*.log")):
        tail = _tail(path)
        if tail:
            lines += [f"{path.name}:", *(f"  {line}" for line in tail)]
    return lines


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
            return file.read().decode(errors="replace").splitlines()[-LOG_LINES:]
    except OSError:
        return []


def chapter(title: str, lines: Iterable[str]) -> list[str]:
    """The titled lines; nothing without lines."""
    told = [f"  {line}" for line in lines]
    return [f"{title}:", *told] if told else []
