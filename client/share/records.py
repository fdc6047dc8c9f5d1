"""Records that a member of a share group has acquired; pure.

Invariant: each acquired offset is either a record here or a gap, which is acknowledged as one.

Mirrors: ShareCompletedFetch of the Java client.
"""

from __future__ import annotations

from typing import NamedTuple

from ...protocol.apis.share_fetch import AcquiredRecords
from ...protocol.primitives import Buffer
from ...protocol.records.columns import decode_columns
from ...protocol.records.record import Headers
from ...protocol.topics import TopicPartition


class SharedRecord(NamedTuple):
    """A record and its origin; `delivery_count` is 1 at first, and grows when it comes again.
    `timestamp` is in ms since 1970, -1 for none."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    delivery_count: int = 1


class Unpacked(NamedTuple):
    records: list[SharedRecord]
    gaps: list[int]  # acquired offsets without a record


def unpack(place: TopicPartition, data: Buffer | None, acquired: list[AcquiredRecords]) -> Unpacked:
    """The acquired records of a partition. Raises ProtocolError."""
    columns = decode_columns(data or b"")
    found: list[SharedRecord] = []
    gaps: list[int] = []
    for span in acquired:
        row = columns.first_row(span.first_offset)
        expected = span.first_offset
        while row < len(columns) and (offset := columns.offsets[row]) <= span.last_offset:
            gaps += range(expected, offset)
            expected = offset + 1
            found.append(
                SharedRecord(
                    *place,
                    offset,
                    columns.timestamps[row],
                    columns.key(row),
                    columns.value(row),
                    columns.headers(row),
                    span.delivery_count,
                )
            )
            row += 1
        gaps += range(expected, span.last_offset + 1)
    return Unpacked(found, gaps)
