"""Between brokers and the controller, and the cluster as a whole.

ControlledShutdown: version 0 has a header of its own, without a client id. AlterPartition
(KIP-497): 1 adds the recovery state, 2 topic ids, 3 broker epochs of the ISR (KIP-903).
AllocateProducerIds is KIP-730, Envelope KIP-590 (a forwarded request inside), UpdateFeatures
KIP-584 and KIP-778.

Mirrors: the schemas of the same names in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from ..primitives import Buffer
from ..schema import (
    Message,
    Struct,
    array,
    binary,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
    uuid,
)


@message(api_key=7, kind="request", valid="0-3", flexible="3+")
class ControlledShutdownRequest(Message):
    broker_id: int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)


class RemainingPartition(Struct):
    topic_name: str = string()
    partition_index: int = int32()


@message(api_key=7, kind="response", valid="0-3", flexible="3+")
class ControlledShutdownResponse(Message):
    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)


class BrokerState(Struct):
    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)


class AlterPartitionRequestPartitionData(Struct):
    partition_index: int = int32()
    leader_epoch: int = int32()
    new_isr: list[int] = array("int32", "0-2")
    new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
    leader_recovery_state: int = int8("1+")
    partition_epoch: int = int32()


class AlterPartitionRequestTopicData(Struct):
    topic_name: str = string("0-1", ignorable=True)
    topic_id: bytes = uuid("2+", ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData] = array(AlterPartitionRequestPartitionData)


@message(api_key=56, kind="request", valid="0-3", flexible="0+")
class AlterPartitionRequest(Message):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    topics: list[AlterPartitionRequestTopicData] = array(AlterPartitionRequestTopicData)


class AlterPartitionResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    leader_id: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array("int32")
    leader_recovery_state: int = int8("1+", ignorable=True)
    partition_epoch: int = int32()


class AlterPartitionResponseTopicData(Struct):
    topic_name: str = string("0-1", ignorable=True)
    topic_id: bytes = uuid("2+", ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData] = array(
        AlterPartitionResponsePartitionData
    )


@message(api_key=56, kind="response", valid="0-3", flexible="0+")
class AlterPartitionResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    topics: list[AlterPartitionResponseTopicData] = array(AlterPartitionResponseTopicData)


@message(api_key=67, kind="request", valid="0", flexible="0+")
class AllocateProducerIdsRequest(Message):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@message(api_key=67, kind="response", valid="0", flexible="0+")
class AllocateProducerIdsResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()


@message(api_key=58, kind="request", valid="0", flexible="0+")
class EnvelopeRequest(Message):
    request_data: Buffer = binary()
    request_principal: Buffer | None = binary(nullable="0+")
    client_host_address: Buffer = binary()


@message(api_key=58, kind="response", valid="0", flexible="0+")
class EnvelopeResponse(Message):
    response_data: Buffer | None = binary(nullable="0+", default=None)
    error_code: int = int16()


class FeatureUpdateKey(Struct):
    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean("0")
    upgrade_type: int = int8("1+", default=1)


@message(api_key=57, kind="request", valid="0-1", flexible="0+")
class UpdateFeaturesRequest(Message):
    timeout_ms: int = int32(default=60_000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean("1+")


class UpdatableFeatureResult(Struct):
    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(api_key=57, kind="response", valid="0-1", flexible="0+")
class UpdateFeaturesResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult)
