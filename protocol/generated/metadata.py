"""Of `apis/metadata.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import ZERO_UUID, made_by_readers
from ..writer import Writer

_MetadataRequest: Final[Any] = made_by_readers(MetadataRequest)
_MetadataRequestTopic: Final[Any] = made_by_readers(MetadataRequestTopic)
_MetadataResponse: Final[Any] = made_by_readers(MetadataResponse)
_MetadataResponseBroker: Final[Any] = made_by_readers(MetadataResponseBroker)
_MetadataResponsePartition: Final[Any] = made_by_readers(MetadataResponsePartition)
_MetadataResponseTopic: Final[Any] = made_by_readers(MetadataResponseTopic)


def read_MetadataRequestTopic(r: Reader, version: i64) -> Any:
    m: Any = _MetadataRequestTopic()
    if version >= 10:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    m.name = r.string("name", version >= 10)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_MetadataRequestTopic(w: Writer, m: Any, version: i64) -> None:
    if version >= 10:
        w.uuid(m.topic_id)
    w.string("name", m.name, version >= 10)
    w.unknown_tags("MetadataRequestTopic", m.unknown_tagged_fields)


def read_MetadataRequest(r: Reader, version: i64) -> Any:
    m: Any = _MetadataRequest()
    count = r.count("topics", version >= 1, 2)
    m.topics = None if count < 0 else [read_MetadataRequestTopic(r, version) for _ in range(count)]
    if version >= 4:
        m.allow_auto_topic_creation = r.boolean()
    else:
        m.allow_auto_topic_creation = True
    if 8 <= version <= 10:
        m.include_cluster_authorized_operations = r.boolean()
    else:
        m.include_cluster_authorized_operations = False
    if version >= 8:
        m.include_topic_authorized_operations = r.boolean()
    else:
        m.include_topic_authorized_operations = False
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_MetadataRequest(w: Writer, m: Any, version: i64) -> None:
    topics = m.topics
    w.array("topics", topics, version >= 1)
    for item in topics or ():
        write_MetadataRequestTopic(w, item, version)
    if version >= 4:
        w.boolean(m.allow_auto_topic_creation)
    elif not m.allow_auto_topic_creation:
        w.refuse("MetadataRequest.allow_auto_topic_creation")
    if 8 <= version <= 10:
        w.boolean(m.include_cluster_authorized_operations)
    elif m.include_cluster_authorized_operations:
        w.refuse("MetadataRequest.include_cluster_authorized_operations")
    if version >= 8:
        w.boolean(m.include_topic_authorized_operations)
    elif m.include_topic_authorized_operations:
        w.refuse("MetadataRequest.include_topic_authorized_operations")
    w.unknown_tags("MetadataRequest", m.unknown_tagged_fields)


def read_MetadataResponseBroker(r: Reader, version: i64) -> Any:
    m: Any = _MetadataResponseBroker()
    m.node_id = r.int32()
    m.host = r.string("host", False)
    m.port = r.int32()
    if version >= 1:
        m.rack = r.string("rack", True)
    else:
        m.rack = None
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_MetadataResponseBroker(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.node_id)
    w.string("host", m.host, False)
    write_i32_be(out, m.port)
    if version >= 1:
        w.string("rack", m.rack, True)
    w.unknown_tags("MetadataResponseBroker", m.unknown_tagged_fields)


def read_MetadataResponsePartition(r: Reader, version: i64) -> Any:
    m: Any = _MetadataResponsePartition()
    m.error_code = r.int16()
    m.partition_index = r.int32()
    m.leader_id = r.int32()
    if version >= 7:
        m.leader_epoch = r.int32()
    else:
        m.leader_epoch = -1
    m.replica_nodes = r.int32s("replica_nodes", False)
    m.isr_nodes = r.int32s("isr_nodes", False)
    if version >= 5:
        m.offline_replicas = r.int32s("offline_replicas", False)
    else:
        m.offline_replicas = []
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_MetadataResponsePartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    write_i32_be(out, m.partition_index)
    write_i32_be(out, m.leader_id)
    if version >= 7:
        write_i32_be(out, m.leader_epoch)
    w.int32s("replica_nodes", m.replica_nodes, False)
    w.int32s("isr_nodes", m.isr_nodes, False)
    if version >= 5:
        w.int32s("offline_replicas", m.offline_replicas, False)
    w.unknown_tags("MetadataResponsePartition", m.unknown_tagged_fields)


def read_MetadataResponseTopic(r: Reader, version: i64) -> Any:
    m: Any = _MetadataResponseTopic()
    m.error_code = r.int16()
    m.name = r.string("name", version >= 12)
    if version >= 10:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    if version >= 1:
        m.is_internal = r.boolean()
    else:
        m.is_internal = False
    count = r.count("partitions", False, 18)
    m.partitions = [read_MetadataResponsePartition(r, version) for _ in range(count)]
    if version >= 8:
        m.topic_authorized_operations = r.int32()
    else:
        m.topic_authorized_operations = -2147483648
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_MetadataResponseTopic(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.string("name", m.name, version >= 12)
    if version >= 10:
        w.uuid(m.topic_id)
    if version >= 1:
        w.boolean(m.is_internal)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_MetadataResponsePartition(w, item, version)
    if version >= 8:
        write_i32_be(out, m.topic_authorized_operations)
    elif m.topic_authorized_operations != -2147483648:
        w.refuse("MetadataResponseTopic.topic_authorized_operations")
    w.unknown_tags("MetadataResponseTopic", m.unknown_tagged_fields)


def read_MetadataResponse(r: Reader, version: i64) -> Any:
    m: Any = _MetadataResponse()
    if version >= 3:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    count = r.count("brokers", False, 10)
    m.brokers = [read_MetadataResponseBroker(r, version) for _ in range(count)]
    if version >= 2:
        m.cluster_id = r.string("cluster_id", True)
    else:
        m.cluster_id = None
    if version >= 1:
        m.controller_id = r.int32()
    else:
        m.controller_id = -1
    count = r.count("topics", False, 8)
    m.topics = [read_MetadataResponseTopic(r, version) for _ in range(count)]
    if 8 <= version <= 10:
        m.cluster_authorized_operations = r.int32()
    else:
        m.cluster_authorized_operations = -2147483648
    if version >= 13:
        m.error_code = r.int16()
    else:
        m.error_code = 0
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_MetadataResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 3:
        write_i32_be(out, m.throttle_time_ms)
    brokers = m.brokers
    w.array("brokers", brokers, False)
    for item in brokers:
        write_MetadataResponseBroker(w, item, version)
    if version >= 2:
        w.string("cluster_id", m.cluster_id, True)
    if version >= 1:
        write_i32_be(out, m.controller_id)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_MetadataResponseTopic(w, item, version)
    if 8 <= version <= 10:
        write_i32_be(out, m.cluster_authorized_operations)
    elif m.cluster_authorized_operations != -2147483648:
        w.refuse("MetadataResponse.cluster_authorized_operations")
    if version >= 13:
        write_i16_be(out, m.error_code)
    w.unknown_tags("MetadataResponse", m.unknown_tagged_fields)
