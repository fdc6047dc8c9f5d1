"""Fetched records as columns of Arrow: key, value, headers, timestamp, partition, offset.

No object is made for a record, but for one with headers.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ..client.consumer.arrow import contents_of, int32, int64, numbers_of
from ..client.consumer.received import ReceivedBatch

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RAW: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("timestamp", TIMESTAMP),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
    ]
)
_US_PER_MS: Final = int64(1000)
_NO_TIMESTAMP: Final = int64(-1)
_NO_TIME: Final = pa.nulls(1, pa.int64())[0]


def raw_columns(batch: ReceivedBatch) -> pa.RecordBatch:
    """The records of a batch. A record without a timestamp (format v0) has null."""
    first, last, columns = batch.first, batch.end, batch.columns
    count = last - first
    data = pa.py_buffer(columns.data)
    times = numbers_of(columns.timestamps, first, last)
    times = pc.if_else(pc.equal(times, _NO_TIMESTAMP), _NO_TIME, times)
    found = [
        contents_of(data, columns.key_starts, columns.key_lengths, first, last),
        contents_of(data, columns.value_starts, columns.value_lengths, first, last),
        _headers(batch),
        pc.multiply(times, _US_PER_MS).cast(TIMESTAMP),
        pa.repeat(int32(batch.partition), count),
        numbers_of(columns.offsets, first, last),
    ]
    return pa.RecordBatch.from_arrays(found, schema=RAW)


def _headers(batch: ReceivedBatch) -> pa.Array:
    """An empty list for a record without headers: pyiceberg writes null as that in any case."""
    found = batch.headers()
    if not any(found):
        starts = pa.py_buffer(bytes(4 * (len(batch) + 1)))
        return pa.ListArray.from_buffers(
            HEADERS, len(batch), [None, starts], children=[pa.nulls(0, HEADERS.value_type)]
        )
    return pa.array(
        [[{"key": key, "value": value} for key, value in headers] for headers in found], HEADERS
    )
