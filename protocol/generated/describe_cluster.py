"""Of `apis/describe_cluster.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_DescribeClusterBroker: Final[Any] = made_by_readers(DescribeClusterBroker)
_DescribeClusterRequest: Final[Any] = made_by_readers(DescribeClusterRequest)
_DescribeClusterResponse: Final[Any] = made_by_readers(DescribeClusterResponse)


def read_DescribeClusterRequest(r: Reader, version: i64) -> Any:
    m: Any = _DescribeClusterRequest()
    m.include_cluster_authorized_operations = r.boolean()
    if version >= 1:
        m.endpoint_type = r.int8()
    else:
        m.endpoint_type = 1
    if version >= 2:
        m.include_fenced_brokers = r.boolean()
    else:
        m.include_fenced_brokers = False
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeClusterRequest(w: Writer, m: Any, version: i64) -> None:
    w.boolean(m.include_cluster_authorized_operations)
    if version >= 1:
        w.int8(m.endpoint_type)
    elif m.endpoint_type != 1:
        w.refuse("DescribeClusterRequest.endpoint_type")
    if version >= 2:
        w.boolean(m.include_fenced_brokers)
    elif m.include_fenced_brokers:
        w.refuse("DescribeClusterRequest.include_fenced_brokers")
    w.unknown_tags("DescribeClusterRequest", m.unknown_tagged_fields)


def read_DescribeClusterBroker(r: Reader, version: i64) -> Any:
    m: Any = _DescribeClusterBroker()
    m.broker_id = r.int32()
    m.host = r.string("host", False)
    m.port = r.int32()
    m.rack = r.string("rack", True)
    if version >= 2:
        m.is_fenced = r.boolean()
    else:
        m.is_fenced = False
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeClusterBroker(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.broker_id)
    w.string("host", m.host, False)
    write_i32_be(out, m.port)
    w.string("rack", m.rack, True)
    if version >= 2:
        w.boolean(m.is_fenced)
    elif m.is_fenced:
        w.refuse("DescribeClusterBroker.is_fenced")
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
