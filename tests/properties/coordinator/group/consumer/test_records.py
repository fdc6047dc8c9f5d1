"""Changes of consumer groups: there and back through their records, and undone.

The dumb twin of a group is the dictionary of its last changes by key.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.coordinator.group.consumer.changes import (
    Change,
    GroupEpoch,
    ResolvedRegex,
    SetEpoch,
    SetMember,
    SetPartitionMetadata,
    SetProgress,
    SetRegex,
    SetTarget,
    SetTargetEpoch,
    TargetEpoch,
)
from pybroker_kafka.coordinator.group.consumer.consumer_group import ConsumerGroup
from pybroker_kafka.coordinator.group.consumer.member import (
    ClassicMetadata,
    ClassicProtocol,
    MemberMetadata,
    MemberState,
    Progress,
)
from pybroker_kafka.coordinator.group.consumer.records import (
    is_consumer_group_key,
    read,
    record,
)

names = st.text("abé", min_size=1, max_size=3)
ids = st.sampled_from([bytes([n]) * 16 for n in range(1, 4)])
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
epochs = st.integers(0, 9)
members = st.sampled_from(["m0", "m1", "m2"])
partitions = st.frozensets(st.integers(0, 5), min_size=1)
partition_epochs = st.dictionaries(
    ids, st.dictionaries(st.integers(0, 5), epochs, min_size=1), max_size=2
)
metadata = st.builds(
    MemberMetadata,
    st.none() | st.sampled_from(["i0", "i1"]),
    st.none() | names,
    names,
    names,
    st.frozensets(st.sampled_from(["t", "u", "v"])),
    st.none() | st.sampled_from(["", "r.*", "s"]),
    int32s,
    st.none() | st.sampled_from(["uniform", "range"]),
    st.none()
    | st.builds(
        ClassicMetadata,
        int32s,
        st.lists(st.builds(ClassicProtocol, names, st.binary(max_size=4)), max_size=2).map(tuple),
    ),
)
progress = st.builds(
    Progress, int32s, int32s, st.sampled_from(MemberState), partition_epochs, partition_epochs
)
changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(SetEpoch, st.none() | st.builds(GroupEpoch, int32s, int64s)),
    st.builds(SetTargetEpoch, st.none() | st.builds(TargetEpoch, int32s, int64s)),
    st.builds(SetMember, members, st.none() | metadata),
    st.builds(SetTarget, members, st.none() | st.dictionaries(ids, partitions, max_size=2)),
    st.builds(SetProgress, members, st.none() | progress),
    st.builds(
        SetRegex,
        st.sampled_from(["r.*", "s"]),
        st.none()
        | st.builds(ResolvedRegex, st.frozensets(st.sampled_from(["t", "u"])), int64s, int64s),
    ),
    st.builds(SetPartitionMetadata, st.none()),
)


def state_of(group: ConsumerGroup) -> dict[str, Any]:
    return {
        "epoch": (group.epoch, group.metadata_hash),
        "target epoch": group.target_epoch,
        "members": group.members,
        "targets": group.targets,
        "regexes": group.regexes,
        "names": +group.names,
        "regex members": +group.regex_members,
        "regex topics": +group.regex_topics,
        "assignors": +group.assignors,
    }


@given(changes)
def test_a_record_is_its_change(change: Change) -> None:
    key, value = record("g", change)
    assert is_consumer_group_key(key)
    assert (value is None) == (change.value is None)
    assert read(key, value) == ("g", change)


@given(st.lists(changes, max_size=20), st.randoms(use_true_random=False))
def test_the_last_changes_are_the_state(all_changes: list[Change], choose: random.Random) -> None:
    """A group is read back from the last record of each key, in any order of keys."""
    group = ConsumerGroup("g")
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
    loaded = ConsumerGroup("g")
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
            group.members[member_id] = group.members[member_id]._replace(progress=Progress())
    assert state_of(loaded) == state_of(group)


@given(st.lists(changes, max_size=8), st.lists(changes, max_size=8))
def test_changes_are_undone(first: list[Change], second: list[Change]) -> None:
    group, twin = ConsumerGroup("g"), ConsumerGroup("g")
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
    group, twin = ConsumerGroup("g"), ConsumerGroup("g")
    for change in [*first, *later]:
        twin.apply(change)
    for append_id, sent in enumerate((first, lost, later)):
        group.sent(append_id, sent, [group.apply(change) for change in sent])
    group.lost(1)
    group.stored(0)
    group.stored(2)
    assert state_of(group) == state_of(twin)
    assert group.last_append_id is None
