"""The assignor of tasks: balanced over members and processes, and as before where that allows it.

Active tasks: first to the member that had the task, then to one that had it as standby, while these
have fewer tasks than their share; the rest, subtopology by subtopology, each to the process with
the lowest load and its member with the fewest tasks. Standby tasks of stateful subtopologies in the
same way, never two of a task in one process. A standby for which there is no process is left out.

Processes of equal load are in the order of Java's PriorityQueue over ids, so that the same members
get the same tasks as from Kafka's class as far as its hash tables are in the order of ids.

Mirrors StickyTaskAssignor and ProcessState. Leaves out racks and client tags, as they do.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from .tasks import Tasks

NAME = "sticky"
NUM_STANDBY_REPLICAS = "num.standby.replicas"


class TaskAssignorError(Exception):
    """The tasks cannot be assigned; the text is for the member that asked."""


class TaskId(NamedTuple):
    subtopology_id: str
    partition: int


class MemberSpec(NamedTuple):
    """A member, as the assignor sees it."""

    member_id: str
    process_id: str
    # Its part of the last target.
    target: Tasks


class SubtopologySpec(NamedTuple):
    subtopology_id: str
    task_count: int
    is_stateful: bool


T = TypeVar("T")


class _Queue(Generic[T]):
    """A binary heap in which equal elements are in the order of Java's PriorityQueue."""

    def __init__(self, load: Callable[[T], float], items: Sequence[T]) -> None:
        self._load = load
        self._heap: list[T] = []
        for item in items:
            self.add(item)

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: T) -> None:
        heap, load = self._heap, self._load
        heap.append(item)
        place = len(heap) - 1
        while place > 0:
            parent = (place - 1) // 2
            if load(item) >= load(heap[parent]):
                break
            heap[place] = heap[parent]
            place = parent
        heap[place] = item

    def poll(self) -> T:
        heap, load = self._heap, self._load
        first, last = heap[0], heap.pop()
        size = len(heap)
        if size:
            place = 0
            while (child := 2 * place + 1) < size:
                if child + 1 < size and load(heap[child]) > load(heap[child + 1]):
                    child += 1
                if load(last) <= load(heap[child]):
                    break
                heap[place] = heap[child]
                place = child
            heap[place] = last
        return first


class _Process:
    """The members of a process, and what they were given."""

    __slots__ = ("_by_load", "active", "counts", "load", "standby", "tasks")

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}  # of all tasks, by member id
        self.active: dict[str, set[TaskId]] = {}
        self.standby: dict[str, set[TaskId]] = {}
        self.tasks: set[TaskId] = set()
        # Tasks for each member.
        self.load = 0.0
        self._by_load: _Queue[str] | None = None

    def add(self, member_id: str, task: TaskId, *, is_active: bool) -> int:
        """Give a task to a member; returns how many it has."""
        self._by_load = None
        return self._give(member_id, task, is_active=is_active)

    def add_to_least_loaded(self, task: TaskId, *, is_active: bool) -> int:
        if len(self.counts) == 1:
            return self._give(next(iter(self.counts)), task, is_active=is_active)
        if self._by_load is None:
            self._by_load = _Queue(self.counts.__getitem__, list(self.counts))
        member_id = self._by_load.poll()
        count = self._give(member_id, task, is_active=is_active)
        self._by_load.add(member_id)
        return count

    def _give(self, member_id: str, task: TaskId, *, is_active: bool) -> int:
        self.tasks.add(task)
        given = self.active if is_active else self.standby
        given.setdefault(member_id, set()).add(task)
        self.counts[member_id] += 1
        self.load = sum(self.counts.values()) / len(self.counts)
        return self.counts[member_id]


