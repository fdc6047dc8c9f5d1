"""Of `apis/alter_client_quotas.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
    OpData,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AlterClientQuotasRequest: Final[Any] = made_by_readers(AlterClientQuotasRequest)
_AlterClientQuotasRequestEntityData: Final[Any] = made_by_readers(
    AlterClientQuotasRequestEntityData
)
_AlterClientQuotasRequestEntryData: Final[Any] = made_by_readers(AlterClientQuotasRequestEntryData)
_AlterClientQuotasResponse: Final[Any] = made_by_readers(AlterClientQuotasResponse)
_AlterClientQuotasResponseEntityData: Final[Any] = made_by_readers(
    AlterClientQuotasResponseEntityData
)
_AlterClientQuotasResponseEntryData: Final[Any] = made_by_readers(
    AlterClientQuotasResponseEntryData
)
_OpData: Final[Any] = made_by_readers(OpData)


def read_AlterClientQuotasRequestEntityData(r: Reader, version: i64) -> Any:
    m: Any = _AlterClientQuotasRequestEntityData()
    m.entity_type = r.string("entity_type", False)
    m.entity_name = r.string("entity_name", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterClientQuotasRequestEntityData(w: Writer, m: Any, version: i64) -> None:
    w.string("entity_type", m.entity_type, False)
    w.string("entity_name", m.entity_name, True)
    w.unknown_tags("AlterClientQuotasRequestEntityData", m.unknown_tagged_fields)


def read_OpData(r: Reader, version: i64) -> Any:
    m: Any = _OpData()
    m.key = r.string("key", False)
    m.value = r.float64()
    m.remove = r.boolean()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OpData(w: Writer, m: Any, version: i64) -> None:
    w.string("key", m.key, False)
    w.float64(m.value)
    w.boolean(m.remove)
    w.unknown_tags("OpData", m.unknown_tagged_fields)


def read_AlterClientQuotasRequestEntryData(r: Reader, version: i64) -> Any:
    m: Any = _AlterClientQuotasRequestEntryData()
    count = r.count("entity", False, 3)
    m.entity = [read_AlterClientQuotasRequestEntityData(r, version) for _ in range(count)]
    count = r.count("ops", False, 11)
    m.ops = [read_OpData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterClientQuotasRequestEntryData(w: Writer, m: Any, version: i64) -> None:
    entity = m.entity
    w.array("entity", entity, False)
    for item in entity:
        write_AlterClientQuotasRequestEntityData(w, item, version)
    ops = m.ops
    w.array("ops", ops, False)
    for item in ops:
        write_OpData(w, item, version)
    w.unknown_tags("AlterClientQuotasRequestEntryData", m.unknown_tagged_fields)


def read_AlterClientQuotasRequest(r: Reader, version: i64) -> Any:
    m: Any = _AlterClientQuotasRequest()
    count = r.count("entries", False, 3)
    m.entries = [read_AlterClientQuotasRequestEntryData(r, version) for _ in range(count)]
    m.validate_only = r.boolean()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterClientQuotasRequest(w: Writer, m: Any, version: i64) -> None:
    entries = m.entries
    w.array("entries", entries, False)
    for item in entries:
        write_AlterClientQuotasRequestEntryData(w, item, version)
    w.boolean(m.validate_only)
    w.unknown_tags("AlterClientQuotasRequest", m.unknown_tagged_fields)


def read_AlterClientQuotasResponseEntityData(r: Reader, version: i64) -> Any:
    m: Any = _AlterClientQuotasResponseEntityData()
    m.entity_type = r.string("entity_type", False)
    m.entity_name = r.string("entity_name", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterClientQuotasResponseEntityData(w: Writer, m: Any, version: i64) -> None:
    w.string("entity_type", m.entity_type, False)
    w.string("entity_name", m.entity_name, True)
    w.unknown_tags("AlterClientQuotasResponseEntityData", m.unknown_tagged_fields)


def read_AlterClientQuotasResponseEntryData(r: Reader, version: i64) -> Any:
    m: Any = _AlterClientQuotasResponseEntryData()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    count = r.count("entity", False, 3)
    m.entity = [read_AlterClientQuotasResponseEntityData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterClientQuotasResponseEntryData(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    entity = m.entity
    w.array("entity", entity, False)
    for item in entity:
        write_AlterClientQuotasResponseEntityData(w, item, version)
    w.unknown_tags("AlterClientQuotasResponseEntryData", m.unknown_tagged_fields)


def read_AlterClientQuotasResponse(r: Reader, version: i64) -> Any:
    m: Any = _AlterClientQuotasResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("entries", False, 5)
    m.entries = [read_AlterClientQuotasResponseEntryData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterClientQuotasResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    entries = m.entries
    w.array("entries", entries, False)
    for item in entries:
        write_AlterClientQuotasResponseEntryData(w, item, version)
    w.unknown_tags("AlterClientQuotasResponse", m.unknown_tagged_fields)
