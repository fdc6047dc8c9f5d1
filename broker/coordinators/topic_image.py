"""The topics of the metadata cache as the group machine sees them.

A rack is remembered when its broker is down: groups must not rebalance for that. Mirrors
KRaftCoordinatorMetadataImage, whose registrations of brokers outlive them too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ...coordinator.group.consumer.topics import Topic
from ...protocol.uuids import ZERO_UUID

if TYPE_CHECKING:
    from ...replication.metadata_cache import MetadataCache


class CachedTopics:
    """A `TopicImage` over the cache."""

    __slots__ = ("_cache", "_racks")

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache
        # By broker id, the rack that it had last.
        self._racks: dict[int, str] = {}

    @property
    def version(self) -> int:
        return self._cache.version

    def topic(self, name: str) -> Topic | None:
        topic_id = self.topic_id(name)
        if topic_id is None:
            return None
        for broker_id, broker in self._cache.alive_brokers().items():
            if broker.rack is not None:
                self._racks[broker_id] = broker.rack
            else:
                self._racks.pop(broker_id, None)
        partitions = self._cache.partitions(name)
        racks: tuple[tuple[str, ...], ...] = ()
        if self._racks:
            racks = tuple(
                tuple(
                    self._racks[broker_id]
                    for broker_id in partitions[index].replicas
                    if broker_id in self._racks
                )
                if index in partitions
                else ()
                for index in range(len(partitions))
            )
        return Topic(name, topic_id, len(partitions), racks)

    def topic_id(self, name: str) -> bytes | None:
        topic_id = self._cache.topic_id(name)
        return None if topic_id == ZERO_UUID else topic_id

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._cache.topic_name(topic_id)

    def partition_count(self, topic_id: bytes) -> int | None:
        name = self._cache.topic_name(topic_id)
        return None if name is None else self._cache.partition_count(name)

    def topic_names(self) -> Iterable[str]:
        return list(self._cache.topics())
