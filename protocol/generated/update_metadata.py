"""Of `apis/update_metadata.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.update_metadata import (
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
_UpdateMetadataBroker: Final[Any] = made_by_readers(UpdateMetadataBroker)
_UpdateMetadataEndpoint: Final[Any] = made_by_readers(UpdateMetadataEndpoint)
_UpdateMetadataPartitionState: Final[Any] = made_by_readers(UpdateMetadataPartitionState)
_UpdateMetadataRequest: Final[Any] = made_by_readers(UpdateMetadataRequest)
_UpdateMetadataResponse: Final[Any] = made_by_readers(UpdateMetadataResponse)
_UpdateMetadataTopicState: Final[Any] = made_by_readers(UpdateMetadataTopicState)


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
