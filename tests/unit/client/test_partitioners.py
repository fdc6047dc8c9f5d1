"""Our murmur2 against kafka-python's, an independent twin, and Kafka's own test vectors."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as twin

from pybroker.client.producer.partitioners import murmur2, partition_for


@given(st.binary(max_size=64))
def test_agrees_with_the_twin(data: bytes) -> None:
    assert murmur2(data) & 0xFFFFFFFF == twin(data) & 0xFFFFFFFF


def test_known_values() -> None:
    def signed(value: int) -> int:
        return value - (1 << 32) if value & 1 << 31 else value

    assert signed(murmur2(b"21")) == -973932308
    assert signed(murmur2(b"foobar")) == -790332482
    assert partition_for(b"21", 10) == ((-973932308 & 0x7FFFFFFF) % 10)
