"""What the shell completes: every option and argument that names a thing of the cluster."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from pybroker_kafka.cli.completion import complete_nodes
from pybroker_kafka.local import cluster_state
from tests.support.commands_page import commands

NAMED = {
    "topic", "topics", "group", "groups", "node", "broker", "brokers", "place", "places", "ids",
    "transactional_ids",
}  # fmt: skip
# Patterns and lists, counts, what is new, and ids that nobody is asked for.
OTHERS = {
    ("mirror", "topics"),
    ("consume", "places"),
    ("start", "brokers"),
    ("perf groups", "group"),
    ("groups remove-members", "ids"),
    ("registry", "group"),
    ("registry", "topic"),
    ("tier import", "topics"),  # no cluster knows them
    ("transactions list", "ids"),
}
KILL = {" ".join(words): command for words, command in commands()}["kill"]


def test_every_name_is_completed() -> None:
    missing = {
        (" ".join(words), one.name)
        for words, command in commands()
        if not isinstance(command, click.Group)
        for one in command.params
        if one.name in NAMED and not completes(command, one)
    }
    assert missing == OTHERS


def completes(command: click.Command, one: click.Parameter) -> bool:
    """Whether it asks somebody, or has its own choice."""
    return isinstance(one.type, click.Choice) or one._custom_shell_complete is not None


def test_nodes_are_those_of_the_running_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [SimpleNamespace(label=label) for label in ("zookeeper", "1", "12")]
    monkeypatch.setattr(cluster_state, "load", lambda _: SimpleNamespace(nodes=nodes))
    context = click.Context(KILL)
    context.params["data_dir"] = tmp_path

    def found(begin: str) -> list[str]:
        return [item.value for item in complete_nodes(context, KILL.params[0], begin)]

    assert found("") == ["zookeeper", "1", "12"]
    assert found("1") == ["1", "12"]


def test_without_a_cluster_there_are_no_nodes(tmp_path: Path) -> None:
    context = click.Context(KILL)
    context.params["data_dir"] = tmp_path
    assert complete_nodes(context, KILL.params[0], "") == []
