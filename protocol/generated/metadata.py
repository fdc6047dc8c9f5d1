"""Of `messages/metadata.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.metadata import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FinalizedFeatureKey,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
    SupportedFeatureKey,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import NO_TAGS, ZERO_UUID, made_by_readers
from ..writer import Writer

_NO_TAGS: Final = NO_TAGS
_ApiVersion: Final[Any] = made_by_readers(ApiVersion)
_ApiVersionsRequest: Final[Any] = made_by_readers(ApiVersionsRequest)
_ApiVersionsResponse: Final[Any] = made_by_readers(ApiVersionsResponse)
_DescribeClusterBroker: Final[Any] = made_by_readers(DescribeClusterBroker)
_DescribeClusterRequest: Final[Any] = made_by_readers(DescribeClusterRequest)
_DescribeClusterResponse: Final[Any] = made_by_readers(DescribeClusterResponse)
_FinalizedFeatureKey: Final[Any] = made_by_readers(FinalizedFeatureKey)
_MetadataRequest: Final[Any] = made_by_readers(MetadataRequest)
_MetadataRequestTopic: Final[Any] = made_by_readers(MetadataRequestTopic)
_MetadataResponse: Final[Any] = made_by_readers(MetadataResponse)
_MetadataResponseBroker: Final[Any] = made_by_readers(MetadataResponseBroker)
_MetadataResponsePartition: Final[Any] = made_by_readers(MetadataResponsePartition)
_MetadataResponseTopic: Final[Any] = made_by_readers(MetadataResponseTopic)
_SupportedFeatureKey: Final[Any] = made_by_readers(SupportedFeatureKey)


def read_ApiVersionsRequest(r: Reader, version: i64) -> Any:
    m: Any = _ApiVersionsRequest()
    if version >= 3:
        m.client_software_name = r.string("client_software_name", False)
        m.client_software_version = r.string("client_software_version", False)
    else:
        m.client_software_name = ""
        m.client_software_version = ""
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ApiVersionsRequest(w: Writer, m: Any, version: i64) -> None:
    if version >= 3:
        w.string("client_software_name", m.client_software_name, False)
        w.string("client_software_version", m.client_software_version, False)
    w.unknown_tags("ApiVersionsRequest", m.unknown_tagged_fields)


def read_ApiVersion(r: Reader, version: i64) -> Any:
    m: Any = _ApiVersion()
    m.api_key = r.int16()
    m.min_version = r.int16()
    m.max_version = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ApiVersion(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.api_key)
    write_i16_be(out, m.min_version)
    write_i16_be(out, m.max_version)
    w.unknown_tags("ApiVersion", m.unknown_tagged_fields)


def read_SupportedFeatureKey(r: Reader, version: i64) -> Any:
    m: Any = _SupportedFeatureKey()
    m.name = r.string("name", False)
    m.min_version = r.int16()
    m.max_version = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_SupportedFeatureKey(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("name", m.name, False)
    write_i16_be(out, m.min_version)
    write_i16_be(out, m.max_version)
    w.unknown_tags("SupportedFeatureKey", m.unknown_tagged_fields)


def read_FinalizedFeatureKey(r: Reader, version: i64) -> Any:
    m: Any = _FinalizedFeatureKey()
    m.name = r.string("name", False)
    m.max_version_level = r.int16()
    m.min_version_level = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_FinalizedFeatureKey(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("name", m.name, False)
    write_i16_be(out, m.max_version_level)
    write_i16_be(out, m.min_version_level)
    w.unknown_tags("FinalizedFeatureKey", m.unknown_tagged_fields)


def read_tags_of_ApiVersionsResponse(r: Reader, m: Any, version: i64) -> None:
    m.supported_features = []
    m.finalized_features_epoch = -1
    m.finalized_features = []
    m.zk_migration_ready = False
    m.unknown_tagged_fields = _NO_TAGS
    tags = r.tag_count()
    if not tags:
        return
    unknown: dict[int, bytes] = {}
    tag: i64 = -1
    for _ in range(tags):
        tag = r.next_tag(tag)
        end = r.tag_end
        if tag == 0:
            count = r.count("supported_features", False, 6)
            m.supported_features = [read_SupportedFeatureKey(r, version) for _ in range(count)]
            r.end_tag("ApiVersionsResponse.supported_features", end)
        elif tag == 1:
            m.finalized_features_epoch = r.int64()
            r.end_tag("ApiVersionsResponse.finalized_features_epoch", end)
        elif tag == 2:
            count = r.count("finalized_features", False, 6)
            m.finalized_features = [read_FinalizedFeatureKey(r, version) for _ in range(count)]
            r.end_tag("ApiVersionsResponse.finalized_features", end)
        elif tag == 3:
            m.zk_migration_ready = r.boolean()
            r.end_tag("ApiVersionsResponse.zk_migration_ready", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_ApiVersionsResponse(r: Reader, version: i64) -> Any:
    m: Any = _ApiVersionsResponse()
    m.error_code = r.int16()
    count = r.count("api_keys", False, 6)
    m.api_keys = [read_ApiVersion(r, version) for _ in range(count)]
    if version >= 1:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    read_tags_of_ApiVersionsResponse(r, m, version)
    return m


def _write_known_tags_of_ApiVersionsResponse(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if m.supported_features != []:
        w = outer.inner()
        supported_features = m.supported_features
        w.array("supported_features", supported_features, False)
        for item in supported_features:
            write_SupportedFeatureKey(w, item, version)
        known.append((0, w))
    if m.finalized_features_epoch != -1:
        w = outer.inner()
        out = w.out
        write_i64_be(out, m.finalized_features_epoch)
        known.append((1, w))
    if m.finalized_features != []:
        w = outer.inner()
        finalized_features = m.finalized_features
        w.array("finalized_features", finalized_features, False)
        for item in finalized_features:
            write_FinalizedFeatureKey(w, item, version)
        known.append((2, w))
    if m.zk_migration_ready:
        w = outer.inner()
        w.boolean(m.zk_migration_ready)
        known.append((3, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_ApiVersionsResponse(w: Writer, m: Any, version: i64) -> None:
    if w.flexible and (
        m.supported_features != []
        or m.finalized_features_epoch != -1
        or m.finalized_features != []
        or m.zk_migration_ready
    ):
        _write_known_tags_of_ApiVersionsResponse(w, m, version)
    else:
        w.unknown_tags("ApiVersionsResponse", m.unknown_tagged_fields)


def write_ApiVersionsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    api_keys = m.api_keys
    w.array("api_keys", api_keys, False)
    for item in api_keys:
        write_ApiVersion(w, item, version)
    if version >= 1:
        write_i32_be(out, m.throttle_time_ms)
    write_tags_of_ApiVersionsResponse(w, m, version)


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
    w.unknown_tags("MetadataResponse", m.unknown_tagged_fields)


def read_DescribeClusterRequest(r: Reader, version: i64) -> Any:
    m: Any = _DescribeClusterRequest()
    m.include_cluster_authorized_operations = r.boolean()
    if version >= 1:
        m.endpoint_type = r.int8()
    else:
        m.endpoint_type = 1
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeClusterRequest(w: Writer, m: Any, version: i64) -> None:
    w.boolean(m.include_cluster_authorized_operations)
    if version >= 1:
        w.int8(m.endpoint_type)
    elif m.endpoint_type != 1:
        w.refuse("DescribeClusterRequest.endpoint_type")
    w.unknown_tags("DescribeClusterRequest", m.unknown_tagged_fields)


def read_DescribeClusterBroker(r: Reader, version: i64) -> Any:
    m: Any = _DescribeClusterBroker()
    m.broker_id = r.int32()
    m.host = r.string("host", False)
    m.port = r.int32()
    m.rack = r.string("rack", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeClusterBroker(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.broker_id)
    w.string("host", m.host, False)
    write_i32_be(out, m.port)
    w.string("rack", m.rack, True)
    w.unknown_tags("DescribeClusterBroker", m.unknown_tagged_fields)


def read_DescribeClusterResponse(r: Reader, version: i64) -> Any:
    m: Any = _DescribeClusterResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    if version >= 1:
        m.endpoint_type = r.int8()
    else:
        m.endpoint_type = 1
    m.cluster_id = r.string("cluster_id", False)
    m.controller_id = r.int32()
    count = r.count("brokers", False, 11)
    m.brokers = [read_DescribeClusterBroker(r, version) for _ in range(count)]
    m.cluster_authorized_operations = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeClusterResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    if version >= 1:
        w.int8(m.endpoint_type)
    elif m.endpoint_type != 1:
        w.refuse("DescribeClusterResponse.endpoint_type")
    w.string("cluster_id", m.cluster_id, False)
    write_i32_be(out, m.controller_id)
    brokers = m.brokers
    w.array("brokers", brokers, False)
    for item in brokers:
        write_DescribeClusterBroker(w, item, version)
    write_i32_be(out, m.cluster_authorized_operations)
    w.unknown_tags("DescribeClusterResponse", m.unknown_tagged_fields)
