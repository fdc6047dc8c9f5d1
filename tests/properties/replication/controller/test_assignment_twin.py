"""Replica placement against a dumb twin, and what placement is for: spreading."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.replication.controller.assignment import (
    assign_added_partitions,
    assign_replicas,
)

# Brokers, partitions, replication factor, start index, shift.
ClusterShape: TypeAlias = tuple[list[int], int, int, int, int]


def dumb_unaware(
    brokers: Sequence[int],
    partition_count: int,
    factor: int,
    start: int,
    shift: int,
    first_partition: int,
) -> dict[int, list[int]]:
    """The rule of the facts, one replica at a time."""
    result = {}
    h = shift
    for p in range(first_partition, first_partition + partition_count):
        if p > 0 and p % len(brokers) == 0:
            h += 1
        leader = (p + start) % len(brokers)
        followers = [
            brokers[(leader + 1 + (h + j) % (len(brokers) - 1)) % len(brokers)]
            for j in range(factor - 1)
        ]
        result[p] = [brokers[leader], *followers]
    return result


def dumb_aware(
    racks: Mapping[int, str],
    partition_count: int,
    factor: int,
    start: int,
    shift: int,
    first_partition: int,
) -> dict[int, list[int]]:
    names = sorted(set(racks.values()))
    left = {name: sorted(b for b in racks if racks[b] == name) for name in names}
    order: list[int] = []
    while any(left.values()):
        order += [left[name].pop(0) for name in names if left[name]]
    result = {}
    n, h = len(order), shift
    for p in range(first_partition, first_partition + partition_count):
        if p > 0 and p % n == 0:
            h += 1
        leader = (p + start) % n
        row, k = [order[leader]], 0
        while len(row) < factor:
            candidate = order[(leader + 1 + (h * len(names) + k) % (n - 1)) % n]
            k += 1
            used = {racks[b] for b in row}
            rack_ok = racks[candidate] not in used or len(used) == len(names)
            broker_ok = candidate not in row or len(set(row)) == n
            if rack_ok and broker_ok:
                row.append(candidate)
        result[p] = row
    return result


@st.composite
def clusters(draw: st.DrawFn) -> ClusterShape:
    brokers = sorted(draw(st.sets(st.integers(0, 50), min_size=1, max_size=9)))
    factor = draw(st.integers(1, len(brokers)))
    start = draw(st.integers(0, len(brokers) - 1))
    shift = draw(st.integers(0, len(brokers) - 1))
    return brokers, draw(st.integers(1, 30)), factor, start, shift


@given(clusters(), st.integers(0, 20))
def test_like_the_dumb_twin(cluster: ClusterShape, first: int) -> None:
    brokers, count, factor, start, shift = cluster
    assignment = assign_replicas(
        brokers, count, factor, start_index=start, shift=shift, first_partition=first
    )
    assert assignment == dumb_unaware(brokers, count, factor, start, shift, first)
    for replicas in assignment.values():
        assert len(set(replicas)) == factor
    leaders = Counter(replicas[0] for replicas in assignment.values())
    assert max(leaders.values()) - min(leaders.get(b, 0) for b in brokers) <= 1


@given(clusters(), st.integers(0, 20), st.data())
def test_racks_like_the_dumb_twin(cluster: ClusterShape, first: int, data: st.DataObject) -> None:
    brokers, count, factor, start, shift = cluster
    racks = {b: data.draw(st.sampled_from("abcd"), label=f"rack of {b}") for b in brokers}
    assignment = assign_replicas(
        brokers, count, factor, start_index=start, shift=shift, racks=racks, first_partition=first
    )
    assert assignment == dumb_aware(racks, count, factor, start, shift, first)
    rack_count = len(set(racks.values()))
    for replicas in assignment.values():
        assert len(set(replicas)) == factor
        assert len({racks[b] for b in replicas}) == min(factor, rack_count)


@given(clusters(), st.integers(1, 10))
def test_growth_keeps_what_is_there(cluster: ClusterShape, more: int) -> None:
    brokers, count, factor, start, shift = cluster
    existing = assign_replicas(brokers, count, factor, start_index=start, shift=shift)
    added = assign_added_partitions(existing, brokers, count + more, racks=None)
    assert list(added) == list(range(count, count + more))
    assert all(len(set(replicas)) == factor for replicas in added.values())
