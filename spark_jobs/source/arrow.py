"""Rows of a fetch as Arrow batches, with the columns of the official connector.

Job: offsets and timestamps pass from `RecordColumns` to Arrow unchanged; Arrow copies keys and
values out of the fetch, once. Only records with headers become Python objects.

How: see `client/consumer/arrow.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ...client.consumer.arrow import contents_of, flag, int32, int64, numbers_of, text
from ...protocol.records.columns import BatchRows, RecordColumns

MAX_ROWS: Final = 65_536  # of an Arrow batch
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_US_PER_MS = int64(1000)
HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class ArrowRows:
    """Makes Arrow batches of one partition."""

    def __init__(self, topic: str, partition: int, *, include_headers: bool) -> None:
        self._topic, self._partition = text(topic), int32(partition)
        self._include_headers = include_headers

    def batches(
        self, columns: RecordColumns, ranges: Sequence[tuple[int, int]]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of these ranges, in order."""
        if not ranges:
            return
        types = _timestamp_types(columns)
        first, last = ranges[0][0], ranges[-1][1]
        wanted = _mask(ranges) if len(ranges) > 1 else None
        for start in range(first, last, MAX_ROWS):
            end = min(start + MAX_ROWS, last)
            batch = self._batch(columns, types[start:end], start, end)
            yield batch if wanted is None else batch.filter(wanted[start - first : end - first])

    def _batch(
        self, columns: RecordColumns, types: pa.Array, first: int, last: int
    ) -> pa.RecordBatch:
        count = last - first
        times = numbers_of(columns.timestamps, first, last)
        data = pa.py_buffer(columns.data)
        found: dict[str, Any] = {
            "key": contents_of(data, columns.key_starts, columns.key_lengths, first, last),
            "value": contents_of(data, columns.value_starts, columns.value_lengths, first, last),
            "topic": pa.repeat(self._topic, count),
            "partition": pa.repeat(self._partition, count),
            "offset": numbers_of(columns.offsets, first, last),
            "timestamp": pc.multiply(times, _US_PER_MS).cast(TIMESTAMP),
            "timestampType": types,
        }
        if self._include_headers:
            found["headers"] = _headers(columns, first, last)
        return pa.RecordBatch.from_pydict(found)


def _mask(ranges: Sequence[tuple[int, int]]) -> pa.Array:
    """True for each row inside one of the ranges, from the first range's start to the last one's
    end."""
    parts = []
    end = ranges[0][0]
    for first, last in ranges:
        parts += [pa.repeat(flag(False), first - end), pa.repeat(flag(True), last - first)]
        end = last
    return pa.concat_arrays(parts)


def _timestamp_types(columns: RecordColumns) -> pa.Array:
    """The timestamp type of each row: 0 for creation time, 1 for append time, -1 for format v0."""
    parts = []
    for kind, batches in groupby(columns.batches, _timestamp_type):
        count = sum(batch.end - batch.first for batch in batches)
        parts.append(pa.repeat(int32(kind), count))
    return pa.concat_arrays(parts)


def _timestamp_type(batch: BatchRows) -> int:
    return -1 if batch.header.magic == 0 else int(batch.header.timestamp_type)


def _headers(columns: RecordColumns, first: int, last: int) -> pa.Array:
    """The headers of each row; null for a record without headers, as in the connector."""
    return pa.array(
        [
            [{"key": key, "value": value} for key, value in columns.headers(row)]
            if columns.header_counts[row]
            else None
            for row in range(first, last)
        ],
        HEADERS,
    )
