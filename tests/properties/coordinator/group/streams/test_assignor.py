"""The sticky assignor on random groups: its answer, and the answer to its answer.

The dumb twin is what a user is promised: each task active once; a standby of each stateful task in
as many processes without the task as there are, at most those asked for; shares of members differ
by no more than the processes' sizes make them; nothing moves when nothing has changed; a member
that comes or goes moves no more tasks than its share.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.coordinator.group.streams.sticky_task_assignor import (
    MemberSpec,
    SubtopologySpec,
    TaskId,
    assign,
)
from pybroker_kafka.coordinator.group.streams.tasks import Tasks, TaskSet

subtopology_lists = st.lists(
    st.tuples(st.integers(1, 7), st.booleans()), min_size=1, max_size=3
).map(lambda sizes: [SubtopologySpec(str(n), *size) for n, size in enumerate(sizes)])
process_lists = st.lists(st.sampled_from("pqrs"), min_size=1, max_size=7)


def members_of(processes: list[str]) -> list[MemberSpec]:
    return [MemberSpec(f"m{n}", process, Tasks()) for n, process in enumerate(processes)]


def ids(tasks: TaskSet) -> list[TaskId]:
    return [TaskId(name, partition) for name, found in tasks.items() for partition in found]


def settled(members: list[MemberSpec], answer: dict[str, Tasks]) -> list[MemberSpec]:
    return [member._replace(target=answer[member.member_id]) for member in members]


@given(subtopology_lists, process_lists, st.integers(0, 2))
def test_tasks_are_divided(
    subtopologies: list[SubtopologySpec], processes: list[str], replicas: int
) -> None:
    members = members_of(processes)
    answer = assign(members, subtopologies, replicas)
    all_tasks = [TaskId(s, n) for s, count, _ in subtopologies for n in range(count)]
    active = Counter(task for tasks in answer.values() for task in ids(tasks.active))
    assert active == Counter(all_tasks)
    stateful = {one.subtopology_id for one in subtopologies if one.is_stateful}
    standby = Counter(task for tasks in answer.values() for task in ids(tasks.standby))
    copies = min(replicas, len(set(processes)) - 1)
    assert standby == Counter(
        {task: copies for task in all_tasks if copies and task.subtopology_id in stateful}
    )
    for process in set(processes):
        mine = [answer[m.member_id] for m in members if m.process_id == process]
        held = Counter(task for t in mine for task in ids(t.active) + ids(t.standby))
        assert all(count == 1 for count in held.values()), "a task once in a process"
    if len(set(processes)) == len(processes):
        counts = [len(ids(tasks.active)) for tasks in answer.values()]
        assert max(counts) - min(counts) <= 1


@given(subtopology_lists, process_lists, st.integers(0, 2))
def test_nothing_moves_without_a_reason(
    subtopologies: list[SubtopologySpec], processes: list[str], replicas: int
) -> None:
    members = members_of(processes)
    first = assign(members, subtopologies)
    assert assign(settled(members, first), subtopologies) == first
    with_standby = assign(settled(members, first), subtopologies, replicas)
    for member in members:
        assert with_standby[member.member_id].active == first[member.member_id].active


@given(subtopology_lists, st.integers(1, 6))
def test_a_member_that_comes_takes_its_share(
    subtopologies: list[SubtopologySpec], count: int
) -> None:
    """Each in a process of its own."""
    members = members_of([f"p{n}" for n in range(count + 1)])
    before = assign(members[:-1], subtopologies)
    after = assign([*settled(members[:-1], before), members[-1]], subtopologies)
    total = sum(size for _, size, _ in subtopologies)
    moved = 0
    for member in members[:-1]:
        had, has = (set(ids(one[member.member_id].active)) for one in (before, after))
        moved += len(had - has)
        assert len(has) <= len(had)
    assert moved == len(ids(after[members[-1].member_id].active))
    assert moved >= total // (count + 1)


@given(subtopology_lists, st.integers(2, 6))
def test_a_member_that_goes_leaves_its_share(
    subtopologies: list[SubtopologySpec], count: int
) -> None:
    members = members_of([f"p{n}" for n in range(count)])
    before = assign(members, subtopologies)
    after = assign(settled(members, before)[:-1], subtopologies)
    for member in members[:-1]:
        had, has = (set(ids(one[member.member_id].active)) for one in (before, after))
        assert had <= has


@given(subtopology_lists, st.integers(2, 5))
def test_a_standby_takes_over(subtopologies: list[SubtopologySpec], count: int) -> None:
    """A task whose member is gone becomes active where it is standby, as far as shares allow."""
    members = members_of([f"p{n}" for n in range(count)])
    before = assign(members, subtopologies, 1)
    after = assign(settled(members, before)[:-1], subtopologies, 1)
    gone = set(ids(before[members[-1].member_id].active))
    total = sum(size for _, size, _ in subtopologies)
    for member in members[:-1]:
        has = set(ids(after[member.member_id].active))
        could = gone & set(ids(before[member.member_id].standby))
        assert could <= has or len(has) >= total // (count - 1)
