"""Sessions of an aircraft, beside the dumb way to find them: all departures in their order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.spark_jobs.pipelines.sessions import Session, merged

GAP_MS = 10
departures = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 50)), max_size=40)


def dumb(flights: list[tuple[int, int]]) -> list[Session]:
    found: list[list[tuple[int, int]]] = []
    for flight in sorted(flights):
        if found and flight[0] - found[-1][-1][0] < GAP_MS:
            found[-1].append(flight)
        else:
            found.append([flight])
    return [
        Session(part[0][0], part[-1][0], len(part), sum(miles for _, miles in part))
        for part in found
    ]


def single(flight: tuple[int, int]) -> Session:
    return Session(flight[0], flight[0], 1, flight[1])


@given(departures, st.data())
def test_in_any_order_and_in_any_batches(
    flights: list[tuple[int, int]], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(flights))
    cut = data.draw(st.integers(0, len(flights)))
    state = merged(map(single, shuffled[:cut]), GAP_MS)
    state = merged([*state, *map(single, shuffled[cut:])], GAP_MS)
    assert state == dumb(flights)
