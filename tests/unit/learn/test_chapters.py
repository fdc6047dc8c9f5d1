"""The chapters that come along: each can be taken from its first step to its end."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess

import pytest

from pybroker_kafka.learn.chapter import PREFIX, Ask, Chapter, Run
from pybroker_kafka.learn.course import chapters
from pybroker_kafka.learn.facts import FACTS
from pybroker_kafka.learn.programs import placeholders

CHAPTERS = chapters()
EACH = pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda one: one.name)
WATCHED = ("cluster", "topics", "messages", "groups", "inside", "transactions")
_TOPIC = re.compile(r"pybroker topics create (\S+)")
_GROUP = re.compile(r'group_id="([^"]+)"')


def test_they_are_numbered() -> None:
    assert [one.number for one in CHAPTERS] == list(range(1, len(CHAPTERS) + 1))
    assert len({one.name for one in CHAPTERS}) == len(CHAPTERS)


@EACH
def test_each_runs_something_breaks_something_and_asks(chapter: Chapter) -> None:
    blocks = [step for step in chapter.steps if isinstance(step, Run)]
    assert any(block.does_break for block in blocks)
    assert any(not block.does_break for block in blocks)
    assert sum(isinstance(step, Ask) for step in chapter.steps) >= 3


@EACH
def test_questions_name_facts_and_hints(chapter: Chapter) -> None:
    for step in chapter.steps:
        facts = (
            [step.fact]
            if isinstance(step, Ask)
            else [tuple(one.split()) for one in placeholders(step)]
        )
        for name, *words in facts:
            inspect.signature(FACTS[name]).bind(None, *words)
        assert isinstance(step, Run) or (
            step.hint and step.source.rstrip(")*").endswith((".", "?", "now?"))
        )


@EACH
def test_blocks_are_code(chapter: Chapter) -> None:
    for step in chapter.steps:
        if isinstance(step, Run) and step.language == "python":
            ast.parse(step.code)
        elif isinstance(step, Run):
            subprocess.run(["/bin/sh", "-n", "-c", step.code], check=True)


@EACH
def test_what_blocks_make_is_gone_before_the_next_time(chapter: Chapter) -> None:
    code = "".join(step.code for step in chapter.steps if isinstance(step, Run))
    assert set(_TOPIC.findall(code)) == set(chapter.topics)
    assert set(_GROUP.findall(code)) <= set(chapter.groups)
    assert all(name.startswith(PREFIX) for name in (*chapter.topics, *chapter.groups))


@EACH
def test_the_page_beside_the_text_is_one_of_the_consoles(chapter: Chapter) -> None:
    assert all(part.watch.split("/")[0] in WATCHED for part in chapter.parts)


@EACH
def test_variables_of_programs_are_set_before(chapter: Chapter) -> None:
    known: set[str] = {"PYBROKER_DATA_DIR"}
    for step in chapter.steps:
        if isinstance(step, Run):
            if step.language == "sh":
                assert set(re.findall(r"\$([A-Z_]+)", step.code)) <= known
            known.add(step.background)


def test_every_fact_is_asked_for() -> None:
    asked = {step.fact[0] for one in CHAPTERS for step in one.steps if isinstance(step, Ask)}
    assert asked == FACTS.keys()
