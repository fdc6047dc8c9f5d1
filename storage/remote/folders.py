"""A store in folders: the layout of Apache Kafka's LocalTieredStorage, so that each reads what the
other wrote.

    DIR/kafka-tiered-storage/TOPIC-PARTITION-TOPICID/START-SEGMENTID.log
                                                     START-SEGMENTID.index
                                                     START-SEGMENTID.timeindex
                                                     START-SEGMENTID.txnindex (not for each segment)
                                                     START-SEGMENTID.leader_epoch_checkpoint
                                                     START-SEGMENTID.snapshot

Invariants:
- A file under its final name is whole: it is written in `DIR/kafka-tiered-storage.copying`, where
  Kafka does not look, forced to disk, then renamed. `.log` is the last one, so that a set of files
  with it is a complete copy.
- Deletion begins with `.log`, and leaves the folder of the partition: another broker may be about
  to write into it.

Configs: `dir` (required; Kafka takes a temporary directory without it), `delete.enable`,
`delete.on.close`, as in Kafka. `transferer.class` is a class of Java, and refused.

Mirrors: LocalTieredStorage, RemoteTopicPartitionDirectory, RemoteLogSegmentFileset (KIP-405; of
Kafka's test jars). Leaves out its listeners and its history of events.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Final

from ...protocol.primitives import Buffer
from ...protocol.uuids import uuid_to_text
from ..files import DataFile, Files
from .segments import RemoteLogSegmentMetadata, TopicIdPartition
from .storage_manager import (
    IndexType,
    LogSegmentData,
    RemoteResourceNotFoundError,
    RemoteStorageError,
)

ROOT_NAME: Final = "kafka-tiered-storage"
COPYING_NAME: Final = ROOT_NAME + ".copying"
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
COPY_CHUNK_BYTES: Final = 8 * 1024 * 1024
NO_COPY_IN_KERNEL: Final = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV)


class LocalTieredStorage:
    """Segments in files below `dir`, for brokers that share a file system."""

    __slots__ = ("_copying", "_delete_enabled", "_delete_on_close", "_files", "root")

    def __init__(self, configs: Mapping[str, str], files: Files | None = None) -> None:
        directory = configs.get("dir")
        if not directory:
            raise ValueError("`dir` is missing: the directory that all brokers share")
        if configs.get("transferer.class"):
            raise ValueError("`transferer.class` names a class of Java, which cannot run here")
        self._files = files or Files()
        self._delete_enabled = configs.get("delete.enable", "true").lower() == "true"
        self._delete_on_close = configs.get("delete.on.close", "false").lower() == "true"
        self.root = os.path.join(directory, ROOT_NAME)
        self._copying = os.path.join(directory, COPYING_NAME)
        self._files.make_directory(self.root)
        self._files.make_directory(self._copying)

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        sources: dict[str, str | bytes | None] = {
            SUFFIXES[IndexType.PRODUCER_SNAPSHOT]: data.producer_snapshot,
            SUFFIXES[IndexType.LEADER_EPOCH]: data.leader_epochs,
            SUFFIXES[IndexType.TRANSACTION]: data.transaction_index,
            SUFFIXES[IndexType.TIMESTAMP]: data.time_index,
            SUFFIXES[IndexType.OFFSET]: data.offset_index,
            LOG_SUFFIX: data.log_segment,
        }
        folder = self._folder(metadata.topic_id_partition)
        name = file_name(metadata)
        try:
            self._files.make_directory(folder)
            self._files.sync_directory(self.root)
            for suffix, source in sources.items():
                if source is not None:
                    self._copy(source, folder, name + suffix)
            size = self._files.size(os.path.join(folder, name + LOG_SUFFIX))
        except OSError as error:
            raise RemoteStorageError(f"copying {metadata.segment_id}: {error}") from error
        if size != metadata.segment_size_bytes:
            raise RemoteStorageError(
                f"{metadata.segment_id} was copied with {size} bytes instead of "
                f"{metadata.segment_size_bytes}"
            )
        return None

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> Buffer:
        size = max(min(end, metadata.segment_size_bytes) - start, 0)
        data = self._read(metadata, LOG_SUFFIX, start, size)
        if len(data) != size:
            raise RemoteStorageError(
                f"{metadata.segment_id} ends at {start + len(data)}, not at "
                f"{metadata.segment_size_bytes}"
            )
        return data

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> Buffer:
        return self._read(metadata, SUFFIXES[index_type], 0, None)

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        if not self._delete_enabled:
            return
        folder = self._folder(metadata.topic_id_partition)
        try:
            for suffix in ALL_SUFFIXES:
                self._files.remove(os.path.join(folder, file_name(metadata) + suffix))
                self._files.remove(os.path.join(self._copying, file_name(metadata) + suffix))
            if self._files.is_directory(folder):
                self._files.sync_directory(folder)
        except OSError as error:
            raise RemoteStorageError(f"deleting {metadata.segment_id}: {error}") from error

    def close(self) -> None:
        if self._delete_on_close:
            self._files.remove_tree(self.root)
            self._files.remove_tree(self._copying)

    def _folder(self, partition: TopicIdPartition) -> str:
        return os.path.join(self.root, folder_name(partition))

    def _read(
        self, metadata: RemoteLogSegmentMetadata, suffix: str, start: int, size: int | None
    ) -> bytes:
        path = os.path.join(self._folder(metadata.topic_id_partition), file_name(metadata) + suffix)
        try:
            file = self._files.open_to_read(path)
            return file.read_at(file.size() if size is None else size, start)
        except FileNotFoundError as error:
            raise RemoteResourceNotFoundError(f"there is no {path}") from error
        except OSError as error:
            raise RemoteStorageError(str(error)) from error

    def _copy(self, source: str | bytes, folder: str, name: str) -> None:
        """The bytes, or the file with that path, under a name in a folder."""
        aside = os.path.join(self._copying, name)
        target = self._files.open(aside, create=True)
        target.truncate(0)
        if isinstance(source, bytes):
            target.write_at(source, 0)
        else:
            _copy_all(self._files.open_to_read(source), target)
        target.sync()
        del target
        self._files.rename(aside, os.path.join(folder, name))
        self._files.sync_directory(folder)


def _copy_all(origin: DataFile, target: DataFile) -> None:
    """Copy within the kernel, or through memory where it cannot do that."""
    position = 0
    while True:
        try:
            copied = os.copy_file_range(
                origin.fileno(), target.fileno(), COPY_CHUNK_BYTES, position, position
            )
        except (AttributeError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in NO_COPY_IN_KERNEL:
                raise
            data = origin.read_at(COPY_CHUNK_BYTES, position)
            target.write_at(data, position)
            copied = len(data)
        if not copied:
            return
        position += copied


def folder_name(partition: TopicIdPartition) -> str:
    return f"{partition.topic}-{partition.partition}-{uuid_to_text(partition.topic_id)}"


def file_name(metadata: RemoteLogSegmentMetadata) -> str:
    """Without its suffix."""
    return f"{metadata.start_offset:020d}-{uuid_to_text(metadata.segment_id.id)}"
