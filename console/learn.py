"""The page of the course: the state of a `Course` for the browsers, and the orders of a reader.

An order names the step that it is for, so that a second press of a button does nothing. A block may
take longer than an answer of the console may: orders are carried out by tasks of the course, and
the browsers are notified of each change by a message of the kind `course`.
"""

from __future__ import annotations

from typing import Any, Final

import trio

from ..learn.chapter import Ask, Chapter, Part, Run, Text
from ..learn.course import Course, CourseError, named
from ..learn.progress import Answered
from ..learn.prose import blocks, spans
from .asked import Wrong, number, text
from .live import Live

ORDERS: Final = ("open", "restart", "run", "skip", "answer", "show")


def course_state(course: Course) -> dict[str, Any]:
    """The list of chapters, and the open one as far as its reader has come."""
    return {
        "chapters": [
            {
                "number": one.number,
                "name": one.name,
                "title": one.title,
                "passed": course.progress.reached(one).passed,
                "steps": len(one.steps),
            }
            for one in course.chapters
        ],
        "doing": course.doing,
        "problem": course.problem,
        "open": None if course.chapter is None else _open(course, course.chapter),
    }


def _open(course: Course, chapter: Chapter) -> dict[str, Any]:
    """All parts up to the present step, with what was printed and answered."""
    reached = course.progress.reached(chapter)
    found: list[dict[str, Any]] = []
    step = 0
    for part in chapter.parts:
        if step > reached.passed:
            break
        found.append({"watch": part.watch, **_part(course, part, step)})
        step += not isinstance(part, Text)
    return {
        "number": chapter.number,
        "title": chapter.title,
        "step": reached.passed,
        "steps": reached.steps,
        "parts": found,
    }


def _part(course: Course, part: Part, step: int) -> dict[str, Any]:
    match part:
        case Text():
            return {"kind": "text", "blocks": blocks(part.source)}
        case Run():
            ran = course.outputs.get(step)
            return {
                "kind": "run",
                "step": step,
                "code": course.code(step),
                "does_break": part.does_break,
                "output": None if ran is None else ran.output,
                "is_well": ran is None or ran.is_well,
            }
        case Ask():
            return {
                "kind": "ask",
                "step": step,
                "spans": spans(part.source),
                **_asked(course, part, step),
            }


def _asked(course: Course, part: Ask, step: int) -> dict[str, Any]:
    reached = course.reached
    answered = reached.answers.get(step, Answered())
    verdict = course.verdicts.get(step)
    is_right = step < reached.passed and not answered.is_shown
    return {
        "given": answered.given[-1] if answered.given else "",
        "tries": len(answered.given),
        "is_right": is_right,
        "says": "" if verdict is None else verdict.says,
        "hint": spans(part.hint) if answered.given and step == reached.passed else [],
    }


async def order_course(course: Course, asked: dict[str, Any]) -> dict[str, bool]:
    """`{"do": "open" | "restart", "chapter": NUMBER}`; `{"do": "run" | "skip" | "answer" | "show",
    "step": NUMBER, "text": ANSWER}`. Raises Wrong.
    """
    try:
        _order(course, asked)
    except CourseError as error:
        raise Wrong(str(error)) from error
    return {"begun": True}


def _order(course: Course, asked: dict[str, Any]) -> None:
    what = text(asked, "do")
    if what not in ORDERS:
        raise Wrong(f"the orders are {', '.join(ORDERS)}")
    if course.doing:
        raise Wrong(f"wait: {course.doing}")
    match what:
        case "open" | "restart":
            chapter = named(course.chapters, text(asked, "chapter"))
            begin = course.open if what == "open" else course.restart
            course.carry_out(lambda: begin(chapter))
        case "answer":
            step, given = number(asked, "step"), text(asked, "text")
            course.carry_out(lambda: course.answer(step, given))
        case _:
            step = number(asked, "step")
            act = {"run": course.run, "skip": course.skip, "show": course.show}[what]
            course.carry_out(lambda: act(step))


async def tell_browsers(course: Course, live: Live) -> None:
    """Send each change to all browsers, until cancelled."""
    with course.follow(lambda: live.send({"kind": "course", **course_state(course)})):
        await trio.sleep_forever()
