"""The timeline that a console keeps."""

from __future__ import annotations

from pybroker.broker.console.cluster_view import Happening
from pybroker.broker.console.history import EVENTS_KEPT, Timeline


def test_the_timeline_keeps_the_last_events_with_their_numbers() -> None:
    timeline = Timeline()
    for number in range(EVENTS_KEPT + 5):
        timeline.add([Happening("node", str(number))], number)
    kept = timeline.all()
    assert len(kept) == EVENTS_KEPT
    assert (kept[0].number, kept[-1].number) == (6, EVENTS_KEPT + 5)
    assert timeline.add([], 0) == []
