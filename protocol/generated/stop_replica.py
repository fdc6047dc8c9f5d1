"""Of `apis/stop_replica.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_StopReplicaPartitionError: Final[Any] = made_by_readers(StopReplicaPartitionError)
_StopReplicaPartitionState: Final[Any] = made_by_readers(StopReplicaPartitionState)
_StopReplicaPartitionV0: Final[Any] = made_by_readers(StopReplicaPartitionV0)
_StopReplicaRequest: Final[Any] = made_by_readers(StopReplicaRequest)
_StopReplicaResponse: Final[Any] = made_by_readers(StopReplicaResponse)
_StopReplicaTopicState: Final[Any] = made_by_readers(StopReplicaTopicState)
_StopReplicaTopicV1: Final[Any] = made_by_readers(StopReplicaTopicV1)


def read_StopReplicaPartitionV0(r: Reader, version: i64) -> Any:
    m: Any = _StopReplicaPartitionV0()
    m.topic_name = r.string("topic_name", False)
    m.partition_index = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StopReplicaPartitionV0(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("topic_name", m.topic_name, False)
    write_i32_be(out, m.partition_index)
    w.unknown_tags("StopReplicaPartitionV0", m.unknown_tagged_fields)


def read_StopReplicaTopicV1(r: Reader, version: i64) -> Any:
    m: Any = _StopReplicaTopicV1()
    m.name = r.string("name", False)
    m.partition_indexes = r.int32s("partition_indexes", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StopReplicaTopicV1(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.int32s("partition_indexes", m.partition_indexes, False)
    w.unknown_tags("StopReplicaTopicV1", m.unknown_tagged_fields)


def read_StopReplicaPartitionState(r: Reader, version: i64) -> Any:
    m: Any = _StopReplicaPartitionState()
    m.partition_index = r.int32()
    m.leader_epoch = r.int32()
    m.delete_partition = r.boolean()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StopReplicaPartitionState(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i32_be(out, m.leader_epoch)
    w.boolean(m.delete_partition)
    w.unknown_tags("StopReplicaPartitionState", m.unknown_tagged_fields)


def read_StopReplicaTopicState(r: Reader, version: i64) -> Any:
    m: Any = _StopReplicaTopicState()
    m.topic_name = r.string("topic_name", False)
    count = r.count("partition_states", False, 10)
    m.partition_states = [read_StopReplicaPartitionState(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StopReplicaTopicState(w: Writer, m: Any, version: i64) -> None:
    w.string("topic_name", m.topic_name, False)
    partition_states = m.partition_states
    w.array("partition_states", partition_states, False)
    for item in partition_states:
        write_StopReplicaPartitionState(w, item, version)
    w.unknown_tags("StopReplicaTopicState", m.unknown_tagged_fields)


def read_StopReplicaRequest(r: Reader, version: i64) -> Any:
    m: Any = _StopReplicaRequest()
    m.controller_id = r.int32()
    if version >= 4:
        m.is_kraft_controller = r.boolean()
    else:
        m.is_kraft_controller = False
    m.controller_epoch = r.int32()
    if version >= 1:
        m.broker_epoch = r.int64()
    else:
        m.broker_epoch = -1
    if version <= 2:
        m.delete_partitions = r.boolean()
    else:
        m.delete_partitions = False
    if version <= 0:
        count = r.count("ungrouped_partitions", False, 6)
        m.ungrouped_partitions = [read_StopReplicaPartitionV0(r, version) for _ in range(count)]
    else:
        m.ungrouped_partitions = []
    if 1 <= version <= 2:
        count = r.count("topics", False, 3)
        m.topics = [read_StopReplicaTopicV1(r, version) for _ in range(count)]
    else:
        m.topics = []
    if version >= 3:
        count = r.count("topic_states", False, 3)
        m.topic_states = [read_StopReplicaTopicState(r, version) for _ in range(count)]
    else:
        m.topic_states = []
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StopReplicaRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.controller_id)
    if version >= 4:
        w.boolean(m.is_kraft_controller)
    elif m.is_kraft_controller:
        w.refuse("StopReplicaRequest.is_kraft_controller")
    write_i32_be(out, m.controller_epoch)
    if version >= 1:
        write_i64_be(out, m.broker_epoch)
    if version <= 2:
        w.boolean(m.delete_partitions)
    elif m.delete_partitions:
        w.refuse("StopReplicaRequest.delete_partitions")
    if version <= 0:
        ungrouped_partitions = m.ungrouped_partitions
        w.array("ungrouped_partitions", ungrouped_partitions, False)
        for item in ungrouped_partitions:
            write_StopReplicaPartitionV0(w, item, version)
    elif m.ungrouped_partitions != []:
        w.refuse("StopReplicaRequest.ungrouped_partitions")
    if 1 <= version <= 2:
        topics = m.topics
        w.array("topics", topics, False)
        for item in topics:
            write_StopReplicaTopicV1(w, item, version)
    elif m.topics != []:
        w.refuse("StopReplicaRequest.topics")
    if version >= 3:
        topic_states = m.topic_states
        w.array("topic_states", topic_states, False)
        for item in topic_states:
            write_StopReplicaTopicState(w, item, version)
    elif m.topic_states != []:
        w.refuse("StopReplicaRequest.topic_states")
    w.unknown_tags("StopReplicaRequest", m.unknown_tagged_fields)


def read_StopReplicaPartitionError(r: Reader, version: i64) -> Any:
    m: Any = _StopReplicaPartitionError()
    m.topic_name = r.string("topic_name", False)
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StopReplicaPartitionError(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("topic_name", m.topic_name, False)
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    w.unknown_tags("StopReplicaPartitionError", m.unknown_tagged_fields)


def read_StopReplicaResponse(r: Reader, version: i64) -> Any:
    m: Any = _StopReplicaResponse()
    m.error_code = r.int16()
    count = r.count("partition_errors", False, 8)
    m.partition_errors = [read_StopReplicaPartitionError(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StopReplicaResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    partition_errors = m.partition_errors
    w.array("partition_errors", partition_errors, False)
    for item in partition_errors:
        write_StopReplicaPartitionError(w, item, version)
    w.unknown_tags("StopReplicaResponse", m.unknown_tagged_fields)
