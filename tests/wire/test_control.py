"""What brokers and administrators ask of the controller, in every version."""

from __future__ import annotations

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.allocate_producer_ids import AllocateProducerIdsRequest
from pybroker_kafka.protocol.apis.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
)
from pybroker_kafka.protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pybroker_kafka.protocol.apis.controlled_shutdown import ControlledShutdownRequest
from pybroker_kafka.protocol.apis.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
)
from pybroker_kafka.protocol.apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from pybroker_kafka.protocol.apis.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.wire import WireClient, covers

NOBODY = 99


@covers(ApiKey.ALTER_PARTITION)
def test_isr_changes_of_an_unknown_broker_are_stale(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    for version in kafka.versions(ApiKey.ALTER_PARTITION):
        asked = AlterPartitionRequestTopicData(
            partitions=[AlterPartitionRequestPartitionData(partition_index=0)]
        )
        if version < 2:
            asked.topic_name = topic.name
        else:
            asked.topic_id = topic.id
        request = AlterPartitionRequest(broker_id=NOBODY, broker_epoch=1, topics=[asked])
        answer = kafka.call(request, version)
        assert (answer.error_code, answer.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])


@covers(ApiKey.CONTROLLED_SHUTDOWN)
def test_shutdown_of_an_unknown_broker(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.CONTROLLED_SHUTDOWN):
        request = ControlledShutdownRequest(broker_id=NOBODY)
        answer = kafka.call(request, version)
        assert answer.error_code == ErrorCode.BROKER_NOT_AVAILABLE
        assert answer.remaining_partitions == []


@covers(ApiKey.ALLOCATE_PRODUCER_IDS)
def test_producer_ids_are_given_to_registered_brokers_only(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.ALLOCATE_PRODUCER_IDS):
        unknown = AllocateProducerIdsRequest(broker_id=NOBODY, broker_epoch=1)
        assert kafka.call(unknown, version).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=1)
        assert kafka.call(stale, version).error_code == ErrorCode.STALE_BROKER_EPOCH


@covers(ApiKey.ELECT_LEADERS)
def test_elections_that_are_not_needed(kafka: WireClient) -> None:
    topic = kafka.create_topic(partitions=2)
    for version in kafka.versions(ApiKey.ELECT_LEADERS):
        for election in (0, 1) if version else (0,):
            asked = [
                ElectLeadersRequestTopicPartitions(topic=topic.name, partitions=[0, 1, 7]),
                ElectLeadersRequestTopicPartitions(topic="ghost", partitions=[0]),
            ]
            request = ElectLeadersRequest(topic_partitions=asked, timeout_ms=1000)
            if version:
                request.election_type = election
            answer = kafka.call(request, version)
            if version:
                assert answer.error_code == ErrorCode.NONE
            found = {
                (result.topic, partition.partition_id): partition.error_code
                for result in answer.replica_election_results
                for partition in result.partition_result
            }
            assert found == {
                (topic.name, 0): ErrorCode.ELECTION_NOT_NEEDED,
                (topic.name, 1): ErrorCode.ELECTION_NOT_NEEDED,
                (topic.name, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ("ghost", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }


def test_electing_everywhere_leaves_out_what_is_not_needed(kafka: WireClient) -> None:
    kafka.create_topic()
    answer = kafka.call(ElectLeadersRequest(topic_partitions=None, timeout_ms=1000))
    assert (answer.error_code, answer.replica_election_results) == (ErrorCode.NONE, [])


@covers(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
def test_reassignments_that_are_refused_and_one_that_is_done_at_once(kafka: WireClient) -> None:
    topic = kafka.create_topic(partitions=2)
    me = kafka.me()
    targets: dict[tuple[str, int], list[int] | None] = {
        (topic.name, 0): [me.node_id],
        (topic.name, 1): None,
        (topic.name, 2): [me.node_id],
        ("ghost", 0): [NOBODY],
        ("ghost", 1): [],
        ("ghost", 2): None,
    }
    asked = [
        ReassignableTopic(
            name=name,
            partitions=[
                ReassignablePartition(partition_index=index, replicas=replicas)
                for (of, index), replicas in targets.items()
                if of == name
            ],
        )
        for name in (topic.name, "ghost")
    ]
    for version in kafka.versions(ApiKey.ALTER_PARTITION_REASSIGNMENTS):
        answer = kafka.call(AlterPartitionReassignmentsRequest(topics=asked), version)
        assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
        found = {
            (result.name, partition.partition_index): partition.error_code
            for result in answer.responses
            for partition in result.partitions
        }
        assert found == {
            (topic.name, 0): ErrorCode.NONE,
            (topic.name, 1): ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            (topic.name, 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("ghost", 0): ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ("ghost", 1): ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ("ghost", 2): ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        }


@covers(ApiKey.LIST_PARTITION_REASSIGNMENTS)
def test_no_reassignment_is_under_way(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    asked = ListPartitionReassignmentsTopics(name=topic.name, partition_indexes=[0, 9])
    for version in kafka.versions(ApiKey.LIST_PARTITION_REASSIGNMENTS):
        for topics in (None, [], [asked]):
            answer = kafka.call(ListPartitionReassignmentsRequest(topics=topics), version)
            assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
            assert answer.topics == []


@covers(ApiKey.UPDATE_FEATURES)
def test_there_is_no_feature_to_update(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.UPDATE_FEATURES):
        updates = [
            FeatureUpdateKey(feature="", max_version_level=1),
            FeatureUpdateKey(feature="raise", max_version_level=1),
            FeatureUpdateKey(feature="drop", max_version_level=0),
        ]
        for update in updates:
            if version == 0:
                update.allow_downgrade = update.feature == "drop"
            else:
                update.upgrade_type = 2 if update.feature == "drop" else 1
        if version:
            updates.append(FeatureUpdateKey(feature="how", max_version_level=1, upgrade_type=9))
        answer = kafka.call(UpdateFeaturesRequest(feature_updates=updates), version)
        assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
        # In the order of a hash map in Apache Kafka.
        expected = ["", "drop", "how", "raise"] if version else ["", "drop", "raise"]
        assert [result.feature for result in answer.results] == expected
        for result in answer.results:
            assert result.error_code == ErrorCode.INVALID_REQUEST
            assert result.error_message
