"""`pybroker features`, and the features of a new cluster."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.local import cluster_state
from pybroker_kafka.local.cluster_state import SUPERVISOR_LOG
from pybroker_kafka.protocol.features import NEWEST_RELEASE, RELEASES, SUPPORTED
from pybroker_kafka.testing import KafkaCluster
from tests.support.commands import Commands
from tests.support.patience import until
from tests.support.processes import PYBROKER, ROOT

LACKS = "the cluster keeps the features that it has"


def levels(run: Commands) -> dict[str, int]:
    rows: list[dict[str, Any]] = run.json("features", "describe")["features"]
    assert {row["feature"] for row in rows} == SUPPORTED.keys()
    return {row["feature"]: row["finalized"] for row in rows if row["finalized"]}


def told(directory: Path) -> str:
    """What a supervisor has reported."""
    log = directory / "logs" / SUPERVISOR_LOG
    return log.read_text() if log.exists() else ""


def test_raised_to_a_release_and_lowered_again() -> None:
    with KafkaCluster(2, config={"pybroker.features": "3.9"}) as cluster:
        run = Commands(cluster.bootstrap)
        assert levels(run) == {}
        assert "features upgrade --release 4.3" in run.text("features", "describe")
        dry = run.json("features", "upgrade", "--release", "4.3", "--dry-run")
        assert {row["feature"]: row["level"] for row in dry} == RELEASES["4.3"]
        assert levels(run) == {}
        run.text("features", "upgrade", "--release", "4.3")
        until(lambda: levels(run) == RELEASES["4.3"])
        assert "same value" in run.refused("features", "upgrade", "group.version=1")
        assert "kraft.version" in run.refused("features", "upgrade", "kraft.version=1")
        assert run.json("features", "upgrade", "--release", "4.3") == []
        run.text("features", "downgrade", "metadata.version=22")
        until(lambda: levels(run) == {**RELEASES["4.3"], "metadata.version": 22})
        run.text("features", "downgrade", "--release", "3.9")
        until(lambda: not levels(run))


def test_a_new_cluster_has_the_features_of_its_release() -> None:
    with KafkaCluster(config={"pybroker.features": "4.0"}) as cluster:
        assert levels(Commands(cluster.bootstrap)) == RELEASES["4.0"]


def test_a_new_cluster_has_the_newest_and_an_old_one_keeps_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYBROKER_FEATURES", raising=False)
    new, old = tmp_path / "new", tmp_path / "old"
    for _ in range(2):
        with KafkaCluster(2, data_dir=new) as cluster:
            assert levels(Commands(cluster.bootstrap)) == RELEASES[NEWEST_RELEASE]
    assert LACKS not in told(new)
    with KafkaCluster(data_dir=old, config={"pybroker.features": "3.9"}):
        pass
    with KafkaCluster(data_dir=old) as cluster:
        run = Commands(cluster.bootstrap)
        assert levels(run) == {}
        line = told(old)
        assert line.count(LACKS) == 1
        run.text(*line.partition(": pybroker ")[2].split())
        until(lambda: levels(run) == RELEASES[NEWEST_RELEASE])
    with KafkaCluster(data_dir=old):
        assert told(old) == line


@pytest.mark.nightly
def test_the_features_of_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = [
        *PYBROKER,
        "start",
        "--brokers",
        "1",
        "--port",
        "0",
        "--zookeeper-port",
        "0",
        "--detach",
    ]
    for name, words, variable, release in (
        ("word", ["--features", "4.1"], "3.9", "4.1"),
        ("variable", [], "4.0", "4.0"),
        ("neither", [], "", NEWEST_RELEASE),
    ):
        monkeypatch.setenv("PYBROKER_FEATURES", variable)
        directory = ["--data-dir", str(tmp_path / name)]
        try:
            subprocess.run([*start, *directory, *words], cwd=ROOT, check=True, capture_output=True)
            assert (
                levels(Commands(cluster_state.load(tmp_path / name).bootstrap))
                == (RELEASES[release])
            )
        finally:
            subprocess.run([*PYBROKER, "stop", *directory], cwd=ROOT, check=True)
