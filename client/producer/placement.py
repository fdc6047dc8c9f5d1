"""The placement of records: metadata of their topics, and the choice of partitions.

Invariants: a topic is looked up once, even if many calls wait for it; no topic is known before
there is a producer id, if records are numbered. `KnownTopic.queues` is the accumulator's own list,
which grows when metadata has more partitions.

Mirrors: KafkaProducer.waitOnMetadata and partition; BuiltInPartitioner, whose arithmetic is in
`partitioners.py`.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import trio

from ..cluster import now_ms
from ..errors import ClientError, Unsupported
from .coordination import idempotent_identity
from .partition_queue import PartitionQueue
from .partitioners import StickyPartitioner, partition_for
from .state import ProducerState

# From topic, key, value, the number of partitions, and those with a leader.
Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, int, Sequence[int]], int]


class KnownTopic(NamedTuple):
    """The data of a topic that each record needs."""

    queues: list[PartitionQueue]
    sticky: StickyPartitioner


class Placement:
    """`known` has the topics that were looked up."""

    def __init__(
        self,
        state: ProducerState,
        *,
        partitioner: Partitioner | None,
        ignore_keys: bool,
        is_adaptive: bool,
    ) -> None:
        self._cluster = state.cluster
        self._settings = state.settings
        self._accumulator = state.accumulator
        self._identities = state.identities
        self._partitioner = partitioner
        self.ignores_keys, self._is_adaptive = ignore_keys, is_adaptive
        self._learning = trio.Lock()
        self.known: dict[str, KnownTopic] = {}

    def choose(
        self,
        topic: str,
        known: KnownTopic,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        size: int,
    ) -> int:
        """The partition of a record; `partition` if it is given. Raises ClientError."""
        count = len(known.queues)
        if partition is not None:
            if not 0 <= partition < count:
                raise ClientError(f"topic {topic!r} has no partition {partition}")
            return partition
        if self._partitioner is not None:
            chosen = self._partitioner(topic, key, value, count, self._available(topic))
            if not 0 <= chosen < count:
                raise ClientError(f"the partitioner chose {chosen} of {count} partitions")
            return chosen
        if key is not None and not self.ignores_keys:
            return partition_for(key, count)
        chosen = self.stick(topic, known, size)
        known.sticky.taken_bytes += size
        return chosen

    def stick(self, topic: str, known: KnownTopic, size: int) -> int:
        """The partition of a record without a key or a chosen partition."""
        sticky = known.sticky
        if sticky.current >= 0:
            batch = known.queues[sticky.current].open
            if batch is not None and batch.size + size <= self._accumulator.full_bytes:
                return sticky.current
        if not sticky.is_done(size):
            return sticky.current
        available = self._available(topic)
        busy = [len(known.queues[p].batches) for p in available] if self._is_adaptive else []
        return sticky.choose(len(known.queues), available, busy)

    def _available(self, topic: str) -> list[int]:
        found = self._cluster.cache.topic(topic)
        return [] if found is None else found.available

    async def learn(self, topic: str, partitions: int = 1) -> KnownTopic:
        """Look up a topic's leaders, and a producer id; again if fewer partitions are known.

        Raises ClientError.
        """
        async with self._learning:
            known = self.known.get(topic)
            if known is not None and len(known.queues) >= partitions:
                return known
            with trio.move_on_after(self._settings.max_block_ms / 1000):
                count = await self._partition_count(topic, partitions)
                if self._settings.transactional_id is None and self._identities.is_wanted:
                    await self._take_identity(topic)
                queues = self._accumulator.queues(topic, count)
                draw = functools.partial(random.getrandbits, 31)
                sticky = StickyPartitioner(self._settings.batch_size, draw)
                self.known[topic] = KnownTopic(queues, sticky)
                return self.known[topic]
        raise ClientError(
            f"nothing is known of topic {topic!r} after {self._settings.max_block_ms} ms"
        )

    async def _partition_count(self, topic: str, expected: int) -> int:
        """The partition count, looked up unless another user of the cluster has just done so."""
        known = self._cluster.cache.topic(topic)
        is_old = bool(self._cluster.cache.to_ask([topic], now_ms()))
        if known is not None and known.available and len(known.leaders) >= expected and not is_old:
            return len(known.leaders)
        found = await self._cluster.led_topic(topic, create_missing=True, any_partition=True)
        return len(found.partitions)

    async def _take_identity(self, topic: str) -> None:
        try:
            self._identities.take(await idempotent_identity(self._cluster, topic))
        except Unsupported as error:
            if self._settings.idempotence:
                raise
            self._identities.give_up()
            self._cluster.report(f"what must be sent again may be written twice: {error}")
