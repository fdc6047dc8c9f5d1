"""What has been: the last events; pure.

Invariant: nothing here grows beyond its limit. All times are in ms since 1970.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from .cluster_view import Happening

EVENTS_KEPT: Final = 1000
TEXT_MAX: Final = 400


class Event(NamedTuple):
    """`number` counts from 1, so that a browser knows what it has."""

    number: int
    at_ms: int
    kind: str
    text: str


class Timeline:
    """The last EVENTS_KEPT events."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._count = 0

    def add(self, happened: Iterable[Happening], now_ms: int) -> list[Event]:
        """Returns them as they are kept."""
        added = []
        for one in happened:
            self._count += 1
            added.append(Event(self._count, now_ms, one.kind, one.text[:TEXT_MAX]))
        self._events.extend(added)
        return added

    def all(self) -> list[Event]:
        return list(self._events)
