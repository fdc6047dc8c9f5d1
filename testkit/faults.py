"""A deliberate fault, and its undoing."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

FaultT = TypeVar("FaultT", bound="Fault")


class Fault:
    """The result of a fault's method. `with kafka.kill(1): ...` undoes it at the end of the block;
    without a block it lasts until `undo`, or until `KafkaCluster.heal`.
    """

    def __init__(self, name: str, undo: Callable[[], None], among: list[Fault]) -> None:
        """The fault is `among` the faults of its cluster until it is undone."""
        self.name = name
        self._undo = undo
        self._among = among
        among.append(self)

    @property
    def is_active(self) -> bool:
        return self in self._among

    def undo(self) -> None:
        """Undo once; a second call, or one after the cluster has stopped, does nothing."""
        if self.is_active:
            self._among.remove(self)
            self._undo()

    def __enter__(self: FaultT) -> FaultT:
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
