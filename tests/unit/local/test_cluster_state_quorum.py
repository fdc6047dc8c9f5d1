"""Whether the ZooKeepers of a local cluster can answer, by what is known of their processes."""

from __future__ import annotations

import pytest

from pybroker_kafka.local.cluster_state import ClusterState, NodeState, NodeStatus

RUNNING, PAUSED, KILLED = NodeStatus.RUNNING, NodeStatus.PAUSED, NodeStatus.KILLED


@pytest.mark.parametrize(
    ("zookeepers", "may_answer"),
    [
        ((), True),
        ((RUNNING,), True),
        ((PAUSED,), False),
        ((KILLED,), False),
        ((RUNNING, PAUSED, RUNNING), True),
        ((RUNNING, PAUSED, KILLED), False),
        ((RUNNING, RUNNING, PAUSED, PAUSED), False),
    ],
)
def test_a_quorum_of_ones_own_is_needed(
    zookeepers: tuple[NodeStatus, ...], may_answer: bool
) -> None:
    kinds = [("broker", RUNNING), *(("zookeeper", status) for status in zookeepers)]
    nodes = [
        NodeState(kind, number, 0, "127.0.0.1", 9091 + number, "", "", status)
        for number, (kind, status) in enumerate(kinds)
    ]
    assert ClusterState(0, "", False, "", nodes).zookeeper_may_answer is may_answer
