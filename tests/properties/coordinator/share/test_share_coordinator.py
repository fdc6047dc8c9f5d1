"""State batches and the share coordinator beside dumb twins."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.coordinator.share.batches import StateBatch, combine
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.share_node import ShareNode

MAX_OFFSET = 20
batches = st.builds(
    lambda first, length, count, state: StateBatch(first, first + length, count, state),
    st.integers(0, MAX_OFFSET),
    st.integers(0, 6),
    st.integers(0, 3),
    st.sampled_from([0, 2, 4]),
)


def by_offset(found: Sequence[StateBatch], start: int) -> dict[int, tuple[int, int]]:
    """The dumb twin: the highest count and state of each offset."""
    highest: dict[int, tuple[int, int]] = {}
    for batch in found:
        for offset in range(max(batch.first_offset, start), batch.last_offset + 1):
            highest[offset] = max(highest.get(offset, (-1, -1)), batch[2:])
    return highest


@given(st.lists(batches), st.lists(batches), st.integers(-1, MAX_OFFSET))
def test_of_batches_that_overlap_the_higher_one_holds(
    known: list[StateBatch], new: list[StateBatch], start: int
) -> None:
    found = combine(known, new, start)
    assert by_offset(found, start) == by_offset([*known, *new], start)
    for before, after in pairwise(found):
        assert before.last_offset < after.first_offset
    assert all(start <= batch.first_offset <= batch.last_offset for batch in found)


step = st.one_of(
    st.tuples(
        st.just("write"), st.integers(0, 2), st.lists(batches, max_size=3), st.integers(-1, 9),
        st.integers(0, 4), st.integers(0, 3),
    ),
    st.tuples(st.just("initialize"), st.integers(0, 2), st.integers(-1, 9), st.integers(0, 3)),
    st.tuples(st.just("read"), st.integers(0, 2), st.integers(-1, 4)),
    st.tuples(st.just("delete"), st.integers(0, 2)),
    st.tuples(st.just("fail")),
    st.tuples(st.just("hold")),
    st.tuples(st.just("release")),
    st.tuples(st.just("time"), st.integers(1, 400_000)),
)  # fmt: skip


@given(st.lists(step, max_size=40), st.integers(0, 3))
def test_the_log_has_the_state(steps: list[tuple[Any, ...]], limit: int) -> None:
    node = ShareNode(limit=limit)
    for partition in range(3):
        node.initialize(0, partition=partition)
    for name, *values in steps:
        take(node, name, values)
        if not node.held:
            assert node.replayed() == node.entries
    node.release()
    assert node.replayed() == node.entries
    assert ShareNode(limit, log=node.log).entries == node.entries


def take(node: ShareNode, name: str, values: list[Any]) -> None:
    if name == "write":
        partition, some, start, leader, epoch = values
        asked = [(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in some]
        node.write(*asked, start=start, leader=leader, epoch=epoch, partition=partition)
    elif name == "initialize":
        partition, offset, epoch = values
        node.initialize(offset, epoch, partition)
    elif name == "read":
        partition, leader = values
        node.read(leader, partition)
    elif name == "delete":
        node.delete(*values)
    elif name == "fail":
        failed = node.error is ErrorCode.NONE
        node.error = ErrorCode.NOT_LEADER_OR_FOLLOWER if failed else ErrorCode.NONE
    elif name in ("hold", "release"):
        node.holds = name == "hold"
        if not node.holds:
            node.release()
    else:
        node.now_ms += values[0]
        node.machine.tick(node.now_ms)
        node.perform()
