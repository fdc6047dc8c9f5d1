"""Of `apis/list_config_resources.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_ConfigResource: Final[Any] = made_by_readers(ConfigResource)
_ListConfigResourcesRequest: Final[Any] = made_by_readers(ListConfigResourcesRequest)
_ListConfigResourcesResponse: Final[Any] = made_by_readers(ListConfigResourcesResponse)


def read_ListConfigResourcesRequest(r: Reader, version: i64) -> Any:
    m: Any = _ListConfigResourcesRequest()
    if version >= 1:
        m.resource_types = r.int8s("resource_types", False)
    else:
        m.resource_types = []
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListConfigResourcesRequest(w: Writer, m: Any, version: i64) -> None:
    if version >= 1:
        w.int8s("resource_types", m.resource_types, False)
    elif m.resource_types != []:
        w.refuse("ListConfigResourcesRequest.resource_types")
    w.unknown_tags("ListConfigResourcesRequest", m.unknown_tagged_fields)


def read_ConfigResource(r: Reader, version: i64) -> Any:
    m: Any = _ConfigResource()
    m.resource_name = r.string("resource_name", False)
    if version >= 1:
        m.resource_type = r.int8()
    else:
        m.resource_type = 16
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ConfigResource(w: Writer, m: Any, version: i64) -> None:
    w.string("resource_name", m.resource_name, False)
    if version >= 1:
        w.int8(m.resource_type)
    w.unknown_tags("ConfigResource", m.unknown_tagged_fields)


def read_ListConfigResourcesResponse(r: Reader, version: i64) -> Any:
    m: Any = _ListConfigResourcesResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    count = r.count("config_resources", False, 2)
    m.config_resources = [read_ConfigResource(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListConfigResourcesResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    config_resources = m.config_resources
    w.array("config_resources", config_resources, False)
    for item in config_resources:
        write_ConfigResource(w, item, version)
    w.unknown_tags("ListConfigResourcesResponse", m.unknown_tagged_fields)
