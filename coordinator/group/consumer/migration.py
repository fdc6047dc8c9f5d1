"""A group with members goes over from the classic protocol to the consumer protocol, and back.

It goes over when a first member sends a ConsumerGroupHeartbeat: its classic members become members
of the consumer group, with the assignment and in the generation that they have, and stay in it
(`classic_members.py`). It goes back when its last member of the consumer protocol leaves: the
others form a classic group again, with their targets as assignment, and rebalance. The policy
`group.consumer.migration.policy` says which of both a group may do; empty groups always may.

All records of a step are one batch. If that does not get into the log, the group is what it was.

Mirrors GroupMetadataManager.convertToConsumerGroup and convertToClassicGroup with their checks,
ConsumerGroup.fromClassicGroup and ClassicGroup.fromConsumerGroup. Different: a group whose first
rebalance has not ended has no protocol; its members say their topics with the one that they would
agree on, where Kafka fails (UNKNOWN_SERVER_ERROR).
"""

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from ....protocol.codec import decode_versioned, encode_versioned
from ....protocol.errors import ErrorCode, ProtocolError
from ....protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from ....protocol.records.record import SimpleRecord
from ...append_errors import IN_THE_LOG, store_error
from ..core import Core
from ..group import CONSUMER_PROTOCOL_TYPE, Group
from ..members import Member as ClassicMember
from ..members import MemberProtocol
from ..rebalance import Rebalance
from ..records import group_metadata_record, version_of
from .assignment import Assignment, PartitionEpochs
from .changes import GroupEpoch, SetEpoch, SetMember, SetProgress, SetTarget, SetTargetEpoch
from .changes import TargetEpoch as TargetEpochValue
from .commits import end_records
from .config import ConsumerGroupConfig, MigrationPolicy
from .consumer_group import ConsumerGroup
from .member import (
    ClassicMetadata,
    ClassicProtocol,
    Member,
    MemberMetadata,
    MemberState,
    Progress,
)
from .records import record
from .requests import Refused
from .sessions import Sessions
from .topics import TopicImage
from .writing import Edit

logger = logging.getLogger("pybroker.coordinator.group.consumer")

_NEWEST_ASSIGNMENT: Final = 3
_UPGRADES: Final = (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)
_DOWNGRADES: Final = (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


def subscription_of(metadata: bytes) -> ConsumerProtocolSubscription:
    """The subscription that a classic member tells; raises ProtocolError."""
    return decode_versioned(ConsumerProtocolSubscription, metadata, clamp=True)


def assignment_bytes(
    partitions: Mapping[bytes, Collection[int]], image: TopicImage, subscription: bytes
) -> bytes:
    """An assignment as a classic member reads it, in the version of its subscription."""
    named = ((image.topic_name(topic_id), partitions[topic_id]) for topic_id in partitions)
    topics = [
        ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=sorted(found))
        for name, found in sorted((name, found) for name, found in named if name is not None)
    ]
    version = min(version_of(subscription), _NEWEST_ASSIGNMENT)
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), version)


