"""Changes of share groups as records of `__consumer_offsets`, and back.

The changes are those of consumer groups, in other kinds of records: 10 to 15. Topics and partitions
are in order where Kafka has that of its hash tables. Mirrors GroupCoordinatorRecordHelpers.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ....protocol.codec import decode, decode_versioned, encode, encode_versioned
from ....protocol.messages import share_group_data as data
from ....protocol.schema import Message
from ..consumer.changes import (
    GroupEpoch,
    SetEpoch,
    SetMember,
    SetProgress,
    SetTarget,
    SetTargetEpoch,
    TargetEpoch,
)
from ..consumer.member import MemberMetadata, MemberState, Progress
from .states import SetStates, States, Topics, TopicStates

_KIND_BYTES: Final = 2
_VERSION: Final = 0


class _Kind(NamedTuple):
    number: bytes
    key: Any
    value: Any
    write: Callable[[Any], Message]
    read: Callable[[Any], Any]
    change: Callable[[Any, Any], Any]  # of the key and the value


def record(group_id: str, change: Any) -> tuple[bytes, bytes | None]:
    """The key and value of a change; a value of None is a tombstone."""
    kind = _KINDS[type(change)]
    named = {"member_id": change.member_id} if hasattr(change, "member_id") else {}
    key_bytes = kind.number + encode(kind.key(group_id=group_id, **named), _VERSION)
    if change.value is None:
        return key_bytes, None
    return key_bytes, encode_versioned(kind.write(change.value), _VERSION)


def is_share_group_key(key: bytes) -> bool:
    return key[:_KIND_BYTES] in _BY_NUMBER


def read(key: bytes, value: bytes | None) -> tuple[str, Any]:
    """The group and its change; raises ProtocolError."""
    kind = _BY_NUMBER[bytes(key[:_KIND_BYTES])]
    named: Any = decode(kind.key, _VERSION, key, _KIND_BYTES)
    found = None if value is None else kind.read(decode_versioned(kind.value, value))
    return named.group_id, kind.change(named, found)


# Values


def _write_member(value: MemberMetadata) -> Message:
    return data.ShareGroupMemberMetadataValue(
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=sorted(value.topic_names),
    )


def _read_member(value: Any) -> MemberMetadata:
    return MemberMetadata(
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=frozenset(value.subscribed_topic_names),
    )


def _write_progress(value: Progress) -> Message:
    return data.ShareGroupCurrentMemberAssignmentValue(
        member_epoch=value.epoch,
        previous_member_epoch=value.previous_epoch,
        state=int(value.state),
        assigned_partitions=[
            data.CurrentTopicPartitions(
                topic_id=topic_id, partitions=sorted(value.assigned[topic_id])
            )
            for topic_id in sorted(value.assigned)
        ],
    )


def _read_progress(value: Any) -> Progress:
    assigned = {
        topic.topic_id: dict.fromkeys(topic.partitions, 0)
        for topic in value.assigned_partitions
        if topic.partitions
    }
    state = MemberState.of(value.state)
    return Progress(value.member_epoch, value.previous_member_epoch, state, assigned, {})


def _write_target(value: Mapping[bytes, frozenset[int]]) -> Message:
    return data.ShareGroupTargetAssignmentMemberValue(
        topic_partitions=[
            data.TargetTopicPartition(topic_id=topic_id, partitions=sorted(value[topic_id]))
            for topic_id in sorted(value)
        ]
    )


def _read_target(value: Any) -> Mapping[bytes, frozenset[int]]:
    return {
        topic.topic_id: frozenset(topic.partitions)
        for topic in value.topic_partitions
        if topic.partitions
    }


def _write_states(value: States) -> Message:
    return data.ShareGroupStatePartitionMetadataValue(
        initializing_topics=_topics(value.initializing),
        initialized_topics=_topics(value.initialized),
        deleting_topics=[
            data.TopicInfo(topic_id=topic_id, topic_name=value.deleting[topic_id])
            for topic_id in sorted(value.deleting)
        ],
    )


def _topics(topics: Topics) -> list[data.TopicPartitionsInfo]:
    return [
        data.TopicPartitionsInfo(
            topic_id=topic_id,
            topic_name=topics[topic_id].name,
            partitions=sorted(topics[topic_id].partitions),
        )
        for topic_id in sorted(topics)
    ]


def _read_states(value: Any) -> States:
    initializing, initialized = (
        {
            topic.topic_id: TopicStates(topic.topic_name, frozenset(topic.partitions))
            for topic in topics
        }
        for topics in (value.initializing_topics, value.initialized_topics)
    )
    deleting = {topic.topic_id: topic.topic_name for topic in value.deleting_topics}
    return States(initializing, initialized, deleting)


_KINDS: Final[Mapping[type, _Kind]] = {
    SetMember: _Kind(
        b"\0\x0a",
        data.ShareGroupMemberMetadataKey,
        data.ShareGroupMemberMetadataValue,
        _write_member,
        _read_member,
        lambda key, value: SetMember(key.member_id, value),
    ),
    SetEpoch: _Kind(
        b"\0\x0b",
        data.ShareGroupMetadataKey,
        data.ShareGroupMetadataValue,
        lambda value: data.ShareGroupMetadataValue(
            epoch=value.epoch, metadata_hash=value.metadata_hash
        ),
        lambda value: GroupEpoch(value.epoch, value.metadata_hash),
        lambda _, value: SetEpoch(value),
    ),
    SetTargetEpoch: _Kind(
        b"\0\x0c",
        data.ShareGroupTargetAssignmentMetadataKey,
        data.ShareGroupTargetAssignmentMetadataValue,
        lambda value: data.ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=value.epoch, assignment_timestamp=value.timestamp_ms
        ),
        lambda value: TargetEpoch(value.assignment_epoch, value.assignment_timestamp),
        lambda _, value: SetTargetEpoch(value),
    ),
    SetTarget: _Kind(
        b"\0\x0d",
        data.ShareGroupTargetAssignmentMemberKey,
        data.ShareGroupTargetAssignmentMemberValue,
        _write_target,
        _read_target,
        lambda key, value: SetTarget(key.member_id, value),
    ),
    SetProgress: _Kind(
        b"\0\x0e",
        data.ShareGroupCurrentMemberAssignmentKey,
        data.ShareGroupCurrentMemberAssignmentValue,
        _write_progress,
        _read_progress,
        lambda key, value: SetProgress(key.member_id, value),
    ),
    SetStates: _Kind(
        b"\0\x0f",
        data.ShareGroupStatePartitionMetadataKey,
        data.ShareGroupStatePartitionMetadataValue,
        _write_states,
        _read_states,
        lambda _, value: SetStates(value),
    ),
}
_BY_NUMBER: Final = {kind.number: kind for kind in _KINDS.values()}
