"""Groups: list, describe, delete, and remove members; their offsets are in `group_offsets`.

Assignments are decoded for consumer groups; other kinds of groups have formats of their own. Groups
of the consumer protocol (KIP-848), share groups and those of Streams applications are described by
requests of their own: DescribeGroups says that they do not exist.
Mirrors: listConsumerGroups, describeConsumerGroups, deleteConsumerGroups and
removeMembersFromConsumerGroup of KafkaAdminClient.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ...protocol.api import API_TABLE, ApiKey
from ...protocol.apis.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
)
from ...protocol.apis.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ...protocol.apis.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseDescribedGroup,
)
from ...protocol.apis.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ...protocol.apis.list_groups import ListGroupsRequest, ListGroupsResponse
from ...protocol.apis.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ...protocol.apis.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupDescribeResponseDescribedGroup,
    StreamsGroupDescribeResponseTaskIds,
)
from ...protocol.codec import decode_versioned
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from ...protocol.primitives import Buffer
from ...protocol.topics import TopicPartition
from ..cluster import Cluster, CoordinatorKind
from ..connection import Connection
from ..errors import Unsupported
from .results import Results
from .routing import Answer, Purpose, ask_brokers, ask_coordinators

CONSUMER_PROTOCOL = "consumer"
SHARE_PROTOCOL = "share"
STREAMS_PROTOCOL = "streams"
STATE_FILTER_VERSION = 4  # of ListGroups (KIP-518)
SEVERAL_MEMBERS_VERSION = 3  # of LeaveGroup (KIP-345)
DEAD = "Dead"  # the state of a group that does not exist
_NO_CONSUMER_GROUP = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group; state and type are "" if an old broker does not send them."""

    group_id: str
    protocol_type: str
    state: str
    coordinator: int
    group_type: str = ""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member; `instance_id` is set for a static member (KIP-345)."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    # Its epoch; -1: of a classic group.
    epoch: int = -1
    # Of the consumer protocol only: the partitions that it is to have.
    target: tuple[TopicPartition, ...] = ()
    # Of a Streams application only: its process, and its tasks, as subtopology_partition.
    process: str = ""
    active_tasks: tuple[str, ...] = ()
    standby_tasks: tuple[str, ...] = ()
    target_tasks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group; its state is "Dead" if it does not exist."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    is_consumer_group: bool = False  # of the consumer protocol (KIP-848)
    is_streams_group: bool = False  # of a Streams application (KIP-1071)
    # The group's epoch, and that of the members' target; -1: of a classic group.
    epoch: int = -1
    target_epoch: int = -1

    @property
    def is_there(self) -> bool:
        """Whether the group exists."""
        return self.state != DEAD

    @property
    def is_share_group(self) -> bool:
        """Whether it is a queue, with offsets of its own (`Admin.share_groups`)."""
        return self.protocol_type == SHARE_PROTOCOL


