"""What brokers saw of leaders and replicas, put together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.testkit.history import Change, from_answers, merged

changes = st.builds(
    Change,
    st.integers(0, 50),
    st.sampled_from(["a-0", "b-0"]),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
    st.sampled_from(["x", "y"]),
)


@given(st.lists(st.lists(changes, max_size=8), max_size=3))
def test_each_change_once_and_in_order(histories: list[list[Change]]) -> None:
    found = merged(histories)
    assert found == sorted(found)
    everything = [change for history in histories for change in history]
    kinds = {change[1:] for change in everything}
    assert {change[1:] for change in found} == kinds
    assert len(found) == len(kinds)
    for change in found:
        assert change.at_ms == min(one.at_ms for one in everything if one[1:] == change[1:])
    sent = [[list(change) for change in history] for history in histories]
    assert from_answers(sent) == found
