"""The replicas that this broker hosts, and those that it cannot serve.

Job: hold the data that every part of the replica manager looks up: the partitions, the reason for a
missing one, the counters of a topic; and remove the partitions of a failed disk.

Invariants: a partition is in `partitions` or in `offline` or in neither; code that removes one from
`partitions` makes sure that the operations waiting for it are looked at: this class adds it to
`lost`, which `WaitingOperations.check_lost` empties before the outer call returns. Nothing here
waits or knows a waiting operation.

Mirrors allPartitions and handleLogDirFailure of Kafka's ReplicaManager.
"""

from collections.abc import Callable

from ..protocol import invariants
from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.invariants import BrokenInvariant
from ..protocol.topics import TopicPartition
from ..storage.descriptors import OutOfDescriptors
from ..storage.directory_health import UnreadableSegment
from ..storage.log import Log
from ..storage.log_config import LogConfig
from ..storage.log_manager import LogManager
from .metadata_cache import MetadataCache
from .partition import Partition
from .types import Effect, FailedLogDir, ReplicaConfig, TopicStats


class Move:
    """One replica on its way to another log directory of this broker: see `log_dir_moves`."""

    __slots__ = ("agrees", "future", "is_prepared", "key", "partition")

    def __init__(self, partition: Partition, future: Log) -> None:
        self.key: TopicPartition = partition.key
        self.partition = partition
        # The copy, a prefix of the partition's log.
        self.future = future
        # Whether records of an earlier run that are not in the log have been cut from it.
        self.agrees = False
        # Whether a thread has done the work that makes the copy durable.
        self.is_prepared = False

    @property
    def lag(self) -> int:
        return self.partition.log.log_end_offset - self.future.log_end_offset


def _nothing_noted(_key: TopicPartition, _topic_id: bytes) -> None:
    pass


class HostedPartitions:
    __slots__ = (
        "config",
        "config_for",
        "effects",
        "has_tier",
        "log_manager",
        "lost",
        "metadata",
        "moving",
        "note_tier_deletion",
        "note_topic_deletion",
        "offline",
        "partitions",
        "topic_stats",
    )

    def __init__(
        self,
        config: ReplicaConfig,
        log_manager: LogManager,
        metadata: MetadataCache,
        config_for: Callable[[str], LogConfig],
        effects: list[Effect],
    ) -> None:
        self.config = config
        self.log_manager = log_manager
        self.metadata = metadata
        # The configuration of a topic's logs, by the topic's name.
        self.config_for = config_for
        # Work for the driver: one list for all parts of the manager, emptied but never replaced.
        self.effects = effects
        self.partitions: dict[TopicPartition, Partition] = {}
        # Replicas of failed log directories, until they are stopped with deletion.
        self.offline: set[TopicPartition] = set()
        # Removed with their disk; the operations that wait for them must still be looked at.
        self.lost: list[TopicPartition] = []
        # Called before the log of a deleted topic goes whose segments in the tier this broker is
        # to delete, with the topic's id.
        self.note_tier_deletion: Callable[[TopicPartition, bytes], None] = _nothing_noted
        # The same of each partition 0, by its leader, or by a replica that has no role.
        self.note_topic_deletion: Callable[[TopicPartition, bytes], None] = _nothing_noted
        # Whether this broker can read the remote tier.
        self.has_tier = False
        # Replicas on their way between log directories; each has a role, and both its disks work.
        self.moving: dict[TopicPartition, Move] = {}
        # Of each topic that has had a replica here, until its last one is deleted.
        self.topic_stats: dict[str, TopicStats] = {}

    def missing_error(self, key: TopicPartition) -> ErrorCode:
        """Why a partition cannot be found here."""
        if key in self.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.metadata.partition_state(*key) is not None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def stats_of(self, topic: str) -> TopicStats:
        stats = self.topic_stats.get(topic)
        if stats is None:
            stats = self.topic_stats[topic] = TopicStats()
        return stats

    def storage_failed(self, key: TopicPartition, error: KafkaError | None = None) -> None:
        """An operation on this partition failed with KAFKA_STORAGE_ERROR."""
        if isinstance(error, (OutOfDescriptors, UnreadableSegment)):
            return  # the disk is as good as before
        self.offline.add(key)
        self.drop_failed_dirs()

    def drop_failed_dirs(self) -> None:
        """Remove the partitions of directories that went offline, as Kafka does."""
        for directory, lost in self.log_manager.take_newly_offline():
            self.offline.update(lost)
            for key in lost:
                self.partitions.pop(key, None)
            for key, move in list(self.moving.items()):
                healths = move.future.health, move.partition.log.health
                if any(health.error is not None for health in healths):
                    del self.moving[key]
            self.effects.append(FailedLogDir(directory, tuple(lost)))
            self.lost.extend(lost)
        if invariants.THOROUGH and not self.offline.isdisjoint(self.partitions):
            raise BrokenInvariant(f"hosted and offline: {self.offline & self.partitions.keys()}")
