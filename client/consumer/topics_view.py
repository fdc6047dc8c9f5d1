"""What metadata said about the topics that a consumer is interested in; pure.

Invariant: of one topic (by its id) the leader epoch of a partition never goes back: a broker that
is cut off, and does not know, says that it still leads (KIP-320).

Mirrors: ConsumerMetadata and SubscriptionState.LeaderAndEpoch of the Java client.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from ...protocol.apis.metadata import MetadataResponse, MetadataResponseTopic
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from .assignments import TopicShape

NO_EPOCH: Final = -1  # brokers before 2.1


class Leader(NamedTuple):
    """Who leads a partition (-1: nobody), and in which epoch (-1: brokers before 2.1)."""

    node: int
    epoch: int


class TopicsView:
    """Topics with errors keep what was known of them: an absence may be short."""

    def __init__(self) -> None:
        self._topics: dict[str, MetadataResponseTopic] = {}
        self._leaders: dict[str, dict[int, Leader]] = {}  # by topic and partition
        self._names: dict[bytes, str] = {}
        self._racks: dict[int, str | None] = {}
        self.errors: dict[str, ErrorCode] = {}  # of the last answer

    def take(self, answer: MetadataResponse) -> bool:
        """Whether it brought other topics or other numbers of partitions than were known."""
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
        """None where the partition is not known."""
        leaders = self._leaders.get(partition[0])
        return None if leaders is None else leaders.get(partition[1])

    def move(self, partition: TopicPartition, leader: Leader) -> None:
        """A broker has named the new leader (KIP-951)."""
        known = self.leader(partition)
        if known is not None and leader.epoch > known.epoch:
            self._leaders[partition[0]][partition[1]] = leader

    def shapes(self, names: Collection[str]) -> dict[str, TopicShape]:
        """Of those that are known, for assignors."""
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


def _newer(known: Leader | None, told: Leader) -> Leader:
    """What is told, unless that is older than what is known."""
    return known if known is not None and known.epoch > told.epoch > NO_EPOCH else told
