"""The course from end to end: every chapter in the terminal, and in a real browser.

One cluster for all. A question is first answered wrongly, and then as `tests/support/course.py`
finds it out by other ways than the course.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import pytest

from pybroker_kafka.learn.chapter import Ask, Chapter
from pybroker_kafka.learn.course import CLUSTER_CONFIG, chapters
from pybroker_kafka.testing import KafkaCluster
from tests.support.browser import browser_page, chromium
from tests.support.course import Answers
from tests.support.patience import until
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Page

WRONG = "4711"


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=3, metrics_port=0, config=CLUSTER_CONFIG) as cluster:
        yield cluster


class Terminal:
    """`pybroker learn CHAPTER`, read and answered as by a reader."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.text = ""

    def read_until(self, *words: str) -> str:
        """The text up to a line with one of these."""
        assert self._process.stdout is not None
        begin = len(self.text)
        while line := self._process.stdout.readline():
            self.text += line
            assert "ended with an error" not in line, self.text[-3000:]
            if any(word in line for word in words):
                return self.text[begin:]
        raise AssertionError(f"none of {words}: {self.text[-3000:]}")

    def type(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(60) == 0, self.text[-3000:]


@contextmanager
def learning(kafka: KafkaCluster, *words: str) -> Iterator[Terminal]:
    command = [sys.executable, "-m", "pybroker_kafka", "learn", *words]
    command += ["--data-dir", str(kafka.data_dir)]
    with TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=ROOT.parent,
            env=dict(os.environ, PYTHONUNBUFFERED="1"),
        )
        try:
            terminal = Terminal(process)
            yield terminal
            terminal.end()
        finally:
            process.kill()
            process.wait()
            log.seek(0)
            print(log.read(), end="")  # pytest shows it if this ends badly


RUN, ASK, SAYS = "runs it", "Your answer", "The cluster says"


def do_steps(terminal: Terminal, chapter: Chapter, answers: Answers, first: int, end: int) -> None:
    """Steps of a chapter whose text before the first one has not been read yet."""
    for number in range(first, end):
        step = chapter.steps[number]
        if isinstance(step, Ask):
            terminal.read_until(ASK)
            terminal.type(WRONG)
            terminal.read_until("something else")
            terminal.read_until(ASK)
            answer_well(terminal, step, answers)
        else:
            terminal.read_until(RUN)
            terminal.type("")


def answer_well(terminal: Terminal, step: Ask, answers: Answers) -> None:
    """What a reader sees may have changed a moment later: he looks again."""

    def is_right() -> bool:
        terminal.type(answers.answer(step.fact))
        said = terminal.read_until("Right: the cluster says", "something else")
        if "Right" in said:
            return True
        terminal.read_until(ASK)
        return False

    until(is_right)


@pytest.mark.parametrize("chapter", chapters(), ids=lambda one: one.name)
def test_a_chapter_in_the_terminal(kafka: KafkaCluster, chapter: Chapter) -> None:
    with learning(kafka, str(chapter.number), "--reset") as terminal:
        do_steps(terminal, chapter, Answers(kafka), 0, len(chapter.steps))
        terminal.read_until("the end of this chapter")


@pytest.mark.parametrize("chapter_name", ["producer"])
def test_a_chapter_in_a_browser(kafka: KafkaCluster, chapter_name: str) -> None:
    """The terminal begins it, and is at its end when the browser is."""
    from playwright.sync_api import expect

    chromium()
    chapter = next(one for one in chapters() if one.name == chapter_name)
    answers = Answers(kafka)
    with learning(kafka, chapter_name, "--reset") as terminal, browser_page() as page:
        address = terminal.read_until("Beside the text").split()[-1]
        page.goto(address)
        present = page.locator("[data-present]")
        for number, step in enumerate(chapter.steps):
            expect(page.locator("main")).to_contain_text(f"{number} of {len(chapter.steps)} steps")
            if isinstance(step, Ask):
                present.get_by_label("Your answer").fill(WRONG)
                present.get_by_role("button", name="Answer").click()
                expect(present).to_contain_text("The cluster does not say 4711")
                answer_in_browser(page, step, answers, number)
            else:
                press = "Break it" if step.does_break else "Run it"
                present.get_by_role("button", name=press, exact=True).click()
        expect(page.get_by_role("button", name="Begin anew")).to_be_visible()
        assert page.locator(".lesson .question .badge.good").count() == sum(
            isinstance(step, Ask) for step in chapter.steps
        )
        terminal.read_until("the end of this chapter")
        page.get_by_role("link", name="All chapters").click()
        expect(page.get_by_role("listitem").filter(has_text=chapter.title)).to_contain_text("done")


def answer_in_browser(page: Page, step: Ask, answers: Answers, number: int) -> None:
    from playwright.sync_api import expect

    passed = page.get_by_text(f"{number + 1} of ")

    def is_right() -> bool:
        present = page.locator("[data-present]")
        given = answers.answer(step.fact)
        present.get_by_label("Your answer").fill(given)
        present.get_by_role("button", name="Answer").click()
        expect(page.get_by_text(f"does not say {given}.").or_(passed).first).to_be_visible()
        return passed.count() > 0

    until(is_right)
