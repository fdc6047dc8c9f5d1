"""One path of `log.dirs`: its lock, its owner, its checkpoints, the partitions found in it.

Mirrors: the per-directory parts of LogManager, MetaPropertiesEnsemble, LocalLog's directory names.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import NamedTuple

from protocol.errors import ErrorCode
from storage import checkpoints
from storage.checkpoints import CheckpointError, MetaProperties, TopicPartition
from storage.files import DirectoryLock, Files
from storage.log import DirectoryHealth

logger = logging.getLogger(__name__)

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
MAX_NAME_LENGTH = 255
# In a partition's directory: the replica in another directory of this broker takes its place.
REPLACED_MARK = ".replaced"


class LogSize(NamedTuple):
    topic: str
    partition: int
    size_bytes: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """One directory as DescribeLogDirs shows it."""

    path: str
    error: ErrorCode
    logs: list[LogSize]


class StartupError(Exception):
    """The broker cannot start, or go on, on these directories; the message says what to do."""


class LogDirectory:
    __slots__ = (
        "_lock",
        "cleanly_stopped",
        "files",
        "first_dirty_offsets",
        "health",
        "high_watermarks",
        "log_start_offsets",
        "path",
        "recovery_points",
    )

    def __init__(self, path: str, files: Files) -> None:
        self.path = os.path.abspath(path)
        self.files = files
        self.health = DirectoryHealth(self.path)
        self.cleanly_stopped = False
        self.first_dirty_offsets: dict[TopicPartition, int] = {}
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self._lock: DirectoryLock | None = None

    @property
    def is_online(self) -> bool:
        return self.health.error is None

    def fail(self, error: OSError) -> None:
        if self.is_online:
            logger.error("Log directory %s goes offline: %s", self.path, error)
        self.health.fail(error)

    def _checkpoint(self, name: str) -> str:
        return os.path.join(self.path, name)

    # -- opening ---------------------------------------------------------------------------

    def open(self, broker_id: int, cluster_id: str, now_ms: int) -> None:
        """Create, lock, and check whose it is. StartupError if another broker's; an I/O error
        takes it offline."""
        try:
            self.files.make_directory(self.path)
            self._lock = self.files.lock(self._checkpoint(checkpoints.LOCK_FILE))
            if self._lock is None:
                raise StartupError(
                    f"Failed to acquire lock on file .lock in {self.path}. Another broker is "
                    "using this directory; stop it or give this one another log.dirs."
                )
            self._check_owner(broker_id, cluster_id, now_ms)
        except OSError as error:
            self.fail(error)

    def _check_owner(self, broker_id: int, cluster_id: str, now_ms: int) -> None:
        meta = checkpoints.read_meta_properties(self.files, self.path)
        if meta is None:
            checkpoints.write_meta_properties(
                self.files, self.path, MetaProperties(broker_id, cluster_id), now_ms
            )
            return
        path = self._checkpoint(checkpoints.META_PROPERTIES_FILE)
        if meta.version != 0:
            raise StartupError(
                f"{path} is of a KRaft broker (version={meta.version}); this is a broker in "
                "ZooKeeper mode. Give it another log.dirs."
            )
        if meta.broker_id is not None and meta.broker_id != broker_id:
            raise StartupError(
                f"Configured broker.id {broker_id} doesn't match stored broker.id "
                f"{meta.broker_id} in {path}. If you moved your data, make sure your configured "
                "broker.id matches. If you intend to create a new broker, remove all data in your "
                "data directories (log.dirs)."
            )
        if meta.cluster_id is not None and meta.cluster_id != cluster_id:
            raise StartupError(
                f"The Cluster ID {cluster_id} doesn't match stored clusterId {meta.cluster_id} in "
                f"{path}. The broker is trying to join the wrong cluster. Configured "
                "zookeeper.connect may be wrong."
            )
        if meta.broker_id is None or meta.cluster_id is None:
            checkpoints.write_meta_properties(
                self.files, self.path, MetaProperties(broker_id, cluster_id), now_ms
            )

    def read_checkpoints(self) -> None:
        """What the last run left; damaged recovery points count as absent."""
        try:
            self.cleanly_stopped = checkpoints.take_clean_shutdown(self.files, self.path)
            self.recovery_points = self._read_or_none(checkpoints.RECOVERY_POINT_FILE)
            self.health.checkpoint_recovery_points(self.recovery_points)
            self.log_start_offsets = self._read_or_none(checkpoints.LOG_START_OFFSET_FILE)
            self.high_watermarks = checkpoints.read_offsets(
                self.files, self._checkpoint(checkpoints.HIGH_WATERMARK_FILE)
            )
            self.first_dirty_offsets = checkpoints.read_offsets(
                self.files, self._checkpoint(checkpoints.CLEANER_FILE)
            )
        except OSError as error:
            self.fail(error)

    def _read_or_none(self, name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(self.files, self._checkpoint(name))
        except CheckpointError as error:
            logger.warning("%s; taking all offsets as 0", error)
            return {}

    def partition_names(self) -> list[str]:
        """The sub-directories."""
        try:
            return [
                name
                for name in self.files.list_directory(self.path)
                if self.files.is_directory(os.path.join(self.path, name))
            ]
        except OSError as error:
            self.fail(error)
            return []

    # -- writing ---------------------------------------------------------------------------

    def write_checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Blocks; an I/O error takes the directory offline."""
        if not self.is_online:
            return
        try:
            checkpoints.write_offsets(self.files, self._checkpoint(name), offsets)
        except OSError as error:
            self.fail(error)

    def mark_clean_shutdown(self, broker_epoch: int) -> None:
        try:
            checkpoints.write_clean_shutdown(self.files, self.path, broker_epoch)
        except OSError as error:
            self.fail(error)

    def release_lock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def parse_partition_name(name: str) -> TopicPartition | None:
    """Topic and partition of a directory name, split at its last dash; None if it is none."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not (partition.isascii() and partition.isdigit()):
        return None
    return topic, int(partition)


def future_name(topic: str, partition: int, unique_id: str) -> str:
    """The name of a directory that a replica is on its way to."""
    return f"{topic}-{partition}.{unique_id}{FUTURE_SUFFIX}"


def is_future_name_too_long(topic: str, partition: int) -> bool:
    return len(future_name(topic, partition, "0" * 32)) > MAX_NAME_LENGTH


def parse_future_name(name: str) -> TopicPartition | None:
    """Topic and partition of a replica on its way to this directory; None if it is none."""
    if not name.endswith(FUTURE_SUFFIX):
        return None
    partition_name, dot, _ = name.removesuffix(FUTURE_SUFFIX).rpartition(".")
    return parse_partition_name(partition_name) if dot else None
