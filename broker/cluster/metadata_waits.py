"""Waiting until the metadata cache shows the change that an administrator has asked for.

Mirrors DelayedCreatePartitions and DelayedDeleteTopics with their purgatory: few requests wait at a
time, so each checks again after every UpdateMetadata.
"""

from collections.abc import Callable

import trio

from ...replication.metadata_cache import MetadataCache, MetadataUpdate


class MetadataWaits:
    """Hang `metadata_changed` onto the UpdateMetadata handler."""

    __slots__ = ("_cache", "_changed")

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache
        self._changed = trio.Event()

    def metadata_changed(self, update: MetadataUpdate) -> None:
        if update.changed_topics or update.deleted_partitions:
            changed, self._changed = self._changed, trio.Event()
            changed.set()

    def all_partitions(self) -> list[tuple[str, int]]:
        """The partitions in this broker's present metadata."""
        return [
            (topic, index)
            for topic in self._cache.topics()
            for index in self._cache.partitions(topic)
        ]

    async def until_led(self, topic: str, partition_count: int, deadline: float) -> bool:
        """True once all partitions have a leader; False if that takes beyond the deadline."""
        partitions = range(partition_count)
        return await self._until(lambda: self._cache.has_leaders(topic, partitions), deadline)

    async def until_deleted(self, topic: str, deadline: float) -> bool:
        return await self._until(lambda: not self._cache.contains(topic), deadline)

    async def until_leader_is(
        self, partition: tuple[str, int], leader: int, deadline: float
    ) -> bool:
        def led() -> bool:
            state = self._cache.partition_state(*partition)
            return state is not None and state.leader == leader

        return await self._until(led, deadline)

    async def _until(self, condition: Callable[[], bool], deadline: float) -> bool:
        with trio.CancelScope(deadline=deadline):
            while not condition():
                await self._changed.wait()
        return condition()
