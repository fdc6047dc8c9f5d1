"""Nodes with several log directories, between which replicas move."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from pybroker_kafka.protocol.apis.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pybroker_kafka.protocol.apis.describe_log_dirs import DescribeLogDirsRequest
from tests.faults.scenario import PARTITIONS, TOPIC, Scenario, case
from tests.support.cluster import Cluster

DIRECTORIES = ("one", "two", "three")
MOVES_A_ROUND = 6
ROUNDS = 6


def paths_of(started: Cluster, node: int) -> list[str]:
    return [str(path) for path in started.nodes[node].log_dirs]


def give_directories(started: Cluster) -> None:
    """Before the nodes start: three log directories each instead of one."""
    for node, broker in started.nodes.items():
        place = started.directory / f"broker-{node}"
        broker.log_dirs = [place / name for name in DIRECTORIES]
        properties = place / "server.properties"
        lines = properties.read_text().splitlines()
        kept = [line for line in lines if not line.startswith("log.dirs=")]
        kept += [
            f"log.dirs={','.join(paths_of(started, node))}",
            "replica.high.watermark.checkpoint.interval.ms=500",
        ]
        properties.write_text("\n".join(kept) + "\n")


def move(jbod: Cluster, node: int, topic: str, path: str, partition: int = 0) -> int:
    asked = AlterReplicaLogDirTopic(name=topic, partitions=[partition])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[asked])])
    answer: Any = jbod.ask(node, request)
    code: int = answer.results[0].partitions[0].error_code
    return code


def directory_of(jbod: Cluster, node: int, topic: str, partition: int = 0) -> dict[str, Any]:
    """Where a broker has a partition: path -> what DescribeLogDirs says."""
    answer: Any = jbod.ask(node, DescribeLogDirsRequest(topics=None))
    return {
        result.log_dir: found
        for result in answer.results
        for named in result.topics
        if named.name == topic
        for found in named.partitions
        if found.partition_index == partition
    }


def content(path: str, topic: str) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(Path(path, f"{topic}-0").glob("*.log")))


@case(prepare=give_directories)
def replicas_move_while_nodes_are_killed(scenario: Scenario) -> None:
    """Each node is killed in the middle of moves, and finds them as they were."""
    running, chance = scenario.cluster, scenario.random
    for _ in range(ROUNDS):
        for _ in range(MOVES_A_ROUND):
            node = chance.choice(running.serving)
            path = chance.choice(paths_of(running, node))
            with suppress(OSError):
                assert move(running, node, TOPIC, path, chance.randrange(PARTITIONS)) == 0
        node = chance.choice(running.serving)
        running.kill(node)
        scenario.make_progress()
        running.start(node)
        scenario.in_sync()
    for node in running.nodes:
        running.wait_for(
            lambda n=node: all(  # type: ignore[misc]
                len(directory_of(running, n, TOPIC, index)) == 1 for index in range(PARTITIONS)
            ),
            f"all moves of {node} are over",
        )
