"""What the runtimes of both coordinators have in common: effects in their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.broker.coordinators.coordinator_runtime import CoordinatorRuntime
from pybroker_kafka.broker.replicas.replica_runtime import ReplicaRuntime
from tests.support.replication import NOW, ReplicaCluster


class Machine:
    """Its effects are numbers, or what a test puts there."""

    def __init__(self) -> None:
        self.effects: list[Any] = []

    def take_effects(self) -> list[Any]:
        taken, self.effects = self.effects, []
        return taken

    def is_due_before(self, at_ms: float) -> bool:
        return False


class Runtime(CoordinatorRuntime[Any, Any]):
    topic = "topic"

    def append_completed(self, append: Any, result: Any, now_ms: int) -> None: ...

    def _unload(self, partition: int, epoch: int | None) -> None: ...


def test_effects_of_effects_come_behind_and_none_is_lost_with_one_that_fails(
    tmp_path: Path,
) -> None:
    machine, performed = Machine(), []
    replicas = ReplicaRuntime(ReplicaCluster(tmp_path).manager, lambda: NOW)

    def perform(number: int) -> None:
        performed.append(number)
        if number == 1:
            machine.effects.append(4)
            runtime.perform()  # as an append that is answered at once
        if number == 2:
            raise ValueError(number)

    runtime = Runtime(
        replicas, machine, {int: perform}, clock=lambda: NOW, load_buffer_bytes=1 << 20
    )
    machine.effects = [1, 2, 3]
    with pytest.raises(ValueError, match="2"):
        runtime.perform()
    assert performed == [1, 2]
    machine.effects = [5]
    runtime.perform()
    assert performed == [1, 2, 3, 4, 5]
