"""Members of an ensemble in the console: their rows, and elections in the timeline."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker_kafka.console import ensemble
from pybroker_kafka.console.ensemble import elections, member_row
from pybroker_kafka.local.cluster_state import NodeState, NodeStatus
from pybroker_kafka.local.zookeeper_nodes import ZooKeeperStatus


def node(kind: str = "zookeeper", status: NodeStatus = NodeStatus.RUNNING) -> NodeState:
    return NodeState(kind, 2, 0, "127.0.0.1", 1, "", "", status)


def row(name: str, mode: str | None, status: str = "running") -> dict[str, Any]:
    return {"name": name, "status": status, "zookeeper": None if mode is None else {"mode": mode}}


def test_the_row_of_a_member(monkeypatch: pytest.MonkeyPatch) -> None:
    told = ZooKeeperStatus("follower", (7 << 32) + 12, 3, 140)
    monkeypatch.setattr(ensemble, "status_of", lambda _host, _port: told)
    assert member_row(node()) == {
        "mode": "follower", "epoch": 7, "counter": 12, "clients": 3, "znodes": 140,
    }  # fmt: skip
    assert member_row(node("broker")) is None
    paused = member_row(node(status=NodeStatus.PAUSED))
    assert paused is not None
    assert paused["mode"] == ""


def test_elections_are_told_once() -> None:
    before = [row("zookeeper-1", "follower"), row("zookeeper-2", "leader"), row("broker 1", None)]
    looking = [row("zookeeper-1", ""), row("zookeeper-2", "", "killed"), row("broker 1", None)]
    after = [row("zookeeper-1", "leader"), row("zookeeper-2", "", "killed"), row("broker 1", None)]
    back = [row("zookeeper-1", "leader"), row("zookeeper-2", "follower"), row("broker 1", None)]
    assert elections([], before) == []
    assert elections(before, before) == []
    assert [one.text for one in elections(before, looking)] == [
        "zookeeper-1 has no leader and serves no clients"
    ]
    assert [one.text for one in elections(looking, after)] == [
        "zookeeper-1 leads the ensemble of ZooKeepers"
    ]
    assert [one.text for one in elections(after, back)] == [
        "zookeeper-2 is a follower of the ensemble"
    ]
