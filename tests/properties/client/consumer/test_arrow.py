"""A batch as Arrow's has what its records have."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.client.consumer.received import batches_of
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.columns import decode_columns
from pybroker_kafka.protocol.records.record import SimpleRecord

DATA = st.one_of(st.none(), st.binary(max_size=5))
HEADERS = st.sampled_from([(), (("name", b"content"), ("other", None))])
RECORDS = st.lists(st.builds(SimpleRecord, st.integers(0, 2**40), DATA, DATA, HEADERS), min_size=1)


@settings(max_examples=50)
@given(st.lists(RECORDS, min_size=1, max_size=3), st.integers(0, 5), st.integers(1, 20))
def test_the_same_as_records(fetch: list[list[SimpleRecord]], position: int, piece: int) -> None:
    data, end = b"", 0
    for records in fetch:
        data += build_batch(records, base_offset=end)
        end += len(records)
    for whole in batches_of(("t", 3), decode_columns(data), position, None):
        first, rest = whole.split(piece)
        for batch in (whole, first, rest or first):
            rows = batch.to_arrow().to_pylist()
            expected = [
                (each.topic, each.partition, each.offset, each.timestamp, each.key, each.value)
                for each in batch
            ]
            assert expected == [
                (*list(row.values())[:3], round(row["timestamp"].timestamp() * 1000), row["key"],
                 row["value"])
                for row in rows
            ]  # fmt: skip


def test_more_rows_than_the_table_has() -> None:
    records = [SimpleRecord(0, None, b"%d" % number) for number in range(70_000)]
    (batch,) = batches_of(("t", 0), decode_columns(bytes(build_batch(records))), 0, None)
    assert batch.to_arrow().column("value").to_pylist() == batch.values()
