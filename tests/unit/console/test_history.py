"""The timeline, the series and the rates that a console keeps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.console.cluster_view import Happening
from pybroker_kafka.console.history import (
    EVENTS_KEPT,
    SERIES_MAX,
    SERIES_MS,
    Counters,
    Series,
    Timeline,
)


def test_the_timeline_keeps_the_last_events_with_their_numbers() -> None:
    timeline = Timeline()
    for number in range(EVENTS_KEPT + 5):
        timeline.add([Happening("node", str(number))], number)
    kept = timeline.all()
    assert len(kept) == EVENTS_KEPT
    assert (kept[0].number, kept[-1].number) == (6, EVENTS_KEPT + 5)
    assert timeline.add([], 0) == []


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3 * SERIES_MS), st.dictionaries(st.sampled_from("abc"), st.floats(0, 10))
        )
    )
)
def test_series_hold_what_was_measured_in_their_time(
    measured: list[tuple[int, dict[str, float]]],
) -> None:
    series, known = Series(), list[tuple[int, str, float]]()
    for at_ms, values in sorted(measured, key=lambda one: one[0]):
        series.add(values, at_ms)
        known += [(at_ms, name, value) for name, value in values.items()]
        known = [one for one in known if one[0] >= at_ms - SERIES_MS]
    for name in "abc":
        points = series.all().get(name, [])
        assert points == [(at_ms, value) for at_ms, of, value in known if of == name]


def test_series_are_bounded_in_number() -> None:
    series = Series()
    series.add({str(number): 1.0 for number in range(2 * SERIES_MAX)}, 0)
    assert len(series.all()) == SERIES_MAX


def test_rates_come_from_totals_that_may_begin_anew() -> None:
    counters = Counters()
    assert counters.rates({"in": 100.0}, 1000) == {}
    assert counters.rates({"in": 150.0, "out": 1.0}, 2000) == {"in": 50.0}
    assert counters.rates({"in": 10.0, "out": 1.0}, 4000) == {"in": 5.0, "out": 0.0}
    assert counters.rates({"in": 11.0}, 4000) == {}
