"""Requests of a controller to a broker, in the form that each version has.

A test that sends them plays the controller for topics of its own: it uses the epochs that the
broker accepts, which it finds by trying.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pybroker_kafka.protocol.apis.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.apis.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from pybroker_kafka.protocol.apis.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.schema import Message
from tests.support.wire import Topic, WireClient

UNKNOWN_EPOCH = -1
ABSENT_BROKER = 99
MAX_BROKER_EPOCH = 1 << 40


class Control:
    """What a controller knows: the broker's id and address, and both epochs."""

    def __init__(self, kafka: WireClient) -> None:
        self.kafka = kafka
        me = kafka.me()
        self.me, self.host, self.port = me.node_id, me.host, me.port
        self.controller_epoch = 0
        while self._probe(UNKNOWN_EPOCH) == ErrorCode.STALE_CONTROLLER_EPOCH:
            self.controller_epoch += 1
        self.broker_epoch = self._search_broker_epoch()

    def _call(self, request: Message, version: int) -> Any:
        """On a connection of its own: the broker's real controller has gone on to its latest."""
        with self.kafka.another() as fresh:
            answer = fresh.call(request, version)
            self.kafka.exchanges.extend(fresh.exchanges)
        return answer

    def _probe(self, broker_epoch: int) -> int:
        """What the broker says to a LeaderAndIsr without partitions."""
        request = LeaderAndIsrRequest(
            controller_id=self.me,
            controller_epoch=self.controller_epoch,
            broker_epoch=broker_epoch,
        )
        error: int = self._call(request, 4).error_code
        return error

    def _search_broker_epoch(self) -> int:
        """The smallest that is not stale."""
        low, high = 0, MAX_BROKER_EPOCH
        while low < high:
            middle = (low + high) // 2
            if self._probe(middle) == ErrorCode.STALE_BROKER_EPOCH:
                low = middle + 1
            else:
                high = middle
        return low

    # LeaderAndIsr

    def lead(
        self,
        version: int,
        topic: Topic,
        leader_epoch: int,
        *,
        leader: int | None = None,
        replicas: Sequence[int] | None = None,
        controller_epoch: int | None = None,
        broker_epoch: int = UNKNOWN_EPOCH,
    ) -> tuple[int, list[int]]:
        """The errors of the request and of its one partition."""
        state = LeaderAndIsrPartitionState(
            topic_name=topic.name,
            partition_index=0,
            controller_epoch=self.controller_epoch,
            leader=self.me if leader is None else leader,
            leader_epoch=leader_epoch,
            isr=[self.me if leader is None else leader],
            partition_epoch=leader_epoch,
            replicas=list(replicas or [self.me]),
        )
        request = LeaderAndIsrRequest(
            controller_id=self.me,
            controller_epoch=(
                self.controller_epoch if controller_epoch is None else controller_epoch
            ),
            broker_epoch=broker_epoch,
            live_leaders=[
                LeaderAndIsrLiveLeader(broker_id=self.me, host_name=self.host, port=self.port)
            ],
        )
        if version >= 2:
            grouped = LeaderAndIsrTopicState(
                topic_name=topic.name, topic_id=topic.id, partition_states=[state]
            )
            request.topic_states = [grouped]
        else:
            request.ungrouped_partition_states = [state]
        response = self._call(request, version)
        errors = response.partition_errors
        if version >= 5:
            assert errors == []
            errors = [error for answered in response.topics for error in answered.partition_errors]
            assert all(answered.topic_id == topic.id for answered in response.topics)
        else:
            assert response.topics == []
            assert all(error.topic_name == topic.name for error in errors)
        assert all(error.partition_index == 0 for error in errors)
        return response.error_code, [error.error_code for error in errors]

    def follow(self, topic: Topic, leader_epoch: int) -> None:
        """Make the broker a follower of one that it thinks alive for a moment."""
        assert self.update(8, topic, leader_epoch, leader=ABSENT_BROKER, with_another=True) == 0
        replicas = [ABSENT_BROKER, self.me]
        answer = self.lead(7, topic, leader_epoch, leader=ABSENT_BROKER, replicas=replicas)
        assert answer == (0, [0])
        assert self.update(8, topic, leader_epoch, leader=ABSENT_BROKER) == 0

    # StopReplica

    def stop(
        self,
        version: int,
        topic: Topic,
        *,
        delete: bool,
        leader_epoch: int = UNKNOWN_EPOCH,
        controller_epoch: int | None = None,
        broker_epoch: int = UNKNOWN_EPOCH,
    ) -> tuple[int, list[int]]:
        request = StopReplicaRequest(
            controller_id=self.me,
            controller_epoch=(
                self.controller_epoch if controller_epoch is None else controller_epoch
            ),
            broker_epoch=broker_epoch,
        )
        if version >= 3:
            state = StopReplicaPartitionState(
                partition_index=0, leader_epoch=leader_epoch, delete_partition=delete
            )
            request.topic_states = [
                StopReplicaTopicState(topic_name=topic.name, partition_states=[state])
            ]
        elif version >= 1:
            request.delete_partitions = delete
            request.topics = [StopReplicaTopicV1(name=topic.name, partition_indexes=[0])]
        else:
            request.delete_partitions = delete
            request.ungrouped_partitions = [
                StopReplicaPartitionV0(topic_name=topic.name, partition_index=0)
            ]
        response = self._call(request, version)
        for error in response.partition_errors:
            assert (error.topic_name, error.partition_index) == (topic.name, 0)
        return response.error_code, [error.error_code for error in response.partition_errors]

    # UpdateMetadata

    def update(
        self,
        version: int,
        topic: Topic,
        leader_epoch: int,
        *,
        leader: int | None = None,
        controller_epoch: int | None = None,
        broker_epoch: int = UNKNOWN_EPOCH,
        with_another: bool = False,
    ) -> int:
        """The broker and one absent replica, which is offline, or (v3+) a broker like any other."""
        state = UpdateMetadataPartitionState(
            topic_name=topic.name,
            partition_index=0,
            controller_epoch=self.controller_epoch,
            leader=self.me if leader is None else leader,
            leader_epoch=leader_epoch,
            isr=[self.me],
            zk_version=leader_epoch,
            replicas=[self.me, ABSENT_BROKER],
            offline_replicas=[ABSENT_BROKER],
        )
        endpoint = UpdateMetadataEndpoint(
            port=self.port, host=self.host, listener="PLAINTEXT", security_protocol=0
        )
        request = UpdateMetadataRequest(
            controller_id=self.me,
            controller_epoch=(
                self.controller_epoch if controller_epoch is None else controller_epoch
            ),
            broker_epoch=broker_epoch,
            live_brokers=[
                UpdateMetadataBroker(
                    id=self.me,
                    v0_host=self.host,
                    v0_port=self.port,
                    endpoints=[endpoint],
                    rack=None,
                )
            ],
        )
        if with_another:
            nowhere = UpdateMetadataEndpoint(
                port=1, host=self.host, listener="PLAINTEXT", security_protocol=0
            )
            another = UpdateMetadataBroker(id=ABSENT_BROKER, endpoints=[nowhere], rack=None)
            request.live_brokers.append(another)
            state.offline_replicas = []
        if version >= 5:
            request.topic_states = [
                UpdateMetadataTopicState(
                    topic_name=topic.name, topic_id=topic.id, partition_states=[state]
                )
            ]
        else:
            request.ungrouped_partition_states = [state]
        error: int = self._call(request, version).error_code
        return error


def metadata_of(kafka: WireClient, topic: Topic) -> Any:
    """The newest Metadata answer about a topic, with everything else that it says."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic.name)], allow_auto_topic_creation=False
    )
    return kafka.call(request)
