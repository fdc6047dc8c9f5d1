"""The driver's requests to a cluster: its partitions, and offsets in them.

Each request opens and closes connections of its own: Spark asks once per trigger, and may do so
from any process. When leadership moves, the new leader is asked; a deleted topic is an error that
names it.

Mirrors: KafkaOffsetReaderAdmin and ConsumerStrategy of Spark's connector.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping

import trio

from ...client.cluster import Cluster, retrying
from ...client.consumer.offset_requests import Found, list_offsets
from ...client.consumer.topics_view import Leader
from ...client.errors import ClientError
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from .limits import Offsets
from .options import SourceOptions

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
ANY_EPOCH = -1
NO_OFFSET = -1  # no record at or after the requested time


class Catalogue:
    """The partitions that the options select. All methods raise ClientError."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def cluster(self) -> Cluster:
        return Cluster(self._options.bootstrap_servers, security=self._options.kafka)

    def partitions(self) -> set[TopicPartition]:
        """The partitions that exist now."""
        return trio.run(self._partitions)

    async def _partitions(self) -> set[TopicPartition]:
        async with self.cluster() as cluster:
            return (await self._leaders(cluster)).keys() | set()

    async def _leaders(self, cluster: Cluster) -> dict[TopicPartition, int]:
        """The leader of each partition, -1 if it has none."""
        options = self._options
        names = options.topics
        if options.assigned is not None:
            names = tuple(sorted({topic for topic, _ in options.assigned}))
        found = (await cluster.metadata(names)).topics
        if names is None:
            assert options.pattern is not None
            pattern = re.compile(options.pattern)
            found = [t for t in found if t.name and pattern.fullmatch(t.name)]
            found = [topic for topic in found if topic.name not in INTERNAL_TOPICS]
        leaders: dict[TopicPartition, int] = {}
        for topic in found:
            name, code = topic.name or "", ErrorCode(topic.error_code)
            if code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
                cluster.asks("describe", name).check(code, None, f"topic {name!r}")
            for part in topic.partitions:
                leaders[name, part.partition_index] = part.leader_id
        if options.assigned is None:
            return leaders
        missing = options.assigned - leaders.keys()
        if missing:
            topic_name, partition = min(missing)
            raise ClientError(f"there is no partition {topic_name}-{partition}")
        return {key: leaders[key] for key in options.assigned}

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        """The offset of each at EARLIEST, LATEST or a time in ms; NO_OFFSET for no such record.

        With `read_committed` LATEST is the last stable offset. Deleted partitions are left out.
        """
        return trio.run(self._offsets, wanted) if wanted else {}

    async def _offsets(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        found: Offsets = {}
        async with self.cluster() as cluster:
            async for _ in retrying():
                leaders = await self._leaders(cluster)
                by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
                for key in (wanted.keys() & leaders.keys()) - found.keys():
                    by_leader[leaders[key]].append(key)
                for leader, keys in by_leader.items():
                    if leader >= 0:
                        found |= await self._ask(cluster, leader, {k: wanted[k] for k in keys})
                missing = (wanted.keys() & leaders.keys()) - found.keys()
                if not missing:
                    return found
        raise ClientError(f"no leader returned the offsets of {', '.join(_names(missing))}")

    async def _ask(
        self, cluster: Cluster, leader: int, wanted: Mapping[TopicPartition, int]
    ) -> Offsets:
        """The offsets of the partitions that the leader could answer for."""
        asked = {key: (timestamp, Leader(leader, ANY_EPOCH)) for key, timestamp in wanted.items()}
        try:
            connection = await cluster.connection(leader)
            found = await list_offsets(
                connection, asked, reads_committed=self._options.is_read_committed
            )
        except ClientError:
            return {}
        return {key: one.offset for key, one in found.items() if isinstance(one, Found)}


def _names(partitions: Collection[TopicPartition]) -> list[str]:
    return [f"{topic}-{partition}" for topic, partition in sorted(partitions)]
