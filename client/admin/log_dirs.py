"""Log directories: their replicas, and moves of replicas between those of one broker (KIP-113).

Mirrors: describeLogDirs and alterReplicaLogDirs of KafkaAdminClient.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ...protocol.api import ApiKey
from ...protocol.apis.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ...protocol.apis.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from ...protocol.topics import TopicPartition
from ..cluster import Cluster
from ..connection import Connection
from ..errors import Refused
from .results import Results, refused
from .routing import Purpose, ask_brokers, by_topic


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A replica in a directory; `lag` of a future replica is its distance behind the current
    one."""

    size_bytes: int
    lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """A directory of a broker; sizes of the volume are -1 if an old broker does not send them."""

    path: str
    error: Refused | None
    total_bytes: int
    usable_bytes: int
    replicas: Mapping[tuple[TopicPartition, bool], ReplicaInfo]  # the flag marks a future replica


class LogDirs:
    """`LogDirs(cluster)`; each method raises ClientError if the cluster does not answer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(
        self,
        broker_ids: Collection[int] | None = None,
        partitions: Collection[TopicPartition] | None = None,
    ) -> Results[int, tuple[LogDir, ...]]:
        """The directories of each broker, with the replicas of these partitions (None: all)."""
        topics = None
        if partitions is not None:
            topics = [
                DescribableLogDirTopic(topic=topic, partitions=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]

        async def ask(connection: Connection, broker_id: int) -> tuple[LogDir, ...]:
            request = DescribeLogDirsRequest(topics=topics)
            answer = await connection.request(
                ApiKey.DESCRIBE_LOG_DIRS, request, DescribeLogDirsResponse
            )
            what = f"cannot describe the directories of broker {broker_id}"
            self._cluster.asks("describe").check(answer.error_code, None, what)
            return tuple(self._directory(one) for one in answer.results)

        return await ask_brokers(self._cluster, broker_ids, ask)

    async def sizes(
        self,
        broker_ids: Collection[int] | None = None,
        partitions: Collection[TopicPartition] | None = None,
    ) -> dict[TopicPartition, dict[int, int]]:
        """Bytes of each replica, by partition and broker, of the brokers that answer."""
        sizes: dict[TopicPartition, dict[int, int]] = {}
        for broker_id, directories in (await self.describe(broker_ids, partitions)).values.items():
            for directory in directories:
                for (place, is_future), replica in directory.replicas.items():
                    if not is_future:
                        sizes.setdefault(place, {})[broker_id] = replica.size_bytes
        return sizes

    def _directory(self, one: DescribeLogDirsResult) -> LogDir:
        asked = self._cluster.asks("describe")
        return LogDir(
            path=one.log_dir,
            error=refused(asked, one.error_code, None, f"directory {one.log_dir}"),
            total_bytes=one.total_bytes,
            usable_bytes=one.usable_bytes,
            replicas={
                ((topic.name, part.partition_index), part.is_future_key): ReplicaInfo(
                    part.partition_size, part.offset_lag, part.is_future_key
                )
                for topic in one.topics
                for part in topic.partitions
            },
        )

    async def move(
        self, targets: Mapping[tuple[int, TopicPartition], str]
    ) -> Results[tuple[int, TopicPartition], None]:
        """Begin to move replicas to another directory of their broker; keys are broker and
        partition."""
        by_broker: dict[int, dict[str, list[TopicPartition]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for (broker_id, partition), path in targets.items():
            by_broker[broker_id][path].append(partition)
        results: Results[tuple[int, TopicPartition], None] = Results()

        async def ask(connection: Connection, broker_id: int) -> None:
            request = AlterReplicaLogDirsRequest(
                dirs=[
                    AlterReplicaLogDir(
                        path=path,
                        topics=[
                            AlterReplicaLogDirTopic(name=topic, partitions=numbers)
                            for topic, numbers in by_topic(partitions).items()
                        ],
                    )
                    for path, partitions in by_broker[broker_id].items()
                ]
            )
            answer = await connection.request(
                ApiKey.ALTER_REPLICA_LOG_DIRS, request, AlterReplicaLogDirsResponse
            )
            purpose = Purpose("alter", f"broker {broker_id} cannot move")
            for topic in answer.results:
                for part in topic.partitions:
                    place, code = (topic.topic_name, part.partition_index), part.error_code
                    error = purpose.error(self._cluster, place, code, None) if code else None
                    results.put((broker_id, place), None, error)

        (await ask_brokers(self._cluster, sorted(by_broker), ask)).all()
        return results
