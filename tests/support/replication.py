"""A replica manager over real logs in a temporary directory; the test plays the controller."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pybroker_kafka.protocol.apis.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from pybroker_kafka.protocol.apis.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.replication.metadata_cache import MetadataCache
from pybroker_kafka.replication.partition import Partition
from pybroker_kafka.replication.replica_manager import ReplicaManager
from pybroker_kafka.replication.types import (
    Done,
    FetchEntry,
    FetchParams,
    FetchResults,
    Isolation,
    LeadershipResult,
    Parked,
    ProduceResults,
    ReplicaConfig,
    ReplicatedAppend,
)
from pybroker_kafka.storage.files import Files
from pybroker_kafka.storage.log_config import LogConfig
from pybroker_kafka.storage.log_manager import LogManager

ME = 1
TOPIC = "topic"
TOPIC_ID = bytes(range(16))
NOW = 1_700_000_000_000
KEY = (TOPIC, 0)


def batch(*values: bytes, timestamp: int = NOW) -> bytearray:
    return build_batch([SimpleRecord(timestamp, None, value) for value in values or (b"value",)])


class Completed(NamedTuple):
    """An operation that has waited; its result is that of the kind of request it was."""

    token: object
    result: Any


R = TypeVar("R")


def done(outcome: Done[R] | Parked) -> R:
    """The result of an operation that does not wait."""
    assert isinstance(outcome, Done)
    return outcome.result


class ReplicaCluster:
    """One broker's replica manager; the test plays the controller and the other brokers."""

    def __init__(
        self,
        directory: Path,
        *,
        dirs: int = 1,
        files: Files | None = None,
        config: ReplicaConfig | None = None,
        topic_config: dict[str, str] | None = None,
        broker_id: int = ME,
    ) -> None:
        self.now_ms = NOW
        self.topic_config = topic_config or {}
        paths = [directory / f"logs{index}" for index in range(dirs)]
        for path in paths:
            path.mkdir(exist_ok=True)
        self.files = files or Files()
        self.log_manager = LogManager(
            [str(path) for path in paths],
            self.files,
            LogConfig.from_overrides({}, {}),
            broker_id=broker_id,
            cluster_id="cluster",
        )
        self.log_manager.load(self.now_ms)
        self.metadata = MetadataCache(broker_id, "cluster")
        self.manager = ReplicaManager(
            config or ReplicaConfig(broker_id=broker_id),
            self.log_manager,
            self.metadata,
            self.config_for,
            now_ms=self.now_ms,
        )
        self.controller_epoch = 1
        self.alive([ME, 2, 3])

    def config_for(self, topic: str) -> LogConfig:
        return LogConfig.from_overrides(self.topic_config, {})

    # The controller

    def alive(self, brokers: Iterable[int], racks: dict[int, str] | None = None) -> None:
        self.metadata.update(
            UpdateMetadataRequest(
                controller_id=ME,
                controller_epoch=1,
                live_brokers=[
                    UpdateMetadataBroker(
                        id=broker,
                        rack=(racks or {}).get(broker),
                        endpoints=[
                            UpdateMetadataEndpoint(
                                host=f"host{broker}", port=9000 + broker, listener="PLAINTEXT"
                            )
                        ],
                    )
                    for broker in brokers
                ],
            )
        )

    def publish(
        self, leader: int, *, topic: str = TOPIC, partition: int = 0, leader_epoch: int = 0
    ) -> None:
        """UpdateMetadata of one partition."""
        request = UpdateMetadataRequest(
            topic_states=[
                UpdateMetadataTopicState(
                    topic_name=topic,
                    topic_id=TOPIC_ID,
                    partition_states=[
                        UpdateMetadataPartitionState(
                            partition_index=partition, leader=leader, leader_epoch=leader_epoch
                        )
                    ],
                )
            ]
        )
        brokers = [
            UpdateMetadataBroker(
                id=node.broker_id,
                rack=node.rack,
                endpoints=[
                    UpdateMetadataEndpoint(host=e.host, port=e.port, listener=e.listener)
                    for e in node.endpoints.values()
                ],
            )
            for node in self.metadata.alive_brokers().values()
        ]
        request.live_brokers = brokers
        self.metadata.update(request)

    def role(
        self,
        leader: int = ME,
        *,
        replicas: Sequence[int] = (ME,),
        isr: Sequence[int] | None = None,
        leader_epoch: int = 0,
        partition_epoch: int | None = None,
        topic: str = TOPIC,
        partition: int = 0,
        topic_id: bytes = TOPIC_ID,
        controller_epoch: int | None = None,
        broker_epoch: int = -1,
        is_new: bool = False,
    ) -> LeadershipResult:
        """LeaderAndIsr for one partition."""
        return self.manager.leadership.become_leader_or_follower(
            LeaderAndIsrRequest(
                controller_id=ME,
                controller_epoch=controller_epoch or self.controller_epoch,
                broker_epoch=broker_epoch,
                topic_states=[
                    LeaderAndIsrTopicState(
                        topic_name=topic,
                        topic_id=topic_id,
                        partition_states=[
                            LeaderAndIsrPartitionState(
                                partition_index=partition,
                                leader=leader,
                                leader_epoch=leader_epoch,
                                isr=list(replicas if isr is None else isr),
                                replicas=list(replicas),
                                is_new=is_new,
                                partition_epoch=(
                                    leader_epoch if partition_epoch is None else partition_epoch
                                ),
                            )
                        ],
                    )
                ],
            ),
            self.now_ms,
        )

    # Clients and followers

    def produce(
        self, token: object, *values: bytes, acks: int = -1, timeout_ms: int = 1000
    ) -> Done[ProduceResults] | Parked:
        return self.manager.appends.append(
            token, {KEY: batch(*values)}, ReplicatedAppend(acks, timeout_ms, self.now_ms)
        )

    def fetch(
        self,
        token: object,
        offset: int,
        *,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
        replica_id: int = -1,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        log_start_offset: int = -1,
        **entry: Any,
    ) -> Done[FetchResults] | Parked:
        params = FetchParams(
            replica_id,
            max_wait_ms,
            min_bytes,
            2**31 - 1,
            Isolation.LOG_END if replica_id >= 0 else isolation,
        )
        entries = [
            FetchEntry(
                TOPIC,
                0,
                fetch_offset=offset,
                max_bytes=1 << 20,
                log_start_offset=log_start_offset,
                **entry,
            )
        ]
        return self.manager.fetches.fetch(token, params, entries, self.now_ms)

    def follow(self, broker_id: int, offset: int, **options: Any) -> Done[FetchResults] | Parked:
        """A follower's fetch that does not wait."""
        options.setdefault("log_start_offset", 0)
        return self.fetch("follower", offset, replica_id=broker_id, max_wait_ms=0, **options)

    def completed(self) -> list[Completed]:
        return [Completed(*completion) for completion in self.manager.take_completed()]

    @property
    def partition(self) -> Partition:
        return self.manager.partitions[KEY]
