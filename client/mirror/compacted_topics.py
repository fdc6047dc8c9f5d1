"""Reads a compacted topic from its beginning to where it ends now.

Mirrors: KafkaBasedLog, without following what comes later.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from ..consumer.consumer import Consumer
from ..consumer.received import Received
from .settings import ClusterSettings

POLL_SECONDS = 1.0
MAX_RECORDS = 10_000


class TopicTail:
    """A compacted topic, read on from time to time by `catch_up`; made by `topic_tail`."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    async def catch_up(self, take: Callable[[Received], None]) -> None:
        """Give `take` what was written until now and not read yet. Raises ClientError."""
        consumer = self._consumer
        ends = await consumer.end_offsets(consumer.assignment)
        while any((consumer.position(place) or 0) < end for place, end in ends.items()):
            for record in await consumer.poll(POLL_SECONDS, MAX_RECORDS):
                take(record)


@asynccontextmanager
async def topic_tail(
    cluster: ClusterSettings, topic: str, partitions: int
) -> AsyncIterator[TopicTail]:
    """Raises ClientError."""
    async with Consumer(
        cluster.bootstrap,
        security=cluster.login["consumer"],
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        allow_auto_create_topics=False,
        auto_commit=False,
        max_partition_fetch_bytes=256 * 1024,
        fetch_max_bytes=1024 * 1024,
    ) as consumer:
        await consumer.assign([(topic, each) for each in range(partitions)])
        yield TopicTail(consumer)


async def read_topic(
    cluster: ClusterSettings, topic: str, partitions: int, take: Callable[[Received], None]
) -> None:
    """All of it, once. Raises ClientError."""
    async with topic_tail(cluster, topic, partitions) as tail:
        await tail.catch_up(take)
