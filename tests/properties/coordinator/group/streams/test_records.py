"""Changes of streams groups: there and back through their records, and undone.

The dumb twin of a group is the dictionary of its last changes by key.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.coordinator.group.streams.changes import (
    Change,
    GroupEpoch,
    SetEpoch,
    SetMember,
    SetProgress,
    SetTarget,
    SetTargetEpoch,
    SetTopology,
    TargetEpoch,
)
from pybroker_kafka.coordinator.group.streams.member import (
    Endpoint,
    MemberMetadata,
    MemberState,
    Progress,
)
from pybroker_kafka.coordinator.group.streams.records import is_streams_group_key, read, record
from pybroker_kafka.coordinator.group.streams.streams_group import StreamsGroup
from pybroker_kafka.coordinator.group.streams.tasks import OwnedTasks, Tasks
from pybroker_kafka.coordinator.group.streams.topology import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
)

names = st.text("abé", min_size=1, max_size=3)
int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
members = st.sampled_from(["m0", "m1", "m2"])
subtopology_ids = st.sampled_from(["0", "1", "2"])
partitions = st.frozensets(st.integers(0, 5), min_size=1)
task_sets = st.dictionaries(subtopology_ids, partitions, max_size=2)
epochs = st.dictionaries(
    subtopology_ids, st.dictionaries(st.integers(0, 5), int32s, min_size=1), max_size=2
)
owned = st.builds(OwnedTasks, epochs, task_sets, task_sets)
pairs = st.dictionaries(names, names, max_size=2).map(lambda found: tuple(sorted(found.items())))
metadata = st.builds(
    MemberMetadata,
    st.none() | names,
    st.none() | names,
    names,
    names,
    int32s,
    int32s,
    st.sampled_from(["p", "q"]),
    st.none() | st.builds(Endpoint, names, st.integers(0, 65_535)),
    pairs,
)
progress = st.builds(Progress, int32s, int32s, st.sampled_from(MemberState), owned, owned)
texts = st.lists(names, max_size=2).map(tuple)
places = st.lists(int16s, max_size=2).map(tuple)
infos = st.lists(st.builds(TopicInfo, names, int32s, int16s, pairs), max_size=2).map(tuple)
topologies = st.builds(
    Topology,
    int32s,
    st.lists(
        st.builds(
            Subtopology,
            names,
            texts,
            texts,
            infos,
            texts,
            infos,
            st.lists(st.builds(CopartitionGroup, places, places, places), max_size=2).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
)
changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(SetEpoch, st.none() | st.builds(GroupEpoch, int32s, int64s, int32s, pairs)),
    st.builds(SetTopology, st.none() | topologies),
    st.builds(SetTargetEpoch, st.none() | st.builds(TargetEpoch, int32s, int64s)),
    st.builds(SetMember, members, st.none() | metadata),
    st.builds(SetTarget, members, st.none() | st.builds(Tasks, task_sets, task_sets, task_sets)),
    st.builds(SetProgress, members, st.none() | progress),
)


def state_of(group: StreamsGroup) -> dict[str, Any]:
    group.check()
    return {
        "epoch": (group.epoch, group.metadata_hash, group.validated_topology_epoch),
        "configs": group.assignment_configs,
        "target epoch": group.target_epoch,
        "topology": group.topology,
        "members": group.members,
        "targets": group.targets,
    }


@given(changes)
def test_a_record_is_its_change(change: Change) -> None:
    key, value = record("g", change)
    assert is_streams_group_key(key)
    assert (value is None) == (change.value is None)
    assert read(key, value) == ("g", change)


@given(st.lists(changes, max_size=20), st.randoms(use_true_random=False))
def test_the_last_changes_are_the_state(all_changes: list[Change], choose: random.Random) -> None:
    """A group is read back from the last record of each key, in any order of keys."""
    group = StreamsGroup("g")
    last: dict[bytes, bytes | None] = {}
    for change in all_changes:
        # As the machine does it: a member goes with all that is its own.
        group.apply(change)
        key, value = record("g", change)
        last[key] = value
        if isinstance(change, SetMember) and change.value is None:
            for more in (SetProgress(change.member_id, None), SetTarget(change.member_id, None)):
                group.apply(more)
                last[record("g", more)[0]] = None
    rest = [(key, value) for key, value in last.items() if value is not None]
    choose.shuffle(rest)
    loaded = StreamsGroup("g")
    for key, value in rest:
        loaded.apply(read(key, value)[1])
    for member_id in list(group.members):
        # Of a member without records nothing is left to read.
        keys = [
            record("g", SetMember(member_id, None))[0],
            record("g", SetProgress(member_id, None))[0],
        ]
        if not any(last.get(key) for key in keys):
            group.apply(SetMember(member_id, None))
        elif last.get(keys[1]) is None:
            group.apply(SetProgress(member_id, Progress()))
    assert state_of(loaded) == state_of(group)


@given(st.lists(changes, max_size=8), st.lists(changes, max_size=8))
def test_changes_are_undone(first: list[Change], second: list[Change]) -> None:
    group, twin = StreamsGroup("g"), StreamsGroup("g")
    for change in first:
        group.apply(change)
        twin.apply(change)
    undo = [group.apply(change) for change in second]
    for back in reversed(undo):
        group.apply(back)
    assert state_of(group) == state_of(twin)


@given(st.lists(changes, max_size=6), st.lists(changes, max_size=6), st.lists(changes, max_size=6))
def test_lost_changes_leave_those_behind_them(
    first: list[Change], lost: list[Change], later: list[Change]
) -> None:
    group, twin = StreamsGroup("g"), StreamsGroup("g")
    for change in [*first, *later]:
        twin.apply(change)
    for append_id, sent in enumerate((first, lost, later)):
        group.sent(append_id, sent, [group.apply(change) for change in sent])
    group.lost(1)
    group.stored(0)
    group.stored(2)
    assert state_of(group) == state_of(twin)
    assert group.last_append_id is None