class _Share:
    """How many tasks a member gets at most, of those that are left."""

    __slots__ = ("_members", "_tasks", "value")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.value = -(-tasks // members) if members else 0

    def given(self, count: int) -> None:
        """A member has `count` tasks now; with its share it gets no more."""
        if count == self.value:
            self._members -= 1
            self._tasks -= count
            self.value = -(-self._tasks // self._members) if self._members else 0


def assign(
    members: Sequence[MemberSpec],
    subtopologies: Sequence[SubtopologySpec],
    num_standby_replicas: int = 0,
) -> dict[str, Tasks]:
    """The tasks of each member by its id; raises TaskAssignorError. Members and subtopologies are
    in the order of their ids."""
    return _Assignment(members, subtopologies, num_standby_replicas).result()


class _Assignment:
    """One run of the assignor."""

    def __init__(
        self,
        members: Sequence[MemberSpec],
        subtopologies: Sequence[SubtopologySpec],
        num_standby_replicas: int,
    ) -> None:
        self._members = members
        self._replicas = num_standby_replicas
        self._active = [TaskId(s, p) for s, count, _ in subtopologies for p in range(count)]
        self._stateful = [
            TaskId(s, p) for s, count, is_stateful in subtopologies if is_stateful
            for p in range(count)
        ]  # fmt: skip
        self._active_share = _Share(len(self._active), len(members))
        total = len(self._active) + len(self._stateful) * num_standby_replicas
        self._total_share = _Share(total, len(members))
        self._processes: dict[str, _Process] = {}
        self._had_active: dict[TaskId, MemberSpec] = {}
        self._had_standby: dict[TaskId, list[MemberSpec]] = defaultdict(list)
        for member in members:
            process = self._processes.setdefault(member.process_id, _Process())
            process.counts[member.member_id] = 0
            for name, partitions in member.target.active.items():
                for partition in partitions:
                    self._had_active[TaskId(name, partition)] = member
            for name, partitions in member.target.standby.items():
                for partition in partitions:
                    self._had_standby[TaskId(name, partition)].append(member)

    def result(self) -> dict[str, Tasks]:
        self._assign_active()
        if self._replicas > 0:
            self._assign_standby()
        found = {}
        for member in self._members:
            process = self._processes[member.process_id]
            found[member.member_id] = Tasks(
                _by_subtopology(process.active.get(member.member_id, ())),
                _by_subtopology(process.standby.get(member.member_id, ())),
            )
        return found

    def _by_load(self) -> _Queue[_Process]:
        processes = [self._processes[name] for name in sorted(self._processes)]
        return _Queue(lambda process: process.load, processes)

    # Active tasks

    def _assign_active(self) -> None:
        tasks = sorted(self._active, key=lambda task: (task.partition, task.subtopology_id))
        tasks = [task for task in tasks if not self._keep_active(task, self._had_active.get(task))]
        tasks = [
            task
            for task in tasks
            if not self._keep_active(task, self._least_loaded(self._had_standby.get(task), None))
        ]
        tasks.sort()
        queue = self._by_load()
        for task in tasks:
            if not len(queue):
                raise TaskAssignorError(f"No process available to assign active task {task}.")
            process = queue.poll()
            count = process.add_to_least_loaded(task, is_active=True)
            self._active_share.given(count)
            self._total_share.given(count)
            queue.add(process)

    def _keep_active(self, task: TaskId, member: MemberSpec | None) -> bool:
        """Give a task to a member that had it, unless it has its share."""
        if member is None:
            return False
        process = self._processes[member.process_id]
        if process.counts[member.member_id] >= self._active_share.value:
            return False
        count = process.add(member.member_id, task, is_active=True)
        self._active_share.given(count)
        self._total_share.given(count)
        return True

    def _least_loaded(
        self, members: Sequence[MemberSpec] | None, task: TaskId | None
    ) -> MemberSpec | None:
        """The one of these with the lowest load. With `task`: in a process without it; None if the
        first one's process has it, as Kafka does it."""
        if not members:
            return None
        candidate = members[0]
        first = process = self._processes[candidate.process_id]
        process_load, count = process.load, process.counts[candidate.member_id]
        for member in members[1:]:
            process = self._processes[member.process_id]
            if (
                process.load < process_load
                and process.counts[member.member_id] < count
                and (task is None or task not in process.tasks)
            ):
                process_load, count = process.load, process.counts[member.member_id]
                candidate = member
        return None if task is not None and task in first.tasks else candidate

    # Standby tasks

    def _assign_standby(self) -> None:
        left: list[tuple[TaskId, int]] = []
        tasks = sorted(
            self._stateful, key=lambda task: (task.partition, task.subtopology_id), reverse=True
        )
        for task in tasks:
            for index in range(self._replicas):
                if self._keep_standby(task, self._had_active.get(task)):
                    continue
                if self._keep_standby(task, self._least_loaded(self._had_standby.get(task), task)):
                    continue
                left.append((task, self._replicas - index))
                break
        left.sort(key=lambda one: one[0], reverse=True)
        queue = self._by_load()
        for task, count in left:
            for _ in range(count):
                if not self._add_standby(queue, task):
                    break

    def _keep_standby(self, task: TaskId, member: MemberSpec | None) -> bool:
        if member is None:
            return False
        process = self._processes[member.process_id]
        if task in process.tasks or process.counts[member.member_id] >= self._total_share.value:
            return False
        self._total_share.given(process.add(member.member_id, task, is_active=False))
        return True

    def _add_standby(self, queue: _Queue[_Process], task: TaskId) -> bool:
        """Give a task to the least loaded process that does not have it."""
        polled: list[_Process] = []
        is_found = False
        while len(queue):
            process = queue.poll()
            polled.append(process)
            if task not in process.tasks:
                self._total_share.given(process.add_to_least_loaded(task, is_active=False))
                is_found = True
                break
        for process in reversed(polled):
            queue.add(process)
        return is_found


def _by_subtopology(tasks: "set[TaskId] | tuple[()]") -> Mapping[str, frozenset[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for name, partition in tasks:
        found[name].add(partition)
    return {name: frozenset(found[name]) for name in sorted(found)}
