"""The course from end to end in a real browser, with the terminal that belongs to it.

One cluster for all chapters. `make nightly` takes them. With
PYBROKER_PICTURES=docs/pictures the page is kept as the picture of docs/LEARN.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pybroker_kafka.learn.chapter import Ask, Chapter
from pybroker_kafka.learn.course import chapters
from pybroker_kafka.testing import KafkaCluster
from tests.support.browser import browser_page, chromium, is_too_wide, keep_picture
from tests.support.course import WRONG, Answers, course_cluster, learning
from tests.support.patience import until

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with course_cluster() as cluster:
        yield cluster


@pytest.mark.nightly
def test_the_page_can_be_read_by_everybody(kafka: KafkaCluster) -> None:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import expect

    chromium()
    with learning(kafka, "1", "--reset") as terminal, browser_page() as page:
        page.goto(terminal.read_until("Beside the text").split()[-1])
        present = page.locator("[data-present]")
        for press in ("Run it", "Run it"):
            present.get_by_role("button", name=press, exact=True).click()
            expect(page.locator("pre.output").last).to_be_visible()
        expect(present.get_by_label("Your answer")).to_be_visible()
        expect(page.locator(".beside table").first).to_be_visible()
        for theme in ("Dark", "Light"):
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
            page.get_by_role("button", name=theme).click()
        keep_picture(page, "learn")
        page.set_viewport_size({"width": 400, "height": 800})
        assert not is_too_wide(page)


@pytest.mark.nightly
@pytest.mark.parametrize("chapter", chapters(), ids=lambda one: one.name)
def test_a_chapter_in_a_browser(kafka: KafkaCluster, chapter: Chapter) -> None:
    """The terminal begins it, and is at its end when the browser is."""
    from playwright.sync_api import expect

    chromium()
    answers = Answers(kafka)
    with learning(kafka, chapter.name, "--reset") as terminal, browser_page() as page:
        address = terminal.read_until("Beside the text").split()[-1]
        page.goto(address)
        present = page.locator("[data-present]")
        for number, step in enumerate(chapter.steps):
            expect(page.locator("main")).to_contain_text(f"{number} of {len(chapter.steps)} steps")
            if isinstance(step, Ask):
                until(partial(is_wrong, page, number))
                until(partial(is_right, page, answers, step, number))
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


def said_in_browser(page: Page, given: str, number: int) -> str:
    """What the page says to an answer: a verdict, or why the cluster has none at this moment."""
    from playwright.sync_api import expect

    present = page.locator("[data-present]")
    passed = page.get_by_text(re.compile(rf"\b{number + 1} of \d+ steps"))
    field = present.get_by_label("Your answer")
    expect(field.or_(passed).first).to_be_visible()
    if passed.count():
        return "right"
    tries = int(present.get_attribute("data-tries") or 0)
    field.fill(given)
    present.get_by_role("button", name="Answer").click()
    wrong = page.locator(f'[data-present][data-tries="{tries + 1}"]')
    expect(wrong.or_(passed).or_(present.locator(".bad")).first).to_be_visible()
    return "right" if passed.count() else "wrong" if wrong.count() else "nothing"


def is_wrong(page: Page, number: int) -> bool:
    return said_in_browser(page, WRONG, number) == "wrong"


def is_right(page: Page, answers: Answers, step: Ask, number: int) -> bool:
    given = answers.now(step.fact)
    return given is not None and said_in_browser(page, given, number) == "right"
