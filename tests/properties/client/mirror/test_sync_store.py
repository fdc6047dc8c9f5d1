"""What pairs of offsets translate to is never too far on; they are spaced as they must be."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.client.mirror.formats import OffsetSync
from pybroker_kafka.client.mirror.sync_store import SLOTS, TOO_OLD, SyncStore

# How many records of the source come before the next pair, and how many offsets the target skips.
steps = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 3)), min_size=1, max_size=30)


@settings(max_examples=60)
@given(steps, st.integers(0, 50))
def test_translations_are_safe(drawn: list[tuple[int, int]], first: int) -> None:
    store = SyncStore(keeps_history=True)
    truth: dict[int, int] = {}  # the target's offset of each record
    source, target = first, 0
    for count, skip in drawn:
        for _ in range(count):
            truth[source] = target
            source, target = source + 1, target + 1
        target += skip
        store.take(OffsetSync("t", 0, source - 1, truth[source - 1]))
    store.is_complete = True
    last = source - 1
    for offset in range(first, source):
        found = store.translate(("t", 0), offset)
        assert found is not None
        assert found == TOO_OLD or found <= truth[offset]
        # And not too far behind: that is what the slots are for.
        if found != TOO_OLD:
            assert truth[offset] - found <= 4 * (last - offset) + 120 + sum(s for _, s in drawn)
    assert store.translate(("t", 0), last + 1) == truth[last] + 1
    slots = [one.source_offset for one in store._slots["t", 0]]
    for i in range(SLOTS - 1):
        assert slots[i] == slots[i + 1] or slots[i] >= slots[i + 1] + (1 << max(i - 2, 0))
        for j in range(i + 1, SLOTS):
            assert slots[i] <= slots[j] + (1 << j) - (1 << i)


def test_only_the_last_pair_counts_where_the_past_is_not_known() -> None:
    store = SyncStore(keeps_history=False)
    for source in (0, 100):
        store.take(OffsetSync("t", 0, source, source))
    assert store.translate(("t", 0), 100) is None  # not all is read
    store.is_complete = True
    assert store.translate(("t", 0), 50) == TOO_OLD
    assert store.translate(("t", 0), 100) == 100
    store.take(OffsetSync("t", 0, 200, 200))
    assert store.translate(("t", 0), 150) == 101
    assert store.translate(("t", 1), 150) is None


def test_a_source_that_begins_anew_forgets_what_was() -> None:
    store = SyncStore(keeps_history=True)
    store.is_complete = True
    for source, target in ((100, 100), (5, 200)):
        store.take(OffsetSync("t", 0, source, target))
    assert store.translate(("t", 0), 100) == 201
    assert store.translate(("t", 0), 4) == TOO_OLD
