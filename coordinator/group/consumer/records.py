"""Changes of consumer groups as records of `__consumer_offsets`, and back.

A key begins with the number of its kind, a value with its version, 0. The bytes are those of
Kafka 4.3's GroupCoordinatorRecordHelpers, with topics and partitions in order where Kafka has that
of its hash tables. A value without epochs of partitions is one of Kafka before 4.3: all are from
the member's epoch.

Written: kinds 3 and 5 to 8, and 16. Of kind 4, which Kafka 4.0 wrote, only tombstones.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ....protocol.codec import decode, decode_versioned, encode, encode_versioned
from ....protocol.messages.consumer_group_data import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartition,
)
from ....protocol.messages.consumer_group_data import ClassicProtocol as ClassicProtocolData
from ....protocol.schema import Message
from .assignment import Assignment, PartitionEpochs
from .changes import (
    Change,
    GroupEpoch,
    ResolvedRegex,
    SetEpoch,
    SetMember,
    SetPartitionMetadata,
    SetProgress,
    SetRegex,
    SetTarget,
    SetTargetEpoch,
    TargetEpoch,
)
from .member import ClassicMetadata, ClassicProtocol, MemberMetadata, MemberState, Progress

_KIND_BYTES: Final = 2
_VERSION: Final = 0


def record(group_id: str, change: Change) -> tuple[bytes, bytes | None]:
    """The key and value of a change; a value of None is a tombstone."""
    kind, key = _KEYS[type(change)](group_id, change)
    key_bytes = kind.to_bytes(_KIND_BYTES, "big") + encode(key, _VERSION)
    if change.value is None:
        return key_bytes, None
    return key_bytes, encode_versioned(_VALUES[type(change)](change.value), _VERSION)


def is_consumer_group_key(key: bytes) -> bool:
    return key[:_KIND_BYTES] in _READERS


def read(key: bytes, value: bytes | None) -> tuple[str, Change]:
    """The group and its change; raises ProtocolError."""
    key_class, value_class, make = _READERS[key[:_KIND_BYTES]]
    named: Any = decode(key_class, _VERSION, key, _KIND_BYTES)
    found: Any = None
    if value is not None:
        found = True if value_class is None else decode_versioned(value_class, value)
    change: Change = make(named, found)
    return named.group_id, change


# Keys

_KEYS: Final[Mapping[type, Callable[[str, Any], tuple[int, Message]]]] = {
    SetEpoch: lambda group_id, _: (3, ConsumerGroupMetadataKey(group_id=group_id)),
    SetPartitionMetadata: lambda group_id, _: (
        4, ConsumerGroupPartitionMetadataKey(group_id=group_id)
    ),
    SetMember: lambda group_id, change: (
        5, ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=change.member_id)
    ),
    SetTargetEpoch: lambda group_id, _: (
        6, ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
    ),
    SetTarget: lambda group_id, change: (
        7, ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=change.member_id)
    ),
    SetProgress: lambda group_id, change: (
        8, ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=change.member_id)
    ),
    SetRegex: lambda group_id, change: (
        16, ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=change.regex)
    ),
}  # fmt: skip


# Writing values


def _epoch_value(value: GroupEpoch) -> Message:
    return ConsumerGroupMetadataValue(epoch=value.epoch, metadata_hash=value.metadata_hash)


def _target_epoch_value(value: TargetEpoch) -> Message:
    return ConsumerGroupTargetAssignmentMetadataValue(
        assignment_epoch=value.epoch, assignment_timestamp=value.timestamp_ms
    )


def _member_value(value: MemberMetadata) -> Message:
    classic = value.classic
    return ConsumerGroupMemberMetadataValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=sorted(value.topic_names),
        subscribed_topic_regex=value.topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocolData(name=protocol.name, metadata=protocol.metadata)
                for protocol in classic.protocols
            ],
        ),
    )


def _target_value(value: Assignment) -> Message:
    return ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartition(topic_id=topic_id, partitions=sorted(value[topic_id]))
            for topic_id in sorted(value)
        ]
    )


def _progress_value(value: Progress) -> Message:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=value.epoch,
        previous_member_epoch=value.previous_epoch,
        state=int(value.state),
        assigned_partitions=_current_partitions(value.assigned),
        partitions_pending_revocation=_current_partitions(value.revoking),
    )


def _current_partitions(assignment: PartitionEpochs) -> list[CurrentTopicPartitions]:
    return [
        CurrentTopicPartitions(
            topic_id=topic_id,
            partitions=sorted(assignment[topic_id]),
            assignment_epochs=[assignment[topic_id][p] for p in sorted(assignment[topic_id])],
        )
        for topic_id in sorted(assignment)
    ]


def _regex_value(value: ResolvedRegex) -> Message:
    return ConsumerGroupRegularExpressionValue(
        topics=sorted(value.topics), version=value.version, timestamp=value.timestamp_ms
    )


_VALUES: Final[Mapping[type, Callable[[Any], Message]]] = {
    SetEpoch: _epoch_value,
    SetMember: _member_value,
    SetTargetEpoch: _target_epoch_value,
    SetTarget: _target_value,
    SetProgress: _progress_value,
    SetRegex: _regex_value,
}


# Reading: a value of None is a tombstone, and gives a change to None.


def _read_epoch(_: Any, value: Any) -> Change:
    return SetEpoch(None if value is None else GroupEpoch(value.epoch, value.metadata_hash))


def _read_partition_metadata(_: Any, value: Any) -> Change:
    return SetPartitionMetadata(None if value is None else True)


def _read_member(key: Any, value: Any) -> Change:
    if value is None:
        return SetMember(key.member_id, None)
    classic = value.classic_member_metadata
    metadata = MemberMetadata(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        frozenset(value.subscribed_topic_names),
        value.subscribed_topic_regex,
        value.rebalance_timeout_ms,
        value.server_assignor,
        None
        if classic is None
        else ClassicMetadata(
            classic.session_timeout_ms,
            tuple(
                ClassicProtocol(protocol.name, bytes(protocol.metadata))
                for protocol in classic.supported_protocols
            ),
        ),
    )
    return SetMember(key.member_id, metadata)


def _read_target_epoch(_: Any, value: Any) -> Change:
    if value is None:
        return SetTargetEpoch(None)
    return SetTargetEpoch(TargetEpoch(value.assignment_epoch, value.assignment_timestamp))


def _read_target(key: Any, value: Any) -> Change:
    if value is None:
        return SetTarget(key.member_id, None)
    partitions = {
        topic.topic_id: frozenset(topic.partitions)
        for topic in value.topic_partitions
        if topic.partitions
    }
    return SetTarget(key.member_id, partitions)


def _read_progress(key: Any, value: Any) -> Change:
    if value is None:
        return SetProgress(key.member_id, None)
    epoch = value.member_epoch
    progress = Progress(
        epoch,
        value.previous_member_epoch,
        MemberState.of(value.state),
        _partition_epochs(value.assigned_partitions, epoch),
        _partition_epochs(value.partitions_pending_revocation, epoch),
    )
    return SetProgress(key.member_id, progress)


def _partition_epochs(
    topics: Iterable[CurrentTopicPartitions], member_epoch: int
) -> PartitionEpochs:
    result = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            # A static member that has left for a while has a negative epoch.
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        if topic.partitions:
            result[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return result


def _read_regex(key: Any, value: Any) -> Change:
    if value is None:
        return SetRegex(key.regular_expression, None)
    resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    return SetRegex(key.regular_expression, resolved)


_Reader = tuple[type[Message], type[Message] | None, Callable[[Any, Any], Change]]

_READERS: Final[Mapping[bytes, _Reader]] = {
    b"\0\3": (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, _read_epoch),
    b"\0\4": (ConsumerGroupPartitionMetadataKey, None, _read_partition_metadata),
    b"\0\5": (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, _read_member),
    b"\0\6": (
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupTargetAssignmentMetadataValue,
        _read_target_epoch,
    ),
    b"\0\7": (
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMemberValue,
        _read_target,
    ),
    b"\0\x08": (
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupCurrentMemberAssignmentValue,
        _read_progress,
    ),
    b"\0\x10": (
        ConsumerGroupRegularExpressionKey,
        ConsumerGroupRegularExpressionValue,
        _read_regex,
    ),
}
