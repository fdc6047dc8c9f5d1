"""The cleaner's walk over encoded records beside the decoder of records: what the one reads, the
other finds, with the same keys, offsets and borders."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pybroker_kafka.protocol.errors import InvalidRecord, ProtocolError
from pybroker_kafka.protocol.records.loops.keys import choose_records, scan_keys, timestamp_delta
from pybroker_kafka.protocol.records.record import Record, decode_records
from tests.support.record_strategies import header_lists, payloads
from tests.support.slow_records import encode_record

BASE_OFFSET = 1_000
BASE_TIMESTAMP = 5_000

deltas = st.one_of(st.integers(0, 40), st.integers(0, 2**31 - 1))
encoded_records = st.builds(
    encode_record, deltas, st.integers(-(2**40), 2**40), payloads, payloads, header_lists
)


@st.composite
def blocks(draw: st.DrawFn) -> tuple[bytes, int]:
    """Records one after the other, at times with some bytes changed, cut off or added."""
    records = draw(st.lists(encoded_records, max_size=6))
    block = bytearray(b"".join(records))
    for _ in range(draw(st.integers(0, 2))):
        if block:
            block[draw(st.integers(0, len(block) - 1))] = draw(st.integers(0, 255))
    if draw(st.integers(0, 9)) == 0:
        del block[draw(st.integers(0, len(block))) :]
    count = len(records) + draw(st.sampled_from([0, 0, 0, 0, 0, 1, -1]))
    return bytes(block), max(0, count)


def decoded(block: bytes, count: int) -> list[Record] | None:
    try:
        return list(decode_records(block, count, BASE_OFFSET, BASE_TIMESTAMP, -1, None))
    except ProtocolError:
        return None


@given(blocks())
@example((encode_record(0, 0, None, None, ())[:1] + b"\0" * 6, 1))
def test_keys_are_those_of_the_records(case: tuple[bytes, int]) -> None:
    block, count = case
    records = decoded(block, count)
    try:
        keys, offsets = scan_keys(block, count, BASE_OFFSET)
    except ProtocolError:
        assert records is None
        return
    assert len(keys) == len(offsets) <= count
    if records is not None:
        with_key = [record for record in records if record.key is not None]
        assert keys == [record.key for record in with_key]
        assert offsets == [record.offset for record in with_key]


@pytest.mark.parametrize("length", [b"\x0f", b"\x8f\x01"])
def test_a_length_below_zero_is_damage(length: bytes) -> None:
    block = length + bytes(3) + b"\x01\x01" + bytes(80)
    nothing: dict[bytes, int] = {}
    with pytest.raises(InvalidRecord):
        scan_keys(block, 1, BASE_OFFSET)
    with pytest.raises(InvalidRecord):
        choose_records(block, 1, BASE_OFFSET, nothing.get, -1, False)


@given(blocks(), st.integers(BASE_OFFSET - 1, BASE_OFFSET + 50), st.booleans(), st.data())
def test_those_stay_that_a_list_of_records_says(
    case: tuple[bytes, int], latest: int, drops_tombstones: bool, data: st.DataObject
) -> None:
    block, count = case
    records = decoded(block, count)
    if records is None:
        return
    keys = sorted({record.key for record in records if record.key is not None})
    newest = {
        key: data.draw(st.integers(BASE_OFFSET, BASE_OFFSET + 50))
        for key in keys
        if data.draw(st.booleans())
    }
    starts, ends, has_tombstones, dropped = choose_records(
        block, count, BASE_OFFSET, newest.get, latest, drops_tombstones
    )
    expected = []
    without_key = 0
    for record in records:
        if record.offset > latest:
            expected.append(record)
        elif record.key is None:
            without_key += 1
        elif not (record.value is None and drops_tombstones) and (
            record.offset >= newest.get(record.key, -1)
        ):
            expected.append(record)
    kept = [
        one
        for start, end in zip(starts, ends, strict=True)
        for one in decoded(block[start:end], 1) or ()
    ]
    assert kept == expected
    assert dropped == without_key
    assert has_tombstones == any(record.value is None for record in expected)
    for start, record in zip(starts, expected, strict=True):
        assert BASE_TIMESTAMP + timestamp_delta(block, start)[0] == record.timestamp
