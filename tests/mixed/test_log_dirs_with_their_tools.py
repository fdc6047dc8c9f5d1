"""Replicas of our brokers moved between log directories by Apache Kafka's own tools.

kafka-reassign-partitions names a log directory for each replica (KIP-113), throttles the moves and
verifies them; kafka-log-dirs shows them. Skipped without Java and Maven.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.faults.directories import directory_of, give_directories, paths_of
from tests.faults.test_log_dirs import fill, records
from tests.support.apache_kafka import kafka_jars
from tests.support.cluster import Cluster, cluster
from tests.support.kafka_tools import kafka_tool

pytestmark = pytest.mark.timeout(600)

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
CONFIG = {
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "30000",
    # So slow that a move can be looked at, until the tool says otherwise.
    "replica.alter.log.dirs.io.max.bytes.per.second": "100000",
}


@pytest.fixture(scope="module")
def jbod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    kafka_jars()
    place = tmp_path_factory.mktemp("jbod")
    with cluster(place, config=CONFIG, prepare=give_directories) as started:
        yield started


def reassign(jbod: Cluster, file: Path, *action: str) -> str:
    bootstrap = jbod.nodes[1].bootstrap
    return kafka_tool(
        REASSIGN, "--bootstrap-server", bootstrap, "--reassignment-json-file", str(file), *action
    )


def plan(file: Path, topic: str, places: dict[int, str]) -> Path:
    partition = {
        "topic": topic,
        "partition": 0,
        "replicas": list(places),
        "log_dirs": list(places.values()),
    }
    file.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    return file


def described(jbod: Cluster, topic: str) -> dict[tuple[int, str], Any]:
    """What kafka-log-dirs says: by broker and directory."""
    told = kafka_tool(
        LOG_DIRS, "--bootstrap-server", jbod.bootstrap, "--describe", "--topic-list", topic
    )
    found = json.loads(re.search(r"^{.*$", told, re.MULTILINE)[0])  # type: ignore[index]
    return {
        (broker["broker"], directory["logDir"]): partition
        for broker in found["brokers"]
        for directory in broker["logDirs"]
        for partition in directory["partitions"]
    }


def elsewhere(jbod: Cluster, node: int, topic: str) -> str:
    here = directory_of(jbod, node, topic)
    return next(path for path in paths_of(jbod, node) if path not in here)


def is_only_in(jbod: Cluster, node: int, topic: str, path: str) -> bool:
    return list(directory_of(jbod, node, topic)) == [path]


def is_on(jbod: Cluster, topic: str, nodes: set[int]) -> bool:
    return set(jbod.partitions(topic)[0].replicas) == nodes


def test_replicas_change_directories(jbod: Cluster, tmp_path: Path) -> None:
    jbod.create_topic("within", assignment={0: [1, 2, 3]})
    fill(jbod, "within", 40)
    targets = {node: elsewhere(jbod, node, "within") for node in (1, 2, 3)}
    file = plan(tmp_path / "plan.json", "within", targets)
    assert reassign(jbod, file, "--execute").count("Successfully started moving log directory") == 3
    assert "still in progress" in reassign(jbod, file, "--verify", "--preserve-throttles")
    seen = described(jbod, "within")
    assert [seen[node, path]["isFuture"] for node, path in targets.items()] == [True] * 3
    assert len(seen) == 6
    faster = ("--replica-alter-log-dirs-throttle", "1000000000", "--additional")
    reassign(jbod, file, "--execute", *faster)
    for node, path in targets.items():
        jbod.wait_for(partial(is_only_in, jbod, node, "within", path), f"{node} moves")
    verified = reassign(jbod, file, "--verify")
    assert verified.count("completed successfully") == 3, verified
    seen = described(jbod, "within")
    assert set(seen) == set(targets.items())
    assert not any(partition["isFuture"] for partition in seen.values())
    assert records(jbod, 1, "within") == records(jbod, 2, "within") == records(jbod, 3, "within")


def test_a_new_replica_comes_to_the_directory_that_was_named(jbod: Cluster, tmp_path: Path) -> None:
    """The tool names it to a broker that has no replica yet, which remembers it."""
    for index, path in enumerate(paths_of(jbod, 3)):
        name = f"across-{index}"
        jbod.create_topic(name, assignment={0: [1, 2]})
        fill(jbod, name, 5)
        here = next(iter(directory_of(jbod, 1, name)))
        file = plan(tmp_path / f"{name}.json", name, {1: here, 3: path})
        assert "Successfully started" in reassign(jbod, file, "--execute")
        jbod.wait_for(partial(is_on, jbod, name, {1, 3}), f"{name} moves")
        jbod.wait_for_isr(name)
        jbod.wait_for(partial(is_only_in, jbod, 3, name, path), f"{name} is in {path}")
        assert "is completed" in reassign(jbod, file, "--verify")
