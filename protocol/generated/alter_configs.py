"""Of `apis/alter_configs.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AlterConfigsRequest: Final[Any] = made_by_readers(AlterConfigsRequest)
_AlterConfigsRequestAlterConfigsResource: Final[Any] = made_by_readers(
    AlterConfigsRequestAlterConfigsResource
)
_AlterConfigsRequestAlterableConfig: Final[Any] = made_by_readers(
    AlterConfigsRequestAlterableConfig
)
_AlterConfigsResponse: Final[Any] = made_by_readers(AlterConfigsResponse)
_AlterConfigsResponseAlterConfigsResourceResponse: Final[Any] = made_by_readers(
    AlterConfigsResponseAlterConfigsResourceResponse
)


def read_AlterConfigsRequestAlterableConfig(r: Reader, version: i64) -> Any:
    m: Any = _AlterConfigsRequestAlterableConfig()
    m.name = r.string("name", False)
    m.value = r.string("value", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterConfigsRequestAlterableConfig(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.string("value", m.value, True)
    w.unknown_tags("AlterConfigsRequestAlterableConfig", m.unknown_tagged_fields)


def read_AlterConfigsRequestAlterConfigsResource(r: Reader, version: i64) -> Any:
    m: Any = _AlterConfigsRequestAlterConfigsResource()
    m.resource_type = r.int8()
    m.resource_name = r.string("resource_name", False)
    count = r.count("configs", False, 3)
    m.configs = [read_AlterConfigsRequestAlterableConfig(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterConfigsRequestAlterConfigsResource(w: Writer, m: Any, version: i64) -> None:
    w.int8(m.resource_type)
    w.string("resource_name", m.resource_name, False)
    configs = m.configs
    w.array("configs", configs, False)
    for item in configs:
        write_AlterConfigsRequestAlterableConfig(w, item, version)
    w.unknown_tags("AlterConfigsRequestAlterConfigsResource", m.unknown_tagged_fields)


def read_AlterConfigsRequest(r: Reader, version: i64) -> Any:
    m: Any = _AlterConfigsRequest()
    count = r.count("resources", False, 4)
    m.resources = [read_AlterConfigsRequestAlterConfigsResource(r, version) for _ in range(count)]
    m.validate_only = r.boolean()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterConfigsRequest(w: Writer, m: Any, version: i64) -> None:
    resources = m.resources
    w.array("resources", resources, False)
    for item in resources:
        write_AlterConfigsRequestAlterConfigsResource(w, item, version)
    w.boolean(m.validate_only)
    w.unknown_tags("AlterConfigsRequest", m.unknown_tagged_fields)


def read_AlterConfigsResponseAlterConfigsResourceResponse(r: Reader, version: i64) -> Any:
    m: Any = _AlterConfigsResponseAlterConfigsResourceResponse()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.resource_type = r.int8()
    m.resource_name = r.string("resource_name", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterConfigsResponseAlterConfigsResourceResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.int8(m.resource_type)
    w.string("resource_name", m.resource_name, False)
    w.unknown_tags("AlterConfigsResponseAlterConfigsResourceResponse", m.unknown_tagged_fields)


def read_AlterConfigsResponse(r: Reader, version: i64) -> Any:
    m: Any = _AlterConfigsResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("responses", False, 6)
    m.responses = [
        read_AlterConfigsResponseAlterConfigsResourceResponse(r, version) for _ in range(count)
    ]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterConfigsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    responses = m.responses
    w.array("responses", responses, False)
    for item in responses:
        write_AlterConfigsResponseAlterConfigsResourceResponse(w, item, version)
    w.unknown_tags("AlterConfigsResponse", m.unknown_tagged_fields)
