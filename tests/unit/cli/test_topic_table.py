"""Which partitions the filters of `topics describe` show."""

from __future__ import annotations

import pytest

from pybroker_kafka.cli.topic_table import Problem, is_problem
from pybroker_kafka.protocol.apis.metadata import MetadataResponsePartition


@pytest.mark.parametrize(
    ("leader", "isr", "wrong"),
    [
        (1, [1, 2, 3], set()),
        (1, [1, 2], {Problem.UNDER_REPLICATED}),
        (1, [1], {Problem.UNDER_REPLICATED, Problem.BELOW_MIN_ISR}),
        (-1, [1, 2, 3], {Problem.LEADERLESS}),
        (-1, [2], set(Problem)),
    ],
)
def test_what_is_wrong_with_a_partition(leader: int, isr: list[int], wrong: set[Problem]) -> None:
    part = MetadataResponsePartition(leader_id=leader, replica_nodes=[1, 2, 3], isr_nodes=isr)
    assert {one for one in Problem if is_problem(one, part, min_isr=2)} == wrong
