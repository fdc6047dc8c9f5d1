"""Which slices of a lake hold its rows, whenever a compaction or a backfill is killed."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.spark_jobs.pipelines.lake import Slice, together, visible


def test_a_slices_name_is_read_back() -> None:
    for part in (Slice(1, 1), Slice(3, 120, 2), Slice(0, 0, 7)):
        assert Slice.parse(str(part)) == part
    assert Slice.parse("b1-2") is None


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_each_batch_is_seen_once_at_any_moment(seed: int, steps: int) -> None:
    """Batches come, are put together and replaced; deletions may not be done, in any order."""
    rng = random.Random(seed)
    there: set[Slice] = set()
    holds: dict[Slice, frozenset[int]] = {}  # the batches whose rows a slice has
    batch = 0
    for _ in range(steps):
        if rng.random() < 0.6 or not there:
            batch += 1
            new = Slice(batch, batch)
            there.add(new)
            holds[new] = frozenset({batch})
        else:
            old = {part for part in there if part.last <= batch}
            kept = visible(old)
            new = together(kept)
            there.add(new)
            holds[new] = frozenset().union(*(holds[part] for part in kept))
            there -= {part for part in old - {new} if rng.random() < 0.5}  # killed in between
        seen = [number for part in visible(there) for number in holds[part]]
        assert sorted(seen) == list(range(1, batch + 1))
