"""Of `apis/update_features.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_FeatureUpdateKey: Final[Any] = made_by_readers(FeatureUpdateKey)
_UpdatableFeatureResult: Final[Any] = made_by_readers(UpdatableFeatureResult)
_UpdateFeaturesRequest: Final[Any] = made_by_readers(UpdateFeaturesRequest)
_UpdateFeaturesResponse: Final[Any] = made_by_readers(UpdateFeaturesResponse)


def read_FeatureUpdateKey(r: Reader, version: i64) -> Any:
    m: Any = _FeatureUpdateKey()
    m.feature = r.string("feature", False)
    m.max_version_level = r.int16()
    if version <= 0:
        m.allow_downgrade = r.boolean()
    else:
        m.allow_downgrade = False
    if version >= 1:
        m.upgrade_type = r.int8()
    else:
        m.upgrade_type = 1
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_FeatureUpdateKey(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("feature", m.feature, False)
    write_i16_be(out, m.max_version_level)
    if version <= 0:
        w.boolean(m.allow_downgrade)
    elif m.allow_downgrade:
        w.refuse("FeatureUpdateKey.allow_downgrade")
    if version >= 1:
        w.int8(m.upgrade_type)
    elif m.upgrade_type != 1:
        w.refuse("FeatureUpdateKey.upgrade_type")
    w.unknown_tags("FeatureUpdateKey", m.unknown_tagged_fields)


def read_UpdateFeaturesRequest(r: Reader, version: i64) -> Any:
    m: Any = _UpdateFeaturesRequest()
    m.timeout_ms = r.int32()
    count = r.count("feature_updates", False, 5)
    m.feature_updates = [read_FeatureUpdateKey(r, version) for _ in range(count)]
    if version >= 1:
        m.validate_only = r.boolean()
    else:
        m.validate_only = False
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_UpdateFeaturesRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.timeout_ms)
    feature_updates = m.feature_updates
    w.array("feature_updates", feature_updates, False)
    for item in feature_updates:
        write_FeatureUpdateKey(w, item, version)
    if version >= 1:
        w.boolean(m.validate_only)
    elif m.validate_only:
        w.refuse("UpdateFeaturesRequest.validate_only")
    w.unknown_tags("UpdateFeaturesRequest", m.unknown_tagged_fields)


def read_UpdatableFeatureResult(r: Reader, version: i64) -> Any:
    m: Any = _UpdatableFeatureResult()
    m.feature = r.string("feature", False)
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_UpdatableFeatureResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("feature", m.feature, False)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.unknown_tags("UpdatableFeatureResult", m.unknown_tagged_fields)


def read_UpdateFeaturesResponse(r: Reader, version: i64) -> Any:
    m: Any = _UpdateFeaturesResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    if version <= 1:
        count = r.count("results", False, 5)
        m.results = [read_UpdatableFeatureResult(r, version) for _ in range(count)]
    else:
        m.results = []
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_UpdateFeaturesResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    if version <= 1:
        results = m.results
        w.array("results", results, False)
        for item in results:
            write_UpdatableFeatureResult(w, item, version)
    w.unknown_tags("UpdateFeaturesResponse", m.unknown_tagged_fields)
