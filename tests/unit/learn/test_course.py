"""The course's events, on a cluster that is played: steps, orders at the wrong time, progress."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from pybroker_kafka.console.asked import Wrong
from pybroker_kafka.console.learn import course_state, order_course
from pybroker_kafka.learn import course as module
from pybroker_kafka.learn.answers import Answer, Number
from pybroker_kafka.learn.chapter import Run, parse
from pybroker_kafka.learn.course import (
    PROGRESS_FILE,
    Course,
    CourseError,
    Verdict,
    load_progress,
    named,
    save_progress,
)
from pybroker_kafka.learn.living import NoAnswer
from pybroker_kafka.learn.programs import Place, Ran
from pybroker_kafka.learn.progress import Progress

CHAPTER = parse(
    1,
    "one",
    """# One
Text with `code`.
<!-- do -->
```sh
first 127.0.0.1:9092
```
<!-- ask: controller -->
<!-- hint: Look *there*. -->
> Who?
<!-- break -->
```sh
kill {controller}
```
Last.
""",
)
PLACE = Place("here:1", "here:2", Path("/nowhere"))


class Programs:
    """What was run; a code that has `bad` in it fails."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.is_well = True
        self.go_on = trio.Event()
        self.go_on.set()

    async def run(self, _block: Run, code: str) -> Ran:
        await self.go_on.wait()
        self.ran.append(code.strip())
        return Ran(self.is_well, "output\n")


@asynccontextmanager
async def played(
    folder: Path, monkeypatch: pytest.MonkeyPatch, progress: Progress | None = None
) -> AsyncIterator[tuple[Course, Programs]]:
    async def answer(_living: object, fact: tuple[str, ...]) -> Answer:
        if fact != ("controller",):
            raise NoAnswer("unknown")
        return Number(2)

    async def prepare(_self: Course, _chapter: object) -> None:
        await trio.lowlevel.checkpoint()

    place = PLACE._replace(data_dir=folder)
    monkeypatch.setattr(module, "answer", answer)
    monkeypatch.setattr(module, "place_of", lambda _data_dir: place)
    monkeypatch.setattr(Course, "_prepare", prepare)
    programs: Any = Programs()
    cluster: Any = None
    async with trio.open_nursery() as nursery:
        course = Course(place, progress or Progress(), cluster, programs, nursery)
        course.chapters = (CHAPTER,)
        yield course, programs
        nursery.cancel_scope.cancel()


async def test_from_the_beginning_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with played(tmp_path, monkeypatch) as (course, programs):
        changes: list[str] = []
        with course.follow(lambda: changes.append(course.doing)):
            await course.open(CHAPTER)
            assert course.code(0) == "first here:1\n"
            assert await course.run(0) == Ran(True, "output\n")
            assert await course.answer(1, "7") == Verdict(False, "")
            assert await course.answer(1, "2") == Verdict(True, "2")
            assert course.code(2) == "kill 2\n"
            await course.run(2)
        assert course.step is None
        assert programs.ran == ["first here:1", "kill 2"]
        assert load_progress(tmp_path) == course.progress
        assert changes == [
            *("the stage is made ready", ""),
            *("the block runs", "", "the cluster is asked", "", "the cluster is asked", ""),
            *("the block runs", ""),
        ]
        await course.open(CHAPTER)  # it is done: nothing is run again
        assert len(programs.ran) == 2
        await course.restart(CHAPTER)
        assert course.reached.passed == 0


async def test_a_step_that_fails_stays_the_present_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with played(tmp_path, monkeypatch) as (course, programs):
        await course.open(CHAPTER)
        programs.is_well = False
        assert not (await course.run(0)).is_well
        assert course.reached.passed == 0
        await course.skip(0)
        assert course.reached.passed == 1
        assert await course.show(1) == Verdict(False, "2")
        assert course.reached.answers[1].is_shown


async def test_what_was_passed_is_run_again_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with played(tmp_path, monkeypatch) as (course, _):
        await course.open(CHAPTER)
        await course.run(0)
        await course.answer(1, "2")
    async with played(tmp_path, monkeypatch, load_progress(tmp_path)) as (course, programs):
        await course.open(CHAPTER)
        assert programs.ran == ["first here:1"]
        assert course.reached.passed == 2
        assert course.outputs == {0: Ran(True, "output\n")}


