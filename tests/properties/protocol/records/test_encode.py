"""The records of a batch encoded in one call are those encoded one by one, byte for byte."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.columns import decode_columns
from pybroker_kafka.protocol.records.loops.encode import encode_parts
from pybroker_kafka.protocol.records.record import SimpleRecord
from tests.support.slow_records import encode_record

NEAR = 1_700_000_000_000
TIMESTAMPS = st.one_of(
    st.integers(NEAR, NEAR + 100), st.integers(-1, 2**63 - 1), st.integers(-(2**63), 2**63 - 1)
)
# Around the sizes at which a length takes one more byte, and the end of the table of small numbers.
LENGTHS = st.one_of(st.integers(0, 100), st.integers(2000, 2100), st.integers(8100, 8300))
DATA = st.one_of(st.none(), st.binary(max_size=70), LENGTHS.map(bytes))
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=70))))
RECORDS = st.lists(
    st.builds(SimpleRecord, TIMESTAMPS, DATA, DATA, st.one_of(st.just(()), HEADERS.map(tuple))),
    min_size=1,
    max_size=80,
)


@given(RECORDS)
@example([SimpleRecord(NEAR, None, b"")] * 9000)  # deltas beyond the table, and beyond two bytes
@example([SimpleRecord(2**63 - 1, None, None), SimpleRecord(-(2**63), b"", None)])
def test_byte_for_byte(records: list[SimpleRecord]) -> None:
    base = records[0].timestamp
    parts: list[bytes] = []
    newest = encode_parts(records, base, parts)
    assert newest == max(each.timestamp for each in records)
    block = b"".join(
        encode_record(delta, each.timestamp - base, each.key, each.value, each.headers)
        for delta, each in enumerate(records)
    )
    assert b"".join(parts) == block
    assert bytes(build_batch(records)[61:]) == block


@given(RECORDS)
def test_round_trip(records: list[SimpleRecord]) -> None:
    columns = decode_columns(bytes(build_batch(iter(records))), check_crcs=True)
    found = [
        SimpleRecord(timestamp, columns.key(row), columns.value(row), tuple(columns.headers(row)))
        for row, timestamp in enumerate(columns.timestamps)
    ]
    assert found == records


def test_any_buffers_are_keys_and_values() -> None:
    odd = SimpleRecord(0, memoryview(b"key"), bytearray(b"value"))  # type: ignore[arg-type]
    assert build_batch([odd]) == build_batch([SimpleRecord(0, b"key", b"value")])
