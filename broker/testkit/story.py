"""What happened to a cluster, and when: for the report of a test that has failed."""

from __future__ import annotations

import time
from collections import deque

MAX_EVENTS = 1_000


class Story:
    """The last events, each with its second since the first."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._events: deque[tuple[float, str]] = deque(maxlen=MAX_EVENTS)

    def tell(self, text: str) -> None:
        self._events.append((time.monotonic() - self._began, text))

    def lines(self) -> list[str]:
        return [f"{at:8.3f} s  {text}" for at, text in self._events]
