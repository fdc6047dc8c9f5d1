"""One step of a member towards its target.

A member first gives up the tasks that it should not have (UNREVOKED_TASKS, in its old epoch), then
enters the epoch of the target with the tasks that are free, and waits for those that others have
not given up (UNRELEASED_TASKS) until it has all (STABLE). It gives up a task by not naming it any
more among those that it has.

Invariants: an active task is assigned to a member only while no member has it as one; a task has
one role in a process at a time, since its state is in one directory.

Mirrors CurrentAssignmentBuilder. Legal states before and after are those of `step`.
"""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from .member import MemberState, Progress
from .tasks import NOTHING_OWNED, OwnedTasks, Tasks, TaskSet


class UnknownStateError(Exception):
    """The member is in a state of a later version of Kafka, and must join again."""


class Target(NamedTuple):
    """Where a member should get to."""

    epoch: int
    tasks: Tasks
    process_id: str
    # The process that has an active task, or None.
    active_process: Callable[[str, int], str | None]
    # The processes that have a task as standby, and as a warm-up.
    standby_processes: Callable[[str, int], Collection[str]]
    warmup_processes: Callable[[str, int], Collection[str]]

    def is_here(self, subtopology_id: str, partition: int) -> bool:
        """Whether the member's process has the task in a role that has no epoch."""
        return self.process_id in self.standby_processes(
            subtopology_id, partition
        ) or self.process_id in self.warmup_processes(subtopology_id, partition)

    def is_active_held(self, subtopology_id: str, partition: int) -> bool:
        """Whether a task cannot be made active at the member yet."""
        return self.active_process(subtopology_id, partition) is not None or self.is_here(
            subtopology_id, partition
        )

    def is_other_held(self, subtopology_id: str, partition: int) -> bool:
        """Whether a task cannot be made standby or a warm-up at the member yet."""
        return self.active_process(subtopology_id, partition) == self.process_id or self.is_here(
            subtopology_id, partition
        )


def step(progress: Progress, target: Target, owned: Tasks | None) -> Progress:
    """The member after a step; the same object if there is none. `owned`: None if the request does
    not say it."""
    state = progress.state
    if state is MemberState.STABLE:
        if progress.epoch == target.epoch:
            return progress
        return _advance(progress, target, owned, progress.epoch)
    if state is MemberState.UNREVOKED_TASKS:
        if owned is None or owned.has_any(progress.revoking):
            return progress
        return _advance(progress, target, owned, progress.epoch + 1)
    if state is MemberState.UNKNOWN:
        if owned is None or not owned.is_empty:
            raise UnknownStateError
        return _advance(progress, target, owned, target.epoch)
    return _advance(progress, target, owned, progress.epoch)


class _Change(NamedTuple):
    """Of the tasks of one role."""

    kept: dict[str, frozenset[int]]
    revoking: dict[str, frozenset[int]]
    added: dict[str, frozenset[int]]
    is_waiting: bool


def _difference(
    current: Mapping[str, Collection[int]], wanted: TaskSet, is_held: Callable[[str, int], bool]
) -> _Change:
    change = _Change({}, {}, {}, is_waiting=False)
    is_waiting = False
    for name in sorted(current.keys() | wanted.keys()):
        has, wants = frozenset(current.get(name, ())), wanted.get(name, frozenset())
        free = frozenset(partition for partition in wants - has if not is_held(name, partition))
        is_waiting |= len(free) < len(wants - has)
        for tasks, found in (
            (change.kept, has & wants), (change.revoking, has - wants), (change.added, free),
        ):  # fmt: skip
            if found:
                tasks[name] = found
    return change._replace(is_waiting=is_waiting)


def _advance(progress: Progress, target: Target, owned: Tasks | None, epoch: int) -> Progress:
    assigned = progress.assigned
    active = _difference(assigned.active, target.tasks.active, target.is_active_held)
    standby = _difference(assigned.standby, target.tasks.standby, target.is_other_held)
    warmup = _difference(assigned.warmup, target.tasks.warmup, target.is_other_held)
    kept = {
        name: {partition: assigned.active[name][partition] for partition in partitions}
        for name, partitions in active.kept.items()
    }
    revoking = OwnedTasks(
        {
            name: {partition: assigned.active[name][partition] for partition in partitions}
            for name, partitions in active.revoking.items()
        },
        standby.revoking,
        warmup.revoking,
    )
    if not revoking.is_empty and (owned is None or owned.has_any(revoking)):
        left = OwnedTasks(kept, standby.kept, warmup.kept)
        return progress.moved_to(epoch, MemberState.UNREVOKED_TASKS, left, revoking)
    for name, partitions in active.added.items():
        kept[name] = {**kept.get(name, {}), **dict.fromkeys(partitions, target.epoch)}
    is_waiting = active.is_waiting or standby.is_waiting or warmup.is_waiting
    return progress.moved_to(
        target.epoch,
        MemberState.UNRELEASED_TASKS if is_waiting else MemberState.STABLE,
        OwnedTasks(kept, _merged(standby.kept, standby.added), _merged(warmup.kept, warmup.added)),
        NOTHING_OWNED,
    )


def _merged(first: TaskSet, second: TaskSet) -> TaskSet:
    return {
        name: first.get(name, frozenset()) | second.get(name, frozenset())
        for name in sorted(first.keys() | second.keys())
    }
