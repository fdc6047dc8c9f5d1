"""First fetches of followers that the records of a new partition wait for.

Job: when a leader gets the first records of its epoch, remember the in-sync followers that have not
fetched the partition yet. A follower adds a new partition to its next fetch, so its long poll is
answered at once, and until it has asked for the partition, its polls last SHORT_WAIT_MS only: the
controller's word may reach it after the records have reached the leader.

Invariants: a follower is awaited for AWAITED_MS at most; a fetch for the partition ends it, and so
does the end of the leadership.

Mirrors nothing in Kafka, where such records wait for the end of the follower's poll
(replica.fetch.wait.max.ms).
"""

from collections.abc import Mapping
from typing import Final

from ..protocol.topics import TopicPartition
from .partition import Partition
from .types import UNKNOWN_OFFSET

AWAITED_MS: Final = 1_000
SHORT_WAIT_MS: Final = 20


class FirstFetches:
    __slots__ = ("_partitions", "awaited")

    def __init__(self, partitions: Mapping[TopicPartition, Partition]) -> None:
        self._partitions = partitions
        # By follower: until when it is awaited for each partition.
        self.awaited: dict[int, dict[TopicPartition, int]] = {}

    def expect(self, partition: Partition, now_ms: int) -> list[int]:
        """The partition has the first records of its epoch; returns the followers that have to add
        it to their fetches."""
        members = partition.isr.maximal
        silent = [
            broker_id
            for broker_id, replica in partition.remotes.items()
            if replica.log_end_offset == UNKNOWN_OFFSET and broker_id in members
        ]
        for broker_id in silent:
            self.awaited.setdefault(broker_id, {})[partition.key] = now_ms + AWAITED_MS
        return silent

    def wait_ms(self, broker_id: int, asked_ms: int, now_ms: int) -> int:
        """How long a fetch of this follower may wait, which its partitions have been read for."""
        awaited = self.awaited.get(broker_id)
        if awaited is None:
            return asked_ms
        for key, until_ms in list(awaited.items()):
            if now_ms >= until_ms or not self._is_silent(broker_id, key):
                del awaited[key]
        if awaited:
            return min(asked_ms, SHORT_WAIT_MS)
        del self.awaited[broker_id]
        return asked_ms

    def _is_silent(self, broker_id: int, key: TopicPartition) -> bool:
        partition = self._partitions.get(key)
        if partition is None or not partition.is_leader:
            return False
        replica = partition.remotes.get(broker_id)
        return replica is not None and replica.log_end_offset == UNKNOWN_OFFSET
