"""Our murmur2 against kafka-python's, an independent twin, and Kafka's own test vectors."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as twin

from pybroker_kafka.client.producer.partitioners import (
    StickyPartitioner,
    next_partition,
    partition_for,
)
from pybroker_kafka.protocol.murmur2 import murmur2


@given(st.binary(max_size=64))
def test_agrees_with_the_twin(data: bytes) -> None:
    assert murmur2(data) & 0xFFFFFFFF == twin(data) & 0xFFFFFFFF


def test_known_values() -> None:
    def signed(value: int) -> int:
        return value - (1 << 32) if value & 1 << 31 else value

    assert signed(murmur2(b"21")) == -973932308
    assert signed(murmur2(b"foobar")) == -790332482
    assert partition_for(b"21", 10) == ((-973932308 & 0x7FFFFFFF) % 10)


@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=200),
    st.integers(1, 5),
    st.integers(0, 2**31 - 1),
)
def test_a_sticky_partition_is_left_after_a_batchs_worth(
    sizes: list[int], count: int, drawn: int
) -> None:
    """Asked between batches of 500 bytes: it stays below that, and is another's turn above."""
    draws = iter(range(drawn, drawn + 1_000))
    sticky = StickyPartitioner(500, lambda: next(draws))
    available = list(range(count))
    taken = 0
    for size in sizes:
        if sticky.is_done(size):
            assert sticky.current < 0 or taken + size > 500
            assert sticky.choose(count, available, []) in available
            taken = 0
        else:
            assert taken + size <= 500
        sticky.taken_bytes += size
        taken += size


@given(st.lists(st.integers(0, 50), min_size=2, max_size=8), st.data())
def test_longer_queues_are_drawn_less_often(sizes: list[int], data: st.DataObject) -> None:
    """Over all draws each has as many as its queue is shorter than the longest, and one."""
    longest = max(sizes) + 1
    available = data.draw(st.permutations(range(len(sizes))).map(sorted))
    weights = [longest - size for size in sizes]
    drawn = [next_partition(n, len(sizes), available, sizes) for n in range(sum(weights))]
    if len(set(sizes)) > 1:
        assert [drawn.count(partition) for partition in available] == weights
    else:
        assert drawn == [n % len(sizes) for n in range(len(drawn))]
