"""The short way to a plain batch makes the bytes of the long one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.plain_batch import build_plain_batch
from pybroker_kafka.protocol.records.record import SimpleRecord

DATA = st.one_of(st.binary(max_size=100), st.integers(0, 20_000).map(bytes))


@given(
    timestamp=st.integers(0, 2**63 - 1),
    records=st.lists(st.tuples(DATA, st.none() | DATA), min_size=1, max_size=90),
)
def test_byte_for_byte(timestamp: int, records: list[tuple[bytes, bytes | None]]) -> None:
    expected = build_batch([SimpleRecord(timestamp, key, value) for key, value in records])
    assert build_plain_batch(timestamp, records) == expected
