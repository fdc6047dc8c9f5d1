"""The records of `__consumer_offsets`: keys and values as Kafka writes them.

Mirrors the companion of Kafka's GroupMetadataManager. Every key and value starts with an int16
version. Written: OffsetCommitKey v1, OffsetCommitValue v3 (v1 when the commit carries an explicit
expire timestamp, which v3 cannot hold), GroupMetadataKey v2, GroupMetadataValue v3. Read: all
versions. A null value is a tombstone.

Left out: the record types of the KIP-848 coordinator (key versions 3 and up), which a ZooKeeper
mode broker never writes; they are reported as unknown and skipped.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coordinator.group.group import Group
from coordinator.group.members import Member, MemberProtocol
from coordinator.group.offsets import (
    NO_EXPIRE_TIMESTAMP,
    OffsetAndMetadata,
    TopicPartition,
)
from protocol.codec import decode_versioned, encode_versioned
from protocol.errors import ProtocolError
from protocol.messages.group_data import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from protocol.records.record import SimpleRecord

OFFSET_COMMIT_KEY_VERSION = 1
OFFSET_COMMIT_VALUE_VERSION = 3
EXPIRING_OFFSET_COMMIT_VALUE_VERSION = 1
GROUP_METADATA_KEY_VERSION = 2
GROUP_METADATA_VALUE_VERSION = 3

_HIGHEST_OFFSET_KEY_VERSION = 1
_NO_TIMESTAMP = -1
_VERSION_SIZE_BYTES = 2


class OffsetKey(NamedTuple):
    """The key of a committed offset."""

    group_id: str
    partition: TopicPartition


class GroupKey(NamedTuple):
    """The key of a group's metadata."""

    group_id: str


class UnknownKey(NamedTuple):
    """A key of a version that this coordinator does not know."""

    version: int


# Writing


def offset_commit_key(group_id: str, partition: TopicPartition) -> bytes:
    key = OffsetCommitKey(group=group_id, topic=partition[0], partition=partition[1])
    return encode_versioned(key, OFFSET_COMMIT_KEY_VERSION)


def offset_commit_value(value: OffsetAndMetadata) -> bytes:
    message = OffsetCommitValue(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp=value.commit_timestamp_ms,
    )
    if value.expire_timestamp_ms == NO_EXPIRE_TIMESTAMP:
        return encode_versioned(message, OFFSET_COMMIT_VALUE_VERSION)
    message.expire_timestamp = value.expire_timestamp_ms
    return encode_versioned(message, EXPIRING_OFFSET_COMMIT_VALUE_VERSION)


def offset_commit_records(
    group_id: str, values: Mapping[TopicPartition, OffsetAndMetadata], now_ms: int
) -> list[SimpleRecord]:
    """One record a committed partition."""
    return [
        SimpleRecord(now_ms, offset_commit_key(group_id, partition), offset_commit_value(value))
        for partition, value in values.items()
    ]


def offset_tombstones(
    group_id: str, partitions: Iterable[TopicPartition], now_ms: int
) -> list[SimpleRecord]:
    """One tombstone a removed partition."""
    return [
        SimpleRecord(now_ms, offset_commit_key(group_id, partition), None)
        for partition in partitions
    ]


def group_metadata_key(group_id: str) -> bytes:
    return encode_versioned(GroupMetadataKey(group=group_id), GROUP_METADATA_KEY_VERSION)


def group_metadata_value(group: Group, assignments: Mapping[str, bytes]) -> bytes:
    """The group's metadata with these assignments, which may not be the group's current ones."""
    members = []
    for member in group.members.values():
        assert group.protocol_name is not None
        members.append(
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=assignments[member.member_id],
            )
        )
    timestamp_ms = group.state_timestamp_ms
    message = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=_NO_TIMESTAMP if timestamp_ms is None else timestamp_ms,
        members=members,
    )
    return encode_versioned(message, GROUP_METADATA_VALUE_VERSION)


def group_metadata_record(
    group: Group, assignments: Mapping[str, bytes], now_ms: int
) -> SimpleRecord:
    return SimpleRecord(
        now_ms, group_metadata_key(group.group_id), group_metadata_value(group, assignments)
    )


def group_tombstone(group_id: str, now_ms: int) -> SimpleRecord:
    return SimpleRecord(now_ms, group_metadata_key(group_id), None)


# Reading: bytes from the log may be anything, so these raise only ProtocolError.


def _version_of(data: bytes | memoryview) -> int:
    return int.from_bytes(data[:_VERSION_SIZE_BYTES], "big", signed=True)


def decode_key(key: bytes | memoryview | None) -> OffsetKey | GroupKey | UnknownKey:
    """What a record of the offsets topic is about."""
    if key is None or len(key) < _VERSION_SIZE_BYTES:
        raise ProtocolError("record without a versioned key in the offsets topic")
    version = _version_of(key)
    if 0 <= version <= _HIGHEST_OFFSET_KEY_VERSION:
        offset_key = decode_versioned(OffsetCommitKey, key)
        return OffsetKey(offset_key.group, (offset_key.topic, offset_key.partition))
    if version == GROUP_METADATA_KEY_VERSION:
        group_key = decode_versioned(GroupMetadataKey, key)
        return GroupKey(group_key.group)
    return UnknownKey(version)


def decode_offset_value(value: bytes | memoryview) -> OffsetAndMetadata:
    """A committed offset, of any version."""
    message = decode_versioned(OffsetCommitValue, value)
    return OffsetAndMetadata(
        offset=message.offset,
        leader_epoch=message.leader_epoch,
        metadata=message.metadata,
        commit_timestamp_ms=message.commit_timestamp,
        expire_timestamp_ms=message.expire_timestamp,
    )


def decode_group_value(group_id: str, partition: int, value: bytes | memoryview) -> Group:
    """A group's metadata, of any version."""
    message = decode_versioned(GroupMetadataValue, value)
    is_version_0 = _version_of(value) == 0
    members = []
    seen: set[str] = set()
    for entry in message.members:
        identities = {entry.member_id, f"instance {entry.group_instance_id}"}
        if entry.group_instance_id is None:
            identities = {entry.member_id}
        if seen & identities:
            raise ProtocolError(f"group {group_id} holds member {entry.member_id} twice")
        seen |= identities
        members.append(
            Member(
                member_id=entry.member_id,
                group_instance_id=entry.group_instance_id,
                client_id=entry.client_id,
                client_host=entry.client_host,
                rebalance_timeout_ms=(
                    entry.session_timeout if is_version_0 else entry.rebalance_timeout
                ),
                session_timeout_ms=entry.session_timeout,
                protocol_type=message.protocol_type,
                protocols=[MemberProtocol(message.protocol or "", bytes(entry.subscription))],
                assignment=bytes(entry.assignment),
            )
        )
    if members and message.protocol is None:
        raise ProtocolError(f"group {group_id} has members but no protocol")
    timestamp_ms = message.current_state_timestamp
    return Group.loaded(
        group_id=group_id,
        partition=partition,
        generation_id=message.generation,
        protocol_type=message.protocol_type,
        protocol_name=message.protocol,
        leader_id=message.leader,
        state_timestamp_ms=None if timestamp_ms == _NO_TIMESTAMP else timestamp_ms,
        members=members,
    )
