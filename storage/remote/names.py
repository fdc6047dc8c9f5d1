"""Names of stored segments, in folders and in object stores: those of Kafka's LocalTieredStorage.

    TOPIC-PARTITION-TOPICID/START-SEGMENTID.log
                            START-SEGMENTID.index
                            START-SEGMENTID.timeindex
                            START-SEGMENTID.txnindex (not for each segment)
                            START-SEGMENTID.leader_epoch_checkpoint
                            START-SEGMENTID.snapshot

Ids are 22 characters of base64, START has 20 digits. A segment can be found, and read, from its
names alone.

Mirrors: RemoteTopicPartitionDirectory, RemoteLogSegmentFileset.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ...protocol.uuids import uuid_from_text, uuid_to_text
from .segments import RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition
from .storage_manager import IndexType

LOG_SUFFIX: Final = ".log"
SUFFIXES: Final[dict[IndexType, str]] = {
    IndexType.OFFSET: ".index",
    IndexType.TIMESTAMP: ".timeindex",
    IndexType.TRANSACTION: ".txnindex",
    IndexType.LEADER_EPOCH: ".leader_epoch_checkpoint",
    IndexType.PRODUCER_SNAPSHOT: ".snapshot",
}
# In the order in which they are deleted; copied in the opposite one.
ALL_SUFFIXES: Final = (LOG_SUFFIX, *SUFFIXES.values())
_FOLDER: Final = re.compile(r"([a-zA-Z0-9._-]+)-(\d+)-([a-zA-Z0-9_-]{22})", re.ASCII)
_FILE: Final = re.compile(r"(\d+)-([a-zA-Z0-9_-]{22})(\.[a-z_]+)", re.ASCII)


class StoredFile(NamedTuple):
    """A file of a segment in a store."""

    segment_id: RemoteLogSegmentId
    start_offset: int
    suffix: str
    size_bytes: int


def folder_name(partition: TopicIdPartition) -> str:
    return f"{partition.topic}-{partition.partition}-{uuid_to_text(partition.topic_id)}"


def file_name(metadata: RemoteLogSegmentMetadata) -> str:
    """Without its suffix."""
    return f"{metadata.start_offset:020d}-{uuid_to_text(metadata.segment_id.id)}"


def stored_file(path: str, size_bytes: int) -> StoredFile | None:
    """The file at FOLDER/NAME; None if that is no name of a segment's file."""
    folder, _, name = path.rpartition("/")
    place, file = _FOLDER.fullmatch(folder), _FILE.fullmatch(name)
    if place is None or file is None or file[3] not in ALL_SUFFIXES:
        return None
    try:
        partition = TopicIdPartition(uuid_from_text(place[3]), place[1], int(place[2]))
        segment_id = RemoteLogSegmentId(partition, uuid_from_text(file[2]))
    except ValueError:
        return None
    return StoredFile(segment_id, int(file[1]), file[3], size_bytes)
