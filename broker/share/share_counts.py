"""The leader's counts of requests and records of share groups, for its metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...replication.share.acknowledging import Acknowledgement, AcknowledgeType

# The acknowledgements that are counted, by Kafka's names for them.
KINDS: Final = {
    AcknowledgeType.ACCEPT: "Accept",
    AcknowledgeType.RELEASE: "Release",
    AcknowledgeType.REJECT: "Reject",
    AcknowledgeType.RENEW: "Renew",
}


class TopicCounts:
    """Partitions of requests."""

    __slots__ = (
        "acknowledge_requests",
        "failed_acknowledge_requests",
        "failed_fetch_requests",
        "fetch_requests",
    )

    def __init__(self) -> None:
        self.fetch_requests = 0
        self.failed_fetch_requests = 0
        self.acknowledge_requests = 0
        self.failed_acknowledge_requests = 0


class ShareCounts:
    __slots__ = ("acknowledged_records", "expired_fetches", "topics")

    def __init__(self) -> None:
        # Records by type of acknowledgement.
        self.acknowledged_records: dict[int, int] = dict.fromkeys(KINDS, 0)
        self.expired_fetches = 0
        # Of topics that exist, or did.
        self.topics: dict[str, TopicCounts] = {}

    def of_topic(self, topic: str) -> TopicCounts:
        counts = self.topics.get(topic)
        if counts is None:
            counts = self.topics[topic] = TopicCounts()
        return counts

    def acknowledged(self, batches: Sequence[Acknowledgement]) -> None:
        counts = self.acknowledged_records
        for first, last, types in batches:
            if len(types) > 1:
                for kind in counts:
                    counts[kind] += types.count(kind)
            elif types[0] in counts:
                counts[types[0]] += last - first + 1
