"""Changes of streams groups as records of `__consumer_offsets`, and back.

A key begins with the number of its kind, 17 and 19 to 23, a value with its version, 0. The bytes
are those of Kafka 4.3's StreamsCoordinatorRecordHelpers. A value without epochs of active tasks is
one of Kafka before 4.3: all are from the member's epoch.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ....protocol.codec import decode, decode_versioned, encode, encode_versioned
from ....protocol.messages.streams_group_data import (
    CopartitionGroup,
    CurrentTaskIds,
    KeyValue,
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    Subtopology,
    TargetTaskIds,
    TopicConfig,
    TopicInfo,
)
from ....protocol.messages.streams_group_data import Endpoint as EndpointData
from ....protocol.schema import Message
from .changes import (
    Change,
    GroupEpoch,
    SetEpoch,
    SetMember,
    SetProgress,
    SetTarget,
    SetTargetEpoch,
    SetTopology,
    TargetEpoch,
)
from .member import Endpoint, MemberMetadata, MemberState, Progress
from .tasks import OwnedTasks, Tasks, TaskSet
from .topology import TopicInfo as TopicValue
from .topology import Topology, topology_of

_KIND_BYTES: Final = 2
_VERSION: Final = 0


def record(group_id: str, change: Change) -> tuple[bytes, bytes | None]:
    """The key and value of a change; a value of None is a tombstone."""
    kind, key = _KEYS[type(change)](group_id, change)
    key_bytes = kind.to_bytes(_KIND_BYTES, "big") + encode(key, _VERSION)
    if change.value is None:
        return key_bytes, None
    return key_bytes, encode_versioned(_VALUES[type(change)](change.value), _VERSION)


def is_streams_group_key(key: bytes) -> bool:
    return key[:_KIND_BYTES] in _READERS


def read(key: bytes, value: bytes | None) -> tuple[str, Change]:
    """The group and its change; raises ProtocolError."""
    key_class, value_class, make = _READERS[key[:_KIND_BYTES]]
    named: Any = decode(key_class, _VERSION, key, _KIND_BYTES)
    found: Any = None if value is None else decode_versioned(value_class, value)
    change: Change = make(named, found)
    return named.group_id, change


# Keys

_KEYS: Final[Mapping[type, Callable[[str, Any], tuple[int, Message]]]] = {
    SetEpoch: lambda group_id, _: (17, StreamsGroupMetadataKey(group_id=group_id)),
    SetMember: lambda group_id, change: (
        19, StreamsGroupMemberMetadataKey(group_id=group_id, member_id=change.member_id)
    ),
    SetTargetEpoch: lambda group_id, _: (
        20, StreamsGroupTargetAssignmentMetadataKey(group_id=group_id)
    ),
    SetTarget: lambda group_id, change: (
        21, StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=change.member_id)
    ),
    SetProgress: lambda group_id, change: (
        22, StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=change.member_id)
    ),
    SetTopology: lambda group_id, _: (23, StreamsGroupTopologyKey(group_id=group_id)),
}  # fmt: skip


# Writing values


def _epoch_value(value: GroupEpoch) -> Message:
    return StreamsGroupMetadataValue(
        epoch=value.epoch,
        metadata_hash=value.metadata_hash,
        validated_topology_epoch=value.validated_topology_epoch,
        last_assignment_configs=[
            LastAssignmentConfig(key=key, value=text) for key, text in value.assignment_configs
        ],
    )


def _topology_value(value: Topology) -> Message:
    return StreamsGroupTopologyValue(
        epoch=value.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=one.subtopology_id,
                source_topics=list(one.source_topics),
                source_topic_regex=list(one.source_topic_regex),
                state_changelog_topics=_topic_infos(one.state_changelog_topics),
                repartition_sink_topics=list(one.repartition_sink_topics),
                repartition_source_topics=_topic_infos(one.repartition_source_topics),
                copartition_groups=[
                    CopartitionGroup(
                        source_topics=list(group.source_topics),
                        source_topic_regex=list(group.source_topic_regex),
                        repartition_source_topics=list(group.repartition_source_topics),
                    )
                    for group in one.copartition_groups
                ],
            )
            for one in value.subtopologies
        ],
    )


def _topic_infos(topics: Iterable[TopicValue]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[TopicConfig(key=key, value=text) for key, text in topic.configs],
        )
        for topic in topics
    ]


def _member_value(value: MemberMetadata) -> Message:
    endpoint = value.user_endpoint
    return StreamsGroupMemberMetadataValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        topology_epoch=value.topology_epoch,
        process_id=value.process_id,
        user_endpoint=None
        if endpoint is None
        else EndpointData(host=endpoint.host, port=endpoint.port),
        client_tags=[KeyValue(key=key, value=text) for key, text in sorted(value.client_tags)],
    )


def _target_epoch_value(value: TargetEpoch) -> Message:
    return StreamsGroupTargetAssignmentMetadataValue(
        assignment_epoch=value.epoch, assignment_timestamp=value.timestamp_ms
    )


def _target_value(value: Tasks) -> Message:
    return StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_target_tasks(value.active),
        standby_tasks=_target_tasks(value.standby),
        warmup_tasks=_target_tasks(value.warmup),
    )


def _target_tasks(tasks: TaskSet) -> list[TargetTaskIds]:
    return [
        TargetTaskIds(subtopology_id=name, partitions=sorted(tasks[name])) for name in sorted(tasks)
    ]


def _progress_value(value: Progress) -> Message:
    assigned, revoking = value.assigned, value.revoking
    return StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=value.epoch,
        previous_member_epoch=value.previous_epoch,
        state=int(value.state),
        active_tasks=_active_tasks(assigned.active),
        standby_tasks=_current_tasks(assigned.standby),
        warmup_tasks=_current_tasks(assigned.warmup),
        active_tasks_pending_revocation=_active_tasks(revoking.active),
        standby_tasks_pending_revocation=_current_tasks(revoking.standby),
        warmup_tasks_pending_revocation=_current_tasks(revoking.warmup),
    )


def _active_tasks(tasks: Mapping[str, Mapping[int, int]]) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(
            subtopology_id=name,
            partitions=sorted(tasks[name]),
            assignment_epochs=[tasks[name][partition] for partition in sorted(tasks[name])],
        )
        for name in sorted(tasks)
    ]


def _current_tasks(tasks: TaskSet) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(subtopology_id=name, partitions=sorted(tasks[name]))
        for name in sorted(tasks)
    ]


_VALUES: Final[Mapping[type, Callable[[Any], Message]]] = {
    SetEpoch: _epoch_value,
    SetTopology: _topology_value,
    SetMember: _member_value,
    SetTargetEpoch: _target_epoch_value,
    SetTarget: _target_value,
    SetProgress: _progress_value,
}


# Reading: a value of None is a tombstone, and gives a change to None.


def _read_epoch(_: Any, value: Any) -> Change:
    if value is None:
        return SetEpoch(None)
    configs = value.last_assignment_configs or ()
    return SetEpoch(
        GroupEpoch(
            value.epoch,
            value.metadata_hash,
            value.validated_topology_epoch,
            tuple(sorted((config.key, config.value) for config in configs)),
        )
    )


def _read_topology(_: Any, value: Any) -> Change:
    return SetTopology(None if value is None else topology_of(value))


def _read_member(key: Any, value: Any) -> Change:
    if value is None:
        return SetMember(key.member_id, None)
    endpoint = value.user_endpoint
    metadata = MemberMetadata(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        value.rebalance_timeout_ms,
        value.topology_epoch,
        value.process_id,
        None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        tuple(sorted((tag.key, tag.value) for tag in value.client_tags)),
    )
    return SetMember(key.member_id, metadata)


def _read_target_epoch(_: Any, value: Any) -> Change:
    if value is None:
        return SetTargetEpoch(None)
    return SetTargetEpoch(TargetEpoch(value.assignment_epoch, value.assignment_timestamp))


def _read_target(key: Any, value: Any) -> Change:
    if value is None:
        return SetTarget(key.member_id, None)
    tasks = (value.active_tasks, value.standby_tasks, value.warmup_tasks)
    return SetTarget(key.member_id, Tasks(*map(task_set, tasks)))


def task_set(tasks: Iterable[Any]) -> TaskSet:
    """Tasks of a message by subtopology."""
    return {task.subtopology_id: frozenset(task.partitions) for task in tasks if task.partitions}


def _read_progress(key: Any, value: Any) -> Change:
    if value is None:
        return SetProgress(key.member_id, None)
    epoch = value.member_epoch
    progress = Progress(
        epoch,
        value.previous_member_epoch,
        MemberState.of(value.state),
        OwnedTasks(
            _task_epochs(value.active_tasks, epoch),
            task_set(value.standby_tasks),
            task_set(value.warmup_tasks),
        ),
        OwnedTasks(
            _task_epochs(value.active_tasks_pending_revocation, epoch),
            task_set(value.standby_tasks_pending_revocation),
            task_set(value.warmup_tasks_pending_revocation),
        ),
    )
    return SetProgress(key.member_id, progress)


def _task_epochs(
    tasks: Iterable[CurrentTaskIds], member_epoch: int
) -> Mapping[str, Mapping[int, int]]:
    result = {}
    for task in tasks:
        epochs = task.assignment_epochs
        if epochs is None or len(epochs) != len(task.partitions):
            epochs = [member_epoch] * len(task.partitions)
        if task.partitions:
            result[task.subtopology_id] = dict(zip(task.partitions, epochs, strict=True))
    return result


_Reader = tuple[type[Message], type[Message], Callable[[Any, Any], Change]]

_READERS: Final[Mapping[bytes, _Reader]] = {
    b"\0\x11": (StreamsGroupMetadataKey, StreamsGroupMetadataValue, _read_epoch),
    b"\0\x13": (StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue, _read_member),
    b"\0\x14": (
        StreamsGroupTargetAssignmentMetadataKey,
        StreamsGroupTargetAssignmentMetadataValue,
        _read_target_epoch,
    ),
    b"\0\x15": (
        StreamsGroupTargetAssignmentMemberKey,
        StreamsGroupTargetAssignmentMemberValue,
        _read_target,
    ),
    b"\0\x16": (
        StreamsGroupCurrentMemberAssignmentKey,
        StreamsGroupCurrentMemberAssignmentValue,
        _read_progress,
    ),
    b"\0\x17": (StreamsGroupTopologyKey, StreamsGroupTopologyValue, _read_topology),
}
