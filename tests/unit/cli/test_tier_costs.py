"""What the segments of a topic sum up to, and what that costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pybroker_kafka.cli.topic_table import tier_cost
from pybroker_kafka.local.tier_costs import (
    Prices,
    TierPart,
    by_partition,
    dollars_text,
    month_dollars,
    write_dollars,
)
from pybroker_kafka.storage.remote.segments import RemoteLogSegmentState
from tests.unit.storage.remote.tiers import PARTITION, started

STARTED, FINISHED, DELETING, DELETED = RemoteLogSegmentState
MIB = 1 << 20


def test_segments_are_summed_up_by_their_states() -> None:
    states = [FINISHED, FINISHED, STARTED, DELETING, DELETED]
    segments = [
        replace(started(number, 10 * number, 10 * number + 9, size_bytes=100), state=state)
        for number, state in enumerate(states)
    ]
    found = by_partition(segments, PARTITION.topic_id)
    assert found == {3: TierPart(2, 200, 0, 19, 1, 100, 1, 100, 10)}
    assert by_partition(segments, bytes(16)) == {}  # of an earlier topic of the name
    assert found[3].plus(found[3]) == TierPart(4, 400, None, None, 2, 200, 2, 200, 20)


@pytest.mark.parametrize(
    ("size_bytes", "writes"),
    [(0, 5), (8 * MIB, 5), (8 * MIB + 1, 4 + 2 + 2), (1024 * MIB, 4 + 128 + 2)],
)
def test_large_segments_are_written_in_parts(size_bytes: int, writes: int) -> None:
    segment = replace(started(1, 0, 9, size_bytes=size_bytes), state=FINISHED)
    assert by_partition([segment], PARTITION.topic_id)[3].writes == writes


def test_costs_have_two_digits() -> None:
    part = TierPart(segments=1000, bytes=10**12, writes=134_000)
    assert month_dollars(part, Prices()) == pytest.approx(23)
    assert write_dollars(part, Prices(thousand_writes=0.01)) == pytest.approx(1.34)
    assert tier_cost([part, part], Prices()) == (
        "the tier costs about $46 a month, and about $1.30 once for 268,000 writes, at $0.023 a "
        "GB and month and $0.005 for 1,000 writes"
    )
    texts = {0.0: "nothing", 0.001: "less than $0.01", 0.345: "about $0.34", 9.99: "about $10"}
    assert {dollars: dollars_text(dollars) for dollars in texts} == texts
