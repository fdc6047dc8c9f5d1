"""Of `apis/alter_partition.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import ZERO_UUID, made_by_readers
from ..writer import Writer

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
