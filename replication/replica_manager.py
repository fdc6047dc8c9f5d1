"""All replicas of this broker: the parts that append, fetch, lead, answer and move, put together.

Each part owns its state and knows the parts before it, in the order of the constructor:

- `hosted`: which partitions are here; `reader`: reads them for fetches;
- `waiting`: purgatories, timers and completions; every change of a partition is reported to it;
- `appends`, `fetches`, `offsets`, `isr_changes`: requests of clients, followers, the controller;
- `moves`: replicas between log directories; `leadership`: LeaderAndIsr and StopReplica.

Invariants: an operation is answered once: either by the `Done` of its call, or by one Completion
in `completed`, which the driver takes with `take_completed` after every call. Work for the driver
(fsync, ISR changes) collects in `effects` the same way. Nothing is called back, nothing here waits,
and no object on this path refers back to its owner.

Mirrors Kafka's ReplicaManager. Questions about producers are in producers.py, about log directories
in log_dirs.py. Leaves out tiered storage.
"""

from collections.abc import Callable

from ..storage.log_config import LogConfig
from ..storage.log_manager import LogManager
from .appends import Appends
from .fetch_reader import FetchReader
from .fetches import Fetches
from .hosted_partitions import HostedPartitions
from .isr_changes import IsrChanges
from .leadership import Leadership
from .log_dir_moves import LogDirMoves
from .metadata_cache import MetadataCache
from .offsets import Offsets
from .replica_selector import ReplicaSelector
from .throttle import ReplicationQuota
from .types import Completion, Effect, ReplicaConfig
from .waiting import WaitingOperations


class ReplicaManager:
    __slots__ = (
        "appends",
        "completed",
        "config",
        "effects",
        "fetches",
        "follower_quota",
        "hosted",
        "isr_changes",
        "leader_quota",
        "leadership",
        "log_manager",
        "metadata",
        "moves",
        "offsets",
        "partitions",
        "reader",
        "waiting",
    )

    def __init__(
        self,
        config: ReplicaConfig,
        log_manager: LogManager,
        metadata: MetadataCache,
        config_for: Callable[[str], LogConfig],
        *,
        now_ms: int,
        replica_selector: ReplicaSelector | None = None,
    ) -> None:
        self.config = config
        self.log_manager = log_manager
        self.metadata = metadata
        # Both lists are shared with the parts: emptied, never replaced.
        self.effects: list[Effect] = []
        self.completed: list[Completion] = []
        self.leader_quota = ReplicationQuota(config.broker_id)
        self.follower_quota = ReplicationQuota(config.broker_id)
        self.hosted = HostedPartitions(config, log_manager, metadata, config_for, self.effects)
        # The dict of `hosted`, for the many who look a partition up.
        self.partitions = self.hosted.partitions
        self.reader = FetchReader(self.hosted, self.leader_quota, replica_selector)
        self.waiting = WaitingOperations(
            self.hosted, self.reader, self.leader_quota, self.completed, now_ms
        )
        self.appends = Appends(self.hosted, self.waiting)
        self.fetches = Fetches(self.hosted, self.reader, self.waiting)
        self.offsets = Offsets(self.hosted, self.waiting)
        self.isr_changes = IsrChanges(self.hosted, self.waiting)
        self.moves = LogDirMoves(self.hosted, self.waiting)
        self.leadership = Leadership(self.hosted, self.waiting, self.moves)

    # Output for the driver

    def take_completed(self) -> list[Completion]:
        completed = self.completed[:]
        self.completed.clear()
        return completed

    def take_effects(self) -> list[Effect]:
        effects = self.effects[:]
        self.effects.clear()
        return effects

    # Reports of the driver

    def flushed(self, topic: str, partition: int, offset: int, now_ms: int) -> None:
        """The log is on disk up to `offset`."""
        key = (topic, partition)
        replica = self.partitions.get(key)
        if replica is None:
            return
        replica.flushed(offset)
        if replica.is_leader:
            replica.maybe_advance_high_watermark(now_ms)
        self.waiting.check(key)

    def apply_topic_config(self, topic: str, config: LogConfig, now_ms: int) -> None:
        for key, partition in list(self.partitions.items()):
            if key[0] == topic:
                partition.log.set_config(config)
                future = self.log_manager.future_log(*key)
                if future is not None:
                    future.set_config(config)
                partition.config_changed()
                if partition.is_leader:
                    partition.maybe_advance_high_watermark(now_ms)
                self.waiting.check(key)
