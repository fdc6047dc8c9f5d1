"""LeaderAndIsr, StopReplica, UpdateMetadata, DescribeLogDirs at all versions."""

from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from pybroker_kafka.protocol.apis.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
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
from pybroker_kafka.replication.types import LeadershipResult
from tests.support.handlers import CLOSED, Call
from tests.support.replication import KEY, ME, TOPIC, TOPIC_ID, batch
from tests.support.replication_handlers import HandlerBroker, versions


@pytest.mark.parametrize("version", versions(ApiKey.LEADER_AND_ISR))
def test_leader_and_isr(broker: HandlerBroker, version: int) -> None:
    heard: list[LeadershipResult] = []
    broker.orders.on_leadership.append(heard.append)
    state = LeaderAndIsrPartitionState(partition_index=0, leader=ME, isr=[ME], replicas=[ME])
    message = LeaderAndIsrRequest(controller_id=ME, controller_epoch=1)
    if version < 2:
        state.topic_name = TOPIC
        message.ungrouped_partition_states = [state]
    else:
        message.topic_states = [
            LeaderAndIsrTopicState(topic_name=TOPIC, topic_id=TOPIC_ID, partition_states=[state])
        ]
    answer = Call(broker.orders, ApiKey.LEADER_AND_ISR, version, message).answer
    assert answer.error_code == 0
    if version < 5:
        (error,) = answer.partition_errors
        assert (error.topic_name, error.partition_index, error.error_code) == (TOPIC, 0, 0)
    else:
        (topic,) = answer.topics
        assert topic.topic_id == TOPIC_ID
        assert [(e.partition_index, e.error_code) for e in topic.partition_errors] == [(0, 0)]
    assert broker.cluster.partition.is_leader
    assert [change.topic for change in heard[0].became_leader] == [TOPIC]
    message.controller_epoch = 0
    answer = Call(broker.orders, ApiKey.LEADER_AND_ISR, version, message).answer
    assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert len(heard) == 1


@pytest.mark.parametrize("version", versions(ApiKey.STOP_REPLICA))
def test_stop_replica(broker: HandlerBroker, version: int) -> None:
    broker.lead()
    message = StopReplicaRequest(controller_id=ME, controller_epoch=1)
    if version == 0:
        message.ungrouped_partitions = [StopReplicaPartitionV0(topic_name=TOPIC, partition_index=0)]
    elif version < 3:
        message.topics = [StopReplicaTopicV1(name=TOPIC, partition_indexes=[0])]
    else:
        state = StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
        message.topic_states = [StopReplicaTopicState(topic_name=TOPIC, partition_states=[state])]
    if version < 3:
        message.delete_partitions = True
    answer = Call(broker.orders, ApiKey.STOP_REPLICA, version, message).answer
    (error,) = answer.partition_errors
    assert (error.topic_name, error.partition_index, error.error_code) == (TOPIC, 0, 0)
    assert KEY not in broker.cluster.manager.partitions


@pytest.mark.parametrize("version", versions(ApiKey.UPDATE_METADATA))
def test_update_metadata(broker: HandlerBroker, version: int) -> None:
    updates: list[Any] = []
    broker.orders.on_metadata.append(updates.append)
    broker.cluster.manager.leadership.broker_epoch = 50
    state = UpdateMetadataPartitionState(partition_index=0, leader=2, isr=[2], replicas=[2])
    node = UpdateMetadataBroker(id=2)
    if version == 0:
        node.v0_host, node.v0_port = "h", 9
    else:
        node.endpoints = [UpdateMetadataEndpoint(port=9, host="h")]
    message = UpdateMetadataRequest(controller_id=2, controller_epoch=3, live_brokers=[node])
    if version < 5:
        state.topic_name = TOPIC
        message.ungrouped_partition_states = [state]
    else:
        message.broker_epoch = 50
        message.topic_states = [
            UpdateMetadataTopicState(topic_name=TOPIC, partition_states=[state])
        ]
        if version >= 7:
            message.topic_states[0].topic_id = TOPIC_ID
    if version >= 3:
        node.endpoints[0].listener = "PLAINTEXT"

    def send() -> int:
        answer = Call(broker.orders, ApiKey.UPDATE_METADATA, version, message).answer
        return int(answer.error_code)

    assert send() == 0
    metadata = broker.cluster.metadata
    assert metadata.contains(TOPIC)
    assert metadata.controller_id == 2
    assert (metadata.topic_name(TOPIC_ID) == TOPIC) is (version >= 7)
    message.controller_epoch = 2
    assert send() == ErrorCode.STALE_CONTROLLER_EPOCH
    if version >= 5:
        message.controller_epoch, message.broker_epoch = 3, 49
        assert send() == ErrorCode.STALE_BROKER_EPOCH
    assert len(updates) == 1


