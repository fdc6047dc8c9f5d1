"""Of `messages/cluster.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.cluster import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    EnvelopeRequest,
    EnvelopeResponse,
    FeatureUpdateKey,
    RemainingPartition,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import ZERO_UUID, made_by_readers
from ..writer import Writer

_AllocateProducerIdsRequest: Final[Any] = made_by_readers(AllocateProducerIdsRequest)
_AllocateProducerIdsResponse: Final[Any] = made_by_readers(AllocateProducerIdsResponse)
_AlterPartitionRequest: Final[Any] = made_by_readers(AlterPartitionRequest)
_AlterPartitionRequestPartitionData: Final[Any] = made_by_readers(
    AlterPartitionRequestPartitionData
)
_AlterPartitionRequestTopicData: Final[Any] = made_by_readers(AlterPartitionRequestTopicData)
_AlterPartitionResponse: Final[Any] = made_by_readers(AlterPartitionResponse)
_AlterPartitionResponsePartitionData: Final[Any] = made_by_readers(
    AlterPartitionResponsePartitionData
)
_AlterPartitionResponseTopicData: Final[Any] = made_by_readers(AlterPartitionResponseTopicData)
_BrokerState: Final[Any] = made_by_readers(BrokerState)
_ControlledShutdownRequest: Final[Any] = made_by_readers(ControlledShutdownRequest)
_ControlledShutdownResponse: Final[Any] = made_by_readers(ControlledShutdownResponse)
_EnvelopeRequest: Final[Any] = made_by_readers(EnvelopeRequest)
_EnvelopeResponse: Final[Any] = made_by_readers(EnvelopeResponse)
_FeatureUpdateKey: Final[Any] = made_by_readers(FeatureUpdateKey)
_RemainingPartition: Final[Any] = made_by_readers(RemainingPartition)
_UpdatableFeatureResult: Final[Any] = made_by_readers(UpdatableFeatureResult)
_UpdateFeaturesRequest: Final[Any] = made_by_readers(UpdateFeaturesRequest)
_UpdateFeaturesResponse: Final[Any] = made_by_readers(UpdateFeaturesResponse)


def read_ControlledShutdownRequest(r: Reader, version: i64) -> Any:
    m: Any = _ControlledShutdownRequest()
    m.broker_id = r.int32()
    if version >= 2:
        m.broker_epoch = r.int64()
    else:
        m.broker_epoch = -1
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ControlledShutdownRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.broker_id)
    if version >= 2:
        write_i64_be(out, m.broker_epoch)
    w.unknown_tags("ControlledShutdownRequest", m.unknown_tagged_fields)


def read_RemainingPartition(r: Reader, version: i64) -> Any:
    m: Any = _RemainingPartition()
    m.topic_name = r.string("topic_name", False)
    m.partition_index = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_RemainingPartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("topic_name", m.topic_name, False)
    write_i32_be(out, m.partition_index)
    w.unknown_tags("RemainingPartition", m.unknown_tagged_fields)


def read_ControlledShutdownResponse(r: Reader, version: i64) -> Any:
    m: Any = _ControlledShutdownResponse()
    m.error_code = r.int16()
    count = r.count("remaining_partitions", False, 6)
    m.remaining_partitions = [read_RemainingPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ControlledShutdownResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    remaining_partitions = m.remaining_partitions
    w.array("remaining_partitions", remaining_partitions, False)
    for item in remaining_partitions:
        write_RemainingPartition(w, item, version)
    w.unknown_tags("ControlledShutdownResponse", m.unknown_tagged_fields)


def read_BrokerState(r: Reader, version: i64) -> Any:
    m: Any = _BrokerState()
    m.broker_id = r.int32()
    m.broker_epoch = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_BrokerState(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.broker_id)
    write_i64_be(out, m.broker_epoch)
    w.unknown_tags("BrokerState", m.unknown_tagged_fields)


def read_AlterPartitionRequestPartitionData(r: Reader, version: i64) -> Any:
    m: Any = _AlterPartitionRequestPartitionData()
    m.partition_index = r.int32()
    m.leader_epoch = r.int32()
    if version <= 2:
        m.new_isr = r.int32s("new_isr", False)
    else:
        m.new_isr = []
    if version >= 3:
        count = r.count("new_isr_with_epochs", False, 13)
        m.new_isr_with_epochs = [read_BrokerState(r, version) for _ in range(count)]
    else:
        m.new_isr_with_epochs = []
    if version >= 1:
        m.leader_recovery_state = r.int8()
    else:
        m.leader_recovery_state = 0
    m.partition_epoch = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterPartitionRequestPartitionData(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i32_be(out, m.leader_epoch)
    if version <= 2:
        w.int32s("new_isr", m.new_isr, False)
    elif m.new_isr != []:
        w.refuse("AlterPartitionRequestPartitionData.new_isr")
    if version >= 3:
        new_isr_with_epochs = m.new_isr_with_epochs
        w.array("new_isr_with_epochs", new_isr_with_epochs, False)
        for item in new_isr_with_epochs:
            write_BrokerState(w, item, version)
    elif m.new_isr_with_epochs != []:
        w.refuse("AlterPartitionRequestPartitionData.new_isr_with_epochs")
    if version >= 1:
        w.int8(m.leader_recovery_state)
    elif m.leader_recovery_state != 0:
        w.refuse("AlterPartitionRequestPartitionData.leader_recovery_state")
    write_i32_be(out, m.partition_epoch)
    w.unknown_tags("AlterPartitionRequestPartitionData", m.unknown_tagged_fields)


def read_AlterPartitionRequestTopicData(r: Reader, version: i64) -> Any:
    m: Any = _AlterPartitionRequestTopicData()
    if version <= 1:
        m.topic_name = r.string("topic_name", False)
    else:
        m.topic_name = ""
    if version >= 2:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    count = r.count("partitions", False, 14)
    m.partitions = [read_AlterPartitionRequestPartitionData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterPartitionRequestTopicData(w: Writer, m: Any, version: i64) -> None:
    if version <= 1:
        w.string("topic_name", m.topic_name, False)
    if version >= 2:
        w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_AlterPartitionRequestPartitionData(w, item, version)
    w.unknown_tags("AlterPartitionRequestTopicData", m.unknown_tagged_fields)


def read_AlterPartitionRequest(r: Reader, version: i64) -> Any:
    m: Any = _AlterPartitionRequest()
    m.broker_id = r.int32()
    m.broker_epoch = r.int64()
    count = r.count("topics", False, 3)
    m.topics = [read_AlterPartitionRequestTopicData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterPartitionRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.broker_id)
    write_i64_be(out, m.broker_epoch)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_AlterPartitionRequestTopicData(w, item, version)
    w.unknown_tags("AlterPartitionRequest", m.unknown_tagged_fields)


def read_AlterPartitionResponsePartitionData(r: Reader, version: i64) -> Any:
    m: Any = _AlterPartitionResponsePartitionData()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.leader_id = r.int32()
    m.leader_epoch = r.int32()
    m.isr = r.int32s("isr", False)
    if version >= 1:
        m.leader_recovery_state = r.int8()
    else:
        m.leader_recovery_state = 0
    m.partition_epoch = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterPartitionResponsePartitionData(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    write_i32_be(out, m.leader_id)
    write_i32_be(out, m.leader_epoch)
    w.int32s("isr", m.isr, False)
    if version >= 1:
        w.int8(m.leader_recovery_state)
    write_i32_be(out, m.partition_epoch)
    w.unknown_tags("AlterPartitionResponsePartitionData", m.unknown_tagged_fields)


def read_AlterPartitionResponseTopicData(r: Reader, version: i64) -> Any:
    m: Any = _AlterPartitionResponseTopicData()
    if version <= 1:
        m.topic_name = r.string("topic_name", False)
    else:
        m.topic_name = ""
    if version >= 2:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    count = r.count("partitions", False, 20)
    m.partitions = [read_AlterPartitionResponsePartitionData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterPartitionResponseTopicData(w: Writer, m: Any, version: i64) -> None:
    if version <= 1:
        w.string("topic_name", m.topic_name, False)
    if version >= 2:
        w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_AlterPartitionResponsePartitionData(w, item, version)
    w.unknown_tags("AlterPartitionResponseTopicData", m.unknown_tagged_fields)


def read_AlterPartitionResponse(r: Reader, version: i64) -> Any:
    m: Any = _AlterPartitionResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    count = r.count("topics", False, 3)
    m.topics = [read_AlterPartitionResponseTopicData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterPartitionResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_AlterPartitionResponseTopicData(w, item, version)
    w.unknown_tags("AlterPartitionResponse", m.unknown_tagged_fields)


def read_AllocateProducerIdsRequest(r: Reader, version: i64) -> Any:
    m: Any = _AllocateProducerIdsRequest()
    m.broker_id = r.int32()
    m.broker_epoch = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AllocateProducerIdsRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.broker_id)
    write_i64_be(out, m.broker_epoch)
    w.unknown_tags("AllocateProducerIdsRequest", m.unknown_tagged_fields)


def read_AllocateProducerIdsResponse(r: Reader, version: i64) -> Any:
    m: Any = _AllocateProducerIdsResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.producer_id_start = r.int64()
    m.producer_id_len = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AllocateProducerIdsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    write_i64_be(out, m.producer_id_start)
    write_i32_be(out, m.producer_id_len)
    w.unknown_tags("AllocateProducerIdsResponse", m.unknown_tagged_fields)


def read_EnvelopeRequest(r: Reader, version: i64) -> Any:
    m: Any = _EnvelopeRequest()
    m.request_data = r.binary("request_data", False)
    m.request_principal = r.binary("request_principal", True)
    m.client_host_address = r.binary("client_host_address", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_EnvelopeRequest(w: Writer, m: Any, version: i64) -> None:
    w.binary("request_data", m.request_data, False)
    w.binary("request_principal", m.request_principal, True)
    w.binary("client_host_address", m.client_host_address, False)
    w.unknown_tags("EnvelopeRequest", m.unknown_tagged_fields)


def read_EnvelopeResponse(r: Reader, version: i64) -> Any:
    m: Any = _EnvelopeResponse()
    m.response_data = r.binary("response_data", True)
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_EnvelopeResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.binary("response_data", m.response_data, True)
    write_i16_be(out, m.error_code)
    w.unknown_tags("EnvelopeResponse", m.unknown_tagged_fields)


def read_FeatureUpdateKey(r: Reader, version: i64) -> Any:
    m: Any = _FeatureUpdateKey()
    m.feature = r.string("feature", False)
    m.max_version_level = r.int16()
    if version <= 0:
        m.allow_downgrade = r.boolean()
    else:
        m.allow_downgrade = False
    if version >= 1:
        m.upgrade_type = r.int8()
    else:
        m.upgrade_type = 1
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_FeatureUpdateKey(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("feature", m.feature, False)
    write_i16_be(out, m.max_version_level)
    if version <= 0:
        w.boolean(m.allow_downgrade)
    elif m.allow_downgrade:
        w.refuse("FeatureUpdateKey.allow_downgrade")
    if version >= 1:
        w.int8(m.upgrade_type)
    elif m.upgrade_type != 1:
        w.refuse("FeatureUpdateKey.upgrade_type")
    w.unknown_tags("FeatureUpdateKey", m.unknown_tagged_fields)


def read_UpdateFeaturesRequest(r: Reader, version: i64) -> Any:
    m: Any = _UpdateFeaturesRequest()
    m.timeout_ms = r.int32()
    count = r.count("feature_updates", False, 5)
    m.feature_updates = [read_FeatureUpdateKey(r, version) for _ in range(count)]
    if version >= 1:
        m.validate_only = r.boolean()
    else:
        m.validate_only = False
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_UpdateFeaturesRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.timeout_ms)
    feature_updates = m.feature_updates
    w.array("feature_updates", feature_updates, False)
    for item in feature_updates:
        write_FeatureUpdateKey(w, item, version)
    if version >= 1:
        w.boolean(m.validate_only)
    elif m.validate_only:
        w.refuse("UpdateFeaturesRequest.validate_only")
    w.unknown_tags("UpdateFeaturesRequest", m.unknown_tagged_fields)


def read_UpdatableFeatureResult(r: Reader, version: i64) -> Any:
    m: Any = _UpdatableFeatureResult()
    m.feature = r.string("feature", False)
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_UpdatableFeatureResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("feature", m.feature, False)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.unknown_tags("UpdatableFeatureResult", m.unknown_tagged_fields)


def read_UpdateFeaturesResponse(r: Reader, version: i64) -> Any:
    m: Any = _UpdateFeaturesResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    count = r.count("results", False, 5)
    m.results = [read_UpdatableFeatureResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_UpdateFeaturesResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    results = m.results
    w.array("results", results, False)
    for item in results:
        write_UpdatableFeatureResult(w, item, version)
    w.unknown_tags("UpdateFeaturesResponse", m.unknown_tagged_fields)
