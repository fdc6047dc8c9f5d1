"""Ranges that are cut hold every offset once; a limited trigger goes forward and no further."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.spark_jobs.source.planning import OffsetRange, cut, limited

RANGES = st.lists(
    st.builds(
        lambda topic, partition, start, size: OffsetRange(topic, partition, start, start + size),
        st.sampled_from(["a", "b"]),
        st.integers(0, 5),
        st.integers(0, 1000),
        st.integers(0, 5000),
    ),
    max_size=8,
    unique_by=lambda offsets: (offsets.topic, offsets.partition),
)


def offsets_of(ranges: list[OffsetRange]) -> list[tuple[str, int, int]]:
    return [(r.topic, r.partition, o) for r in ranges for o in range(r.start, r.end)]


@given(RANGES, st.none() | st.integers(1, 40), st.none() | st.integers(1, 2000))
def test_each_offset_is_in_one_task(
    ranges: list[OffsetRange], min_partitions: int | None, max_records: int | None
) -> None:
    found = cut(ranges, min_partitions, max_records)
    assert offsets_of(found) == offsets_of(ranges)
    assert all(offsets.size > 0 for offsets in found)
    if max_records is not None:
        assert all(offsets.size <= max_records for offsets in found)


def test_without_options_a_task_is_a_partition() -> None:
    ranges = [OffsetRange("t", 0, 5, 10), OffsetRange("t", 1, 7, 7), OffsetRange("t", 2, 0, 1)]
    assert cut(ranges) == [ranges[0], ranges[2]]


def test_the_largest_are_cut() -> None:
    ranges = [OffsetRange("t", 0, 0, 10), OffsetRange("t", 1, 0, 1000)]
    assert cut(ranges, 4) == [
        OffsetRange("t", 0, 0, 10),
        OffsetRange("t", 1, 0, 333),
        OffsetRange("t", 1, 333, 666),
        OffsetRange("t", 1, 666, 1000),
    ]


KEYS = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 5))


@given(
    st.dictionaries(KEYS, st.tuples(st.integers(0, 1000), st.integers(-5, 5000)), max_size=8),
    st.integers(1, 10_000),
)
def test_a_limit_is_shared_in_proportion(
    places: dict[tuple[str, int], tuple[int, int]], most: int
) -> None:
    start = {key: begin for key, (begin, _) in places.items()}
    latest = {key: begin + size for key, (begin, size) in places.items()}
    end = limited(most, start, latest)
    assert end.keys() == latest.keys()
    taken = 0
    for key, offset in end.items():
        assert offset <= latest[key]
        if latest[key] > start[key]:
            assert offset > start[key] or most < sum(v > start[k] for k, v in latest.items())
            taken += offset - start[key]
    assert taken <= most + len(places)


def test_partitions_without_a_start_are_not_limited() -> None:
    assert limited(10, {}, {("t", 0): 500}) == {("t", 0): 500}
