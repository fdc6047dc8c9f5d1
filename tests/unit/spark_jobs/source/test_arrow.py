"""Arrow batches of a fetch, against a twin that looks at each record."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.columns import RecordColumns, decode_columns
from pybroker_kafka.protocol.records.compression import Compression
from pybroker_kafka.protocol.records.record import SimpleRecord, TimestampType
from pybroker_kafka.spark_jobs.source import arrow
from pybroker_kafka.spark_jobs.source.arrow import ArrowRows

CONTENT = st.none() | st.binary(max_size=9)
HEADERS = st.lists(st.tuples(st.sampled_from("ab"), CONTENT), max_size=2).map(tuple)
RECORDS = st.lists(
    st.builds(SimpleRecord, st.integers(0, 2**45), CONTENT, CONTENT, HEADERS),
    min_size=1,
    max_size=6,
)
BATCHES = st.lists(
    st.tuples(
        RECORDS,
        st.sampled_from([Compression.NONE, Compression.LZ4]),
        st.sampled_from(TimestampType),
    ),
    max_size=6,
)


def fetch_of(batches: list[tuple[list[SimpleRecord], Compression, TimestampType]]) -> bytes:
    found, offset = bytearray(), 0
    for records, codec, kind in batches:
        found += build_batch(
            records,
            base_offset=offset,
            compression=codec,
            log_append_time=7 if kind is TimestampType.LOG_APPEND_TIME else None,
        )
        offset += len(records)
    return bytes(found)


def rows_of(columns: RecordColumns, wanted: list[int]) -> list[dict[str, Any]]:
    types = {
        row: int(batch.header.timestamp_type)
        for batch in columns.batches
        for row in range(batch.first, batch.end)
    }
    return [
        {
            "key": columns.key(row),
            "value": columns.value(row),
            "topic": "t",
            "partition": 3,
            "offset": columns.offsets[row],
            "timestamp": datetime(1970, 1, 1, tzinfo=UTC)
            + timedelta(milliseconds=columns.timestamps[row]),
            "timestampType": types[row],
            "headers": [{"key": k, "value": v} for k, v in columns.headers(row)] or None,
        }
        for row in wanted
    ]


@pytest.mark.parametrize("max_rows", [2, 65_536])
@given(batches=BATCHES, data=st.data())
def test_rows(max_rows: int, batches: Any, data: st.DataObject) -> None:
    columns = decode_columns(fetch_of(batches))
    wanted = [row for row in range(len(columns)) if data.draw(st.booleans())]
    ranges: list[tuple[int, int]] = []
    for row in wanted:
        if ranges and ranges[-1][1] == row:
            ranges[-1] = (ranges[-1][0], row + 1)
        else:
            ranges.append((row, row + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow, "MAX_ROWS", max_rows)
        made = list(ArrowRows("t", 3, include_headers=True).batches(columns, ranges))
    assert all(batch.num_rows <= max_rows for batch in made)
    assert [row for batch in made for row in batch.to_pylist()] == rows_of(columns, wanted)


def test_a_new_process_imports_no_pandas() -> None:
    """It takes longer than all else that a Python worker of Spark's imports to read."""
    records = [SimpleRecord(0, None, b"v", ()), SimpleRecord(0, b"k", None, ())]
    data = fetch_of([(records, Compression.NONE, TimestampType.CREATE_TIME)])
    script = (
        "import sys\n"
        "from pybroker_kafka.protocol.records.columns import decode_columns\n"
        "from pybroker_kafka.spark_jobs.source.arrow import ArrowRows\n"
        f"columns = decode_columns({data!r})\n"
        "rows = ArrowRows('t', 0, include_headers=False)\n"
        "assert [batch.num_rows for batch in rows.batches(columns, [(0, 1), (1, 2)])] == [2]\n"
        "assert 'pandas' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
