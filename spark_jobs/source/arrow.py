"""Rows of a fetch as Arrow batches, with the columns of the official connector.

Job: offsets and timestamps go from `RecordColumns` to Arrow as they are; keys and values are
sliced out of the fetch, once. No object is made for a record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ...protocol.records.columns import RecordColumns
from ...protocol.records.record import TimestampType

if TYPE_CHECKING:
    from array import array

MAX_ROWS = 50_000  # of an Arrow batch
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class ArrowRows:
    """Makes batches of one partition."""

    def __init__(self, topic: str, partition: int, *, include_headers: bool) -> None:
        self._topic = topic
        self._partition = partition
        self._include_headers = include_headers

    def batches(
        self, columns: RecordColumns, ranges: list[tuple[int, int]]
    ) -> Iterator[pa.RecordBatch]:
        for first, last in ranges:
            for start in range(first, last, MAX_ROWS):
                yield self._batch(columns, start, min(start + MAX_ROWS, last))

    def _batch(self, columns: RecordColumns, first: int, last: int) -> pa.RecordBatch:
        count = last - first
        times = _numbers(columns.timestamps, first, last)
        found: dict[str, Any] = {
            "key": _contents(columns.data, columns.key_starts, columns.key_lengths, first, last),
            "value": _contents(
                columns.data, columns.value_starts, columns.value_lengths, first, last
            ),
            "topic": pa.repeat(self._topic, count),
            "partition": pa.repeat(pa.scalar(self._partition, pa.int32()), count),
            "offset": _numbers(columns.offsets, first, last),
            "timestamp": pc.multiply(times, 1000).cast(_TIMESTAMP),
            "timestampType": _timestamp_types(columns, first, last),
        }
        if self._include_headers:
            found["headers"] = _headers(columns, first, last)
        return pa.RecordBatch.from_pydict(found)


def _numbers(column: array[int], first: int, last: int) -> pa.Array:
    """A copy: the columns of the whole fetch would be kept alive otherwise."""
    view = memoryview(column)[first:last]
    return pa.Array.from_buffers(pa.int64(), last - first, [None, pa.py_buffer(bytes(view))])


def _contents(
    data: bytes, starts: array[int], lengths: array[int], first: int, last: int
) -> pa.Array:
    """null where the length is -1."""
    return pa.array(
        [
            data[start : start + length] if length >= 0 else None
            for start, length in zip(starts[first:last], lengths[first:last], strict=True)
        ],
        pa.binary(),
    )


def _timestamp_types(columns: RecordColumns, first: int, last: int) -> pa.Array:
    """Of each batch: 0 for the time of creation, 1 for that of the append, -1 for format v0."""
    parts = []
    for batch in columns.batches:
        count = min(batch.end, last) - max(batch.first, first)
        if count > 0:
            kind = -1 if batch.header.magic == 0 else int(batch.header.timestamp_type)
            assert kind in (-1, *TimestampType)
            parts.append(pa.repeat(pa.scalar(kind, pa.int32()), count))
    return pa.concat_arrays(parts)


def _headers(columns: RecordColumns, first: int, last: int) -> pa.Array:
    """null for a record without headers, as the connector has it."""
    return pa.array(
        [
            [{"key": key, "value": value} for key, value in columns.headers(row)]
            if columns.header_counts[row]
            else None
            for row in range(first, last)
        ],
        _HEADERS,
    )
