"""Check, split and describe the batches that a follower got from its leader.

Mirrors: UnifiedLog.analyzeAndValidateRecords and append, for AppendOrigin.REPLICATION.
"""

from __future__ import annotations

from ..protocol.errors import ErrorCode, KafkaError, ProtocolError
from ..protocol.primitives import Buffer
from ..protocol.records.batch import BatchHeader, crc_is_valid, iter_batch_headers
from .append_info import AppendInfo, UnexpectedAppendOffset

# (position, header) of each batch in a buffer.
Batches = list[tuple[int, BatchHeader]]


def read_follower_batches(records: Buffer, next_offset: int, name: str) -> Batches:
    """The complete batches, whose CRCs and growing offsets are checked."""
    try:
        batches = list(iter_batch_headers(records))
    except ProtocolError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{error} in {name}") from None
    expected = next_offset
    for position, header in batches:
        if header.last_offset < expected or (header.magic >= 2 and header.base_offset < expected):
            raise UnexpectedAppendOffset(name, header.base_offset, header.last_offset, expected)
        if not crc_is_valid(records, position, header):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"Record is corrupt (stored crc = {header.crc}) in topic partition {name}.",
            )
        expected = header.next_offset
    return batches


def fitting_groups(batches: Batches, limit: int) -> list[Batches]:
    """The batches in groups that fit into a segment: the leader's may have been larger."""
    last_position, last = batches[-1]
    if last_position + last.size_in_bytes <= limit:
        return [batches]
    groups: list[Batches] = []
    size = limit
    for entry in batches:
        size += entry[1].size_in_bytes
        if size > limit:
            groups.append([])
            size = entry[1].size_in_bytes
        groups[-1].append(entry)
    return groups


def latest_header(batches: Batches) -> BatchHeader:
    """The header of the first batch that has the largest timestamp."""
    return max(batches, key=_max_timestamp)[1]


def _max_timestamp(entry: tuple[int, BatchHeader]) -> int:
    return entry[1].max_timestamp


def info_of_batches(
    batches: Batches, first_offset: int, log_start_offset: int, size: int
) -> AppendInfo:
    """The result of an append of `batches`."""
    best = latest_header(batches)
    return AppendInfo(
        first_offset,
        batches[-1][1].last_offset,
        best.max_timestamp,
        best.last_offset,
        -1,
        log_start_offset,
        size,
        len(batches),
    )
