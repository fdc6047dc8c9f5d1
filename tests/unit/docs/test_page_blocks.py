"""Each block of each page is run by a test, or its language says that nothing can run it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from pybroker_kafka.cli.main import main
from tests.support.page_blocks import (
    CONFIGURATION,
    ILLUSTRATIONS,
    NOTES,
    RUN,
    Block,
    blocks,
    other_test,
    pages,
    programs,
)
from tests.support.processes import ROOT

# Blocks that no test runs; each says why in its page.
MOST_NOT_RUN = 13
LEAST_REASON = 20
ALL = [block for page in pages() for block in blocks(page)]


def runs_elsewhere(block: Block) -> str | None:
    return block.noted("run by ") or other_test(block.page)


def test_each_block_has_a_language_that_says_what_becomes_of_it() -> None:
    known = RUN | CONFIGURATION | ILLUSTRATIONS
    assert [f"{b.place} {b.language}" for b in ALL if b.language not in known] == []
    assert [b.place for b in ALL if b.note and not b.note.startswith(NOTES)] == []
    assert len([b for b in ALL if b.language in RUN]) > 30


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    reasons = {b.place: reason for b in ALL if (reason := b.noted("not run: ")) is not None}
    assert len(reasons) <= MOST_NOT_RUN
    assert [place for place, reason in reasons.items() if len(reason) < LEAST_REASON] == []


def test_files_that_a_page_shows_are_tried() -> None:
    wrong = [
        b.place
        for b in ALL
        if b.language in CONFIGURATION and not runs_elsewhere(b) and b.noted("not run: ") is None
    ]
    assert wrong == []


def test_the_tests_that_run_blocks_are_there_and_read_the_page() -> None:
    for block in ALL:
        named = runs_elsewhere(block)
        if named is None:
            continue
        path, _, name = named.partition("::")
        text = (ROOT / path).read_text()
        assert not name or f"def {name}(" in text, block.place
        assert block.page.name in text or f'"{block.page.parent.name}"' in text, block.place


def test_blocks_of_python_define_the_names_that_they_use(tmp_path: Path) -> None:
    """Ruff's eyes on all of them; what runs them sees more, and takes longer."""
    python = programs([b for b in ALL if b.language == "python"])
    for number, block in enumerate(python):
        (tmp_path / f"block_{number}.py").write_text(block.text)
    command = [str(Path(sys.executable).parent / "ruff"), "check", "--isolated", "--select", "F,E9"]
    done = subprocess.run(
        [*command, "--output-format", "concise", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = re.sub(r"\S*block_(\d+)\.py", lambda found: python[int(found[1])].place, done.stdout)
    assert done.returncode == 0, told


def example_lines() -> list[str]:
    """The lines of COMMANDS that show a command, without pipes, files and remarks."""
    lines = [line for b in blocks(ROOT / "docs" / "COMMANDS.md") for line in b.text.splitlines()]
    found = [re.search(r"^ *(?:\S.* \| )?(pybroker .*)", line) for line in lines]
    shown = [line[1] for line in found if line is not None and "[OPTIONS]" not in line[1]]
    return [re.split(r"\s{3,}| [<>|] ?", line)[0] for line in shown]


def test_examples_of_commands_are_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "PYBROKER_BOOTSTRAP", "127.0.0.1:1"
    )  # no cluster of the machine is asked for
    lines = example_lines()
    assert len(lines) > 100
    for line in lines:
        _parse(main, shlex.split(line)[1:], line)


def _parse(command: click.Command, words: list[str], line: str) -> None:
    """As click does before it runs a command."""
    if isinstance(command, click.Group):
        _, inner, rest = command.resolve_command(click.Context(command), words)
        assert inner is not None, line
        _parse(inner, rest, line)
        return
    try:
        command.make_context(command.name, list(words))
    except click.UsageError as error:
        problem = error.format_message()
        if not problem.endswith("' does not exist."):  # a file of the reader's
            pytest.fail(f"{line}: {problem}")
