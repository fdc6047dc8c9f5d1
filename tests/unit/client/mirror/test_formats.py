"""The bytes that MirrorMaker 2 of Kafka 3.9.1 has written, and what comes back from any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.client.mirror.formats import Checkpoint, Heartbeat, OffsetSync, SourcePosition
from pybroker_kafka.protocol.errors import ProtocolError

names = st.text(max_size=20).filter(lambda text: text.encode(errors="replace").decode() == text)
offsets = st.integers(-1, 2**63 - 1)
numbers = st.integers(0, 2**31 - 1)

GOLDEN = [
    (
        OffsetSync("orders", 0, 101, 101),
        b"\x00\x06orders\x00\x00\x00\x00",
        b"\x00\x00\x00\x00\x00\x00\x00e\x00\x00\x00\x00\x00\x00\x00e",
    ),
    (
        Checkpoint("billing", "A.orders", 1, 119, 102, ""),
        b"\x00\x07billing\x00\x08A.orders\x00\x00\x00\x01",
        b"\x00\x00\x00\x00\x00\x00\x00\x00\x00w\x00\x00\x00\x00\x00\x00\x00f\x00\x00",
    ),
    (
        Heartbeat("B", "A", 1795421576864),
        b"\x00\x01B\x00\x01A",
        b"\x00\x00\x00\x00\x01\xa2\x07w\x1e\xa0",
    ),
    (
        SourcePosition("A", "orders", 1, 118),
        b'["MirrorSourceConnector",{"cluster":"A","partition":1,"topic":"orders"}]',
        b'{"offset":118}',
    ),
]


@pytest.mark.parametrize(("told", "key", "value"), GOLDEN)
def test_bytes_of_mirror_maker(
    told: OffsetSync | Checkpoint | Heartbeat | SourcePosition, key: bytes, value: bytes
) -> None:
    assert (told.key(), told.value()) == (key, value)
    assert type(told).parse(key, value) == told


@given(
    st.one_of(
        st.builds(OffsetSync, names, numbers, offsets, offsets),
        st.builds(Checkpoint, names, names, numbers, offsets, offsets, names),
        st.builds(Heartbeat, names, names, offsets),
        st.builds(SourcePosition, names, names, numbers, offsets),
    )
)
def test_what_is_written_is_read(
    told: OffsetSync | Checkpoint | Heartbeat | SourcePosition,
) -> None:
    assert type(told).parse(told.key(), told.value()) == told


@given(st.one_of(st.none(), st.binary(max_size=40)), st.one_of(st.none(), st.binary(max_size=40)))
def test_other_bytes_are_refused_or_passed_over(key: bytes | None, value: bytes | None) -> None:
    for kind in (OffsetSync, Checkpoint, Heartbeat):
        try:
            kind.parse(key, value)
        except ProtocolError:
            continue
    assert SourcePosition.parse(key, value) is None


def test_positions_of_other_connectors_are_not_ours() -> None:
    assert SourcePosition.parse(b'["Other",{"cluster":"A"}]', b'{"offset":1}') is None
    assert SourcePosition.parse(b"[1,2,3]", b"{}") is None
