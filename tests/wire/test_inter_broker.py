"""What the controller and other brokers send, in every version: epochs first, then the effect."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.allocate_producer_ids import AllocateProducerIdsRequest
from pybroker_kafka.protocol.apis.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from pybroker_kafka.protocol.apis.controlled_shutdown import ControlledShutdownRequest
from pybroker_kafka.protocol.apis.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import iter_batch_headers
from tests.support.wire import Topic, WireClient, batch, covers, unique
from tests.wire.control_steps import ABSENT_BROKER, Control, metadata_of

DELETED = -2
NONE = ErrorCode.NONE
STALE_CONTROLLER, STALE_BROKER = ErrorCode.STALE_CONTROLLER_EPOCH, ErrorCode.STALE_BROKER_EPOCH


@pytest.fixture
def control(kafka: WireClient) -> Control:
    return Control(kafka)


@covers(ApiKey.LEADER_AND_ISR)
def test_leadership_in_every_version(kafka: WireClient, control: Control) -> None:
    topic = kafka.create_topic()
    for count, version in enumerate(kafka.versions(ApiKey.LEADER_AND_ISR)):
        epoch = version + 1
        assert control.lead(version, topic, epoch) == (NONE, [NONE])
        assert kafka.append(topic.name, b"value") == count
        answer = kafka.fetch(topic, current_leader_epoch=epoch)
        headers = [header for _, header in iter_batch_headers(answer.records)]
        assert headers[-1].partition_leader_epoch == epoch
        for old in (epoch, epoch - 1):
            assert control.lead(version, topic, old) == (NONE, [STALE_CONTROLLER])
        answer = kafka.fetch(topic, current_leader_epoch=epoch - 1)
        assert answer.error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_stale_leadership_changes_nothing(kafka: WireClient, control: Control) -> None:
    topic = kafka.create_topic()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for version in kafka.versions(ApiKey.LEADER_AND_ISR):
        assert control.lead(version, topic, 5, controller_epoch=0) == (
            STALE_CONTROLLER,
            [STALE_CONTROLLER],
        )
        if version >= 2:
            refused = control.lead(version, topic, 5, broker_epoch=0)
            assert refused == (STALE_BROKER, [STALE_BROKER])
        if version >= 5:
            other = Topic(topic.name, b"\x05" * 16)
            inconsistent = ErrorCode.INCONSISTENT_TOPIC_ID
            assert control.lead(version, other, 5) == (NONE, [inconsistent])
        refused = control.lead(version, topic, 5, leader=ABSENT_BROKER, replicas=[ABSENT_BROKER])
        assert refused == (NONE, [unknown])
        assert kafka.fetch(topic, current_leader_epoch=0).error_code == 0
        assert kafka.fetch(topic, current_leader_epoch=5).error_code != 0


def hosted_size(kafka: WireClient, topic: Topic) -> int | None:
    asked = DescribableLogDirTopic(topic=topic.name, partitions=[0])
    (result,) = kafka.call(DescribeLogDirsRequest(topics=[asked])).results
    sizes = [part.partition_size for answered in result.topics for part in answered.partitions]
    return sizes[0] if sizes else None


@covers(ApiKey.STOP_REPLICA)
def test_replicas_are_stopped_in_every_version(kafka: WireClient, control: Control) -> None:
    for version in kafka.versions(ApiKey.STOP_REPLICA):
        topic = kafka.create_topic()
        records = batch(b"value")
        assert kafka.produce(topic.name, records).error_code == 0
        assert control.stop(version, topic, delete=False) == (NONE, [NONE])
        # Without deletion only its fetching stops, which a leader does not do.
        assert hosted_size(kafka, topic) == len(records)
        assert kafka.append(topic.name, b"another") == 1
        assert control.lead(5, topic, 1) == (NONE, [NONE])
        assert len(kafka.read(topic)) == 2
        assert control.stop(version, topic, delete=True, leader_epoch=1) == (NONE, [NONE])
        assert hosted_size(kafka, topic) is None
        assert kafka.produce(topic.name, records).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_stale_stops_change_nothing(kafka: WireClient, control: Control) -> None:
    topic = kafka.create_topic()
    assert control.lead(5, topic, 3) == (NONE, [NONE])
    for version in kafka.versions(ApiKey.STOP_REPLICA):
        stale = control.stop(version, topic, delete=True, controller_epoch=0)
        assert stale == (STALE_CONTROLLER, [])
        if version >= 1:
            assert control.stop(version, topic, delete=True, broker_epoch=0) == (STALE_BROKER, [])
        if version >= 3:
            fenced = control.stop(version, topic, delete=True, leader_epoch=2)
            assert fenced == (NONE, [ErrorCode.FENCED_LEADER_EPOCH])
        assert kafka.produce(topic.name, batch(b"value")).error_code == 0
    # A replica that is not there is stopped already.
    assert control.stop(4, Topic(unique("missing"), bytes(16)), delete=True) == (NONE, [NONE])


@covers(ApiKey.UPDATE_METADATA)
def test_metadata_is_pushed_in_every_version(kafka: WireClient, control: Control) -> None:
    other = kafka.create_topic()
    for version in kafka.versions(ApiKey.UPDATE_METADATA):
        topic = kafka.create_topic()
        assert control.update(version, topic, 40 + version) == NONE
        seen = metadata_of(kafka, topic)
        assert [(b.node_id, b.host, b.port) for b in seen.brokers] == [
            (control.me, control.host, control.port)
        ]
        (answer,) = seen.topics
        if version >= 7:
            assert answer.topic_id == topic.id
        (part,) = answer.partitions
        assert (part.error_code, part.leader_id, part.leader_epoch) == (
            0,
            control.me,
            40 + version,
        )
        assert (part.isr_nodes, part.replica_nodes) == ([control.me], [control.me, ABSENT_BROKER])
        assert part.offline_replicas == ([ABSENT_BROKER] if version >= 4 else [])
        assert metadata_of(kafka, other).topics[0].error_code == 0
        assert control.update(version, topic, DELETED, leader=DELETED) == NONE
        (answer,) = metadata_of(kafka, topic).topics
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert metadata_of(kafka, other).topics[0].error_code == 0


def test_stale_metadata_changes_nothing(kafka: WireClient, control: Control) -> None:
    topic = kafka.create_topic()
    before = metadata_of(kafka, topic)
    for version in kafka.versions(ApiKey.UPDATE_METADATA):
        assert control.update(version, topic, 50, controller_epoch=0) == STALE_CONTROLLER
        if version >= 5:
            assert control.update(version, topic, 50, broker_epoch=0) == STALE_BROKER
        assert metadata_of(kafka, topic) == before


def alter_partition(
    control: Control,
    version: int,
    topic: Topic,
    isr: list[int],
    *,
    broker_epoch: int | None = None,
    broker_id: int | None = None,
    partition: int = 0,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
) -> tuple[int, Any]:
    """The error of the request, and the answer for the partition."""
    part = AlterPartitionRequestPartitionData(
        partition_index=partition, leader_epoch=leader_epoch, partition_epoch=partition_epoch
    )
    if version >= 3:
        part.new_isr_with_epochs = [BrokerState(broker_id=one) for one in isr]
    else:
        part.new_isr = isr
    request = AlterPartitionRequest(
        broker_id=control.me if broker_id is None else broker_id,
        broker_epoch=control.broker_epoch if broker_epoch is None else broker_epoch,
        topics=[
            AlterPartitionRequestTopicData(
                topic_name=topic.name, topic_id=topic.id, partitions=[part]
            )
        ],
    )
    response = control.kafka.call(request, version)
    assert response.throttle_time_ms == 0
    parts = [part for answered in response.topics for part in answered.partitions]
    if response.error_code:
        assert parts == []
        return response.error_code, None
    (answered,) = response.topics
    assert answered.topic_name == (topic.name if version < 2 else "")
    assert answered.topic_id == (topic.id if version >= 2 else bytes(16))
    (answer,) = parts
    assert answer.partition_index == partition
    return 0, answer


@covers(ApiKey.ALTER_PARTITION)
def test_isr_changes_in_every_version(kafka: WireClient, control: Control) -> None:
    topic = kafka.create_topic()
    me = control.me
    for version in kafka.versions(ApiKey.ALTER_PARTITION):
        error, answer = alter_partition(control, version, topic, [me])
        assert (error, answer.error_code) == (0, 0)
        assert (answer.leader_id, answer.leader_epoch, answer.isr) == (me, 0, [me])
        assert (answer.partition_epoch, answer.leader_recovery_state) == (0, 0)
        ineligible = ErrorCode.INELIGIBLE_REPLICA
        if version < 2:
            ineligible = ErrorCode.OPERATION_NOT_ATTEMPTED
        missing = Topic(unique("missing"), b"\x06" * 16)
        no_topic = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if version >= 2:
            no_topic = ErrorCode.UNKNOWN_TOPIC_ID
        cases: list[tuple[Topic, list[int], dict[str, int], ErrorCode]] = [
            (topic, [me, ABSENT_BROKER], {}, ineligible),
            (topic, [me], {"leader_epoch": 7}, ErrorCode.NOT_CONTROLLER),
            (topic, [me], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
            (topic, [me], {"partition_epoch": 7}, ErrorCode.NOT_CONTROLLER),
            (topic, [me], {"partition": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (missing, [me], {}, no_topic),
        ]
        for asked, isr, options, expected in cases:
            error, answer = alter_partition(control, version, asked, isr, **options)
            assert (error, answer.error_code) == (0, expected), options
        stale = alter_partition(control, version, topic, [me], broker_epoch=0)
        assert stale == (STALE_BROKER, None)
        stranger = alter_partition(control, version, topic, [me], broker_id=ABSENT_BROKER)
        assert stranger == (STALE_BROKER, None)
    (part,) = metadata_of(kafka, topic).topics[0].partitions
    assert (part.isr_nodes, part.leader_epoch) == ([me], 0)


@covers(ApiKey.ALLOCATE_PRODUCER_IDS)
def test_producer_ids_come_in_blocks(kafka: WireClient, control: Control) -> None:
    for version in kafka.versions(ApiKey.ALLOCATE_PRODUCER_IDS):
        starts = []
        for _ in range(3):
            request = AllocateProducerIdsRequest(
                broker_id=control.me, broker_epoch=control.broker_epoch
            )
            answer = kafka.call(request, version)
            assert (answer.error_code, answer.producer_id_len) == (0, 1000)
            starts.append(answer.producer_id_start)
        assert starts == [starts[0], starts[0] + 1000, starts[0] + 2000]
        refused = {
            (control.me, 0): STALE_BROKER,
            (ABSENT_BROKER, control.broker_epoch): ErrorCode.BROKER_ID_NOT_REGISTERED,
        }
        for (broker_id, epoch), error in refused.items():
            request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)
            answer = kafka.call(request, version)
            assert (answer.error_code, answer.producer_id_len) == (error, 0)


@covers(ApiKey.CONTROLLED_SHUTDOWN)
def test_shutdowns_that_are_refused(kafka: WireClient, control: Control) -> None:
    topic = kafka.create_topic()
    for version in kafka.versions(ApiKey.CONTROLLED_SHUTDOWN):
        answer = kafka.call(ControlledShutdownRequest(broker_id=ABSENT_BROKER), version)
        assert answer.error_code == ErrorCode.BROKER_NOT_AVAILABLE
        assert answer.remaining_partitions == []
        if version >= 2:
            request = ControlledShutdownRequest(broker_id=control.me, broker_epoch=0)
            answer = kafka.call(request, version)
            assert (answer.error_code, answer.remaining_partitions) == (STALE_BROKER, [])
        # Nothing has moved: the broker still leads old and new partitions.
        assert kafka.append(topic.name, b"value") == version
        assert kafka.append(kafka.create_topic().name, b"value") == 0
