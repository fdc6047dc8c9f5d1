"""--bootstrap-server, if it is not given: the cluster that runs in the default data directory."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pybroker_kafka.cli.main import main
from pybroker_kafka.cli.topics import topics
from pybroker_kafka.local import cluster_state
from pybroker_kafka.local.cluster_state import ClusterState, NodeState


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYBROKER_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


list_topics = topics.commands["list"]


def default() -> object:
    (option,) = (each for each in list_topics.params if each.name == "bootstrap")
    return option.get_default(click.Context(list_topics))


def test_the_running_cluster_is_asked(data_dir: Path) -> None:
    assert default() == "127.0.0.1:9092"
    lock = cluster_state.claim(data_dir)
    try:
        assert default() == "127.0.0.1:9092"  # it is starting
        brokers = [
            NodeState("broker", number, os.getpid(), "127.0.0.1", number, str(data_dir), "")
            for number in (1, 2)
        ]
        ClusterState(os.getpid(), str(data_dir), False, "127.0.0.1:3", brokers).save()
        assert default() == "127.0.0.1:1,127.0.0.1:2"
        result = CliRunner().invoke(main, ["topics", "list"])
        assert result.exit_code == 2
        assert "no broker answers at 127.0.0.1:1;" in result.output
    finally:
        os.close(lock)
    assert default() == "127.0.0.1:9092"  # it ended, without a word
