"""The course from end to end in the terminal: every chapter, one cluster for all.

A question is first answered wrongly, and then as `tests/support/course.py` finds it out by other
ways than the course. `tests/compat/test_learn_browser.py` does the same in a browser.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pybroker_kafka.learn.chapter import Chapter
from pybroker_kafka.learn.course import chapters
from pybroker_kafka.local import cluster_state
from pybroker_kafka.testing import KafkaCluster
from tests.support.course import (
    ASK,
    RUN,
    SAYS,
    Answers,
    Terminal,
    course_cluster,
    do_steps,
    learning,
)
from tests.support.nightly import chosen
from tests.support.patience import until
from tests.support.processes import ROOT

CHAPTERS = [*chapters()]


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with course_cluster() as cluster:
        yield cluster


@pytest.mark.parametrize("chapter", chosen(CHAPTERS, CHAPTERS[:1]), ids=lambda one: one.name)
def test_a_chapter_in_the_terminal(kafka: KafkaCluster, chapter: Chapter) -> None:
    with learning(kafka, str(chapter.number), "--reset") as terminal:
        do_steps(terminal, chapter, Answers(kafka), 0, len(chapter.steps))
        terminal.read_until("the end of this chapter")


@pytest.mark.nightly
def test_a_chapter_is_left_and_resumed(kafka: KafkaCluster) -> None:
    (chapter, *_) = chapters()
    with learning(kafka, "1", "--reset") as terminal:
        do_steps(terminal, chapter, Answers(kafka), 0, 2)
        terminal.read_until(ASK)
        terminal.type("q")
        terminal.read_until("Go on with: pybroker learn 1")
    with learning(kafka) as terminal:
        assert "2 of 9 steps" in terminal.read_until("producer ")
        terminal.read_until("Begin, or go on")
    with learning(kafka, "producer") as terminal:
        terminal.read_until("You have passed 2 steps")
        terminal.read_until(ASK)
        terminal.type("?")
        terminal.read_until(SAYS)
        terminal.read_until(RUN)
        terminal.type("s")
        terminal.read_until(ASK)  # without the record of that step
        terminal.type(str(len("cake")))
        terminal.read_until("Right")
    assert len(kafka.records("learn-words")) == 3


@pytest.mark.nightly
def test_a_cluster_of_its_own_ends_with_the_command(tmp_path: Path) -> None:
    directory = tmp_path / "pybroker" / "learn"
    command = [sys.executable, "-m", "pybroker_kafka", "learn"]
    environment = dict(os.environ, XDG_STATE_HOME=str(tmp_path), PYTHONUNBUFFERED="1")
    for number in (signal.SIGTERM, signal.SIGKILL):
        process = subprocess.Popen(
            [*command, "2"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT.parent,
            env=environment,
        )
        terminal = Terminal(process)
        terminal.read_until(RUN)
        brokers = cluster_state.load(directory).brokers
        assert len(brokers) == 3
        process.send_signal(number)
        process.wait(60)
        assert process.stdin is not None
        process.stdin.close()
        until(lambda: not cluster_state.is_claimed(directory))
        until(partial(is_gone, [one.pid for one in brokers]))
    (directory / "learn.json").write_text("?")
    refused = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT.parent, env=environment, check=False
    )
    assert refused.returncode == 2
    assert "pybroker learn --reset begins anew" in refused.stderr
    subprocess.run([*command, "--reset"], check=True, cwd=ROOT.parent, env=environment)


def is_gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)
