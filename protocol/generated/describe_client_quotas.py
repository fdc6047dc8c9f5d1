"""Of `apis/describe_client_quotas.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntityData,
    DescribeClientQuotasResponseEntryData,
    ValueData,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_ComponentData: Final[Any] = made_by_readers(ComponentData)
_DescribeClientQuotasRequest: Final[Any] = made_by_readers(DescribeClientQuotasRequest)
_DescribeClientQuotasResponse: Final[Any] = made_by_readers(DescribeClientQuotasResponse)
_DescribeClientQuotasResponseEntityData: Final[Any] = made_by_readers(
    DescribeClientQuotasResponseEntityData
)
_DescribeClientQuotasResponseEntryData: Final[Any] = made_by_readers(
    DescribeClientQuotasResponseEntryData
)
_ValueData: Final[Any] = made_by_readers(ValueData)


def read_ComponentData(r: Reader, version: i64) -> Any:
    m: Any = _ComponentData()
    m.entity_type = r.string("entity_type", False)
    m.match_type = r.int8()
    m.match = r.string("match", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ComponentData(w: Writer, m: Any, version: i64) -> None:
    w.string("entity_type", m.entity_type, False)
    w.int8(m.match_type)
    w.string("match", m.match, True)
    w.unknown_tags("ComponentData", m.unknown_tagged_fields)


def read_DescribeClientQuotasRequest(r: Reader, version: i64) -> Any:
    m: Any = _DescribeClientQuotasRequest()
    count = r.count("components", False, 4)
    m.components = [read_ComponentData(r, version) for _ in range(count)]
    m.strict = r.boolean()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeClientQuotasRequest(w: Writer, m: Any, version: i64) -> None:
    components = m.components
    w.array("components", components, False)
    for item in components:
        write_ComponentData(w, item, version)
    w.boolean(m.strict)
    w.unknown_tags("DescribeClientQuotasRequest", m.unknown_tagged_fields)


def read_DescribeClientQuotasResponseEntityData(r: Reader, version: i64) -> Any:
    m: Any = _DescribeClientQuotasResponseEntityData()
    m.entity_type = r.string("entity_type", False)
    m.entity_name = r.string("entity_name", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeClientQuotasResponseEntityData(w: Writer, m: Any, version: i64) -> None:
    w.string("entity_type", m.entity_type, False)
    w.string("entity_name", m.entity_name, True)
    w.unknown_tags("DescribeClientQuotasResponseEntityData", m.unknown_tagged_fields)


def read_ValueData(r: Reader, version: i64) -> Any:
    m: Any = _ValueData()
    m.key = r.string("key", False)
    m.value = r.float64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ValueData(w: Writer, m: Any, version: i64) -> None:
    w.string("key", m.key, False)
    w.float64(m.value)
    w.unknown_tags("ValueData", m.unknown_tagged_fields)


def read_DescribeClientQuotasResponseEntryData(r: Reader, version: i64) -> Any:
    m: Any = _DescribeClientQuotasResponseEntryData()
    count = r.count("entity", False, 3)
    m.entity = [read_DescribeClientQuotasResponseEntityData(r, version) for _ in range(count)]
    count = r.count("values", False, 10)
    m.values = [read_ValueData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeClientQuotasResponseEntryData(w: Writer, m: Any, version: i64) -> None:
    entity = m.entity
    w.array("entity", entity, False)
    for item in entity:
        write_DescribeClientQuotasResponseEntityData(w, item, version)
    values = m.values
    w.array("values", values, False)
    for item in values:
        write_ValueData(w, item, version)
    w.unknown_tags("DescribeClientQuotasResponseEntryData", m.unknown_tagged_fields)


def read_DescribeClientQuotasResponse(r: Reader, version: i64) -> Any:
    m: Any = _DescribeClientQuotasResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    count = r.count("entries", True, 3)
    m.entries = (
        None
        if count < 0
        else [read_DescribeClientQuotasResponseEntryData(r, version) for _ in range(count)]
    )
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeClientQuotasResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    entries = m.entries
    w.array("entries", entries, True)
    for item in entries or ():
        write_DescribeClientQuotasResponseEntryData(w, item, version)
    w.unknown_tags("DescribeClientQuotasResponse", m.unknown_tagged_fields)
