"""A consumer of a group and a producer, coupled: records go to topics of the same names.

The producer chooses partitions (by keys); those of the source are not kept. The group's offsets are
committed at the source once all records before them are acknowledged: no record is lost, some are
repeated after a crash. A record that the target refuses ends the mirror, or with `aborts` False is
left out and counted. Several mirrors of one group share the work.
Mirrors: MirrorMaker 1 (kafka.tools.MirrorMaker). Leaves out message handlers, and several streams:
one loop is enough.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

import trio

from ...protocol.topics import TopicPartition
from ..consumer.consumer import Consumer
from ..consumer.received import Received
from ..errors import ClientError, SettingsError
from ..producer import Delivery, Producer
from .settings import ClusterSettings
from .stats import FlowStats
from .stopping import until

POLL_SECONDS = 1.0
POLL_RECORDS = 500
FOREVER_MS = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class SimpleSettings:
    """`topics` is a regular expression; internal topics are never copied."""

    source: ClusterSettings
    target: ClusterSettings
    topics: str
    group: str
    offset_reset: str = "latest"
    commit_seconds: float = 60.0  # offset.commit.interval.ms
    aborts: bool = True  # abort.on.send.failure


class SimpleMirror:
    """`await SimpleMirror(settings, report).run(stop)`."""

    def __init__(self, settings: SimpleSettings, report: Callable[[str], None]) -> None:
        try:
            self._pattern = re.compile(f"(?!__)(?:{settings.topics})$")
        except re.error as error:
            raise SettingsError(f"{settings.topics!r} is no regular expression: {error}") from None
        self._settings = settings
        self._report = report
        self._sent: list[tuple[TopicPartition, int, Delivery]] = []
        self.stats = [FlowStats(settings.source.alias, settings.target.alias)]
        self.dropped = 0  # records that the target has refused

    async def run(self, stop: trio.Event) -> None:
        """Run until `stop`, then until all is acknowledged and committed. Raises ClientError."""
        settings = self._settings
        consumer = Consumer(
            settings.source.bootstrap,
            security=settings.source.login["consumer"],
            report=self._report,
            group_id=settings.group,
            auto_offset_reset=settings.offset_reset,
            auto_commit=False,
        )
        producer = Producer(
            settings.target.bootstrap,
            security=settings.target.login["producer"],
            report=self._report,
            delivery_timeout_ms=FOREVER_MS,
            max_block_ms=FOREVER_MS,
        )

        async def on_revoked(_: list[TopicPartition]) -> None:
            await self._commit(consumer)

        async with producer, consumer:
            await consumer.subscribe(self._pattern, on_revoked=on_revoked)
            self.stats[0].state = "running"
            due = trio.current_time() + settings.commit_seconds
            found: list[Received] = []

            async def poll() -> None:
                nonlocal found
                found = await consumer.poll(POLL_SECONDS, POLL_RECORDS)

            while not stop.is_set():
                found = []
                await until(stop, poll)
                for record in found:
                    delivery = await producer.enqueue(
                        record.topic, record.value, key=record.key, headers=record.headers,
                        timestamp_ms=record.timestamp if record.timestamp >= 0 else None,
                    )  # fmt: skip
                    size = len(record.key or b"") + len(record.value or b"")
                    self._sent.append(((record.topic, record.partition), size, delivery))
                if trio.current_time() >= due or len(self._sent) >= 20 * POLL_RECORDS:
                    await self._commit(consumer)
                    due = trio.current_time() + settings.commit_seconds
            await self._commit(consumer)
        self.stats[0].state = "stopped"

    async def _commit(self, consumer: Consumer) -> None:
        """Wait until all sent records are acknowledged or refused; then commit their offsets."""
        sent, self._sent = self._sent, []
        now_ms = int(time.time() * 1000)
        for place, size, delivery in sent:
            try:
                written = await delivery.wait()
            except ClientError as error:
                if self._settings.aborts:
                    raise
                self.dropped += 1
                self._report(f"left out a record of {place[0]}-{place[1]}: {error}")
            else:
                age_ms = max(0, now_ms - written.timestamp_ms)
                self.stats[0].add((written.topic, written.partition), 1, size, age_ms)
        await consumer.commit()
