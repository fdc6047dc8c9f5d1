"""Tasks by subtopology: a task is one partition of a subtopology.

A task is active where it processes records, standby where it only keeps its state up to date, and a
warm-up where it does so before it becomes active. Mirrors TasksTuple and TasksTupleWithEpochs.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

# Partitions by subtopology; never with an empty set.
TaskSet = Mapping[str, frozenset[int]]


class Tasks(NamedTuple):
    """What a member should have, or says it has."""

    active: TaskSet = {}
    standby: TaskSet = {}
    warmup: TaskSet = {}

    def has_any(self, owned: "OwnedTasks") -> bool:
        """Whether a task is among the owned ones, and in the same role."""
        return (
            any(not owned.active.get(s, {}).keys().isdisjoint(p) for s, p in self.active.items())
            or any(not p.isdisjoint(owned.standby.get(s, ())) for s, p in self.standby.items())
            or any(not p.isdisjoint(owned.warmup.get(s, ())) for s, p in self.warmup.items())
        )

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)


class OwnedTasks(NamedTuple):
    """The tasks of a member, the active ones with the epoch in which it got them."""

    active: Mapping[str, Mapping[int, int]] = {}
    standby: TaskSet = {}
    warmup: TaskSet = {}

    @property
    def is_empty(self) -> bool:
        return not (self.active or self.standby or self.warmup)

    def has_all(self, tasks: Tasks) -> bool:
        """Whether the tasks are among these. A subtopology that is named without tasks counts."""
        return (
            all(s in self.active and self.active[s].keys() >= p for s, p in tasks.active.items())
            and all(s in self.standby and self.standby[s] >= p for s, p in tasks.standby.items())
            and all(s in self.warmup and self.warmup[s] >= p for s, p in tasks.warmup.items())
        )


NO_TASKS: Final = Tasks()
NOTHING_OWNED: Final = OwnedTasks()