async def test_orders_at_the_wrong_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with played(tmp_path, monkeypatch) as (course, programs):
        with pytest.raises(CourseError, match="no chapter is open"):
            await course.run(0)
        await course.open(CHAPTER)
        for wrong in (course.run(1), course.run(-1), course.answer(1, "2"), course.show(0)):
            with pytest.raises(CourseError, match="step"):
                await wrong
        with pytest.raises(CourseError, match="another kind of step"):
            await course.answer(0, "2")
        programs.go_on = trio.Event()
        course.carry_out(lambda: course.run(0))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(CourseError, match="wait: the block runs"):
            await course.run(0)
        programs.go_on.set()
        await trio.testing.wait_all_tasks_blocked()
        assert course.reached.passed == 1


async def test_a_progress_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with played(tmp_path / "missing", monkeypatch) as (course, _):
        await course.open(CHAPTER)
        with pytest.raises(CourseError, match="the progress cannot be written"):
            await course.run(0)
        assert course.reached.passed == 0
        assert "cannot be written" in course.problem


def test_a_file_of_progress(tmp_path: Path) -> None:
    assert load_progress(tmp_path) == Progress()
    save_progress(tmp_path, Progress())
    assert load_progress(tmp_path) == Progress()
    assert [one.name for one in tmp_path.iterdir()] == [PROGRESS_FILE]
    (tmp_path / PROGRESS_FILE).write_bytes(b"\xff")
    with pytest.raises(CourseError, match="--reset begins anew"):
        load_progress(tmp_path)


def test_one_reader_at_a_time(tmp_path: Path) -> None:
    with (
        module._alone_on(tmp_path),
        pytest.raises(CourseError, match="open in another terminal"),
        module._alone_on(tmp_path),
    ):
        pass
    with module._alone_on(tmp_path):
        pass


def test_chapters_by_number_and_name() -> None:
    assert named([CHAPTER], "1") is CHAPTER
    assert named([CHAPTER], "one") is CHAPTER
    with pytest.raises(CourseError, match="no chapter 'two'"):
        named([CHAPTER], "two")


# The console


async def test_what_the_browser_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with played(tmp_path, monkeypatch) as (course, _):
        assert course_state(course)["open"] is None
        await order_course(course, {"do": "open", "chapter": "1"})
        await trio.testing.wait_all_tasks_blocked()
        found = course_state(course)
        assert found["chapters"] == [
            {"number": 1, "name": "one", "title": "One", "passed": 0, "steps": 3}
        ]
        text, run = found["open"]["parts"]
        assert text["blocks"][0]["spans"][1] == ("code", "code")
        assert (run["step"], run["code"], run["output"]) == (0, "first here:1\n", None)
        await order_course(course, {"do": "run", "step": 0})
        await trio.testing.wait_all_tasks_blocked()
        await order_course(course, {"do": "answer", "step": 1, "text": "9"})
        await trio.testing.wait_all_tasks_blocked()
        *_, asked = course_state(course)["open"]["parts"]
        assert (asked["tries"], asked["given"], asked["is_right"]) == (1, "9", False)
        assert asked["hint"] == [("text", "Look "), ("em", "there"), ("text", ".")]
        await order_course(course, {"do": "show", "step": 1})
        await trio.testing.wait_all_tasks_blocked()
        *_, asked, run = course_state(course)["open"]["parts"]
        assert (asked["says"], asked["is_right"], asked["hint"]) == ("2", False, [])
        assert run["does_break"]
        await order_course(course, {"do": "skip", "step": 2})
        await trio.testing.wait_all_tasks_blocked()
        assert course_state(course)["open"]["parts"][-1]["kind"] == "text"


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"do": "rm -rf"},
        {"do": 3},
        {"do": "open"},
        {"do": "open", "chapter": 1},
        {"do": "run"},
        {"do": "run", "step": "0"},
        {"do": "answer", "step": 1},
        {"do": "answer", "step": 1, "text": 2},
    ],
)
async def test_what_is_no_order(
    asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with played(tmp_path, monkeypatch) as (course, programs):
        with pytest.raises(Wrong):
            await order_course(course, asked)
        assert not programs.ran


async def test_an_order_for_another_step_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with played(tmp_path, monkeypatch) as (course, programs):
        await course.open(CHAPTER)
        await order_course(course, {"do": "run", "step": 2})
        await trio.testing.wait_all_tasks_blocked()
        assert course_state(course)["problem"] == "step 3 is not the present one"
        assert not programs.ran
