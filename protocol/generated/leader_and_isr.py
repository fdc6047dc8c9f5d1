"""Of `apis/leader_and_isr.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import ZERO_UUID, made_by_readers
from ..writer import Writer

_LeaderAndIsrLiveLeader: Final[Any] = made_by_readers(LeaderAndIsrLiveLeader)
_LeaderAndIsrPartitionError: Final[Any] = made_by_readers(LeaderAndIsrPartitionError)
_LeaderAndIsrPartitionState: Final[Any] = made_by_readers(LeaderAndIsrPartitionState)
_LeaderAndIsrRequest: Final[Any] = made_by_readers(LeaderAndIsrRequest)
_LeaderAndIsrResponse: Final[Any] = made_by_readers(LeaderAndIsrResponse)
_LeaderAndIsrTopicError: Final[Any] = made_by_readers(LeaderAndIsrTopicError)
_LeaderAndIsrTopicState: Final[Any] = made_by_readers(LeaderAndIsrTopicState)


def read_LeaderAndIsrPartitionState(r: Reader, version: i64) -> Any:
    m: Any = _LeaderAndIsrPartitionState()
    if version <= 1:
        m.topic_name = r.string("topic_name", False)
    else:
        m.topic_name = ""
    m.partition_index = r.int32()
    m.controller_epoch = r.int32()
    m.leader = r.int32()
    m.leader_epoch = r.int32()
    m.isr = r.int32s("isr", False)
    m.partition_epoch = r.int32()
    m.replicas = r.int32s("replicas", False)
    if version >= 3:
        m.adding_replicas = r.int32s("adding_replicas", False)
        m.removing_replicas = r.int32s("removing_replicas", False)
    else:
        m.adding_replicas = []
        m.removing_replicas = []
    if version >= 1:
        m.is_new = r.boolean()
    else:
        m.is_new = False
    if version >= 6:
        m.leader_recovery_state = r.int8()
    else:
        m.leader_recovery_state = 0
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_LeaderAndIsrPartitionState(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version <= 1:
        w.string("topic_name", m.topic_name, False)
    write_i32_be(out, m.partition_index)
    write_i32_be(out, m.controller_epoch)
    write_i32_be(out, m.leader)
    write_i32_be(out, m.leader_epoch)
    w.int32s("isr", m.isr, False)
    write_i32_be(out, m.partition_epoch)
    w.int32s("replicas", m.replicas, False)
    if version >= 3:
        w.int32s("adding_replicas", m.adding_replicas, False)
        w.int32s("removing_replicas", m.removing_replicas, False)
    if version >= 1:
        w.boolean(m.is_new)
    if version >= 6:
        w.int8(m.leader_recovery_state)
    elif m.leader_recovery_state != 0:
        w.refuse("LeaderAndIsrPartitionState.leader_recovery_state")
    w.unknown_tags("LeaderAndIsrPartitionState", m.unknown_tagged_fields)


def read_LeaderAndIsrTopicState(r: Reader, version: i64) -> Any:
    m: Any = _LeaderAndIsrTopicState()
    m.topic_name = r.string("topic_name", False)
    if version >= 5:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    count = r.count("partition_states", False, 26)
    m.partition_states = [read_LeaderAndIsrPartitionState(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_LeaderAndIsrTopicState(w: Writer, m: Any, version: i64) -> None:
    w.string("topic_name", m.topic_name, False)
    if version >= 5:
        w.uuid(m.topic_id)
    partition_states = m.partition_states
    w.array("partition_states", partition_states, False)
    for item in partition_states:
        write_LeaderAndIsrPartitionState(w, item, version)
    w.unknown_tags("LeaderAndIsrTopicState", m.unknown_tagged_fields)


def read_LeaderAndIsrLiveLeader(r: Reader, version: i64) -> Any:
    m: Any = _LeaderAndIsrLiveLeader()
    m.broker_id = r.int32()
    m.host_name = r.string("host_name", False)
    m.port = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_LeaderAndIsrLiveLeader(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.broker_id)
    w.string("host_name", m.host_name, False)
    write_i32_be(out, m.port)
    w.unknown_tags("LeaderAndIsrLiveLeader", m.unknown_tagged_fields)


def read_LeaderAndIsrRequest(r: Reader, version: i64) -> Any:
    m: Any = _LeaderAndIsrRequest()
    m.controller_id = r.int32()
    if version >= 7:
        m.is_kraft_controller = r.boolean()
    else:
        m.is_kraft_controller = False
    m.controller_epoch = r.int32()
    if version >= 2:
        m.broker_epoch = r.int64()
    else:
        m.broker_epoch = -1
    if version >= 5:
        m.type = r.int8()
    else:
        m.type = 0
    if version <= 1:
        count = r.count("ungrouped_partition_states", False, 30)
        m.ungrouped_partition_states = [
            read_LeaderAndIsrPartitionState(r, version) for _ in range(count)
        ]
    else:
        m.ungrouped_partition_states = []
    if version >= 2:
        count = r.count("topic_states", False, 3)
        m.topic_states = [read_LeaderAndIsrTopicState(r, version) for _ in range(count)]
    else:
        m.topic_states = []
    count = r.count("live_leaders", False, 10)
    m.live_leaders = [read_LeaderAndIsrLiveLeader(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_LeaderAndIsrRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.controller_id)
    if version >= 7:
        w.boolean(m.is_kraft_controller)
    elif m.is_kraft_controller:
        w.refuse("LeaderAndIsrRequest.is_kraft_controller")
    write_i32_be(out, m.controller_epoch)
    if version >= 2:
        write_i64_be(out, m.broker_epoch)
    if version >= 5:
        w.int8(m.type)
    elif m.type != 0:
        w.refuse("LeaderAndIsrRequest.type")
    if version <= 1:
        ungrouped_partition_states = m.ungrouped_partition_states
        w.array("ungrouped_partition_states", ungrouped_partition_states, False)
        for item in ungrouped_partition_states:
            write_LeaderAndIsrPartitionState(w, item, version)
    elif m.ungrouped_partition_states != []:
        w.refuse("LeaderAndIsrRequest.ungrouped_partition_states")
    if version >= 2:
        topic_states = m.topic_states
        w.array("topic_states", topic_states, False)
        for item in topic_states:
            write_LeaderAndIsrTopicState(w, item, version)
    elif m.topic_states != []:
        w.refuse("LeaderAndIsrRequest.topic_states")
    live_leaders = m.live_leaders
    w.array("live_leaders", live_leaders, False)
    for item in live_leaders:
        write_LeaderAndIsrLiveLeader(w, item, version)
    w.unknown_tags("LeaderAndIsrRequest", m.unknown_tagged_fields)


def read_LeaderAndIsrPartitionError(r: Reader, version: i64) -> Any:
    m: Any = _LeaderAndIsrPartitionError()
    if version <= 4:
        m.topic_name = r.string("topic_name", False)
    else:
        m.topic_name = ""
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_LeaderAndIsrPartitionError(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version <= 4:
        w.string("topic_name", m.topic_name, False)
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    w.unknown_tags("LeaderAndIsrPartitionError", m.unknown_tagged_fields)


def read_LeaderAndIsrTopicError(r: Reader, version: i64) -> Any:
    m: Any = _LeaderAndIsrTopicError()
    m.topic_id = r.uuid()
    count = r.count("partition_errors", False, 7)
    m.partition_errors = [read_LeaderAndIsrPartitionError(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_LeaderAndIsrTopicError(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    partition_errors = m.partition_errors
    w.array("partition_errors", partition_errors, False)
    for item in partition_errors:
        write_LeaderAndIsrPartitionError(w, item, version)
    w.unknown_tags("LeaderAndIsrTopicError", m.unknown_tagged_fields)


def read_LeaderAndIsrResponse(r: Reader, version: i64) -> Any:
    m: Any = _LeaderAndIsrResponse()
    m.error_code = r.int16()
    if version <= 4:
        count = r.count("partition_errors", False, 8)
        m.partition_errors = [read_LeaderAndIsrPartitionError(r, version) for _ in range(count)]
    else:
        m.partition_errors = []
    if version >= 5:
        count = r.count("topics", False, 18)
        m.topics = [read_LeaderAndIsrTopicError(r, version) for _ in range(count)]
    else:
        m.topics = []
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_LeaderAndIsrResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    if version <= 4:
        partition_errors = m.partition_errors
        w.array("partition_errors", partition_errors, False)
        for item in partition_errors:
            write_LeaderAndIsrPartitionError(w, item, version)
    elif m.partition_errors != []:
        w.refuse("LeaderAndIsrResponse.partition_errors")
    if version >= 5:
        topics = m.topics
        w.array("topics", topics, False)
        for item in topics:
            write_LeaderAndIsrTopicError(w, item, version)
    elif m.topics != []:
        w.refuse("LeaderAndIsrResponse.topics")
    w.unknown_tags("LeaderAndIsrResponse", m.unknown_tagged_fields)
