"""Which transactions hang: those that no coordinator will ever end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.client.admin.transactions import (
    ActiveProducer,
    TransactionDescription,
    hanging,
    open_since,
)

PLACES = [("t", 0), ("t", 1), ("u", 0)]
producers = st.builds(
    ActiveProducer,
    producer_id=st.integers(0, 2),
    producer_epoch=st.integers(0, 1),
    coordinator_epoch=st.just(0),
    last_sequence=st.just(0),
    last_timestamp_ms=st.integers(0, 10),
    first_offset=st.integers(-1, 3),
)
transactions = st.builds(
    TransactionDescription,
    transactional_id=st.just("x"),
    state=st.sampled_from(["Ongoing", "PrepareAbort", "Empty", "CompleteCommit"]),
    producer_id=st.integers(0, 2),
    producer_epoch=st.integers(0, 1),
    timeout_ms=st.just(1),
    began_ms=st.just(0),
    partitions=st.frozensets(st.sampled_from(PLACES)),
)


@given(
    st.dictionaries(st.sampled_from(PLACES), st.lists(producers, max_size=4)),
    st.lists(transactions, max_size=4),
    st.integers(0, 11),
)
def test_as_said_one_by_one(
    found: dict[tuple[str, int], list[ActiveProducer]],
    described: list[TransactionDescription],
    before_ms: int,
) -> None:
    expected = []
    for place in sorted(found):
        for one in found[place]:
            is_open = one.first_offset >= 0 and one.last_timestamp_ms < before_ms
            is_known = any(
                t.producer_id == one.producer_id
                and t.producer_epoch == one.producer_epoch
                and place in t.partitions
                and t.state in ("Ongoing", "PrepareAbort")
                for t in described
            )
            if is_open and not is_known:
                expected.append((place, one))
    assert hanging(open_since(found, before_ms), described) == expected
