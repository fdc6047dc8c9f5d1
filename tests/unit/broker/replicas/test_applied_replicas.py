"""Effects of the replica manager are applied by its wrapped calls, or at the end of `with`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.broker.replicas.replica_runtime import ReplicaRuntime
from pybroker_kafka.replication.types import ACKS_ALL, ProduceResult, ReplicatedAppend
from tests.support.processes import ROOT
from tests.support.replication import KEY, ME, ReplicaCluster, batch

# What of each part may leave effects or completed operations behind.
CHANGES = {
    "appends": {"append", "append_one", "wait"},
    "fetches": {"fetch"},
    "isr_changes": {"altered", "maybe_shrink"},
    "leadership": {"become_leader_or_follower", "retry_refused", "stop_replicas"},
    "moves": {"alter_log_dirs", "copied", "failed", "next_step", "resume"},
    "offsets": {"delete_records", "list_offset"},
    "waiting": {
        "answer_followers",
        "answer_more",
        "check",
        "check_log_dirs",
        "high_watermark_moved",
        "storage_failed",
        "tick",
    },
}
# They know no replicas.
CLIENTS = ("cli", "testkit")
# These files apply effects by themselves.
DRIVERS = ("replica_runtime.py", "applied_replicas.py")


def _with_manager(node: ast.AST) -> bool:
    """Whether the manager of a `with` or an argument is used inside: its effects are applied."""
    if isinstance(node, ast.With):
        contexts = (item.context_expr for item in node.items)
        return any(isinstance(c, ast.Attribute) and c.attr == "applying" for c in contexts)
    if isinstance(node, ast.FunctionDef):
        annotations = (argument.annotation for argument in node.args.args)
        return any(isinstance(a, ast.Name) and a.id == "ReplicaManager" for a in annotations)
    return False


def unapplied(node: ast.AST) -> Iterator[str]:
    """Calls that change replicas, and `apply_effects()` itself, which a caller could forget."""
    if _with_manager(node):
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        called, owner = node.func.attr, node.func.value
        if isinstance(owner, ast.Attribute) and called in CHANGES.get(owner.attr, ()):
            yield f"line {node.lineno}: {owner.attr}.{called}"
        if called == "apply_effects":
            yield f"line {node.lineno}: apply_effects"
    for child in ast.iter_child_nodes(node):
        yield from unapplied(child)


def test_no_caller_has_to_remember_the_effects() -> None:
    rooms = (path for path in (ROOT / "broker").iterdir() if path.name not in CLIENTS)
    files = [
        path
        for room in rooms
        for path in (room.rglob("*.py") if room.is_dir() else [room])
        if path.suffix == ".py" and path.name not in DRIVERS
    ]
    found = [
        f"{path.relative_to(ROOT)}, {problem}"
        for path in files
        for problem in unapplied(ast.parse(path.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("self._replicas.manager.leadership.stop_replicas(body, 0)", 1),
        ("replicas.apply_effects()", 1),
        ("with replicas.applying as manager:\n    manager.leadership.stop_replicas(body, 0)", 0),
        ("def f(manager: ReplicaManager):\n    manager.offsets.list_offset(key, query)", 0),
        ("with trio.CancelScope():\n    manager.appends.append_one(key, records)", 1),
    ],
)
def test_forgotten_effects_are_found(source: str, count: int) -> None:
    assert len(list(unapplied(ast.parse(source)))) == count


def append(
    replicas: ReplicaRuntime, now_ms: int, acks: int, waiter: Any, *args: Any
) -> ProduceResult | None:
    order = ReplicatedAppend(acks, 1_000, now_ms, 9)
    partition = replicas.hosted.partitions[KEY]
    return replicas.append_one(KEY, partition, batch(), order, waiter, args)


class Waiter:
    def __init__(self, told: list[Any]) -> None:
        self._told = told

    def complete(self, results: Any, /) -> None:
        self._told.append(results)


class Chain(Waiter):
    """Appends once more when it is told."""

    def __init__(self, told: list[Any], replicas: ReplicaRuntime, now_ms: int) -> None:
        super().__init__(told)
        self._replicas = replicas
        self._now_ms = now_ms

    def complete(self, results: Any, /) -> None:
        super().complete(results)
        append(self._replicas, self._now_ms, ACKS_ALL, Waiter, self._told)


def test_a_waiter_is_told_before_the_call_that_completes_it_returns(tmp_path: Path) -> None:
    cluster = ReplicaCluster(tmp_path)
    cluster.role(replicas=(ME, 2))
    replicas = ReplicaRuntime(cluster.manager, lambda: cluster.now_ms)
    told: list[dict[tuple[str, int], ProduceResult]] = []
    now_ms = cluster.now_ms
    outcome = append(replicas, now_ms, ACKS_ALL, Chain, told, replicas, now_ms)
    assert outcome is None
    assert told == []
    with replicas.applying:
        cluster.follow(2, 1)
        assert told == []
    assert [results[KEY].base_offset for results in told] == [0]
    with replicas.applying:
        cluster.follow(2, 2)
    assert [results[KEY].base_offset for results in told] == [0, 1]


def test_what_is_settled_in_a_call_may_change_replicas(tmp_path: Path) -> None:
    cluster = ReplicaCluster(tmp_path)
    cluster.role()
    replicas = ReplicaRuntime(cluster.manager, lambda: cluster.now_ms)
    told: list[Any] = []
    cluster.fetch(Chain(told, replicas, cluster.now_ms), 0)
    result = append(replicas, cluster.now_ms, 1, Waiter, told)
    assert result is not None
    assert result.base_offset == 0
    assert len(told) == 1
    assert cluster.partition.log.log_end_offset == 2


def test_an_error_within_settles_all_the_same(tmp_path: Path) -> None:
    cluster = ReplicaCluster(tmp_path)
    cluster.role()
    replicas = ReplicaRuntime(cluster.manager, lambda: cluster.now_ms)
    told: list[Any] = []
    cluster.fetch(Waiter(told), 0)

    def append_and_fail() -> None:
        with replicas.applying as manager:
            order = ReplicatedAppend(1, 0, cluster.now_ms)
            manager.appends.append_one(KEY, cluster.partition, batch(), order)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        append_and_fail()
    assert len(told) == 1
