"""The progress of a reader through the chapters: a machine without a clock or a file; pure.

A chapter is a row of steps. A block is passed when it has run (or its reader has run it); a
question when it is answered, or its answer was shown. The table:

    step        event       then
    Run         ran         the next step
    Ask         right       the next step, with the answers that were given
    Ask         wrong       the same step, with one answer more
    Ask         shown       the next step, marked as shown

Invariants: `passed` never falls but by `reset`; any other event raises WrongStep and changes
nothing. A chapter whose number of steps is not that of the file begins anew: its page has changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from .chapter import Ask, Chapter, Run, Step

VERSION: Final = 1
ANSWERS_KEPT: Final = 20  # of one question
ANSWER_CHARACTERS_MAX: Final = 200


class WrongStep(Exception):
    """This is not the step at which the reader is."""


class BadProgress(Exception):
    """The file of a reader's progress is not understood."""


class Event(StrEnum):
    """The result of a step."""

    RAN = "ran"
    RIGHT = "right"
    WRONG = "wrong"
    SHOWN = "shown"


TABLE: Final[Mapping[type[Step], Mapping[Event, bool]]] = {  # whether the step is passed
    Run: {Event.RAN: True},
    Ask: {Event.RIGHT: True, Event.WRONG: False, Event.SHOWN: True},
}


@dataclass(frozen=True, slots=True)
class Answered:
    """The answers to one question, in their order."""

    given: tuple[str, ...] = ()
    is_shown: bool = False


@dataclass(frozen=True, slots=True)
class Reached:
    """The progress in one chapter. `passed`: the number of steps; `answers`: by step."""

    steps: int
    passed: int = 0
    answers: Mapping[int, Answered] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Progress:
    """All chapters that were begun, by name; each change makes another object."""

    chapters: Mapping[str, Reached] = field(default_factory=dict)

    def reached(self, chapter: Chapter) -> Reached:
        """The progress in a chapter; that of a chapter that has changed is none."""
        steps = len(chapter.steps)
        found = self.chapters.get(chapter.name)
        return found if found is not None and found.steps == steps else Reached(steps)

    def step(self, chapter: Chapter) -> Step | None:
        """The step at which the reader is; None at the end."""
        passed = self.reached(chapter).passed
        return chapter.steps[passed] if passed < len(chapter.steps) else None

    def after(self, chapter: Chapter, event: Event, given: str = "") -> Progress:
        """The progress after an event of the present step. Raises WrongStep."""
        step, reached = self.step(chapter), self.reached(chapter)
        if step is None or event not in TABLE[type(step)]:
            raise WrongStep(f"{event} is for another step than {reached.passed + 1}")
        answers = dict(reached.answers)
        if isinstance(step, Ask):
            before = answers.get(reached.passed, Answered())
            tries = (*before.given, given[:ANSWER_CHARACTERS_MAX]) if given else before.given
            answers[reached.passed] = Answered(tries[-ANSWERS_KEPT:], event is Event.SHOWN)
        passed = reached.passed + TABLE[type(step)][event]
        return self._with(chapter.name, replace(reached, passed=passed, answers=answers))

    def reset(self, name: str) -> Progress:
        """Without what was reached in a chapter."""
        return Progress({key: one for key, one in self.chapters.items() if key != name})

    def _with(self, name: str, reached: Reached) -> Progress:
        return Progress({**self.chapters, name: reached})


def to_json(progress: Progress) -> str:
    """The text of the file."""
    chapters = {
        name: {
            "steps": one.steps,
            "passed": one.passed,
            "answers": {
                str(step): {"given": list(found.given), "is_shown": found.is_shown}
                for step, found in one.answers.items()
            },
        }
        for name, one in progress.chapters.items()
    }
    return json.dumps({"version": VERSION, "chapters": chapters}, indent=2) + "\n"


def from_json(text: str) -> Progress:
    """Raises BadProgress."""
    try:
        found = json.loads(text)
        if found["version"] != VERSION:
            raise BadProgress(f"its version is {found['version']!r}, not {VERSION}")
        return Progress({str(name): _reached(one) for name, one in found["chapters"].items()})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadProgress(f"it is not the file of a reader's progress: {error}") from None


def _reached(found: Mapping[str, Any]) -> Reached:
    steps, passed = int(found["steps"]), int(found["passed"])
    if not 0 <= passed <= steps:
        raise ValueError(f"{passed} of {steps} steps")
    answers = {
        int(step): Answered(tuple(map(str, one["given"])), bool(one["is_shown"]))
        for step, one in found["answers"].items()
    }
    return Reached(steps, passed, answers)
