"""Of `apis/push_telemetry.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.push_telemetry import (
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_PushTelemetryRequest: Final[Any] = made_by_readers(PushTelemetryRequest)
_PushTelemetryResponse: Final[Any] = made_by_readers(PushTelemetryResponse)


def read_PushTelemetryRequest(r: Reader, version: i64) -> Any:
    m: Any = _PushTelemetryRequest()
    m.client_instance_id = r.uuid()
    m.subscription_id = r.int32()
    m.terminating = r.boolean()
    m.compression_type = r.int8()
    m.metrics = r.binary("metrics", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_PushTelemetryRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.uuid(m.client_instance_id)
    write_i32_be(out, m.subscription_id)
    w.boolean(m.terminating)
    w.int8(m.compression_type)
    w.binary("metrics", m.metrics, False)
    w.unknown_tags("PushTelemetryRequest", m.unknown_tagged_fields)


def read_PushTelemetryResponse(r: Reader, version: i64) -> Any:
    m: Any = _PushTelemetryResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_PushTelemetryResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.unknown_tags("PushTelemetryResponse", m.unknown_tagged_fields)
