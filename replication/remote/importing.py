"""What a store alone says of a topic: its segments described anew, and the log that they make up.

Names say the topic, its id, the partition, a segment's id and its first offset (`names`). The rest
is read: the size is that of the `.log`; the last offset is that of its last batch, found from the
last entry of the offset index; the newest timestamp is that of the time index or of the last
batches; the leader epochs are those of the checkpoint beside it. So one segment costs four small
reads, whatever its size is.

`line_up` decides for one partition. Brokers that led at different times have copied, some after
they had lost the leadership: the segment with the last epoch, and among these the last offset, ends
the log, and its checkpoint says which others are of that log (`lineage`). Of segments with the same
offsets the one that goes on furthest counts. The checkpoint also says where the log began when the
segment was copied: records before that stay deleted.

Invariants: a segment reaches to the beginning of the next one, so that a reader who meets a hole
goes on behind it; nothing in the store is changed.

Mirrors: nothing of Apache Kafka's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

from ...protocol.errors import KafkaError, ProtocolError
from ...protocol.records.batch import crc_is_valid
from ...storage.batch_scan import scan_batches
from ...storage.producer_entry import (
    ProducerEntry,
)
from ...storage.producer_snapshot import CorruptSnapshot, decode_snapshot
from ...storage.remote.names import LOG_SUFFIX, SUFFIXES, StoredFile
from ...storage.remote.segments import (
    IMPORTED,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from ...storage.remote.storage_manager import (
    IndexType,
    RemoteResourceNotFoundError,
    RemoteStorageManager,
)
from .copying import epochs_of, producers_of, reach
from .lineage import Epochs, in_range, is_of_this_log, with_records
from .reading import RemoteSegmentFile

_MAGIC_V2: Final = 2
_NEEDED: Final = frozenset({LOG_SUFFIX, *SUFFIXES.values()} - {SUFFIXES[IndexType.TRANSACTION]})
_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")


class DamagedSegment(Exception):
    """The files of a segment contradict each other, or lack something."""


class StoredSegment(NamedTuple):
    """A segment by the names of its files."""

    segment_id: RemoteLogSegmentId
    start_offset: int
    size_bytes: int  # of its `.log`


class Described(NamedTuple):
    """A segment that can be read, as far as its ends show."""

    metadata: RemoteLogSegmentMetadata
    epochs: list[tuple[int, int]]  # of its log, from the log's start to the segment's end


@dataclass(slots=True)
class Lineup:
    """The log of one partition, as the store has it."""

    partition: TopicIdPartition
    segments: list[RemoteLogSegmentMetadata]  # never empty; by offset
    log_start_offset: int
    last_epoch: int
    holes: list[tuple[int, int]]  # offsets that no segment has, both ends inclusive
    left: list[RemoteLogSegmentId]  # segments that the log does not need

    @property
    def next_offset(self) -> int:
        return self.segments[-1].end_offset + 1

    @property
    def size_bytes(self) -> int:
        return sum(one.segment_size_bytes for one in self.segments)


def stored_segments(
    files: Iterable[StoredFile], topics: Sequence[str]
) -> tuple[list[StoredSegment], list[RemoteLogSegmentId]]:
    """Those with all their files, and those without; of all topics unless some are named."""
    found: dict[RemoteLogSegmentId, dict[str, StoredFile]] = {}
    for file in files:
        if not topics or file.segment_id.topic_id_partition.topic in topics:
            found.setdefault(file.segment_id, {})[file.suffix] = file
    whole, parts = [], []
    for segment_id, has in found.items():
        starts = {one.start_offset for one in has.values()}
        if has.keys() >= _NEEDED and len(starts) == 1:
            whole.append(StoredSegment(segment_id, starts.pop(), has[LOG_SUFFIX].size_bytes))
        else:
            parts.append(segment_id)
    return whole, parts


def describe(manager: RemoteStorageManager, stored: StoredSegment, wall_ms: int) -> Described:
    """Read a segment's ends. Blocks; DamagedSegment, or RemoteStorageError if the store does not
    answer."""
    start = stored.start_offset
    draft = RemoteLogSegmentMetadata(
        stored.segment_id, start, start, -1, IMPORTED, wall_ms, stored.size_bytes,
        ((0, start),),
    )  # fmt: skip
    try:
        end_offset, newest_ms = _last_batches(manager, draft)
        times = _entries(manager, draft, IndexType.TIMESTAMP, _TIME_ENTRY)
        epochs = epochs_of(bytes(manager.fetch_index(draft, IndexType.LEADER_EPOCH)))
        decode_snapshot(bytes(manager.fetch_index(draft, IndexType.PRODUCER_SNAPSHOT)))
    except RemoteResourceNotFoundError as error:
        raise DamagedSegment(str(error)) from error
    except CorruptSnapshot as error:
        raise DamagedSegment(f"its producer snapshot cannot be read: {error}") from error
    own = in_range(epochs, start, end_offset + 1)
    if not own:
        raise DamagedSegment("its leader epoch checkpoint has none of its epochs")
    newest_ms = max([newest_ms, *(one for one, _ in times[-1:])])
    metadata = replace(
        draft,
        end_offset=end_offset,
        max_timestamp_ms=newest_ms,
        segment_leader_epochs=tuple(own),
    )
    return Described(metadata, epochs)


def _last_batches(
    manager: RemoteStorageManager, draft: RemoteLogSegmentMetadata
) -> tuple[int, int]:
    """The last offset, and the newest timestamp of the batches from the last index entry on."""
    entries = _entries(manager, draft, IndexType.OFFSET, _OFFSET_ENTRY)
    position = entries[-1][1] if entries else 0
    size = draft.segment_size_bytes
    end, end_offset, newest_ms = position, -1, -1
    file = RemoteSegmentFile(manager, draft)
    try:
        for at, header, batch in scan_batches(file, position, size):
            if header.base_offset < max(draft.start_offset, end_offset + 1):
                raise DamagedSegment(f"its batch at {at} has the offset {header.base_offset}")
            if header.magic == _MAGIC_V2 and not crc_is_valid(batch, 0, header):
                raise DamagedSegment(f"its batch at {at} has another CRC")
            end, end_offset = at + len(batch), header.last_offset
            newest_ms = max(newest_ms, header.max_timestamp)
    except (KafkaError, ProtocolError) as error:
        raise DamagedSegment(f"cannot be read on from {end}: {error}") from error
    if end != size or end_offset < 0:
        raise DamagedSegment(f"ends in the middle of a batch, at {end} of {size}")
    return end_offset, newest_ms


def _entries(
    manager: RemoteStorageManager,
    draft: RemoteLogSegmentMetadata,
    index_type: IndexType,
    entry: struct.Struct,
) -> list[tuple[int, int]]:
    data = bytes(manager.fetch_index(draft, index_type))
    if len(data) % entry.size:
        raise DamagedSegment(f"its {index_type.value} has {len(data)} bytes")
    return list(entry.iter_unpack(data))


def line_up(described: Sequence[Described]) -> Lineup:
    """The log of one partition, of which there is at least one segment."""
    last, epochs = max(described, key=lambda one: reach(one.metadata))
    log_start = epochs[0][1]
    valid = [
        one.metadata
        for one in described
        if one.metadata.end_offset >= log_start
        and is_of_this_log(one.metadata, last.end_offset + 1, with_records(epochs))
    ]
    chosen, holes = _cover(valid, log_start)
    names = {one.segment_id for one in chosen}
    return Lineup(
        last.topic_id_partition,
        list(_reaching_on(chosen, epochs)),
        max(log_start, chosen[0].start_offset),
        epochs[-1][0],
        holes,
        [one.metadata.segment_id for one in described if one.metadata.segment_id not in names],
    )


def _cover(
    segments: list[RemoteLogSegmentMetadata], log_start: int
) -> tuple[list[RemoteLogSegmentMetadata], list[tuple[int, int]]]:
    """As few segments as there must be for all offsets, and the holes between them."""
    chosen: list[RemoteLogSegmentMetadata] = []
    holes: list[tuple[int, int]] = []
    left = sorted(segments, key=lambda one: (one.start_offset, one.end_offset))
    position = max(log_start, left[0].start_offset)
    while left := [one for one in left if one.end_offset >= position]:
        if left[0].start_offset > position:
            holes.append((position, left[0].start_offset - 1))
            position = left[0].start_offset
        best = max(
            (one for one in left if one.start_offset <= position), key=lambda one: one.end_offset
        )
        chosen.append(best)
        position = best.end_offset + 1
    return chosen, holes


def _reaching_on(
    chosen: Sequence[RemoteLogSegmentMetadata], epochs: Epochs
) -> Iterator[RemoteLogSegmentMetadata]:
    """Each segment up to the next one, with the epochs of the log there."""
    for one, following in pairwise(chosen):
        end_offset = max(one.end_offset, following.start_offset - 1)
        yield _with_end(one, end_offset, epochs)
    yield _with_end(chosen[-1], chosen[-1].end_offset, epochs)


def _with_end(
    one: RemoteLogSegmentMetadata, end_offset: int, epochs: Epochs
) -> RemoteLogSegmentMetadata:
    own = tuple(in_range(epochs, one.start_offset, end_offset + 1))
    return replace(one, end_offset=end_offset, segment_leader_epochs=own)


def open_transactions(
    manager: RemoteStorageManager, last: RemoteLogSegmentMetadata
) -> list[ProducerEntry]:
    """The producers of those that were not decided at the end of the last segment. Blocks."""
    snapshot = bytes(manager.fetch_index(last, IndexType.PRODUCER_SNAPSHOT))
    return decode_snapshot(producers_of(last, snapshot))