def test_what_comes_late_from_a_controller_changes_nothing(broker: HandlerBroker) -> None:
    """A request was sent again on a new connection; then the first one is read after all."""

    def send(leader: int, *, connection: int, epoch: int = 3) -> object:
        state = UpdateMetadataPartitionState(partition_index=0, leader=leader, isr=[2])
        message = UpdateMetadataRequest(
            controller_id=2,
            controller_epoch=epoch,
            topic_states=[UpdateMetadataTopicState(topic_name=TOPIC, partition_states=[state])],
        )
        call = Call(broker.orders, ApiKey.UPDATE_METADATA, 8, message, connection=connection)
        return call.answer if call.answer == CLOSED else ErrorCode(call.answer.error_code)

    def leader() -> int:
        state = broker.cluster.metadata.partition_state(TOPIC, 0)
        assert state is not None
        return state.leader

    assert send(-1, connection=7) is ErrorCode.NONE
    assert send(-1, connection=8) is ErrorCode.NONE
    assert send(2, connection=8) is ErrorCode.NONE
    assert send(-1, connection=7) == CLOSED
    assert leader() == 2
    stop = StopReplicaRequest(controller_id=2, controller_epoch=3)
    late = Call(broker.orders, ApiKey.STOP_REPLICA, 4, stop, connection=7)
    assert late.answer == CLOSED
    lead = LeaderAndIsrRequest(controller_id=2, controller_epoch=3)
    late = Call(broker.orders, ApiKey.LEADER_AND_ISR, 7, lead, connection=7)
    assert late.answer == CLOSED
    # The next controller may have been connected for longer.
    assert send(3, connection=5, epoch=4) is ErrorCode.NONE
    assert leader() == 3


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_LOG_DIRS))
def test_describe_log_dirs(tmp_path: Path, version: int) -> None:
    broker = HandlerBroker(tmp_path, dirs=2)
    for index in (0, 1, 2):
        broker.cluster.role(partition=index)
    broker.produced(9, batch())

    def describe(topics: list[DescribableLogDirTopic] | None) -> list[DescribeLogDirsResult]:
        message = DescribeLogDirsRequest(topics=topics)
        answer = Call(broker.log_dirs, ApiKey.DESCRIBE_LOG_DIRS, version, message).answer
        assert isinstance(answer, DescribeLogDirsResponse)
        return answer.results

    results = describe(None)
    assert len(results) == 2
    sizes = {
        partition.partition_index: partition.partition_size
        for result in results
        for topic in result.topics
        for partition in topic.partitions
    }
    assert sizes == {0: len(batch()), 1: 0, 2: 0}
    assert all((result.total_bytes > 0) is (version >= 4) for result in results)
    only = describe([DescribableLogDirTopic(topic=TOPIC, partitions=[1])])
    assert sum(len(topic.partitions) for result in only for topic in result.topics) == 1
    broker.cluster.partition.log.health.fail(OSError("gone"))
    errors = {result.error_code for result in describe(None)}
    assert errors == {0, ErrorCode.KAFKA_STORAGE_ERROR}
