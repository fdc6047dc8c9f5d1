"""Compares a remote store with the metadata of its segments, and reads what is stored.

`account` needs names and sizes only; `check_segment` reads a segment whole, with its indexes. Both
return faults as text, and change nothing.

A store may have parts of a segment whose copy or deletion has not finished: those are faults only
for a caller who knows that nothing is under way, and are reported as `unfinished`.

Mirrors: nothing of Apache Kafka's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import Enum
from struct import Struct
from typing import Final, NamedTuple, Protocol, runtime_checkable

from ...protocol.errors import KafkaError, ProtocolError
from ...protocol.primitives import Buffer
from ...protocol.records.batch import crc_is_valid
from ..batch_scan import scan_batches
from ..checkpoints import CheckpointError, epochs_in
from ..producer_snapshot import CorruptSnapshot, decode_snapshot
from .names import LOG_SUFFIX, SUFFIXES, StoredFile
from .segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from .storage_manager import (
    IndexType,
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RemoteStorageManager,
)

CHUNK_BYTES: Final = 8 * 1024 * 1024
_MAGIC_V2: Final = 2
_OPTIONAL: Final = SUFFIXES[IndexType.TRANSACTION]
_FINISHED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_ENTRY_BYTES: Final = {
    IndexType.OFFSET: 8,
    IndexType.TIMESTAMP: 12,
    IndexType.TRANSACTION: 34,
}


@runtime_checkable
class RemoteStorageInventory(Protocol):
    """A storage manager that can say what it has; those that come along can."""

    def stored_files(self) -> Iterator[StoredFile | str]:
        """Every file of the store; a string is the name of one that belongs to no segment."""
        ...


class Fault(Enum):
    DAMAGED = "damaged"  # a finished segment that cannot be read as it was copied
    HOLE = "hole"  # offsets between segments that no segment has
    ORPHAN = "orphan"  # a file without metadata
    UNFINISHED = "unfinished"  # a copy or a deletion that began


class Finding(NamedTuple):
    fault: Fault
    where: str  # a partition, a segment, or the name of a file
    text: str


def account(
    segments: Iterable[RemoteLogSegmentMetadata], files: Iterable[StoredFile | str]
) -> list[Finding]:
    """What is missing, left over, and unfinished."""
    stored: defaultdict[RemoteLogSegmentId, dict[str, StoredFile]] = defaultdict(dict)
    found = []
    for one in files:
        if isinstance(one, str):
            found.append(Finding(Fault.ORPHAN, one, "no file of a segment"))
        else:
            stored[one.segment_id][one.suffix] = one
    finished: defaultdict[TopicIdPartition, list[RemoteLogSegmentMetadata]] = defaultdict(list)
    for segment in segments:
        has = stored.pop(segment.segment_id, {})
        if segment.state is _FINISHED:
            finished[segment.topic_id_partition].append(segment)
            found += _of_finished(segment, has)
        else:
            size = sum(one.size_bytes for one in has.values())
            text = f"{segment.state.name} by broker {segment.broker_id}, {size} bytes are stored"
            found.append(Finding(Fault.UNFINISHED, str(segment.segment_id), text))
    for segment_id, has in stored.items():
        size = sum(one.size_bytes for one in has.values())
        text = f"{len(has)} files with {size} bytes have no metadata"
        found.append(Finding(Fault.ORPHAN, str(segment_id), text))
    for partition, ones in finished.items():
        found += _holes(partition, ones)
    return found


def _of_finished(
    segment: RemoteLogSegmentMetadata, has: dict[str, StoredFile]
) -> Iterator[Finding]:
    where = str(segment.segment_id)
    for suffix in (LOG_SUFFIX, *SUFFIXES.values()):
        if suffix not in has and suffix != _OPTIONAL:
            yield Finding(Fault.DAMAGED, where, f"the {suffix} file is missing")
    for one in has.values():
        if one.start_offset != segment.start_offset:
            text = f"the {one.suffix} file is named after offset {one.start_offset}"
            yield Finding(Fault.DAMAGED, where, text)
    log = has.get(LOG_SUFFIX)
    if log is not None and log.size_bytes != segment.segment_size_bytes:
        text = f"has {log.size_bytes} bytes instead of {segment.segment_size_bytes}"
        yield Finding(Fault.DAMAGED, where, text)


def _holes(
    partition: TopicIdPartition, segments: list[RemoteLogSegmentMetadata]
) -> Iterator[Finding]:
    ordered = sorted(segments, key=lambda one: one.start_offset)
    end = ordered[0].start_offset - 1
    for one in ordered:
        if one.start_offset > end + 1:
            text = f"no segment has the offsets {end + 1} to {one.start_offset - 1}"
            yield Finding(Fault.HOLE, str(partition), text)
        end = max(end, one.end_offset)


class _RemoteFile:
    """A segment as a file that is read from its beginning to its end."""

    def __init__(self, manager: RemoteStorageManager, metadata: RemoteLogSegmentMetadata) -> None:
        self.path = str(metadata.segment_id)
        self._manager = manager
        self._metadata = metadata
        self._chunk = b""
        self._start = 0

    def read_at(self, size: int, position: int) -> bytes:
        begin = position - self._start
        if begin < 0 or begin + size > len(self._chunk):
            end = position + max(size, CHUNK_BYTES)
            self._chunk = bytes(self._manager.fetch_log_segment(self._metadata, position, end))
            self._start, begin = position, 0
        return self._chunk[begin : begin + size]


def check_segment(
    manager: RemoteStorageManager, metadata: RemoteLogSegmentMetadata
) -> list[Finding]:
    """Read a finished segment and its indexes. Blocks; RemoteStorageError if the store does not
    answer."""
    where = str(metadata.segment_id)
    faults: list[str] = []
    try:
        positions = _check_log(manager, metadata, faults)
        for one in IndexType:
            try:
                _check_index(metadata, one, manager.fetch_index(metadata, one), positions, faults)
            except RemoteResourceNotFoundError:
                if one is not IndexType.TRANSACTION:
                    faults.append(f"the {one.value} is missing")
    except RemoteResourceNotFoundError:
        faults.append("the segment is missing")
    return [Finding(Fault.DAMAGED, where, text) for text in faults]


def _check_log(
    manager: RemoteStorageManager, metadata: RemoteLogSegmentMetadata, faults: list[str]
) -> set[int] | None:
    """The positions of its batches; None if they are not all known."""
    size = metadata.segment_size_bytes
    positions: set[int] = set()
    end, expected = 0, metadata.start_offset
    epochs = {epoch for epoch, _ in metadata.segment_leader_epochs}
    try:
        for position, header, batch in scan_batches(_RemoteFile(manager, metadata), 0, size):
            positions.add(position)
            end = position + len(batch)
            if header.base_offset < expected or header.last_offset > metadata.end_offset:
                faults.append(f"the batch at {position} has offset {header.base_offset}")
            expected = header.last_offset + 1
            if header.magic != _MAGIC_V2:
                continue
            if not crc_is_valid(batch, 0, header):
                faults.append(f"the batch at {position} has another CRC")
            if header.partition_leader_epoch not in epochs:
                faults.append(f"the batch at {position} has epoch {header.partition_leader_epoch}")
    except RemoteResourceNotFoundError:
        raise
    except (KafkaError, ProtocolError, RemoteStorageError) as error:
        faults.append(f"cannot be read on from {end}: {error}")
        return None
    if end != size:
        faults.append(f"ends in the middle of a batch, at {end} of {size}")
        return None
    return positions


def _check_index(
    metadata: RemoteLogSegmentMetadata,
    index_type: IndexType,
    found: Buffer,
    positions: set[int] | None,
    faults: list[str],
) -> None:
    data = bytes(found)
    if len(data) % _ENTRY_BYTES.get(index_type, 1):
        faults.append(f"the {index_type.value} has {len(data)} bytes")
        return
    try:
        match index_type:
            case IndexType.OFFSET:
                entries = list(_OFFSET_ENTRY.iter_unpack(data))
                places = {place for _, place in entries}
                if entries != sorted(entries) or not places <= (positions or places):
                    faults.append("the offset index does not fit")
            case IndexType.TIMESTAMP:
                times = list(_TIME_ENTRY.iter_unpack(data))
                if times != sorted(times):
                    faults.append("the time index does not ascend")
            case IndexType.PRODUCER_SNAPSHOT:
                decode_snapshot(data)
            case IndexType.LEADER_EPOCH:
                epochs = {epoch for epoch, _ in epochs_in(data.decode(), "the checkpoint")}
                if not {epoch for epoch, _ in metadata.segment_leader_epochs} <= epochs:
                    faults.append("the leader epoch checkpoint lacks epochs of the segment")
    except (CheckpointError, CorruptSnapshot, UnicodeDecodeError) as error:
        faults.append(f"the {index_type.value} cannot be read: {error}")
