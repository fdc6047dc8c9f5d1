"""The handlers of replication over a replica manager with real logs, one call at a time."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

from pybroker_kafka.broker.handlers.controller_orders import ControllerOrders
from pybroker_kafka.broker.handlers.delete_records import DeleteRecordsHandler
from pybroker_kafka.broker.handlers.fetch import FetchHandler
from pybroker_kafka.broker.handlers.list_offsets import ListOffsetsHandler
from pybroker_kafka.broker.handlers.log_dirs import LogDirHandlers
from pybroker_kafka.broker.handlers.offset_for_leader_epoch import OffsetForLeaderEpochHandler
from pybroker_kafka.broker.handlers.produce import ProduceHandler
from pybroker_kafka.broker.network.topic_names import TopicNames
from pybroker_kafka.broker.replicas.log_dir_mover import LogDirMover
from pybroker_kafka.broker.replicas.replica_runtime import ReplicaRuntime
from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from pybroker_kafka.protocol.apis.fetch import FetchPartition, FetchRequest, FetchTopic
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pybroker_kafka.protocol.primitives import Records
from pybroker_kafka.protocol.records.batch import read_records
from pybroker_kafka.replication.fetch_session import FetchSessions
from tests.support.frames import joined
from tests.support.handlers import Call
from tests.support.replication import ME, TOPIC, TOPIC_ID, ReplicaCluster


def versions(key: ApiKey) -> range:
    spec = API_TABLE[key]
    return range(spec.min_version, spec.max_version + 1)


# Whom a follower asks.
Asked: TypeAlias = FetchHandler | ListOffsetsHandler | OffsetForLeaderEpochHandler


class HandlerBroker:
    """All handlers of this area over one replica manager."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.cluster = ReplicaCluster(directory, **options)
        self.replica_runtime = ReplicaRuntime(self.cluster.manager, lambda: self.cluster.now_ms)
        ids = iter(range(1, 10_000))
        self.sessions = FetchSessions(lambda low, high: next(ids))
        self.produces = ProduceHandler(self.replica_runtime)
        self.fetches = FetchHandler(self.replica_runtime, self.sessions)
        self.offsets = ListOffsetsHandler(self.replica_runtime)
        self.leader_epochs = OffsetForLeaderEpochHandler(self.cluster.manager)
        self.deletions = DeleteRecordsHandler(self.replica_runtime)
        self.orders = ControllerOrders(self.replica_runtime)
        self.log_dirs = LogDirHandlers(self.replica_runtime, LogDirMover(self.replica_runtime, 1))

    def area_of(self, key: ApiKey) -> Asked:
        """What handles this question of a follower."""
        areas: tuple[Asked, ...] = (self.fetches, self.offsets, self.leader_epochs)
        return next(area for area in areas if key in area.handlers())

    def lead(self, **options: Any) -> None:
        self.cluster.publish(ME)
        self.cluster.role(**options)

    def produce(
        self,
        version: int,
        records: Records | None,
        *,
        acks: int = 1,
        topic: str = TOPIC,
        topic_id: bytes = TOPIC_ID,
        **options: Any,
    ) -> Call:
        message = ProduceRequest(
            acks=acks,
            timeout_ms=1000,
            transactional_id=options.pop("transactional_id", None),
            topic_data=[
                TopicProduceData(
                    name=topic,
                    topic_id=topic_id,
                    partition_data=[PartitionProduceData(index=0, records=records)],
                )
            ],
        )
        return self.call_produce(version, message, **options)

    def call_produce(self, version: int, message: ProduceRequest, **options: Any) -> Call:
        key = ApiKey.PRODUCE
        handle = TopicNames({TOPIC_ID: TOPIC}.get)(key, self.produces.produce, version)
        handlers = SimpleNamespace(handlers=lambda: {key: handle})
        return Call(handlers, key, version, message, **options)

    def produced(self, version: int, records: Records | None, **options: Any) -> Any:
        (topic,) = self.produce(version, records, **options).answer.responses
        (partition,) = topic.partition_responses
        return partition

    def fetch(self, version: int, offset: int = 0, *, max_wait_ms: int = 0, **options: Any) -> Call:
        fields = {"topic_id": TOPIC_ID} if version >= 13 else {"topic": TOPIC}
        fields = options.pop("topic_fields", fields)
        message = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            topics=[
                FetchTopic(
                    **fields,
                    partitions=[
                        FetchPartition(
                            partition=0, fetch_offset=offset, partition_max_bytes=1 << 20
                        )
                    ],
                )
            ],
            **options,
        )
        return Call(self.fetches, ApiKey.FETCH, version, message)

    def fetched(self, version: int, offset: int = 0, **options: Any) -> Any:
        (topic,) = self.fetch(version, offset, **options).answer.responses
        (partition,) = topic.partitions
        return partition


def values(records: Records) -> list[bytes | None]:
    return [record.value for record in read_records(joined([records]))]
