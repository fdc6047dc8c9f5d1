"""`pybroker features`, and the features of a new cluster."""

from __future__ import annotations

from typing import Any

from pybroker_kafka.protocol.features import RELEASES, SUPPORTED
from pybroker_kafka.testing import KafkaCluster
from tests.support.commands import Commands
from tests.support.patience import until


def levels(run: Commands, *, is_complete: bool = True) -> dict[str, int]:
    rows: list[dict[str, Any]] = run.json("features", "describe")["features"]
    if is_complete:
        assert {row["feature"] for row in rows} == SUPPORTED.keys()
    return {row["feature"]: row["finalized"] for row in rows if row["finalized"]}


def test_raised_to_a_release_and_lowered_again() -> None:
    with KafkaCluster(2) as cluster:
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
        run = Commands(cluster.bootstrap)
        # The controller finalizes them a moment after a broker is ready.
        until(lambda: levels(run, is_complete=False) == RELEASES["4.0"])
        assert levels(run) == RELEASES["4.0"]
