"""The internal topics of Streams applications, created while their members send heartbeats.

Job: create the topics that a heartbeat found missing, in the background, each once at a time; keep
why one could not be created for a while, in which it is not tried again, so that the next answers
can tell it. The number of errors kept is bounded; the one that ends first goes first.

Mirrors DefaultAutoTopicCreationManager.createStreamsInternalTopics and its ExpiringErrorCache. In
plain ZooKeeper mode the broker writes the znodes itself, as for every automatic creation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ...coordinator.group.streams.topology import TopicInfo
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.zookeeper.operations import SessionExpired, ZkError
from .topic_creation import UNSET, TopicCreator, WantedTopic

logger = logging.getLogger("pybroker.broker.topics")

MAX_ERRORS: Final = 1_000
MAX_CONFIGS: Final = 1_000  # of one topic


class StreamsTopics:
    __slots__ = ("_clock", "_creator", "_errors", "_in_flight")

    def __init__(self, creator: TopicCreator, clock: Callable[[], int]) -> None:
        self._creator = creator
        self._clock = clock
        self._in_flight: set[str] = set()
        # By topic: the error, and until when it is kept.
        self._errors: dict[str, tuple[str, int]] = {}

    def claim(self, topics: Mapping[str, TopicInfo]) -> list[TopicInfo]:
        """Those of the topics to create now; they must be passed to `create`."""
        wanted = [
            topic
            for name, topic in topics.items()
            if name not in self._in_flight and self.error(name) is None
        ]
        self._in_flight.update(topic.name for topic in wanted)
        return wanted

    def error(self, name: str) -> str | None:
        """Why the topic could not be created lately."""
        text, until_ms = self._errors.get(name, (None, 0))
        return text if until_ms > self._clock() else None

    async def create(
        self, topics: Iterable[TopicInfo], keep_ms: int, before: Callable[[int], None] | None
    ) -> None:
        """Create claimed topics; errors are kept for `keep_ms`. `before` charges the mutations."""
        left = {topic.name for topic in topics}
        try:
            for topic in topics:
                await self._create(topic, keep_ms, before)
                left.discard(topic.name)
                self._in_flight.discard(topic.name)
        finally:
            self._in_flight -= left

    async def _create(
        self, topic: TopicInfo, keep_ms: int, before: Callable[[int], None] | None
    ) -> None:
        try:
            # The number of partitions is that of tasks, which has a limit of its own.
            if len(topic.configs) > MAX_CONFIGS:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"More than {MAX_CONFIGS} configs.")
            wanted = WantedTopic(
                topic.name,
                dict(topic.configs),
                topic.partitions,
                topic.replication_factor or UNSET,
            )
            await self._creator.create(wanted, before=before)
        except KafkaError as error:
            self._keep(topic.name, error.message, keep_ms)
        except (ZkError, SessionExpired) as error:
            self._keep(topic.name, repr(error), keep_ms)

    def _keep(self, name: str, text: str, keep_ms: int) -> None:
        logger.warning("topic %s of a Streams application is not created: %s", name, text)
        now_ms = self._clock()
        self._errors = {key: kept for key, kept in self._errors.items() if kept[1] > now_ms}
        self._errors[name] = (text, now_ms + keep_ms)
        while len(self._errors) > MAX_ERRORS:
            del self._errors[min(self._errors, key=lambda key: self._errors[key][1])]
