"""A request as of one version, and an answer with its texts, as far as two brokers agree."""

from __future__ import annotations

import re
from typing import Any

from pybroker_kafka.protocol.schema import Struct, version_range


def at(message: Struct, version: int) -> Any:
    """A message without the fields that a version does not have."""
    fitted = type(message)()
    for field in message._fields:
        low, high = version_range(field.versions)
        if low <= version <= high:
            setattr(fitted, field.name, _value_at(getattr(message, field.name), version))
    return fitted


def _value_at(value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return at(value, version)
    return [_value_at(one, version) for one in value] if isinstance(value, list) else value


# What is compared

_LEFT_OUT = frozenset(
    {
        "throttle_time_ms", "cluster_id", "token_id", "hmac", "issue_timestamp",
        "issue_timestamp_ms", "expiry_timestamp", "expiry_timestamp_ms", "max_timestamp",
        "max_timestamp_ms", "documentation", "total_bytes", "usable_bytes", "log_dir", "port",
    }
)  # fmt: skip


def said(answer: Any) -> Any:
    """An answer without what no two brokers have in common; the elements of lists in one order."""
    if isinstance(answer, Struct):
        return {
            field.name: said(getattr(answer, field.name))
            for field in answer._fields
            if field.name not in _LEFT_OUT
        }
    if isinstance(answer, list):
        return sorted((said(one) for one in answer), key=repr)
    if isinstance(answer, (bytes, memoryview, bytearray)):
        return "none" if not any(bytes(answer)) else "some"
    if isinstance(answer, str):
        return re.sub(r"127\.0\.0\.1:\d+|/tmp/[\w./-]+", "...", answer)
    return answer
