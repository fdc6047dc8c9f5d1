"""Of `apis/api_versions.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import NO_TAGS, made_by_readers
from ..writer import Writer

_NO_TAGS: Final = NO_TAGS
_ApiVersion: Final[Any] = made_by_readers(ApiVersion)
_ApiVersionsRequest: Final[Any] = made_by_readers(ApiVersionsRequest)
_ApiVersionsResponse: Final[Any] = made_by_readers(ApiVersionsResponse)
_FinalizedFeatureKey: Final[Any] = made_by_readers(FinalizedFeatureKey)
_SupportedFeatureKey: Final[Any] = made_by_readers(SupportedFeatureKey)


def read_ApiVersionsRequest(r: Reader, version: i64) -> Any:
    m: Any = _ApiVersionsRequest()
    if version >= 3:
        m.client_software_name = r.string("client_software_name", False)
        m.client_software_version = r.string("client_software_version", False)
    else:
        m.client_software_name = ""
        m.client_software_version = ""
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ApiVersionsRequest(w: Writer, m: Any, version: i64) -> None:
    if version >= 3:
        w.string("client_software_name", m.client_software_name, False)
        w.string("client_software_version", m.client_software_version, False)
    w.unknown_tags("ApiVersionsRequest", m.unknown_tagged_fields)


def read_ApiVersion(r: Reader, version: i64) -> Any:
    m: Any = _ApiVersion()
    m.api_key = r.int16()
    m.min_version = r.int16()
    m.max_version = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ApiVersion(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.api_key)
    write_i16_be(out, m.min_version)
    write_i16_be(out, m.max_version)
    w.unknown_tags("ApiVersion", m.unknown_tagged_fields)


def read_SupportedFeatureKey(r: Reader, version: i64) -> Any:
    m: Any = _SupportedFeatureKey()
    m.name = r.string("name", False)
    m.min_version = r.int16()
    m.max_version = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_SupportedFeatureKey(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("name", m.name, False)
    write_i16_be(out, m.min_version)
    write_i16_be(out, m.max_version)
    w.unknown_tags("SupportedFeatureKey", m.unknown_tagged_fields)


def read_FinalizedFeatureKey(r: Reader, version: i64) -> Any:
    m: Any = _FinalizedFeatureKey()
    m.name = r.string("name", False)
    m.max_version_level = r.int16()
    m.min_version_level = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_FinalizedFeatureKey(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("name", m.name, False)
    write_i16_be(out, m.max_version_level)
    write_i16_be(out, m.min_version_level)
    w.unknown_tags("FinalizedFeatureKey", m.unknown_tagged_fields)


def read_tags_of_ApiVersionsResponse(r: Reader, m: Any, version: i64) -> None:
    m.supported_features = []
    m.finalized_features_epoch = -1
    m.finalized_features = []
    m.zk_migration_ready = False
    m.unknown_tagged_fields = _NO_TAGS
    tags = r.tag_count()
    if not tags:
        return
    unknown: dict[int, bytes] = {}
    tag: i64 = -1
    for _ in range(tags):
        tag = r.next_tag(tag)
        end = r.tag_end
        if tag == 0:
            count = r.count("supported_features", False, 6)
            m.supported_features = [read_SupportedFeatureKey(r, version) for _ in range(count)]
            r.end_tag("ApiVersionsResponse.supported_features", end)
        elif tag == 1:
            m.finalized_features_epoch = r.int64()
            r.end_tag("ApiVersionsResponse.finalized_features_epoch", end)
        elif tag == 2:
            count = r.count("finalized_features", False, 6)
            m.finalized_features = [read_FinalizedFeatureKey(r, version) for _ in range(count)]
            r.end_tag("ApiVersionsResponse.finalized_features", end)
        elif tag == 3:
            m.zk_migration_ready = r.boolean()
            r.end_tag("ApiVersionsResponse.zk_migration_ready", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_ApiVersionsResponse(r: Reader, version: i64) -> Any:
    m: Any = _ApiVersionsResponse()
    m.error_code = r.int16()
    count = r.count("api_keys", False, 6)
    m.api_keys = [read_ApiVersion(r, version) for _ in range(count)]
    if version >= 1:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    read_tags_of_ApiVersionsResponse(r, m, version)
    return m


def _write_known_tags_of_ApiVersionsResponse(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if m.supported_features != []:
        w = outer.inner()
        supported_features = m.supported_features
        w.array("supported_features", supported_features, False)
        for item in supported_features:
            write_SupportedFeatureKey(w, item, version)
        known.append((0, w))
    if m.finalized_features_epoch != -1:
        w = outer.inner()
        out = w.out
        write_i64_be(out, m.finalized_features_epoch)
        known.append((1, w))
    if m.finalized_features != []:
        w = outer.inner()
        finalized_features = m.finalized_features
        w.array("finalized_features", finalized_features, False)
        for item in finalized_features:
            write_FinalizedFeatureKey(w, item, version)
        known.append((2, w))
    if m.zk_migration_ready:
        w = outer.inner()
        w.boolean(m.zk_migration_ready)
        known.append((3, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_ApiVersionsResponse(w: Writer, m: Any, version: i64) -> None:
    if w.flexible and (
        m.supported_features != []
        or m.finalized_features_epoch != -1
        or m.finalized_features != []
        or m.zk_migration_ready
    ):
        _write_known_tags_of_ApiVersionsResponse(w, m, version)
    else:
        w.unknown_tags("ApiVersionsResponse", m.unknown_tagged_fields)


def write_ApiVersionsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    api_keys = m.api_keys
    w.array("api_keys", api_keys, False)
    for item in api_keys:
        write_ApiVersion(w, item, version)
    if version >= 1:
        write_i32_be(out, m.throttle_time_ms)
    write_tags_of_ApiVersionsResponse(w, m, version)
