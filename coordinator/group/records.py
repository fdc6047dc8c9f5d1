"""The records of `__consumer_offsets`: keys and values as Kafka writes them.

Mirrors the companion of Kafka's GroupMetadataManager. Every key and value starts with an int16
version. Written: OffsetCommitKey v1, OffsetCommitValue v3 (v1 when the commit carries an explicit
expire timestamp, which v3 cannot hold), GroupMetadataKey v2, GroupMetadataValue v3. Read: all
versions. A null value is a tombstone.

Groups of the consumer protocol (KIP-848) have kinds of their own: `consumer/records.py`.
"""

from collections.abc import Iterable, Mapping
from struct import Struct

from ...protocol.codec import decode, decode_versioned, encode_versioned
from ...protocol.errors import ProtocolError
from ...protocol.messages.group_data import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ...protocol.records.batch import NO_TIMESTAMP
from ...protocol.records.record import SimpleRecord
from ...protocol.topics import TopicPartition
from .group import Group
from .members import Member, MemberProtocol
from .offsets import NO_EXPIRE_TIMESTAMP, OffsetAndMetadata

OFFSET_COMMIT_KEY_VERSION = 1
OFFSET_COMMIT_VALUE_VERSION = 3
EXPIRING_OFFSET_COMMIT_VALUE_VERSION = 1
GROUP_METADATA_KEY_VERSION = 2
GROUP_METADATA_VALUE_VERSION = 3

# Keys by their first bytes. The versions of offset keys differ in number only.
OFFSET_KEY_PREFIXES = frozenset({b"\x00\x00", b"\x00\x01"})
GROUP_KEY_PREFIX = b"\x00\x02"
MAX_OFFSET_VALUE_VERSION = 4

_MAX_SHORT_STRING = 2**15 - 1
_INT16 = Struct(">h").pack
_INT32 = Struct(">i").pack
_INT64 = Struct(">q").pack
_TWO_INT16 = Struct(">hh").pack
_VALUE_HEAD = Struct(">hqih").pack  # version, offset, leader epoch, length of the metadata

_VERSION_SIZE_BYTES = 2
_NO_VERSION = 1 << 16


# Writing


def offset_commit_key(group_id: str, partition: TopicPartition) -> bytes:
    """The bytes of `OffsetCommitKey`; only long names go through the codec."""
    group, topic = group_id.encode(), partition[0].encode()
    if len(group) > _MAX_SHORT_STRING or len(topic) > _MAX_SHORT_STRING:
        key = OffsetCommitKey(group=group_id, topic=partition[0], partition=partition[1])
        return encode_versioned(key, OFFSET_COMMIT_KEY_VERSION)
    return b"%b%b%b%b%b" % (
        _TWO_INT16(OFFSET_COMMIT_KEY_VERSION, len(group)),
        group,
        _INT16(len(topic)),
        topic,
        _INT32(partition[1]),
    )


def offset_commit_value(value: OffsetAndMetadata) -> bytes:
    """The bytes of `OffsetCommitValue`; only rare values go through the codec."""
    metadata = value.metadata.encode()
    if value.expire_timestamp_ms == NO_EXPIRE_TIMESTAMP and len(metadata) <= _MAX_SHORT_STRING:
        head = _VALUE_HEAD(
            OFFSET_COMMIT_VALUE_VERSION, value.offset, value.leader_epoch, len(metadata)
        )
        return head + metadata + _INT64(value.commit_timestamp_ms)
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
    group_id: str, values: Mapping[TopicPartition, OffsetAndMetadata], stamp_ms: int
) -> list[SimpleRecord]:
    """One record a committed partition."""
    return [
        SimpleRecord(stamp_ms, offset_commit_key(group_id, partition), offset_commit_value(value))
        for partition, value in values.items()
    ]


def offset_tombstones(
    group_id: str, partitions: Iterable[TopicPartition], stamp_ms: int
) -> list[SimpleRecord]:
    """One tombstone a removed partition."""
    return [
        SimpleRecord(stamp_ms, offset_commit_key(group_id, partition), None)
        for partition in partitions
    ]


def group_metadata_key(group_id: str) -> bytes:
    return encode_versioned(GroupMetadataKey(group=group_id), GROUP_METADATA_KEY_VERSION)


def group_metadata_value(group: Group, assignments: Mapping[str, bytes], lead_ms: int = 0) -> bytes:
    """The group's metadata with these assignments, which may not be the group's current ones.

    Timestamps are `lead_ms` ahead of the monotonic clock."""
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
    if group.state_since_ms is not None:
        timestamp_ms = group.state_since_ms + lead_ms
    message = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=NO_TIMESTAMP if timestamp_ms is None else timestamp_ms,
        members=members,
    )
    return encode_versioned(message, GROUP_METADATA_VALUE_VERSION)


def group_metadata_record(
    group: Group, assignments: Mapping[str, bytes], now_ms: int, lead_ms: int = 0
) -> SimpleRecord:
    return SimpleRecord(
        now_ms + lead_ms,
        group_metadata_key(group.group_id),
        group_metadata_value(group, assignments, lead_ms),
    )


def group_tombstone(group_id: str, stamp_ms: int) -> SimpleRecord:
    return SimpleRecord(stamp_ms, group_metadata_key(group_id), None)


# Reading: bytes from the log may be anything, so these raise only ProtocolError.


def version_of(data: bytes) -> int:
    """The version in front of a key or value; a large number if it is too short for one."""
    if len(data) < _VERSION_SIZE_BYTES:
        return _NO_VERSION
    return int.from_bytes(data[:_VERSION_SIZE_BYTES], "big")


def decode_offset_key(key: bytes) -> tuple[str, TopicPartition]:
    """Group and partition of a committed offset, from the key without its version."""
    message = decode(OffsetCommitKey, OFFSET_COMMIT_KEY_VERSION, key)
    return message.group, (message.topic, message.partition)


def decode_group_key(key: bytes) -> str:
    """The group id, from the key without its version."""
    return decode(GroupMetadataKey, GROUP_METADATA_KEY_VERSION, key).group


def decode_offset_value(value: bytes) -> OffsetAndMetadata:
    """A committed offset, of any version."""
    message = decode_versioned(OffsetCommitValue, value)
    return OffsetAndMetadata(
        offset=message.offset,
        leader_epoch=message.leader_epoch,
        metadata=message.metadata,
        commit_timestamp_ms=message.commit_timestamp,
        expire_timestamp_ms=message.expire_timestamp,
    )


def decode_group_value(group_id: str, partition: int, value: bytes) -> Group:
    """A group's metadata, of any version."""
    message = decode_versioned(GroupMetadataValue, value)
    is_version_0 = version_of(value) == 0
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
        state_timestamp_ms=None if timestamp_ms == NO_TIMESTAMP else timestamp_ms,
        members=members,
    )
