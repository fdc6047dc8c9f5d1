"""What hypothesis draws for the tests of record batches."""

from collections.abc import Sequence

from hypothesis import strategies as st

from pybroker_kafka.protocol.records.batch import Record, SimpleRecord
from pybroker_kafka.protocol.records.compression import Compression

LEGACY_CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]

# Mostly near each other, as timestamps are; sometimes anywhere.
timestamps = st.one_of(
    st.integers(1_700_000_000_000, 1_700_000_100_000), st.just(-1), st.integers(0, 2**62)
)
payloads = st.one_of(
    st.none(),
    st.binary(max_size=80),
    st.builds(lambda byte, n: bytes([byte]) * n, st.integers(0, 255), st.integers(0, 3000)),
)
header_lists = st.lists(
    st.tuples(st.text(max_size=6), st.one_of(st.none(), st.binary(max_size=12))), max_size=3
)
simple_records = st.builds(SimpleRecord, timestamps, payloads, payloads, header_lists)
record_lists = st.lists(simple_records, min_size=1, max_size=12)
codecs = st.sampled_from(list(Compression))
legacy_codecs = st.sampled_from(LEGACY_CODECS)
offsets = st.one_of(st.integers(0, 1000), st.integers(0, 2**53))


def content(record: SimpleRecord | Record) -> tuple[object, ...]:
    """What a record carries, whatever class it is read as."""
    return (record.timestamp, record.key, record.value, list(record.headers))


def contents(records: Sequence[SimpleRecord | Record]) -> list[tuple[object, ...]]:
    return [content(record) for record in records]
