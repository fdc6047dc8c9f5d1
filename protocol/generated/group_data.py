"""Of `messages/group_data.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.group_data import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ..packed import write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_GroupMetadataKey: Final[Any] = made_by_readers(GroupMetadataKey)
_GroupMetadataValue: Final[Any] = made_by_readers(GroupMetadataValue)
_MemberMetadata: Final[Any] = made_by_readers(MemberMetadata)
_OffsetCommitKey: Final[Any] = made_by_readers(OffsetCommitKey)
_OffsetCommitValue: Final[Any] = made_by_readers(OffsetCommitValue)


def read_OffsetCommitKey(r: Reader, version: i64) -> Any:
    m: Any = _OffsetCommitKey()
    m.group = r.string("group", False)
    m.topic = r.string("topic", False)
    m.partition = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetCommitKey(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("group", m.group, False)
    w.string("topic", m.topic, False)
    write_i32_be(out, m.partition)
    w.unknown_tags("OffsetCommitKey", m.unknown_tagged_fields)


def read_OffsetCommitValue(r: Reader, version: i64) -> Any:
    m: Any = _OffsetCommitValue()
    m.offset = r.int64()
    if version >= 3:
        m.leader_epoch = r.int32()
    else:
        m.leader_epoch = -1
    m.metadata = r.string("metadata", False)
    m.commit_timestamp = r.int64()
    if version == 1:
        m.expire_timestamp = r.int64()
    else:
        m.expire_timestamp = -1
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetCommitValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i64_be(out, m.offset)
    if version >= 3:
        write_i32_be(out, m.leader_epoch)
    w.string("metadata", m.metadata, False)
    write_i64_be(out, m.commit_timestamp)
    if version == 1:
        write_i64_be(out, m.expire_timestamp)
    w.unknown_tags("OffsetCommitValue", m.unknown_tagged_fields)


def read_GroupMetadataKey(r: Reader, version: i64) -> Any:
    m: Any = _GroupMetadataKey()
    m.group = r.string("group", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_GroupMetadataKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group", m.group, False)
    w.unknown_tags("GroupMetadataKey", m.unknown_tagged_fields)


def read_MemberMetadata(r: Reader, version: i64) -> Any:
    m: Any = _MemberMetadata()
    m.member_id = r.string("member_id", False)
    if version >= 3:
        m.group_instance_id = r.string("group_instance_id", True)
    else:
        m.group_instance_id = None
    m.client_id = r.string("client_id", False)
    m.client_host = r.string("client_host", False)
    if version >= 1:
        m.rebalance_timeout = r.int32()
    else:
        m.rebalance_timeout = -1
    m.session_timeout = r.int32()
    m.subscription = r.binary("subscription", False)
    m.assignment = r.binary("assignment", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_MemberMetadata(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("member_id", m.member_id, False)
    if version >= 3:
        w.string("group_instance_id", m.group_instance_id, True)
    w.string("client_id", m.client_id, False)
    w.string("client_host", m.client_host, False)
    if version >= 1:
        write_i32_be(out, m.rebalance_timeout)
    write_i32_be(out, m.session_timeout)
    w.binary("subscription", m.subscription, False)
    w.binary("assignment", m.assignment, False)
    w.unknown_tags("MemberMetadata", m.unknown_tagged_fields)


def read_GroupMetadataValue(r: Reader, version: i64) -> Any:
    m: Any = _GroupMetadataValue()
    m.protocol_type = r.string("protocol_type", False)
    m.generation = r.int32()
    m.protocol = r.string("protocol", True)
    m.leader = r.string("leader", True)
    if version >= 2:
        m.current_state_timestamp = r.int64()
    else:
        m.current_state_timestamp = -1
    count = r.count("members", False, 15)
    m.members = [read_MemberMetadata(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_GroupMetadataValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("protocol_type", m.protocol_type, False)
    write_i32_be(out, m.generation)
    w.string("protocol", m.protocol, True)
    w.string("leader", m.leader, True)
    if version >= 2:
        write_i64_be(out, m.current_state_timestamp)
    members = m.members
    w.array("members", members, False)
    for item in members:
        write_MemberMetadata(w, item, version)
    w.unknown_tags("GroupMetadataValue", m.unknown_tagged_fields)
