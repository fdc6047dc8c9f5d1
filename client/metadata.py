"""A client's metadata of the topics of a cluster: leaders, their epochs, topic ids.

Pure: answers and the time are arguments. Stale metadata stays usable; a user that gets an error
marks it as stale.
Invariants: for one topic id, a partition's leader epoch never decreases, so that an outdated
broker's answer does not replace a newer one (KIP-320); a topic that was deleted and created again
starts anew.
Mirrors: MetadataCache and Metadata of the Java client; ExponentialBackoff.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..protocol.apis.metadata import MetadataResponse, MetadataResponseTopic
from ..protocol.errors import ErrorCode

MAX_AGE_MS = 300_000
NO_EPOCH = -1


class Leader(NamedTuple):
    """The leader of a partition; a `broker_id` of -1: it has none at the moment."""

    broker_id: int
    epoch: int


class KnownTopic(NamedTuple):
    """A topic as brokers described it; partitions by their index."""

    name: str
    topic_id: bytes
    leaders: tuple[Leader, ...]
    learned_ms: int

    @property
    def available(self) -> list[int]:
        """The partitions with a leader."""
        return [index for index, leader in enumerate(self.leaders) if leader.broker_id >= 0]


class MetadataCache:
    """The metadata of one client. All times are in ms of any one clock."""

    def __init__(self) -> None:
        self._topics: dict[str, KnownTopic] = {}
        self._stale: set[str] = set()

    def update(self, answer: MetadataResponse, now_ms: int) -> None:
        """Apply the topics of a response; those with an error stay unchanged."""
        for topic in answer.topics:
            if topic.error_code == ErrorCode.NONE and topic.name is not None:
                self._take(topic.name, topic, now_ms)

    def _take(self, name: str, told: MetadataResponseTopic, now_ms: int) -> None:
        known = self._topics.get(name)
        if known is not None and known.topic_id != told.topic_id:
            known = None
        count = 1 + max((part.partition_index for part in told.partitions), default=-1)
        leaders = [Leader(-1, NO_EPOCH)] * count
        is_behind = False
        for part in told.partitions:
            leader = Leader(part.leader_id, part.leader_epoch)
            index = part.partition_index
            if known is not None and index < len(known.leaders):
                newest = known.leaders[index]
                if NO_EPOCH < leader.epoch < newest.epoch:
                    leader, is_behind = newest, True
            leaders[index] = leader
        self._topics[name] = KnownTopic(name, told.topic_id, tuple(leaders), now_ms)
        if not is_behind:
            self._stale.discard(name)

    def topic(self, name: str) -> KnownTopic | None:
        return self._topics.get(name)

    def leader(self, name: str, partition: int) -> Leader | None:
        """The leader; None if there is none, or it is unknown."""
        known = self._topics.get(name)
        if known is None or partition >= len(known.leaders):
            return None
        leader = known.leaders[partition]
        return leader if leader.broker_id >= 0 else None

    def learn_leader(self, name: str, partition: int, leader: Leader) -> bool:
        """Apply the leader that came with NOT_LEADER_OR_FOLLOWER (KIP-951); whether it is newer."""
        known = self._topics.get(name)
        if known is None or partition >= len(known.leaders):
            return False
        if leader.broker_id < 0 or leader.epoch <= known.leaders[partition].epoch:
            return False
        leaders = list(known.leaders)
        leaders[partition] = leader
        self._topics[name] = known._replace(leaders=tuple(leaders))
        return True

    def mark_stale(self, name: str) -> None:
        """Mark a topic whose metadata has proved to be out of date."""
        self._stale.add(name)

    def to_ask(self, names: Iterable[str], now_ms: int) -> list[str]:
        """The topics of `names` whose metadata should be fetched now."""
        return [
            name
            for name in names
            if name in self._stale
            or (known := self._topics.get(name)) is None
            or now_ms - known.learned_ms >= MAX_AGE_MS
        ]


def backoff_ms(attempts: int, roll: float, *, first_ms: int = 100, longest_ms: int = 1_000) -> int:
    """The pause after this many failures in a row (at least 1), doubled each time.

    `roll`, at random in [0, 1), spreads it by a fifth both ways.
    """
    pause = min(first_ms * 2 ** min(attempts - 1, 20), longest_ms)
    return int(pause * (0.8 + 0.4 * roll))
