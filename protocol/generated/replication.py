"""Of `messages/replication.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.replication import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
    StopReplicaTopicV1,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import NO_TAGS, ZERO_UUID, made_by_readers
from ..writer import Writer

_NO_TAGS: Final = NO_TAGS
_LeaderAndIsrLiveLeader: Final[Any] = made_by_readers(LeaderAndIsrLiveLeader)
_LeaderAndIsrPartitionError: Final[Any] = made_by_readers(LeaderAndIsrPartitionError)
_LeaderAndIsrPartitionState: Final[Any] = made_by_readers(LeaderAndIsrPartitionState)
_LeaderAndIsrRequest: Final[Any] = made_by_readers(LeaderAndIsrRequest)
_LeaderAndIsrResponse: Final[Any] = made_by_readers(LeaderAndIsrResponse)
_LeaderAndIsrTopicError: Final[Any] = made_by_readers(LeaderAndIsrTopicError)
_LeaderAndIsrTopicState: Final[Any] = made_by_readers(LeaderAndIsrTopicState)
_StopReplicaPartitionError: Final[Any] = made_by_readers(StopReplicaPartitionError)
_StopReplicaPartitionState: Final[Any] = made_by_readers(StopReplicaPartitionState)
_StopReplicaPartitionV0: Final[Any] = made_by_readers(StopReplicaPartitionV0)
_StopReplicaRequest: Final[Any] = made_by_readers(StopReplicaRequest)
_StopReplicaResponse: Final[Any] = made_by_readers(StopReplicaResponse)
_StopReplicaTopicState: Final[Any] = made_by_readers(StopReplicaTopicState)
_StopReplicaTopicV1: Final[Any] = made_by_readers(StopReplicaTopicV1)
_UpdateMetadataBroker: Final[Any] = made_by_readers(UpdateMetadataBroker)
_UpdateMetadataEndpoint: Final[Any] = made_by_readers(UpdateMetadataEndpoint)
_UpdateMetadataPartitionState: Final[Any] = made_by_readers(UpdateMetadataPartitionState)
_UpdateMetadataRequest: Final[Any] = made_by_readers(UpdateMetadataRequest)
_UpdateMetadataResponse: Final[Any] = made_by_readers(UpdateMetadataResponse)
_UpdateMetadataTopicState: Final[Any] = made_by_readers(UpdateMetadataTopicState)


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


def read_UpdateMetadataPartitionState(r: Reader, version: i64) -> Any:
    m: Any = _UpdateMetadataPartitionState()
    if version <= 4:
        m.topic_name = r.string("topic_name", False)
    else:
        m.topic_name = ""
    m.partition_index = r.int32()
    m.controller_epoch = r.int32()
    m.leader = r.int32()
    m.leader_epoch = r.int32()
    m.isr = r.int32s("isr", False)
    m.zk_version = r.int32()
    m.replicas = r.int32s("replicas", False)
    if version >= 4:
        m.offline_replicas = r.int32s("offline_replicas", False)
    else:
        m.offline_replicas = []
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_UpdateMetadataPartitionState(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version <= 4:
        w.string("topic_name", m.topic_name, False)
    write_i32_be(out, m.partition_index)
    write_i32_be(out, m.controller_epoch)
    write_i32_be(out, m.leader)
    write_i32_be(out, m.leader_epoch)
    w.int32s("isr", m.isr, False)
    write_i32_be(out, m.zk_version)
    w.int32s("replicas", m.replicas, False)
    if version >= 4:
        w.int32s("offline_replicas", m.offline_replicas, False)
    w.unknown_tags("UpdateMetadataPartitionState", m.unknown_tagged_fields)


def read_UpdateMetadataTopicState(r: Reader, version: i64) -> Any:
    m: Any = _UpdateMetadataTopicState()
    m.topic_name = r.string("topic_name", False)
    if version >= 7:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    count = r.count("partition_states", False, 24)
    m.partition_states = [read_UpdateMetadataPartitionState(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_UpdateMetadataTopicState(w: Writer, m: Any, version: i64) -> None:
    w.string("topic_name", m.topic_name, False)
    if version >= 7:
        w.uuid(m.topic_id)
    partition_states = m.partition_states
    w.array("partition_states", partition_states, False)
    for item in partition_states:
        write_UpdateMetadataPartitionState(w, item, version)
    w.unknown_tags("UpdateMetadataTopicState", m.unknown_tagged_fields)


def read_UpdateMetadataEndpoint(r: Reader, version: i64) -> Any:
    m: Any = _UpdateMetadataEndpoint()
    m.port = r.int32()
    m.host = r.string("host", False)
    if version >= 3:
        m.listener = r.string("listener", False)
    else:
        m.listener = ""
    m.security_protocol = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_UpdateMetadataEndpoint(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.port)
    w.string("host", m.host, False)
    if version >= 3:
        w.string("listener", m.listener, False)
    write_i16_be(out, m.security_protocol)
    w.unknown_tags("UpdateMetadataEndpoint", m.unknown_tagged_fields)


def read_UpdateMetadataBroker(r: Reader, version: i64) -> Any:
    m: Any = _UpdateMetadataBroker()
    m.id = r.int32()
    if version <= 0:
        m.v0_host = r.string("v0_host", False)
        m.v0_port = r.int32()
    else:
        m.v0_host = ""
        m.v0_port = 0
    if version >= 1:
        count = r.count("endpoints", False, 8)
        m.endpoints = [read_UpdateMetadataEndpoint(r, version) for _ in range(count)]
    else:
        m.endpoints = []
    if version >= 2:
        m.rack = r.string("rack", True)
    else:
        m.rack = ""
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_UpdateMetadataBroker(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.id)
    if version <= 0:
        w.string("v0_host", m.v0_host, False)
        write_i32_be(out, m.v0_port)
    if version >= 1:
        endpoints = m.endpoints
        w.array("endpoints", endpoints, False)
        for item in endpoints:
            write_UpdateMetadataEndpoint(w, item, version)
    if version >= 2:
        w.string("rack", m.rack, True)
    w.unknown_tags("UpdateMetadataBroker", m.unknown_tagged_fields)


def read_tags_of_UpdateMetadataRequest(r: Reader, m: Any, version: i64) -> None:
    m.type = 0
    m.unknown_tagged_fields = _NO_TAGS
    tags = r.tag_count()
    if not tags:
        return
    unknown: dict[int, bytes] = {}
    tag: i64 = -1
    for _ in range(tags):
        tag = r.next_tag(tag)
        end = r.tag_end
        if tag == 0 and version >= 8:
            m.type = r.int8()
            r.end_tag("UpdateMetadataRequest.type", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_UpdateMetadataRequest(r: Reader, version: i64) -> Any:
    m: Any = _UpdateMetadataRequest()
    m.controller_id = r.int32()
    if version >= 8:
        m.is_kraft_controller = r.boolean()
    else:
        m.is_kraft_controller = False
    m.controller_epoch = r.int32()
    if version >= 5:
        m.broker_epoch = r.int64()
    else:
        m.broker_epoch = -1
    if version <= 4:
        count = r.count("ungrouped_partition_states", False, 30)
        m.ungrouped_partition_states = [
            read_UpdateMetadataPartitionState(r, version) for _ in range(count)
        ]
    else:
        m.ungrouped_partition_states = []
    if version >= 5:
        count = r.count("topic_states", False, 3)
        m.topic_states = [read_UpdateMetadataTopicState(r, version) for _ in range(count)]
    else:
        m.topic_states = []
    count = r.count("live_brokers", False, 7)
    m.live_brokers = [read_UpdateMetadataBroker(r, version) for _ in range(count)]
    read_tags_of_UpdateMetadataRequest(r, m, version)
    return m


def _write_known_tags_of_UpdateMetadataRequest(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if version >= 8 and m.type != 0:
        w = outer.inner()
        w.int8(m.type)
        known.append((0, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_UpdateMetadataRequest(w: Writer, m: Any, version: i64) -> None:
    if version <= 7 and m.type != 0:
        w.refuse("UpdateMetadataRequest.type")
    if w.flexible and (version >= 8 and m.type != 0):
        _write_known_tags_of_UpdateMetadataRequest(w, m, version)
    else:
        w.unknown_tags("UpdateMetadataRequest", m.unknown_tagged_fields)


def write_UpdateMetadataRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.controller_id)
    if version >= 8:
        w.boolean(m.is_kraft_controller)
    elif m.is_kraft_controller:
        w.refuse("UpdateMetadataRequest.is_kraft_controller")
    write_i32_be(out, m.controller_epoch)
    if version >= 5:
        write_i64_be(out, m.broker_epoch)
    if version <= 4:
        ungrouped_partition_states = m.ungrouped_partition_states
        w.array("ungrouped_partition_states", ungrouped_partition_states, False)
        for item in ungrouped_partition_states:
            write_UpdateMetadataPartitionState(w, item, version)
    elif m.ungrouped_partition_states != []:
        w.refuse("UpdateMetadataRequest.ungrouped_partition_states")
    if version >= 5:
        topic_states = m.topic_states
        w.array("topic_states", topic_states, False)
        for item in topic_states:
            write_UpdateMetadataTopicState(w, item, version)
    elif m.topic_states != []:
        w.refuse("UpdateMetadataRequest.topic_states")
    live_brokers = m.live_brokers
    w.array("live_brokers", live_brokers, False)
    for item in live_brokers:
        write_UpdateMetadataBroker(w, item, version)
    write_tags_of_UpdateMetadataRequest(w, m, version)


def read_UpdateMetadataResponse(r: Reader, version: i64) -> Any:
    m: Any = _UpdateMetadataResponse()
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_UpdateMetadataResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.unknown_tags("UpdateMetadataResponse", m.unknown_tagged_fields)
