"""The past: the last events, and series of the last 15 minutes; pure.

Invariants: nothing here grows beyond its limit; points of a series are in the order of their times.
All times are in ms since 1970.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from .cluster_view import Happening

EVENTS_KEPT: Final = 1000
SERIES_MS: Final = 15 * 60 * 1000
POINTS_MAX: Final = 900
SERIES_MAX: Final = 400
TEXT_MAX: Final = 400


class Event(NamedTuple):
    """`number` counts from 1, so that a browser can name the last event it has."""

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
            at_ms = now_ms if one.at_ms is None else one.at_ms
            added.append(Event(self._count, at_ms, one.kind, one.text[:TEXT_MAX]))
        self._events.extend(added)
        return added

    def all(self) -> list[Event]:
        return list(self._events)


class Point(NamedTuple):
    """A value at a time."""

    at_ms: int
    value: float


class Series:
    """The measured values of the last 15 minutes, by name."""

    def __init__(self) -> None:
        self._points: dict[str, deque[Point]] = {}

    def add(self, values: Mapping[str, float], now_ms: int) -> None:
        """Add a point to each named series; others are dropped when their last point is too old."""
        for name, value in values.items():
            if name not in self._points and len(self._points) >= SERIES_MAX:
                continue
            self._points.setdefault(name, deque(maxlen=POINTS_MAX)).append(Point(now_ms, value))
        for name, points in list(self._points.items()):
            while points and points[0].at_ms < now_ms - SERIES_MS:
                points.popleft()
            if not points:
                del self._points[name]

    def all(self) -> dict[str, list[Point]]:
        """All points by name, in the order of their times."""
        return {name: list(points) for name, points in self._points.items()}


class Counters:
    """Rates a second out of totals that grow; a total that fell back began anew."""

    def __init__(self) -> None:
        self._last: dict[str, Point] = {}

    def rates(self, totals: Mapping[str, float], now_ms: int) -> dict[str, float]:
        """The rates of all totals that were also given the last time."""
        found = {}
        for name, total in totals.items():
            before = self._last.get(name)
            if before is not None and now_ms > before.at_ms:
                grown = total - before.value if total >= before.value else total
                found[name] = 1000 * grown / (now_ms - before.at_ms)
        self._last = {name: Point(now_ms, total) for name, total in totals.items()}
        return found
