"""The partitions that one fetcher fetches from its leader, and the obstacles of each.

Invariants: a partition that is not in `states` is in none of the other collections but `forget` and
`failed_keys`; every change of a state must be reported with `moved`, or the leader does not learn
it; an error of one partition delays or ends only this partition.

Mirrors PartitionStates and the error handling of AbstractFetcherThread. Beyond Kafka: the back-off
of a partition begins small and doubles.
"""

import logging

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.topics import TopicPartition
from ..storage.descriptors import OutOfDescriptors
from ..storage.local_log import FlushFirst
from .follower import FollowerPartition, FollowerState
from .follower_steps import FetcherConfig
from .replica_manager import ReplicaManager
from .types import FlushNeeded

logger = logging.getLogger("pybroker.replication.follower_table")


class FollowerTable:
    __slots__ = (
        "_config",
        "_manager",
        "changed",
        "delayed",
        "failed_keys",
        "forget",
        "source_id",
        "states",
        "unflushed",
    )

    def __init__(self, manager: ReplicaManager, source_id: int, config: FetcherConfig) -> None:
        self._manager = manager
        self._config = config
        self.source_id = source_id
        self.states: dict[TopicPartition, FollowerPartition] = {}
        # States that may differ from the session's: looked at when a fetch is made.
        self.changed: dict[TopicPartition, FollowerPartition] = {}
        # States that send nothing to the leader until their `delayed_until_ms`.
        self.delayed: dict[TopicPartition, FollowerPartition] = {}
        # Partitions that the next fetch removes from the session, if it holds them.
        self.forget: set[TopicPartition] = set()
        # Partitions that failed, until the controller names them again.
        self.failed_keys: set[TopicPartition] = set()
        # Appended up to this offset, but not yet flushed as the topic asks: nothing is fetched
        # meanwhile.
        self.unflushed: dict[TopicPartition, int] = {}

    # The set of partitions

    def add(self, state: FollowerPartition) -> None:
        self.remove(state.key)
        self.states[state.key] = state
        self.changed[state.key] = state

    def remove(self, key: TopicPartition) -> bool:
        state = self.states.pop(key, None)
        self.failed_keys.discard(key)
        self.changed.pop(key, None)
        self.delayed.pop(key, None)
        self.unflushed.pop(key, None)
        if state is None:
            return False
        self.forget.add(key)
        return True

    def holds(self, state: FollowerPartition) -> bool:
        """Whether this is how the partition follows the leader that it has now."""
        return (
            self.states.get(state.key) is state
            and self._manager.partitions.get(state.key) is state.partition
            and state.is_current
        )

    def drop_stale(self) -> None:
        """Partitions that are gone, failed with their disk, or have another role by now."""
        partitions = self._manager.partitions
        stale = [
            key
            for key, state in self.changed.items()
            if partitions.get(key) is not state.partition or not state.is_current
        ]
        for key in stale:
            self.remove(key)

    @property
    def has_urgent_news(self) -> bool:
        """Whether a partition should not wait for the end of a long poll."""
        return any(not state.is_new for state in self.changed.values())

    # Obstacles

    def moved(self, state: FollowerPartition) -> None:
        """Mark the state as changed: the leader must learn it."""
        self.changed[state.key] = state

    def wait_for_flush(self, key: TopicPartition, offset: int) -> None:
        """The log has to be on disk below `offset` before the next fetch acknowledges it."""
        self.unflushed[key] = max(offset, self.unflushed.get(key, 0))

    def flushed(self, key: TopicPartition, offset: int) -> bool:
        """The log is on disk below `offset`; True if fetching may continue now."""
        wanted = self.unflushed.get(key)
        if wanted is None or wanted > offset:
            return False
        del self.unflushed[key]
        return not self.unflushed

    def delay(self, state: FollowerPartition, now_ms: int) -> None:
        state.delay(now_ms, self._config.first_backoff_ms, self._config.backoff_ms)
        self.delayed[state.key] = state
        self.changed[state.key] = state

    def end_delays(self, now_ms: int) -> None:
        over = [key for key, state in self.delayed.items() if state.delayed_until_ms <= now_ms]
        for key in over:
            self.changed[key] = self.delayed.pop(key)

    def next_due_ms(self) -> int | None:
        return min((state.delayed_until_ms for state in self.delayed.values()), default=None)

    # Trouble

    def fail(self, state: FollowerPartition, reason: str, level: int = logging.ERROR) -> None:
        """Give the partition up until the controller speaks of it again."""
        topic, partition = state.key
        logger.log(
            level,
            "Partition %s-%d is not fetched from broker %d any more, until its next leader epoch: "
            "%s", topic, partition, self.source_id, reason,
        )  # fmt: skip
        state.move_to(FollowerState.FAILED)
        self.remove(state.key)
        self.failed_keys.add(state.key)

    def leader_refuses(self, state: FollowerPartition, code: ErrorCode, now_ms: int) -> None:
        """An error of the leader for one partition, in whichever answer."""
        topic, partition = state.key
        if code is ErrorCode.FENCED_LEADER_EPOCH:
            # Ours is the newest epoch we know of, so the controller has news that are on the way.
            self.fail(state, f"its leader epoch {state.leader_epoch} has ended", logging.INFO)
            return
        logger.info(
            "Broker %d answered %s for %s-%d (leader epoch %d); retrying",
            self.source_id, code.name, topic, partition, state.leader_epoch,
        )  # fmt: skip
        self.delay(state, now_ms)

    def trouble(self, state: FollowerPartition, error: KafkaError, now_ms: int) -> None:
        """Our own log or the records that came are not in order."""
        topic, partition = state.key
        if isinstance(error, OutOfDescriptors):
            logger.warning("%s-%d: %s", *state.key, error.message)
            self.delay(state, now_ms)
        elif isinstance(error, FlushFirst):
            log = state.partition.log
            self._manager.effects.append(FlushNeeded(*state.key, log.log_end_offset, log))
            self.delay(state, now_ms)
        elif error.code is ErrorCode.KAFKA_STORAGE_ERROR:
            self.remove(state.key)
            self._manager.waiting.storage_failed(state.key)
        elif error.code is ErrorCode.CORRUPT_MESSAGE:
            logger.error(
                "Found invalid records from broker %d for %s-%d at offset %d; asking again: %s",
                self.source_id, topic, partition, state.fetch_offset, error.message,
            )  # fmt: skip
            self.delay(state, now_ms)
        else:
            self.fail(state, error.message)
