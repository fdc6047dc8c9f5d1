"""Reads a compacted topic from its beginning to its present end.

Mirrors: KafkaBasedLog, without following later records.
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
    """A compacted topic, read further from time to time by `catch_up`; made by `topic_tail`."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    async def catch_up(self, take: Callable[[Received], None]) -> None:
        """Call `take` with each record written until now and not read yet. Raises ClientError."""
        consumer = self._consumer
        ends = await consumer.end_offsets(consumer.assignment)
        while any((consumer.position(place) or 0) < end for place, end in ends.items()):
            for record in await consumer.poll(POLL_SECONDS, MAX_RECORDS):
                take(record)


@asynccontextmanager
async def topic_tail(
    cluster: ClusterSettings, topic: str, partitions: int
) -> AsyncIterator[TopicTail]:
    """A tail of a topic, from its beginning. Raises ClientError."""
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
    """Read the whole topic once. Raises ClientError."""
    async with topic_tail(cluster, topic, partitions) as tail:
        await tail.catch_up(take)
