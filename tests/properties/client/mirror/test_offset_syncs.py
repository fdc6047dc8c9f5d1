"""Which pairs of offsets are due, compared with a twin that looks at each record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.client.mirror.formats import OffsetSync
from pybroker_kafka.client.mirror.offset_syncs import OffsetSyncs, PairsOfPartition

# Source offsets of a batch: in a row, or with gaps; how far both ends skip before it.
batches = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(-2, 3), st.integers(1, 30), st.lists(st.integers(1, 3))
    ),
    max_size=12,
)


class Twin:
    """MirrorMaker 2's own state, record by record."""

    def __init__(self, max_lag: int) -> None:
        self.max_lag = max_lag
        self.previous_source = self.previous_target = self.last_synced = -1

    def is_due(self, source: int, target: int) -> bool:
        due = (
            self.last_synced == -1
            or target - (self.last_synced + 1) >= self.max_lag
            or source - self.previous_source != 1
            or target < self.previous_target
        )
        if due:
            self.last_synced = target
        self.previous_source, self.previous_target = source, target
        return due


@given(batches, st.integers(0, 7), st.booleans())
def test_pairs_of_a_batch(
    drawn: list[tuple[int, int, int, list[int]]], max_lag: int, has_gaps: bool
) -> None:
    twin, state = Twin(max_lag), PairsOfPartition(max_lag)
    source, target = 0, 10
    for skip, jump, count, gaps in drawn:
        source += skip
        target = max(0, target + jump)
        offsets: range | list[int] = range(source, source + count)
        if has_gaps and gaps:
            offsets = [source + sum(gaps[:n]) for n in range(len(gaps))]
        due = [n for n, at in enumerate(offsets) if twin.is_due(at, target + n)]
        found = state.take(offsets, target)
        assert set(found) <= set(due)
        assert found == sorted(found)
        assert found[:1] == due[:1]
        assert found[-1:] == due[-1:]
        assert len(due) < 8 or len(found) <= len(due) - 2
        for one in due:  # not further from a kept one than from the last
            assert min(abs(one - kept) for kept in found) <= due[-1] - one
        source, target = offsets[-1] + 1, target + len(offsets)


def test_what_waits_is_due_once_it_is_promoted() -> None:
    syncs = OffsetSyncs(100)
    syncs.take(("t", 0), range(5, 10), 0)
    assert syncs.take_due() == [OffsetSync("t", 0, 5, 0)]
    syncs.take(("t", 0), range(10, 12), 5)
    assert syncs.take_due() == []
    syncs.promote()
    assert syncs.take_due() == [OffsetSync("t", 0, 11, 6)]
    syncs.promote()
    assert syncs.take_due() == []