class Groups:
    """`Groups(cluster)`; each method raises ClientError if the cluster does not answer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list(
        self, states: Collection[str] = (), types: Collection[str] = ()
    ) -> Results[int, tuple[ListedGroup, ...]]:
        """The groups of each broker; with `states` or `types`, only those of one of them."""
        wanted = {state.lower() for state in states}
        kinds = {kind.lower() for kind in types}

        async def ask(connection: Connection, broker_id: int) -> tuple[ListedGroup, ...]:
            key = ApiKey.LIST_GROUPS
            filters = list(states) if connection.version(key) >= STATE_FILTER_VERSION else []
            request = ListGroupsRequest(states_filter=filters)
            answer = await connection.request(key, request, ListGroupsResponse)
            what = f"cannot list the groups of broker {broker_id}"
            self._cluster.asks("describe").check(answer.error_code, None, what)
            return tuple(
                ListedGroup(
                    one.group_id, one.protocol_type, one.group_state, broker_id, one.group_type
                )
                for one in answer.groups
                if (not wanted or one.group_state.lower() in wanted)
                and (not kinds or one.group_type.lower() in kinds)
            )

        return await ask_brokers(self._cluster, None, ask)

    async def describe(self, group_ids: Collection[str]) -> Results[str, GroupDescription]:
        """The state, the protocol and the members of groups of every kind."""

        async def ask(
            connection: Connection, mine: list[str]
        ) -> dict[str, Answer[GroupDescription]]:
            request = DescribeGroupsRequest(groups=mine)
            answer = await connection.request(
                ApiKey.DESCRIBE_GROUPS, request, DescribeGroupsResponse
            )
            answers = {
                one.group_id: Answer(one.error_code, None, _described(one)) for one in answer.groups
            }
            missing = [one.group_id for one in answer.groups if one.group_state == DEAD]
            if missing:
                answers.update(await _described_consumer_groups(connection, missing))
                missing = [group_id for group_id in missing if not _is_there(answers[group_id])]
            if missing:
                answers.update(await _among_share_groups(connection, missing))
                missing = [group_id for group_id in missing if not _is_there(answers[group_id])]
            if missing:
                answers.update(await _described_streams_groups(connection, missing))
            return answers

        purpose = Purpose("describe", "cannot describe group")
        return await ask_coordinators(self._cluster, CoordinatorKind.GROUP, group_ids, ask, purpose)

    async def delete(self, group_ids: Collection[str]) -> Results[str, None]:
        """Delete groups without members, and their offsets."""

        async def ask(connection: Connection, mine: list[str]) -> dict[str, Answer[None]]:
            request = DeleteGroupsRequest(groups_names=mine)
            answer = await connection.request(ApiKey.DELETE_GROUPS, request, DeleteGroupsResponse)
            return {one.group_id: Answer(one.error_code, None, None) for one in answer.results}

        purpose = Purpose("delete", "cannot delete group")
        return await ask_coordinators(self._cluster, CoordinatorKind.GROUP, group_ids, ask, purpose)

    async def remove_members(
        self, group_id: str, members: Mapping[str, str | None], reason: str = ""
    ) -> Results[str, None]:
        """Remove members from a group, by member id; the values are the instance ids of static
        members."""
        results: Results[str, None] = Results()

        async def ask(connection: Connection, mine: list[str]) -> dict[str, Answer[None]]:
            key = ApiKey.LEAVE_GROUP
            (group,) = mine
            if connection.version(key) < SEVERAL_MEMBERS_VERSION:
                for member in members:
                    one = LeaveGroupRequest(group_id=group, member_id=member)
                    answer = await connection.request(key, one, LeaveGroupResponse)
                    self._put_removed(results, member, answer.error_code)
                return {group: Answer(0, None, None)}
            request = LeaveGroupRequest(
                group_id=group,
                members=[
                    MemberIdentity(
                        member_id="" if instance else member,
                        group_instance_id=instance,
                        reason=reason or None,
                    )
                    for member, instance in members.items()
                ],
            )
            answer = await connection.request(key, request, LeaveGroupResponse)
            for member, left in zip(members, answer.members, strict=False):
                self._put_removed(results, member, left.error_code)
            return {group: Answer(answer.error_code, None, None)}

        purpose = Purpose("read", "cannot remove members of group")
        (
            await ask_coordinators(self._cluster, CoordinatorKind.GROUP, [group_id], ask, purpose)
        ).all()
        return results

    def _put_removed(self, results: Results[str, None], member: str, code: int) -> None:
        purpose = Purpose("read", "cannot remove member")
        error = purpose.error(self._cluster, member, code, None) if code else None
        results.put(member, None, error)


async def _described_consumer_groups(
    connection: Connection, group_ids: list[str]
) -> dict[str, Answer[GroupDescription]]:
    """Those that are of the consumer protocol."""
    key = ApiKey.CONSUMER_GROUP_DESCRIBE
    try:
        connection.version(key)
    except Unsupported:
        return {}
    request = ConsumerGroupDescribeRequest(group_ids=group_ids)
    answer = await connection.request(key, request, ConsumerGroupDescribeResponse)
    return {
        one.group_id: Answer(one.error_code, one.error_message, _consumer_group(one))
        for one in answer.groups
        if one.error_code not in _NO_CONSUMER_GROUP
    }


def _consumer_group(one: ConsumerGroupDescribeResponseDescribedGroup) -> GroupDescription:
    return GroupDescription(
        group_id=one.group_id,
        state=one.group_state,
        protocol_type=CONSUMER_PROTOCOL,
        assignor=one.assignor_name,
        members=tuple(
            GroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                _places(member.assignment),
                member.member_epoch,
                _places(member.target_assignment),
            )
            for member in one.members
        ),
        is_consumer_group=True,
        epoch=one.group_epoch,
        target_epoch=one.assignment_epoch,
    )


async def described_share_groups(
    connection: Connection, group_ids: list[str]
) -> dict[str, Answer[GroupDescription]]:
    request = ShareGroupDescribeRequest(group_ids=group_ids)
    key = ApiKey.SHARE_GROUP_DESCRIBE
    newest = API_TABLE[key].max_version
    answer = await connection.request(key, request, ShareGroupDescribeResponse, newest=newest)
    return {
        one.group_id: Answer(one.error_code, one.error_message, _share_group(one))
        for one in answer.groups
    }


async def _among_share_groups(
    connection: Connection, group_ids: list[str]
) -> dict[str, Answer[GroupDescription]]:
    """Those that are share groups."""
    try:
        found = await described_share_groups(connection, group_ids)
    except Unsupported:
        return {}
    return {name: one for name, one in found.items() if one.code not in _NO_CONSUMER_GROUP}


def _share_group(one: DescribedGroup) -> GroupDescription:
    return GroupDescription(
        group_id=one.group_id,
        state=one.group_state,
        protocol_type=SHARE_PROTOCOL,
        assignor=one.assignor_name,
        members=tuple(
            GroupMember(
                member.member_id,
                None,
                member.client_id,
                member.client_host,
                tuple(
                    sorted(
                        (topic.topic_name, number)
                        for topic in member.assignment.topic_partitions
                        for number in topic.partitions
                    )
                ),
                member.member_epoch,
            )
            for member in one.members
        ),
        epoch=one.group_epoch,
        target_epoch=one.assignment_epoch,
    )


async def _described_streams_groups(
    connection: Connection, group_ids: list[str]
) -> dict[str, Answer[GroupDescription]]:
    """Those that are of Streams applications."""
    key = ApiKey.STREAMS_GROUP_DESCRIBE
    newest = API_TABLE[key].max_version
    try:
        connection.version(key, newest)
    except Unsupported:
        return {}
    request = StreamsGroupDescribeRequest(group_ids=group_ids)
    answer = await connection.request(key, request, StreamsGroupDescribeResponse, newest=newest)
    return {
        one.group_id: Answer(one.error_code, one.error_message, _streams_group(one))
        for one in answer.groups
        if one.error_code not in _NO_CONSUMER_GROUP
    }


def _streams_group(one: StreamsGroupDescribeResponseDescribedGroup) -> GroupDescription:
    subtopologies = () if one.topology is None else one.topology.subtopologies or ()
    inputs = {
        sub.subtopology_id: [*sub.source_topics, *(t.name for t in sub.repartition_source_topics)]
        for sub in subtopologies
    }
    return GroupDescription(
        group_id=one.group_id,
        state=one.group_state,
        protocol_type=STREAMS_PROTOCOL,
        assignor="",
        members=tuple(
            GroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                tuple(
                    sorted(
                        (topic, n)
                        for task in member.assignment.active_tasks
                        for topic in inputs.get(task.subtopology_id, ())
                        for n in task.partitions
                    )
                ),
                member.member_epoch,
                process=member.process_id,
                active_tasks=_tasks(member.assignment.active_tasks),
                standby_tasks=_tasks(member.assignment.standby_tasks),
                target_tasks=_tasks(member.target_assignment.active_tasks),
            )
            for member in one.members
        ),
        is_streams_group=True,
        epoch=one.group_epoch,
        target_epoch=one.assignment_epoch,
    )


def _tasks(tasks: Iterable[StreamsGroupDescribeResponseTaskIds]) -> tuple[str, ...]:
    return tuple(f"{task.subtopology_id}_{n}" for task in tasks for n in task.partitions)


def _is_there(answer: Answer[GroupDescription]) -> bool:
    return answer.value is not None and answer.value.is_there


def _places(assignment: ConsumerGroupDescribeResponseAssignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted((one.topic_name, n) for one in assignment.topic_partitions for n in one.partitions)
    )


def _described(one: DescribeGroupsResponseDescribedGroup) -> GroupDescription:
    is_consumer = one.protocol_type == CONSUMER_PROTOCOL
    return GroupDescription(
        group_id=one.group_id,
        state=one.group_state,
        protocol_type=one.protocol_type,
        assignor=one.protocol_data,
        members=tuple(_member(member, is_consumer=is_consumer) for member in one.members),
    )


def _member(one: DescribedGroupMember, *, is_consumer: bool) -> GroupMember:
    assigned = _assigned(one.member_assignment) if is_consumer else ()
    return GroupMember(
        one.member_id, one.group_instance_id, one.client_id, one.client_host, assigned
    )


def _assigned(assignment: Buffer) -> tuple[TopicPartition, ...]:
    """The assigned partitions; empty if the bytes are not a consumer's assignment."""
    if not assignment:
        return ()
    try:
        found = decode_versioned(ConsumerProtocolAssignment, assignment, clamp=True)
    except ProtocolError:
        return ()
    return tuple(
        sorted((one.topic, n) for one in found.assigned_partitions for n in one.partitions)
    )
