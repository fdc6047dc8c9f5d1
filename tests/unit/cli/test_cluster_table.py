"""When a command on a node of a local cluster may show its table."""

from __future__ import annotations

from pybroker_kafka.cli.cluster_table import ClusterView
from pybroker_kafka.local.cluster_state import ClusterState, NodeState, NodeStatus


def state(*statuses: NodeStatus) -> ClusterState:
    nodes = [
        NodeState("broker", number, 0, "127.0.0.1", 9091 + number, "", "", status)
        for number, status in enumerate(statuses, 1)
    ]
    return ClusterState(0, "", False, "127.0.0.1:2181", nodes)


def test_brokers_that_run_are_known_and_stopped_ones_are_gone() -> None:
    now = state(NodeStatus.RUNNING, NodeStatus.STOPPED)
    assert ClusterView(1, {1}).is_settled(now)
    assert not ClusterView(1, {1, 2}).is_settled(now)
    assert not ClusterView(2, {1}).is_settled(now)
    assert not ClusterView(1, {1}, without_leader=["orders-0"]).is_settled(now)


def test_brokers_from_elsewhere_are_not_waited_for() -> None:
    now = state(NodeStatus.RUNNING, NodeStatus.STOPPED)
    assert ClusterView(4, {1, 4}).is_settled(now)
