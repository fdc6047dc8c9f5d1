"""Of `messages/share_state_data.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.share_state_data import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import NO_TAGS, made_by_readers
from ..writer import Writer

_NO_TAGS: Final = NO_TAGS
_ShareSnapshotKey: Final[Any] = made_by_readers(ShareSnapshotKey)
_ShareSnapshotValue: Final[Any] = made_by_readers(ShareSnapshotValue)
_ShareUpdateKey: Final[Any] = made_by_readers(ShareUpdateKey)
_ShareUpdateValue: Final[Any] = made_by_readers(ShareUpdateValue)
_StateBatch: Final[Any] = made_by_readers(StateBatch)


def read_ShareSnapshotKey(r: Reader, version: i64) -> Any:
    m: Any = _ShareSnapshotKey()
    m.group_id = r.string("group_id", False)
    m.topic_id = r.uuid()
    m.partition = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareSnapshotKey(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("group_id", m.group_id, False)
    w.uuid(m.topic_id)
    write_i32_be(out, m.partition)
    w.unknown_tags("ShareSnapshotKey", m.unknown_tagged_fields)


def read_StateBatch(r: Reader, version: i64) -> Any:
    m: Any = _StateBatch()
    m.first_offset = r.int64()
    m.last_offset = r.int64()
    m.delivery_state = r.int8()
    m.delivery_count = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StateBatch(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i64_be(out, m.first_offset)
    write_i64_be(out, m.last_offset)
    w.int8(m.delivery_state)
    write_i16_be(out, m.delivery_count)
    w.unknown_tags("StateBatch", m.unknown_tagged_fields)


def read_tags_of_ShareSnapshotValue(r: Reader, m: Any, version: i64) -> None:
    m.delivery_complete_count = -1
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
            m.delivery_complete_count = r.int32()
            r.end_tag("ShareSnapshotValue.delivery_complete_count", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_ShareSnapshotValue(r: Reader, version: i64) -> Any:
    m: Any = _ShareSnapshotValue()
    m.snapshot_epoch = r.int32()
    m.state_epoch = r.int32()
    m.leader_epoch = r.int32()
    m.start_offset = r.int64()
    m.create_timestamp = r.int64()
    m.write_timestamp = r.int64()
    count = r.count("state_batches", False, 20)
    m.state_batches = [read_StateBatch(r, version) for _ in range(count)]
    read_tags_of_ShareSnapshotValue(r, m, version)
    return m


def _write_known_tags_of_ShareSnapshotValue(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if m.delivery_complete_count != -1:
        w = outer.inner()
        out = w.out
        write_i32_be(out, m.delivery_complete_count)
        known.append((0, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_ShareSnapshotValue(w: Writer, m: Any, version: i64) -> None:
    if w.flexible and (m.delivery_complete_count != -1):
        _write_known_tags_of_ShareSnapshotValue(w, m, version)
    else:
        w.unknown_tags("ShareSnapshotValue", m.unknown_tagged_fields)


def write_ShareSnapshotValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.snapshot_epoch)
    write_i32_be(out, m.state_epoch)
    write_i32_be(out, m.leader_epoch)
    write_i64_be(out, m.start_offset)
    write_i64_be(out, m.create_timestamp)
    write_i64_be(out, m.write_timestamp)
    state_batches = m.state_batches
    w.array("state_batches", state_batches, False)
    for item in state_batches:
        write_StateBatch(w, item, version)
    write_tags_of_ShareSnapshotValue(w, m, version)


def read_ShareUpdateKey(r: Reader, version: i64) -> Any:
    m: Any = _ShareUpdateKey()
    m.group_id = r.string("group_id", False)
    m.topic_id = r.uuid()
    m.partition = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareUpdateKey(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("group_id", m.group_id, False)
    w.uuid(m.topic_id)
    write_i32_be(out, m.partition)
    w.unknown_tags("ShareUpdateKey", m.unknown_tagged_fields)


def read_tags_of_ShareUpdateValue(r: Reader, m: Any, version: i64) -> None:
    m.delivery_complete_count = -1
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
            m.delivery_complete_count = r.int32()
            r.end_tag("ShareUpdateValue.delivery_complete_count", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_ShareUpdateValue(r: Reader, version: i64) -> Any:
    m: Any = _ShareUpdateValue()
    m.snapshot_epoch = r.int32()
    m.leader_epoch = r.int32()
    m.start_offset = r.int64()
    count = r.count("state_batches", False, 20)
    m.state_batches = [read_StateBatch(r, version) for _ in range(count)]
    read_tags_of_ShareUpdateValue(r, m, version)
    return m


def _write_known_tags_of_ShareUpdateValue(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if m.delivery_complete_count != -1:
        w = outer.inner()
        out = w.out
        write_i32_be(out, m.delivery_complete_count)
        known.append((0, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_ShareUpdateValue(w: Writer, m: Any, version: i64) -> None:
    if w.flexible and (m.delivery_complete_count != -1):
        _write_known_tags_of_ShareUpdateValue(w, m, version)
    else:
        w.unknown_tags("ShareUpdateValue", m.unknown_tagged_fields)


def write_ShareUpdateValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.snapshot_epoch)
    write_i32_be(out, m.leader_epoch)
    write_i64_be(out, m.start_offset)
    state_batches = m.state_batches
    w.array("state_batches", state_batches, False)
    for item in state_batches:
        write_StateBatch(w, item, version)
    write_tags_of_ShareUpdateValue(w, m, version)
