"""One path of `log.dirs`: its lock, its owner, its checkpoints, the partitions found in it.

Mirrors: the per-directory parts of LogManager, MetaPropertiesEnsemble, LocalLog's directory names.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..protocol.errors import ErrorCode
from ..protocol.topics import TopicPartition
from . import checkpoints
from .checkpoints import CheckpointError, MetaProperties
from .directory_health import DirectoryHealth
from .files import OF_ONE_FILE, DirectoryLock, Files, is_out_of_descriptors

logger = logging.getLogger("pybroker.storage.log_directory")

DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
STRAY_SUFFIX = "-stray"
MAX_NAME_LENGTH = 255
ZOOKEEPER_DIRECTORY = ".zookeeper"  # of a broker with an embedded one; no partition's name
REMOTE_INDEX_DIRECTORY = "remote-log-index-cache"  # Kafka's name, below the first log directory
TIER_DELETIONS_FILE = ".remote-log-deletions"  # ours, in the first log directory
TABLE_DROPS_FILE = ".table-drops"  # ours, in the first log directory
# In a partition's directory: the replica in another directory of this broker takes its place.
REPLACED_MARK = ".replaced"

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_MAX_PARTITION = 2**31 - 1


def is_of_one_file(error: OSError) -> bool:
    """Whether the error concerns one file, damaged or in the way, and not the disk."""
    return isinstance(error, CheckpointError) or error.errno in OF_ONE_FILE


class LogSize(NamedTuple):
    topic: str
    partition: int
    size_bytes: int
    is_future: bool


# The effect on a partition of a lost line in each checkpoint; for a log message.
_COSTS: Mapping[str, str] = {
    checkpoints.RECOVERY_POINT_FILE: "they are read from the beginning if they must be recovered",
    checkpoints.LOG_START_OFFSET_FILE: "they begin with their first segment, and records that were "
    "deleted in it may be back",
    checkpoints.HIGH_WATERMARK_FILE: "their leader sends their high watermark, or it is found anew",
    checkpoints.CLEANER_FILE: "they are compacted from the beginning",
    checkpoints.WALL_CLOCK_FILE: "nothing is deleted by its timestamp for a while",
}


class LogDirDescription(NamedTuple):
    """One directory as DescribeLogDirs shows it."""

    path: str
    error: ErrorCode
    logs: Iterator[LogSize]


class StartupError(Exception):
    """The broker cannot start, or continue, on these directories; the message says how to fix
    that."""


class LogDirectory:
    __slots__ = (
        "_lock",
        "checkpointed",
        "cleanly_stopped",
        "files",
        "health",
        "path",
        "wall_clock_ms",
    )

    def __init__(self, path: str, files: Files) -> None:
        self.path = os.path.abspath(path)
        self.files = files
        self.health = DirectoryHealth(self.path)
        self.cleanly_stopped = False
        self.wall_clock_ms: int | None = None  # as the last run noted it
        # The offsets in its checkpoints at the start, by file name.
        self.checkpointed: dict[str, dict[TopicPartition, int]] = {
            name: {} for name in checkpoints.OFFSET_FILES
        }
        self._lock: DirectoryLock | None = None

    @property
    def is_online(self) -> bool:
        return self.health.error is None

    def fail(self, error: OSError) -> None:
        """Take it offline; but an error for want of a descriptor is raised again, for a retry."""
        if is_out_of_descriptors(error):
            raise error
        if self.is_online:
            logger.error("Log directory %s goes offline: %s", self.path, error)
        self.health.fail(error)

    def _checkpoint(self, name: str) -> str:
        return os.path.join(self.path, name)

    # Opening

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
        try:
            meta = checkpoints.read_meta_properties(self.files, self.path)
        except OSError as error:
            if not is_of_one_file(error):
                raise
            raise CheckpointError(
                f"{error}. Restore it; or, if this is the directory of broker {broker_id} in "
                f"cluster {cluster_id}, remove it: it is written anew then"
            ) from None
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
        """Read the files of the last run. The bad lines of a damaged checkpoint are lost."""
        try:
            self.cleanly_stopped = checkpoints.take_clean_shutdown(self.files, self.path)
            is_damaged = self._move_aside(checkpoints.WALL_CLOCK_FILE)
            self.wall_clock_ms = (
                0 if is_damaged else checkpoints.read_wall_clock(self.files, self.path)
            )
            for name in checkpoints.OFFSET_FILES:
                self.checkpointed[name] = self._salvage(name)
                self.health.note_checkpoint(name, self.checkpointed[name])
        except OSError as error:
            self.fail(error)

    def _salvage(self, name: str) -> dict[TopicPartition, int]:
        if self._move_aside(name):
            return {}
        offsets, problem = checkpoints.salvage_offsets(self.files, self._checkpoint(name))
        if problem is not None:
            logger.warning(
                "%s; %d entries of it are used. Of all others: %s",
                problem,
                len(offsets),
                _COSTS[name],
            )
        return offsets

    def _move_aside(self, name: str) -> bool:
        """Whether a directory was in the place of a file; it would prevent the next write."""
        path = os.path.join(self.path, name)
        if not self.files.is_directory(path):
            return False
        aside = self._free_name(path + ".damaged")
        logger.warning("%s is a directory: moved to %s. %s", path, aside, _COSTS[name])
        self.files.rename(path, aside)
        return True

    def _free_name(self, path: str) -> str:
        number = 0
        while self.files.exists(f"{path}-{number}"):
            number += 1
        return f"{path}-{number}"

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

    # Writing

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
    """Topic and partition of a directory name, split at its last dash; None if it is none.

    Kafka takes more names; but a name with a blank, say, would damage the checkpoints.
    """
    topic, _, digits = name.rpartition("-")
    partition = checkpoints.parse_number(digits)
    if partition is None or partition > _MAX_PARTITION or str(partition) != digits:
        return None
    if _TOPIC_NAME.fullmatch(topic) is None or topic in (".", ".."):
        return None
    return topic, partition


def delete_name(topic: str, partition: int, unique_id: str) -> str:
    """The name of a partition's directory that is to be deleted; a long topic is cut."""
    suffix = f"-{partition}.{unique_id}{DELETE_SUFFIX}"
    return topic[: MAX_NAME_LENGTH - len(suffix)] + suffix


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
