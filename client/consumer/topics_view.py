"""The metadata of a consumer's topics; pure.

Invariant: for one topic id, the leader epoch of a partition never decreases: an isolated broker may
still claim to lead (KIP-320).

Mirrors: ConsumerMetadata and SubscriptionState.LeaderAndEpoch of the Java client.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from ...protocol import invariants
from ...protocol.apis.metadata import MetadataResponse, MetadataResponseTopic
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from .assignments import TopicShape

NO_EPOCH: Final = -1  # brokers before 2.1


class Leader(NamedTuple):
    """The leader of a partition (-1: none), and its epoch (-1: brokers before 2.1)."""

    node: int
    epoch: int


class TopicsView:
    """Topics with errors keep their last metadata: an error may be short-lived."""

    def __init__(self) -> None:
        self._topics: dict[str, MetadataResponseTopic] = {}
        self._leaders: dict[str, dict[int, Leader]] = {}  # by topic and partition
        self._names: dict[bytes, str] = {}
        self._racks: dict[int, str | None] = {}
        self.errors: dict[str, ErrorCode] = {}  # of the last response

    def take(self, answer: MetadataResponse) -> bool:
        """Update from a response; whether topics or numbers of partitions have changed."""
        self._racks = {broker.node_id: broker.rack for broker in answer.brokers}
        self.errors = {}
        has_changed = False
        for topic in answer.topics:
            if topic.name is None:
                continue
            if topic.error_code:
                self.errors[topic.name] = ErrorCode(topic.error_code)
                continue
            before = self._topics.get(topic.name)
            has_changed |= before is None or len(before.partitions) != len(topic.partitions)
            is_same = before is not None and before.topic_id == topic.topic_id
            known = self._leaders[topic.name] if is_same else {}
            self._topics[topic.name] = topic
            self._leaders[topic.name] = {
                each.partition_index: _newer(
                    known.get(each.partition_index), Leader(each.leader_id, each.leader_epoch)
                )
                for each in topic.partitions
            }
            if invariants.THOROUGH and not _none_is_older(known, self._leaders[topic.name]):
                raise invariants.BrokenInvariant(f"a leader epoch decreases: {known}, {topic}")
            self._names[topic.topic_id] = topic.name
        return has_changed

    def keep_only(self, names: Collection[str]) -> None:
        for name in self._topics.keys() - set(names):
            topic = self._topics.pop(name)
            del self._leaders[name]
            self._names.pop(topic.topic_id, None)

    @property
    def names(self) -> Collection[str]:
        return self._topics.keys()

    def topic(self, name: str) -> MetadataResponseTopic | None:
        return self._topics.get(name)

    def topic_id(self, name: str) -> bytes:
        return self._topics[name].topic_id

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def leader(self, partition: TopicPartition) -> Leader | None:
        """The leader; None if the partition is unknown."""
        leaders = self._leaders.get(partition[0])
        return None if leaders is None else leaders.get(partition[1])

    def move(self, partition: TopicPartition, leader: Leader) -> None:
        """Apply a new leader that a broker has named (KIP-951)."""
        known = self.leader(partition)
        if known is not None and leader.epoch > known.epoch:
            self._leaders[partition[0]][partition[1]] = leader

    def shapes(self, names: Collection[str]) -> dict[str, TopicShape]:
        """The shapes of the known topics, for assignors."""
        found = {}
        for name in names:
            topic = self._topics.get(name)
            if topic is None:
                continue
            parts = sorted(topic.partitions, key=lambda part: part.partition_index)
            found[name] = TopicShape(
                tuple(
                    frozenset(r for node in part.replica_nodes if (r := self._racks.get(node)))
                    for part in parts
                )
            )
        return found


def _none_is_older(known: dict[int, Leader], leaders: dict[int, Leader]) -> bool:
    """The invariant of this file: no leader epoch decreases."""
    return all(
        leader.epoch == NO_EPOCH or leader.epoch >= known.get(partition, leader).epoch
        for partition, leader in leaders.items()
    )


def _newer(known: Leader | None, told: Leader) -> Leader:
    """The told leader, unless its epoch is older than the known one's."""
    return known if known is not None and known.epoch > told.epoch > NO_EPOCH else told
