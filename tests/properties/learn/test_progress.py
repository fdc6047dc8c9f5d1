"""A reader's progress against a dumb twin: a list of what happened, read anew each time."""

from __future__ import annotations

import random

from pybroker_kafka.learn.chapter import Ask, Chapter, Run
from pybroker_kafka.learn.progress import Event, Progress, WrongStep, from_json, to_json
from tests.support import examples

HISTORIES = examples.of(300)
EVENTS_MAX = 60


def random_chapter(chance: random.Random) -> Chapter:
    run, ask = Run("sh", "", False, "", ""), Ask(("controller",), "", "", "")
    steps = tuple(chance.choice((run, ask)) for _ in range(chance.randrange(8)))
    return Chapter(1, "one", "T", (), (), steps)


def passed_by(chapter: Chapter, happened: list[Event]) -> int:
    """The steps that are passed after these events; illegal ones are not counted."""
    left = list(chapter.steps)
    for event in happened:
        passing = (Event.RAN,) if left and isinstance(left[0], Run) else (Event.RIGHT, Event.SHOWN)
        if left and event in passing:
            left.pop(0)
    return len(chapter.steps) - len(left)


def test_random_histories() -> None:
    for seed in range(HISTORIES):
        chance = random.Random(seed)
        chapter, progress = random_chapter(chance), Progress()
        happened: list[Event] = []
        for _ in range(chance.randrange(EVENTS_MAX)):
            event = chance.choice(list(Event))
            before = progress
            try:
                progress = progress.after(chapter, event, chance.choice(("", "1", "two\n\u2028")))
            except WrongStep:
                assert progress is before, f"seed {seed}"
            happened.append(event)
            assert progress.reached(chapter).passed == passed_by(chapter, happened), f"seed {seed}"
            assert from_json(to_json(progress)) == progress, f"seed {seed}"
            assert all(step < len(chapter.steps) for step in progress.reached(chapter).answers)
