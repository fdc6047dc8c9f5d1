"""Of `apis/get_telemetry_subscriptions.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_GetTelemetrySubscriptionsRequest: Final[Any] = made_by_readers(GetTelemetrySubscriptionsRequest)
_GetTelemetrySubscriptionsResponse: Final[Any] = made_by_readers(GetTelemetrySubscriptionsResponse)


def read_GetTelemetrySubscriptionsRequest(r: Reader, version: i64) -> Any:
    m: Any = _GetTelemetrySubscriptionsRequest()
    m.client_instance_id = r.uuid()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_GetTelemetrySubscriptionsRequest(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.client_instance_id)
    w.unknown_tags("GetTelemetrySubscriptionsRequest", m.unknown_tagged_fields)


def read_GetTelemetrySubscriptionsResponse(r: Reader, version: i64) -> Any:
    m: Any = _GetTelemetrySubscriptionsResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.client_instance_id = r.uuid()
    m.subscription_id = r.int32()
    m.accepted_compression_types = r.int8s("accepted_compression_types", False)
    m.push_interval_ms = r.int32()
    m.telemetry_max_bytes = r.int32()
    m.delta_temporality = r.boolean()
    m.requested_metrics = r.strings("requested_metrics", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_GetTelemetrySubscriptionsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.uuid(m.client_instance_id)
    write_i32_be(out, m.subscription_id)
    w.int8s("accepted_compression_types", m.accepted_compression_types, False)
    write_i32_be(out, m.push_interval_ms)
    write_i32_be(out, m.telemetry_max_bytes)
    w.boolean(m.delta_temporality)
    w.strings("requested_metrics", m.requested_metrics, False)
    w.unknown_tags("GetTelemetrySubscriptionsResponse", m.unknown_tagged_fields)
