"""Where a reader is, by the table of `learn/progress.py`."""

from __future__ import annotations

import pytest

from pybroker_kafka.learn.chapter import Chapter, parse
from pybroker_kafka.learn.progress import (
    ANSWER_CHARACTERS_MAX,
    ANSWERS_KEPT,
    Answered,
    BadProgress,
    Event,
    Progress,
    Reached,
    WrongStep,
    from_json,
    to_json,
)

PAGE = """# T
<!-- do -->
```sh
true
```
<!-- ask: controller -->
> Who?
<!-- break -->
```sh
false
```
"""
CHAPTER = parse(1, "one", PAGE)


def test_from_the_first_step_to_the_end() -> None:
    progress = Progress()
    assert progress.step(CHAPTER) == CHAPTER.steps[0]
    progress = progress.after(CHAPTER, Event.RAN)
    progress = progress.after(CHAPTER, Event.WRONG, "7")
    assert progress.reached(CHAPTER).passed == 1
    progress = progress.after(CHAPTER, Event.RIGHT, "2")
    progress = progress.after(CHAPTER, Event.RAN)
    assert progress.step(CHAPTER) is None
    assert progress.reached(CHAPTER) == Reached(3, 3, {1: Answered(("7", "2"))})
    assert from_json(to_json(progress)) == progress


def test_an_answer_that_was_shown() -> None:
    progress = Progress().after(CHAPTER, Event.RAN).after(CHAPTER, Event.SHOWN)
    assert progress.reached(CHAPTER) == Reached(3, 2, {1: Answered((), is_shown=True)})


@pytest.mark.parametrize(
    ("passed", "event"),
    [
        *((passed, event) for passed in (0, 2) for event in Event if event is not Event.RAN),
        (1, Event.RAN),
        *((3, event) for event in Event),
    ],
)
def test_other_events_change_nothing(passed: int, event: Event) -> None:
    progress = Progress({"one": Reached(3, passed)})
    with pytest.raises(WrongStep):
        progress.after(CHAPTER, event, "x")
    assert progress == Progress({"one": Reached(3, passed)})


def test_many_and_long_answers() -> None:
    progress = Progress().after(CHAPTER, Event.RAN)
    for number in range(ANSWERS_KEPT + 5):
        progress = progress.after(CHAPTER, Event.WRONG, f"{number}" + "x" * 1000)
    given = progress.reached(CHAPTER).answers[1].given
    assert len(given) == ANSWERS_KEPT
    assert given[-1].startswith(str(ANSWERS_KEPT + 4))
    assert {len(one) for one in given} == {ANSWER_CHARACTERS_MAX}


def test_a_chapter_whose_page_has_changed_begins_anew() -> None:
    progress = Progress({"one": Reached(5, 5), "two": Reached(2, 1)})
    assert progress.reached(CHAPTER) == Reached(3)
    assert progress.after(CHAPTER, Event.RAN).chapters == {
        "one": Reached(3, 1),
        "two": Reached(2, 1),
    }


def test_reset() -> None:
    progress = Progress({"one": Reached(3, 3), "two": Reached(2, 1)})
    assert progress.reset("one") == Progress({"two": Reached(2, 1)})
    assert progress.reset("three") == progress


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        '{"version": 2, "chapters": {}}',
        '{"version": 1, "chapters": []}',
        '{"version": 1, "chapters": {"one": 3}}',
        '{"version": 1, "chapters": {"one": {"steps": 3, "passed": 4, "answers": {}}}}',
        '{"version": 1, "chapters": {"one": {"steps": 3, "passed": 1, "answers": {"x": {}}}}}',
        '{"version": 1, "chapters": {"one": {"steps": 3, "passed": 1, "answers": [1]}}}',
    ],
)
def test_a_file_that_is_not_understood(text: str) -> None:
    with pytest.raises(BadProgress):
        from_json(text)


def test_nothing_is_reached_of_an_unknown_chapter() -> None:
    other = Chapter(2, "two", "T", (), (), ())
    assert Progress().step(other) is None
