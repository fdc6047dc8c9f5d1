"""The assignor of share groups, beside what its numbers promise."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.coordinator.group.consumer.assignment import Assignment, Division, Subscriber
from pybroker_kafka.coordinator.group.share.simple_assignor import assign

TOPICS = [bytes([number]) * 16 for number in range(1, 4)]
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 6), min_size=1)


def divided(
    members: list[frozenset[bytes]], sizes: dict[bytes, int], before: dict[str, Assignment]
) -> dict[str, Assignment]:
    subscribers = [
        Subscriber(f"m{place}", None, frozenset(topics & sizes.keys()), before.get(f"m{place}", {}))
        for place, topics in enumerate(members)
    ]
    assignable = {topic: frozenset(range(size)) for topic, size in sizes.items()}
    is_homogeneous = len({one.topic_ids for one in subscribers}) == 1
    return assign(Division(subscribers, sizes, is_homogeneous), assignable)


def shares(found: dict[str, Assignment]) -> Counter[tuple[bytes, int]]:
    return Counter(
        (topic, partition)
        for target in found.values()
        for topic, partitions in target.items()
        for partition in partitions
    )


@given(counts, st.integers(1, 20), st.integers(1, 20))
def test_all_members_have_some_and_partitions_are_shared_evenly(
    sizes: dict[bytes, int], first: int, second: int
) -> None:
    partitions = sum(sizes.values())
    found = divided([frozenset(sizes)] * first, sizes, {})
    assert set(shares(found).values()) == {-(-first // partitions)}
    assert len(shares(found)) == partitions
    has = [sum(len(some) for some in target.values()) for target in found.values()]
    assert len(has) == first
    assert min(has) >= 1
    assert max(has) - min(has) <= 1
    assert divided([frozenset(sizes)] * first, sizes, found) == found
    # Members that come and go leave gaps that the next division fills, as in Kafka.
    found = divided([frozenset(sizes)] * second, sizes, found)
    assert len(shares(found)) == partitions
    assert max(shares(found).values()) <= -(-second // partitions)


@given(
    counts,
    st.lists(st.sets(st.sampled_from(TOPICS), min_size=1).map(frozenset), min_size=1, max_size=9),
    st.lists(st.sets(st.sampled_from(TOPICS), min_size=1).map(frozenset), min_size=1, max_size=9),
)
def test_each_topic_is_divided_among_its_subscribers(
    sizes: dict[bytes, int], first: list[frozenset[bytes]], second: list[frozenset[bytes]]
) -> None:
    before: dict[str, Assignment] = {}
    for members in (first, second):
        before = divided(members, sizes, before)
        wanted = frozenset().union(*members) & sizes.keys()
        if not wanted:
            assert before == {}
            continue
        for place, topics in enumerate(members):
            assert before[f"m{place}"].keys() & wanted <= topics
        shared = shares(before)
        for topic in wanted:
            for partition in range(sizes[topic]):
                assert shared[topic, partition] >= 1
