"""What a client knows of the topics of a cluster: leaders, their epochs, topic ids.

Pure: answers and the time come in. What is known stays usable while it is stale; whoever uses it
finds out by an error, and says so.
Invariants: of one topic (by its id) a partition's leader epoch never goes back, so that an answer
of a broker that has not heard yet does not undo what a newer one said (KIP-320); a topic that was
deleted and made again starts anew.
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
    """Of a partition; a `broker_id` of -1: it has none at the moment."""

    broker_id: int
    epoch: int


class KnownTopic(NamedTuple):
    """A topic as brokers told it; partitions by their index."""

    name: str
    topic_id: bytes
    leaders: tuple[Leader, ...]
    learned_ms: int

    @property
    def available(self) -> list[int]:
        """The partitions with a leader."""
        return [index for index, leader in enumerate(self.leaders) if leader.broker_id >= 0]


class MetadataCache:
    """Of one client. All times in ms of any one clock."""

    def __init__(self) -> None:
        self._topics: dict[str, KnownTopic] = {}
        self._stale: set[str] = set()

    def update(self, answer: MetadataResponse, now_ms: int) -> None:
        """Take in what is said of topics; those with an error stay as they were."""
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
        """None if there is none, or none is known."""
        known = self._topics.get(name)
        if known is None or partition >= len(known.leaders):
            return None
        leader = known.leaders[partition]
        return leader if leader.broker_id >= 0 else None

    def learn_leader(self, name: str, partition: int, leader: Leader) -> bool:
        """What a broker told beside a NOT_LEADER_OR_FOLLOWER (KIP-951); whether that is news."""
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
        """Something has shown that it is not so any more."""
        self._stale.add(name)

    def to_ask(self, names: Iterable[str], now_ms: int) -> list[str]:
        """Those of `names` that should be asked for now."""
        return [
            name
            for name in names
            if name in self._stale
            or (known := self._topics.get(name)) is None
            or now_ms - known.learned_ms >= MAX_AGE_MS
        ]


def backoff_ms(attempts: int, roll: float, *, first_ms: int = 100, longest_ms: int = 1_000) -> int:
    """The pause after so many failures in a row (at least 1), doubled each time.

    `roll`, at random in [0, 1), spreads it by a fifth both ways.
    """
    pause = min(first_ms * 2 ** min(attempts - 1, 20), longest_ms)
    return int(pause * (0.8 + 0.4 * roll))
