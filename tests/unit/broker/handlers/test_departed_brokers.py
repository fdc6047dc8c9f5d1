"""A broker that is gone stays in Metadata's list of brokers for a moment, and nowhere else."""

from typing import Any

from pybroker_kafka.broker.handlers.describe_cluster import DescribeClusterHandler
from pybroker_kafka.broker.handlers.metadata import DEPARTED_LISTED_MS, MetadataHandler
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.describe_cluster import DescribeClusterRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.apis.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.metadata_cache import MetadataCache
from tests.support.handlers import Call


class Serving:
    """Broker 1 with its clock, as the controller tells it who is alive and who leads."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.cache = MetadataCache(1, "cluster")
        self.handlers = MetadataHandler(self.cache, clock=lambda: self.now_ms)

    def told(self, *alive: int, leader: int, port: int = 9000) -> None:
        partition = UpdateMetadataPartitionState(
            partition_index=0, leader=leader, isr=[leader], replicas=[1, 2]
        )
        brokers = [
            UpdateMetadataBroker(
                id=broker_id,
                endpoints=[
                    UpdateMetadataEndpoint(
                        port=port + broker_id, host="h", listener="PLAINTEXT", security_protocol=0
                    )
                ],
            )
            for broker_id in alive
        ]
        topic = UpdateMetadataTopicState(topic_name="t", partition_states=[partition])
        request = UpdateMetadataRequest(topic_states=[topic], live_brokers=brokers)
        self.handlers.metadata_changed(self.cache.update(request))

    def metadata(self) -> tuple[dict[int, int], int, int]:
        """Broker -> port; the partition's leader and error."""
        answer: Any = Call(self.handlers, ApiKey.METADATA, 12, MetadataRequest(topics=None)).answer
        (topic,) = answer.topics
        (partition,) = topic.partitions
        ports = {broker.node_id: broker.port for broker in answer.brokers}
        return ports, partition.leader_id, partition.error_code

    def described(self) -> set[int]:
        call = Call(
            DescribeClusterHandler(self.cache), ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest()
        )
        return {broker.broker_id for broker in call.answer.brokers}


def test_its_partitions_move_while_it_is_listed() -> None:
    serving = Serving()
    serving.told(1, 2, leader=2)
    serving.told(1, leader=1)
    assert serving.metadata() == ({1: 9001, 2: 9002}, 1, ErrorCode.NONE)
    assert serving.described() == {1}
    assert set(serving.cache.alive_brokers()) == {1}
    serving.now_ms += DEPARTED_LISTED_MS - 1
    assert set(serving.metadata()[0]) == {1, 2}
    serving.now_ms += 1
    assert set(serving.metadata()[0]) == {1}


def test_it_leads_nothing() -> None:
    serving = Serving()
    serving.told(1, 2, leader=2)
    serving.told(1, leader=2)  # nobody else is elected yet
    assert serving.metadata() == ({1: 9001, 2: 9002}, -1, ErrorCode.LEADER_NOT_AVAILABLE)


def test_it_comes_back_elsewhere_and_leaves_again() -> None:
    serving = Serving()
    serving.told(1, 2, leader=1)
    serving.told(1, leader=1)
    serving.told(1, 2, leader=1, port=9500)
    assert serving.metadata()[0] == {1: 9501, 2: 9502}
    serving.now_ms += DEPARTED_LISTED_MS
    serving.told(1, leader=1, port=9500)
    serving.told(1, leader=1, port=9500)  # told again: it is not listed for longer
    serving.now_ms += DEPARTED_LISTED_MS - 1
    assert serving.metadata()[0] == {1: 9501, 2: 9502}
    serving.now_ms += 1
    assert serving.metadata()[0] == {1: 9501}