class Migration:
    """The part of the coordinator that changes the protocol of groups."""

    __slots__ = ("_core", "_image", "_rebalance", "_sessions", "config")

    def __init__(
        self,
        core: Core,
        config: ConsumerGroupConfig,
        image: TopicImage,
        rebalance: Rebalance,
        sessions: Sessions,
    ) -> None:
        self._core = core
        self.config = config
        self._image = image
        self._rebalance = rebalance
        self._sessions = sessions

    # To the consumer protocol

    def upgraded(self, holder: Group, metadata_hash: Callable[[ConsumerGroup], int]) -> Edit:
        """The classic group as a consumer group, not yet written. Raises Refused. Requests
        that wait in a rebalance are answered, so that their members join anew."""
        self._check_upgrade(holder)
        self._rebalance.interrupt(holder)
        edit = Edit(ConsumerGroup(holder.group_id))
        epoch = holder.generation_id
        protocol_name = holder.protocol_name or ""
        if holder.members and not protocol_name:
            protocol_name = holder.select_protocol()
        members = []
        try:
            for classic in holder.members.values():
                members.append((classic.member_id, self._assignment_of(classic)))
                metadata = _metadata_of(classic, protocol_name)
                edit.apply(SetMember(classic.member_id, metadata))
        except ProtocolError as error:
            logger.warning("group %r cannot be upgraded: %s", holder.group_id, error)
            raise _no_upgrade(holder, "the embedded consumer protocol is malformed") from None
        edit.apply(SetEpoch(GroupEpoch(epoch, metadata_hash(edit.group))))
        for member_id, assignment in members:
            edit.apply(SetTarget(member_id, assignment))
        edit.apply(SetTargetEpoch(TargetEpochValue(epoch)))
        for member_id, assignment in members:
            assigned: PartitionEpochs = {
                topic_id: dict.fromkeys(sorted(partitions), epoch)
                for topic_id, partitions in assignment.items()
            }
            progress = Progress(epoch, epoch, MemberState.STABLE, assigned)
            edit.apply(SetProgress(member_id, progress))
        logger.info("group %r is a consumer group from now on", holder.group_id)
        return edit

    def _check_upgrade(self, holder: Group) -> None:
        if self.config.migration_policy not in _UPGRADES:
            raise _no_upgrade(holder, "online upgrade is disabled")
        if holder.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise _no_upgrade(holder, "the group does not use the consumer embedded protocol")
        if len(holder.members) > self.config.max_size:
            raise _no_upgrade(holder, "the group size exceeds the consumer group maximum size")

    def _assignment_of(self, classic: ClassicMember) -> Assignment:
        if not classic.assignment:
            return {}
        told = decode_versioned(ConsumerProtocolAssignment, classic.assignment, clamp=True)
        if told.user_data:
            raise Refused(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"Cannot upgrade classic group {classic.session_timer.owner.group_id} to consumer "
                "group because an unsupported custom assignor is in use. Please refer to the "
                "documentation or switch to a default assignor before re-attempting the upgrade.",
            )
        found = {}
        for topic in told.assigned_partitions:
            topic_id = self._image.topic_id(topic.topic)
            if topic_id is not None and topic.partitions:
                found[topic_id] = frozenset(topic.partitions)
        return found

    # To the classic protocol

    def goes_back_without(self, group: ConsumerGroup, leaving: Collection[Member]) -> bool:
        """Whether the group is a classic one when these members have left."""
        count = len(group.members) - len(leaving)
        classic = group.classic_count - sum(member.is_classic for member in leaving)
        return classic == count > 0 and self._may_go_back(group, count)

    def goes_back_for(self, group: ConsumerGroup, replaced: Member) -> bool:
        """Whether the group is a classic one when a classic member replaces this static one."""
        is_last = not replaced.is_classic and group.classic_count == len(group.members) - 1
        return is_last and self._may_go_back(group, len(group.members))

    def _may_go_back(self, group: ConsumerGroup, count: int) -> bool:
        problem = None
        if self.config.migration_policy not in _DOWNGRADES:
            problem = "it is disabled"
        elif count > self._core.config.max_size:
            problem = "it has more members than group.max.size"
        if problem is not None:
            logger.info("group %r does not go back to classic: %s", group.group_id, problem)
        return problem is None

    def go_back(
        self,
        edit: Edit,
        leaving: Collection[Member],
        reason: str | None,
        now_ms: int,
        answer: tuple[object, Any, Callable[[ErrorCode], Any] | None],
    ) -> None:
        """The group without these members is a classic one; with a `reason` it rebalances.
        `answer`: token, response, and the response of an error."""
        core, group, image = self._core, edit.group, self._image
        holder = core.groups[group.group_id]
        gone = {member.member_id for member in leaving}
        members = [
            _classic_member(member)
            for member in group.members.values()
            if member.member_id not in gone
        ]
        stamp_ms = core.wall.stamp_ms(now_ms)
        records = [
            SimpleRecord(stamp_ms, *record(group.group_id, change)) for change in edit.changes
        ]
        records += end_records(group, stamp_ms)
        holder.begin_classic(group.epoch, members, now_ms)
        assert holder.protocol_name is not None
        for member in members:
            told = member.metadata(holder.protocol_name)
            member.assignment = assignment_bytes(group.target(member.member_id), image, told)
        assignments = {member.member_id: member.assignment for member in members}
        lead_ms = core.wall.stamp_lead_ms(now_ms)
        records.append(group_metadata_record(holder, assignments, now_ms, lead_ms))
        self._sessions.stop_timers(group)
        for member in members:
            self._rebalance.restart_session(member, now_ms)
        completion = partial(self._gone_back, holder, holder.generation_id, edit, answer)
        core.append(holder.partition, records, completion)
        logger.info("group %r is a classic group from now on", group.group_id)
        if reason is not None:
            self._rebalance.prepare(holder, reason, now_ms)

    def _gone_back(
        self,
        holder: Group,
        generation_id: int,
        edit: Edit,
        answer: tuple[object, Any, Callable[[ErrorCode], Any] | None],
        append_id: int,
        error: ErrorCode,
        base_offset: int,
        now_ms: int,
    ) -> None:
        group, (token, response, failed) = edit.group, answer
        is_current = self._core.is_current(holder)
        if error not in IN_THE_LOG:
            logger.warning(
                "append %d of group %r failed: %s", append_id, group.group_id, error.name
            )
            if is_current and holder.consumer is None and holder.generation_id == generation_id:
                self._stay(holder, edit, now_ms)
        if error is ErrorCode.NONE and not is_current:
            error = ErrorCode.NOT_COORDINATOR
        if token is not None:
            answered = (
                response
                if error is ErrorCode.NONE
                else (failed or group.refusal)(store_error(error))
            )
            self._core.reply(token, answered)

    def _stay(self, holder: Group, edit: Edit, now_ms: int) -> None:
        """The group has not gone back: it is the consumer group that it was."""
        self._rebalance.interrupt(holder)
        self._rebalance.stop_classic(holder)
        holder.end_classic()
        edit.take_back()
        holder.modern = edit.group
        self.restart_sessions(edit.group, now_ms)

    def restart_sessions(self, group: ConsumerGroup, now_ms: int) -> None:
        """Give each member of the group its time."""
        for member in group.members.values():
            self.restart_session(group, member, now_ms)

    def restart_session(self, group: ConsumerGroup, member: Member, now_ms: int) -> None:
        timeout_ms = self.config.session_timeout_ms
        if member.metadata.classic is not None:
            timeout_ms = member.metadata.classic.session_timeout_ms
        self._sessions.restart_session(group, member.member_id, now_ms, timeout_ms)


def _no_upgrade(holder: Group, why: str) -> Refused:
    return Refused(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {holder.group_id} to consumer group because {why}.",
    )


def _metadata_of(classic: ClassicMember, protocol_name: str) -> MemberMetadata:
    told = subscription_of(classic.metadata(protocol_name))
    return MemberMetadata(
        instance_id=classic.group_instance_id,
        rack_id=told.rack_id,
        client_id=classic.client_id,
        client_host=classic.client_host,
        topic_names=frozenset(told.topics),
        rebalance_timeout_ms=classic.rebalance_timeout_ms,
        classic=ClassicMetadata(
            classic.session_timeout_ms,
            tuple(ClassicProtocol(one.name, one.metadata) for one in classic.protocols),
        ),
    )


def _classic_member(member: Member) -> ClassicMember:
    metadata = member.metadata
    assert metadata.classic is not None
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        session_timeout_ms=metadata.classic.session_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=[MemberProtocol(one.name, one.metadata) for one in metadata.classic.protocols],
    )
