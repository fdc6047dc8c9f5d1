"""What the controller sends to brokers: LeaderAndIsr, StopReplica and UpdateMetadata.

LeaderAndIsr: partitions stand in one list until version 1 and by topic from 2 on; 3 adds
reassignment states; 5 topic ids; 6 the recovery state of leaders (KIP-704); 7 the KRaft flag
(KIP-866). StopReplica: 1 is a flat list of partitions by topic, 3 gives leader epochs and a
delete flag for each. UpdateMetadata: the same change of shape at 5; 2 adds racks, 3 listener
names, 7 topic ids. From broker epochs on (KIP-380: versions 2, 1 and 5) a restarted broker
refuses requests meant for its former life.

Mirrors: the schemas of the same names in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from ..schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    uuid,
)


class LeaderAndIsrPartitionState(Struct):
    topic_name: str = string("0-1", ignorable=True)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array("int32")
    partition_epoch: int = int32()
    replicas: list[int] = array("int32")
    adding_replicas: list[int] = array("int32", "3+", ignorable=True)
    removing_replicas: list[int] = array("int32", "3+", ignorable=True)
    is_new: bool = boolean("1+", ignorable=True)
    leader_recovery_state: int = int8("6+")


class LeaderAndIsrTopicState(Struct):
    topic_name: str = string("2+")
    topic_id: bytes = uuid("5+", ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "2+")


class LeaderAndIsrLiveLeader(Struct):
    broker_id: int = int32()
    host_name: str = string()
    port: int = int32()


@message(api_key=4, kind="request", valid="0-7", flexible="4+")
class LeaderAndIsrRequest(Message):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean("7+")
    controller_epoch: int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)
    type: int = int8("5+")
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(
        LeaderAndIsrPartitionState, "0-1"
    )
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader)


class LeaderAndIsrPartitionError(Struct):
    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32()
    error_code: int = int16()


class LeaderAndIsrTopicError(Struct):
    topic_id: bytes = uuid("5+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "5+")


@message(api_key=4, kind="response", valid="0-7", flexible="4+")
class LeaderAndIsrResponse(Message):
    error_code: int = int16()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "0-4")
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, "5+")


class StopReplicaPartitionV0(Struct):
    topic_name: str = string("0")
    partition_index: int = int32("0")


class StopReplicaTopicV1(Struct):
    name: str = string("1-2")
    partition_indexes: list[int] = array("int32", "1-2")


class StopReplicaPartitionState(Struct):
    partition_index: int = int32("3+")
    leader_epoch: int = int32("3+", default=-1)
    delete_partition: bool = boolean("3+")


class StopReplicaTopicState(Struct):
    topic_name: str = string("3+")
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState, "3+")


@message(api_key=5, kind="request", valid="0-4", flexible="2+")
class StopReplicaRequest(Message):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean("4+")
    controller_epoch: int = int32()
    broker_epoch: int = int64("1+", default=-1, ignorable=True)
    delete_partitions: bool = boolean("0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, "0")
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, "1-2")
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+")


class StopReplicaPartitionError(Struct):
    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


@message(api_key=5, kind="response", valid="0-4", flexible="2+")
class StopReplicaResponse(Message):
    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)


class UpdateMetadataPartitionState(Struct):
    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array("int32")
    zk_version: int = int32()
    replicas: list[int] = array("int32")
    offline_replicas: list[int] = array("int32", "4+", ignorable=True)


class UpdateMetadataTopicState(Struct):
    topic_name: str = string("5+")
    topic_id: bytes = uuid("7+", ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState, "5+")


class UpdateMetadataEndpoint(Struct):
    port: int = int32("1+")
    host: str = string("1+")
    listener: str = string("3+", ignorable=True)
    security_protocol: int = int16("1+")


class UpdateMetadataBroker(Struct):
    id: int = int32()
    v0_host: str = string("0", ignorable=True)
    v0_port: int = int32("0", ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+", ignorable=True)
    rack: str | None = string("2+", nullable="0+", ignorable=True)


@message(api_key=6, kind="request", valid="0-8", flexible="6+")
class UpdateMetadataRequest(Message):
    controller_id: int = int32()
    is_kraft_controller: bool = boolean("8+")
    type: int = int8("8+", tag=0)
    controller_epoch: int = int32()
    broker_epoch: int = int64("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(
        UpdateMetadataPartitionState, "0-4"
    )
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, "5+")
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker)


@message(api_key=6, kind="response", valid="0-8", flexible="6+")
class UpdateMetadataResponse(Message):
    error_code: int = int16()
