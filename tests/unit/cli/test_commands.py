"""What the command line says before and beside its work."""

import sys
from pathlib import Path

import click.testing
import pytest

from pybroker_kafka.cli.main import ON_WINDOWS, main
from pybroker_kafka.local import cluster_control, cluster_state
from pybroker_kafka.local.cluster_state import SupervisorLog

REPORT = "broker 2 did not stop; killing it"


def test_the_supervisors_lines_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SupervisorLog(tmp_path).add("lost, since there is no directory for it")
    (tmp_path / "logs").mkdir()
    SupervisorLog(tmp_path).add("of long ago")

    def shut_down(directory: Path, command: str, _node: str) -> str:
        assert command == "shutdown"
        SupervisorLog(directory).add(REPORT)
        return "stopping"

    monkeypatch.setattr(cluster_state, "check_claimed", lambda _: None)
    monkeypatch.setattr(cluster_state, "is_claimed", lambda _: False)
    monkeypatch.setattr(cluster_control, "command_node", shut_down)
    done = click.testing.CliRunner().invoke(main, ["stop", "--data-dir", str(tmp_path)])
    assert (done.exit_code, done.stderr) == (0, f"{REPORT}\n")
    lines = (tmp_path / "logs" / cluster_state.SUPERVISOR_LOG).read_text().splitlines()
    assert [line.partition(" ")[2].partition(" ")[2] for line in lines] == ["of long ago", REPORT]


def test_on_windows_it_says_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    done = click.testing.CliRunner().invoke(main, ["start"])
    assert done.exit_code == 1
    assert done.output == f"Error: {ON_WINDOWS}\n"
