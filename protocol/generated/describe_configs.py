"""Of `apis/describe_configs.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_DescribeConfigsRequest: Final[Any] = made_by_readers(DescribeConfigsRequest)
_DescribeConfigsResource: Final[Any] = made_by_readers(DescribeConfigsResource)
_DescribeConfigsResourceResult: Final[Any] = made_by_readers(DescribeConfigsResourceResult)
_DescribeConfigsResponse: Final[Any] = made_by_readers(DescribeConfigsResponse)
_DescribeConfigsResult: Final[Any] = made_by_readers(DescribeConfigsResult)
_DescribeConfigsSynonym: Final[Any] = made_by_readers(DescribeConfigsSynonym)


def read_DescribeConfigsResource(r: Reader, version: i64) -> Any:
    m: Any = _DescribeConfigsResource()
    m.resource_type = r.int8()
    m.resource_name = r.string("resource_name", False)
    m.configuration_keys = r.strings("configuration_keys", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeConfigsResource(w: Writer, m: Any, version: i64) -> None:
    w.int8(m.resource_type)
    w.string("resource_name", m.resource_name, False)
    w.strings("configuration_keys", m.configuration_keys, True)
    w.unknown_tags("DescribeConfigsResource", m.unknown_tagged_fields)


def read_DescribeConfigsRequest(r: Reader, version: i64) -> Any:
    m: Any = _DescribeConfigsRequest()
    count = r.count("resources", False, 4)
    m.resources = [read_DescribeConfigsResource(r, version) for _ in range(count)]
    if version >= 1:
        m.include_synonyms = r.boolean()
    else:
        m.include_synonyms = False
    if version >= 3:
        m.include_documentation = r.boolean()
    else:
        m.include_documentation = False
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeConfigsRequest(w: Writer, m: Any, version: i64) -> None:
    resources = m.resources
    w.array("resources", resources, False)
    for item in resources:
        write_DescribeConfigsResource(w, item, version)
    if version >= 1:
        w.boolean(m.include_synonyms)
    elif m.include_synonyms:
        w.refuse("DescribeConfigsRequest.include_synonyms")
    if version >= 3:
        w.boolean(m.include_documentation)
    elif m.include_documentation:
        w.refuse("DescribeConfigsRequest.include_documentation")
    w.unknown_tags("DescribeConfigsRequest", m.unknown_tagged_fields)


def read_DescribeConfigsSynonym(r: Reader, version: i64) -> Any:
    m: Any = _DescribeConfigsSynonym()
    m.name = r.string("name", False)
    m.value = r.string("value", True)
    m.source = r.int8()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeConfigsSynonym(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.string("value", m.value, True)
    w.int8(m.source)
    w.unknown_tags("DescribeConfigsSynonym", m.unknown_tagged_fields)


def read_DescribeConfigsResourceResult(r: Reader, version: i64) -> Any:
    m: Any = _DescribeConfigsResourceResult()
    m.name = r.string("name", False)
    m.value = r.string("value", True)
    m.read_only = r.boolean()
    if version <= 0:
        m.is_default = r.boolean()
    else:
        m.is_default = False
    if version >= 1:
        m.config_source = r.int8()
    else:
        m.config_source = -1
    m.is_sensitive = r.boolean()
    if version >= 1:
        count = r.count("synonyms", False, 4)
        m.synonyms = [read_DescribeConfigsSynonym(r, version) for _ in range(count)]
    else:
        m.synonyms = []
    if version >= 3:
        m.config_type = r.int8()
        m.documentation = r.string("documentation", True)
    else:
        m.config_type = 0
        m.documentation = ""
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeConfigsResourceResult(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.string("value", m.value, True)
    w.boolean(m.read_only)
    if version <= 0:
        w.boolean(m.is_default)
    elif m.is_default:
        w.refuse("DescribeConfigsResourceResult.is_default")
    if version >= 1:
        w.int8(m.config_source)
    w.boolean(m.is_sensitive)
    if version >= 1:
        synonyms = m.synonyms
        w.array("synonyms", synonyms, False)
        for item in synonyms:
            write_DescribeConfigsSynonym(w, item, version)
    if version >= 3:
        w.int8(m.config_type)
        w.string("documentation", m.documentation, True)
    w.unknown_tags("DescribeConfigsResourceResult", m.unknown_tagged_fields)


def read_DescribeConfigsResult(r: Reader, version: i64) -> Any:
    m: Any = _DescribeConfigsResult()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.resource_type = r.int8()
    m.resource_name = r.string("resource_name", False)
    count = r.count("configs", False, 7)
    m.configs = [read_DescribeConfigsResourceResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeConfigsResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.int8(m.resource_type)
    w.string("resource_name", m.resource_name, False)
    configs = m.configs
    w.array("configs", configs, False)
    for item in configs:
        write_DescribeConfigsResourceResult(w, item, version)
    w.unknown_tags("DescribeConfigsResult", m.unknown_tagged_fields)


def read_DescribeConfigsResponse(r: Reader, version: i64) -> Any:
    m: Any = _DescribeConfigsResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("results", False, 7)
    m.results = [read_DescribeConfigsResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeConfigsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    results = m.results
    w.array("results", results, False)
    for item in results:
        write_DescribeConfigsResult(w, item, version)
    w.unknown_tags("DescribeConfigsResponse", m.unknown_tagged_fields)
