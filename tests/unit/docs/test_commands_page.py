"""docs/COMMANDS.md is what the commands say; docs/TOOLS.md claims nothing without a test."""

from __future__ import annotations

import re

import click

from tests import pages
from tests.support.commands_page import commands, commands_page
from tests.support.processes import ROOT

TOOLS = ROOT / "docs" / "TOOLS.md"
# They tend processes or files here, or run until they are ended: nothing to tell a program.
WITHOUT_JSON = {
    "start", "status", "stop", "restart", "kill", "pause", "resume", "zookeepers",
    "produce", "consume", "log dump", "broker", "zookeeper", "completion", "monitoring", "console",
    "learn", "registry",
}  # fmt: skip
_LINK = re.compile(r"\[(\w+)\]\(\.\./([\w/.]+)\)")


def test_the_page_of_commands_is_up_to_date() -> None:
    assert pages.COMMANDS.read_text() == commands_page(), f"it is stale: run {pages.COMMAND}"


def test_every_command_has_json() -> None:
    without = {
        " ".join(words)
        for words, command in commands()
        if not isinstance(command, click.Group)
        and not any(option.name == "as_json" for option in command.params)
    }
    assert without <= WITHOUT_JSON


def test_help_fits_in_80_columns() -> None:
    """Examples, too, which nobody wraps."""
    for words, command in commands():
        context = click.Context(command, info_name=" ".join(("pybroker", *words)))
        context.max_content_width = context.terminal_width = 80
        for line in command.get_help(context).splitlines():
            assert len(line) <= 80, (words, line)


def test_each_feature_has_a_test() -> None:
    rows = [
        line.strip("| ").split(" | ")
        for line in TOOLS.read_text().splitlines()
        if line.startswith("| ") and "kafka-\\*.sh" not in line and "kafka-*.sh" not in line
    ]
    assert len(rows) > 20
    for row in rows:
        assert len(row) == 5, row
        found = _LINK.fullmatch(row[-1])
        assert found, row
        name, path = found.groups()
        assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), row
