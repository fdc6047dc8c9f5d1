"""A fault that was done on purpose, and its undoing."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType


class Fault:
    """What a fault's method returns. `with kafka.kill(1): ...` undoes it at the end of the block;
    without a block it lasts until `undo`, or until `KafkaCluster.heal`."""

    def __init__(self, name: str, undo: Callable[[Fault], None]) -> None:
        self.name = name
        self._undo = undo
        self.is_active = True

    def undo(self) -> None:
        """Once; a second time, and after the cluster has stopped, it does nothing."""
        if self.is_active:
            self.is_active = False
            self._undo(self)

    def __enter__(self) -> Fault:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.undo()

    def __repr__(self) -> str:
        return f"<Fault {self.name}{'' if self.is_active else ', undone'}>"
