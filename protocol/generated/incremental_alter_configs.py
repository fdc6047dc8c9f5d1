"""Of `apis/incremental_alter_configs.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_IncrementalAlterConfigsRequest: Final[Any] = made_by_readers(IncrementalAlterConfigsRequest)
_IncrementalAlterConfigsRequestAlterConfigsResource: Final[Any] = made_by_readers(
    IncrementalAlterConfigsRequestAlterConfigsResource
)
_IncrementalAlterConfigsRequestAlterableConfig: Final[Any] = made_by_readers(
    IncrementalAlterConfigsRequestAlterableConfig
)
_IncrementalAlterConfigsResponse: Final[Any] = made_by_readers(IncrementalAlterConfigsResponse)
_IncrementalAlterConfigsResponseAlterConfigsResourceResponse: Final[Any] = made_by_readers(
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse
)


def read_IncrementalAlterConfigsRequestAlterableConfig(r: Reader, version: i64) -> Any:
    m: Any = _IncrementalAlterConfigsRequestAlterableConfig()
    m.name = r.string("name", False)
    m.config_operation = r.int8()
    m.value = r.string("value", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_IncrementalAlterConfigsRequestAlterableConfig(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.int8(m.config_operation)
    w.string("value", m.value, True)
    w.unknown_tags("IncrementalAlterConfigsRequestAlterableConfig", m.unknown_tagged_fields)


def read_IncrementalAlterConfigsRequestAlterConfigsResource(r: Reader, version: i64) -> Any:
    m: Any = _IncrementalAlterConfigsRequestAlterConfigsResource()
    m.resource_type = r.int8()
    m.resource_name = r.string("resource_name", False)
    count = r.count("configs", False, 4)
    m.configs = [
        read_IncrementalAlterConfigsRequestAlterableConfig(r, version) for _ in range(count)
    ]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_IncrementalAlterConfigsRequestAlterConfigsResource(
    w: Writer, m: Any, version: i64
) -> None:
    w.int8(m.resource_type)
    w.string("resource_name", m.resource_name, False)
    configs = m.configs
    w.array("configs", configs, False)
    for item in configs:
        write_IncrementalAlterConfigsRequestAlterableConfig(w, item, version)
    w.unknown_tags("IncrementalAlterConfigsRequestAlterConfigsResource", m.unknown_tagged_fields)


def read_IncrementalAlterConfigsRequest(r: Reader, version: i64) -> Any:
    m: Any = _IncrementalAlterConfigsRequest()
    count = r.count("resources", False, 4)
    m.resources = [
        read_IncrementalAlterConfigsRequestAlterConfigsResource(r, version) for _ in range(count)
    ]
    m.validate_only = r.boolean()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_IncrementalAlterConfigsRequest(w: Writer, m: Any, version: i64) -> None:
    resources = m.resources
    w.array("resources", resources, False)
    for item in resources:
        write_IncrementalAlterConfigsRequestAlterConfigsResource(w, item, version)
    w.boolean(m.validate_only)
    w.unknown_tags("IncrementalAlterConfigsRequest", m.unknown_tagged_fields)


def read_IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
    r: Reader, version: i64
) -> Any:
    m: Any = _IncrementalAlterConfigsResponseAlterConfigsResourceResponse()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.resource_type = r.int8()
    m.resource_name = r.string("resource_name", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
    w: Writer, m: Any, version: i64
) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.int8(m.resource_type)
    w.string("resource_name", m.resource_name, False)
    w.unknown_tags(
        "IncrementalAlterConfigsResponseAlterConfigsResourceResponse", m.unknown_tagged_fields
    )


def read_IncrementalAlterConfigsResponse(r: Reader, version: i64) -> Any:
    m: Any = _IncrementalAlterConfigsResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("responses", False, 6)
    m.responses = [
        read_IncrementalAlterConfigsResponseAlterConfigsResourceResponse(r, version)
        for _ in range(count)
    ]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_IncrementalAlterConfigsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    responses = m.responses
    w.array("responses", responses, False)
    for item in responses:
        write_IncrementalAlterConfigsResponseAlterConfigsResourceResponse(w, item, version)
    w.unknown_tags("IncrementalAlterConfigsResponse", m.unknown_tagged_fields)
