"""ShareGroupHeartbeat: members come, say what they want, and go (KIP-932).

Much is as in consumer groups (`consumer.heartbeats`): epochs, targets, sessions, and the log. A
member moves to its target at once, since partitions are shared. Only partitions whose states are
there are assigned: states of new topics and partitions begin behind the heartbeat that finds them,
and the group's next epoch follows when they are there. Kafka's members learn of it by their next
heartbeat, 5 s later; here the answer to such a member names a shorter interval.

Rules: SEMANTICS 16. Mirrors the share half of GroupMetadataManager.
"""

import logging
from collections.abc import Collection
from typing import Final

from ....protocol.apis.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
)
from ....protocol.apis.delete_share_group_state import PartitionData as DeletePartition
from ....protocol.apis.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateData,
    PartitionData,
)
from ....protocol.apis.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from ....protocol.errors import ErrorCode
from ..consumer.assignment import Division, PartitionEpochs, Subscriber
from ..consumer.changes import SetMember, SetProgress, SetTarget, SetTargetEpoch, TargetEpoch
from ..consumer.consumer_group import ConsumerGroup
from ..consumer.heartbeats import ConsumerGroups
from ..consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    Member,
    MemberState,
    Progress,
)
from ..consumer.requests import Refused
from ..consumer.target_assignment import topic_ids
from ..consumer.writing import Edit
from ..core import InitializeStates
from .share_group import ShareGroup
from .simple_assignor import assign
from .states import SetStates, States, Topics, TopicStates, with_topics, without

logger = logging.getLogger("pybroker.coordinator.group.share")

INITIALIZE_RETRY_MS: Final = 30_000
BEGINNING_INTERVAL_MS: Final = 200
_NO_OFFSET: Final = -1


class ShareBeat:
    """One heartbeat with the values that the machine needs."""

    __slots__ = ("client_host", "client_id", "request", "token")

    def __init__(
        self, token: object, request: ShareGroupHeartbeatRequest, client_id: str, client_host: str
    ) -> None:
        self.token = token
        self.request = request
        self.client_id = client_id
        self.client_host = client_host


class ShareGroups(ConsumerGroups):
    """The part of the coordinator for share groups."""

    __slots__ = ()

    # Requests

    def share_heartbeat(self, beat: ShareBeat, now_ms: int) -> None:
        request = beat.request
        error = self._core.check_group(request.group_id)
        try:
            if not self._core.is_active:
                raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            _check_request(request)
            if error is not ErrorCode.NONE:
                raise Refused(error)
            if request.member_epoch == LEAVING_EPOCH:
                self._share_leave(beat, now_ms)
            else:
                self._share_beat(beat, now_ms)
        except Refused as refused:
            response = ShareGroupHeartbeatResponse(
                error_code=refused.error, error_message=refused.message
            )
            self._core.reply(beat.token, response)

    def _share_beat(self, beat: ShareBeat, now_ms: int) -> None:
        request, member_id = beat.request, beat.request.member_id
        is_joining = request.member_epoch == JOINING_EPOCH
        group = self._share_group_for(request.group_id, may_create=is_joining)
        if len(group.members) >= self._config.max_size and member_id not in group.members:
            raise Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                "The share group has reached its maximum capacity of "
                f"{self._config.max_size} members.",
            )
        old = group.members.get(member_id)
        if old is None:
            if not is_joining:
                raise _unknown(group, member_id)
            logger.info("share group %r: member %s joins", group.group_id, member_id)
            old = Member(member_id)
        _check_epoch(old, request.member_epoch)
        edit = Edit(group)
        try:
            updated = _updated(beat, old)
            begins = updated.metadata.topic_names != old.metadata.topic_names
            begins |= group.target_epoch >= group.epoch and _has_unassigned(group)
            if updated.metadata != old.metadata:
                edit.apply(SetMember(member_id, updated.metadata))
            epoch = group.epoch
            if group.is_refresh_due:
                self._forget_topics(edit)
            self.refresh(edit, begins_epoch=begins)
            self._update_share_targets(edit, now_ms)
            progress = self._share_step(edit, updated, group.epoch != epoch)
            initialized = self._begin_states(edit, now_ms)
            interval_ms = self._interval_ms(group, progress, now_ms)
        except Refused:
            edit.take_back()
            raise
        self._restart_session(group, member_id, now_ms)
        response = ShareGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=progress.epoch,
            heartbeat_interval_ms=interval_ms,
        )
        is_full = request.subscribed_topic_names is not None
        if is_joining or is_full or progress.assigned != old.progress.assigned:
            response.assignment = _assignment(progress.assigned)
        self.writer.commit(edit, now_ms, beat.token, response, after=initialized)

    def _interval_ms(self, group: ShareGroup, progress: Progress, now_ms: int) -> int:
        """Until the member's next heartbeat: soon, if its first partitions are about to come."""
        interval_ms = self._config_of(group.group_id).heartbeat_interval_ms
        if progress.assigned:
            return interval_ms
        begun_ms = max(group.begun_ms.values(), default=None)
        is_beginning = begun_ms is not None and now_ms - begun_ms < interval_ms
        if is_beginning or group.target_epoch < group.epoch:
            return min(BEGINNING_INTERVAL_MS, interval_ms)
        return interval_ms

    def _share_group_for(self, group_id: str, *, may_create: bool) -> ShareGroup:
        found = self._core.groups.get(group_id)
        if found is not None and isinstance(found.consumer, ShareGroup):
            return found.consumer
        if found is not None:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
        if not may_create:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
        return ShareGroup(group_id)

    def _update_share_targets(self, edit: Edit, now_ms: int) -> None:
        group = edit.group
        assert isinstance(group, ShareGroup)
        interval_ms = self._config_of(group.group_id).assignment_interval_ms
        if group.target_epoch >= group.epoch:
            return
        if group.assigned_ms is not None and now_ms < group.assigned_ms + interval_ms:
            return
        subscribers = [
            Subscriber(
                member_id,
                None,
                topic_ids(group, group.members[member_id].metadata, self._image),
                group.target(member_id),
            )
            for member_id in sorted(group.members)
        ]
        counts = {
            topic_id: self._image.partition_count(topic_id) or 0
            for topic_id in frozenset[bytes]().union(*(one.topic_ids for one in subscribers))
        }
        found = assign(Division(subscribers, counts, group.is_homogeneous), group.assignable)
        for one in subscribers:
            target = found.get(one.member_id, {})
            if group.targets.get(one.member_id) != target:
                edit.apply(SetTarget(one.member_id, target))
        edit.apply(SetTargetEpoch(TargetEpoch(group.epoch, self._core.wall.stamp_ms(now_ms))))
        if group.assignable:  # without, the next target is the first one
            group.assigned_ms = now_ms
        logger.info("share group %r: target of epoch %d", group.group_id, group.epoch)

    def _share_step(self, edit: Edit, member: Member, is_new: bool) -> Progress:
        """The member moves to its target, or to the part of it that it is subscribed to."""
        group, before = edit.group, member.progress
        if before.epoch == group.target_epoch and not is_new:
            return before
        wanted = topic_ids(group, member.metadata, self._image)
        assigned = {
            topic_id: dict.fromkeys(sorted(partitions), 0)
            for topic_id, partitions in group.target(member.member_id).items()
            if topic_id in wanted
        }
        after = before._replace(assigned=assigned)
        if before.epoch != group.target_epoch:
            after = before.moved_to(group.target_epoch, MemberState.STABLE, assigned, {})
        if after != before:
            edit.apply(SetProgress(member.member_id, after))
        return after

    def _share_leave(self, beat: ShareBeat, now_ms: int) -> None:
        request = beat.request
        group = self._share_group_for(request.group_id, may_create=False)
        member = group.members.get(request.member_id)
        if member is None:
            raise _unknown(group, request.member_id)
        logger.info("share group %r: member %s left", group.group_id, request.member_id)
        edit = Edit(group)
        self._remove(edit, member)
        response = ShareGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        self.writer.commit(edit, now_ms, beat.token, response)

    def _count_rebalance(self) -> None:
        self._core.stats.share_rebalances += 1

    def _remove(self, edit: Edit, member: Member) -> None:
        """Its session goes on, so that it is removed again if this does not get into the log."""
        edit.remove(member.member_id)
        self._begin_epoch(edit, self._metadata_hash(edit.group))

    def session_expired(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        super().session_expired(group, member_id, now_ms)
        if member_id not in group.session_timers and group.last_append_id is not None:
            self._restart_session(group, member_id, now_ms)

    # States

    def _begin_states(self, edit: Edit, now_ms: int) -> InitializeStates | None:
        """Begin the states of partitions that have none yet."""
        group = edit.group
        assert isinstance(group, ShareGroup)
        states, begun_ms = group.known_states, group.begun_ms
        missing: dict[bytes, TopicStates] = {}
        for name in sorted(group.names):
            topic = self._image.topic(name)
            if topic is None:
                continue
            topic_id = topic.topic_id
            known = _partitions(states.initialized, topic_id)
            began_ms = begun_ms.get(topic_id)
            if began_ms is not None and now_ms - began_ms < INITIALIZE_RETRY_MS:
                known |= _partitions(states.initializing, topic_id)
            found = frozenset(range(topic.partition_count)) - known
            if found:
                missing[topic_id] = TopicStates(name, found)
        if not missing:
            return None
        deleting = {key: name for key, name in states.deleting.items() if key not in missing}
        initializing = with_topics(states.initializing, missing)
        edit.apply(SetStates(States(initializing, states.initialized, deleting)))
        begun_ms.update(dict.fromkeys(missing, now_ms))
        return InitializeStates(initialize_request(group, missing))

    def states_initialized(
        self,
        request: InitializeShareGroupStateRequest,
        response: InitializeShareGroupStateResponse,
        now_ms: int,
    ) -> None:
        """The outcome of an InitializeStates: all are there, or none counts."""
        holder = self._core.groups.get(request.group_id)
        if holder is None or not isinstance(holder.consumer, ShareGroup):
            return
        group = holder.consumer
        states = group.known_states
        results = [result for topic in response.results for result in topic.partitions]
        failed = next((result for result in results if result.error_code), None)
        ended = {
            topic.topic_id: frozenset(result.partition for result in topic.partitions)
            for topic in response.results
        }
        after = states._replace(initializing=without(states.initializing, ended))
        for topic_id in ended:
            group.begun_ms.pop(topic_id, None)
        if failed is None:
            named = {
                topic_id: TopicStates(self._image.topic_name(topic_id) or "<UNKNOWN>", partitions)
                for topic_id, partitions in ended.items()
            }
            after = after._replace(initialized=with_topics(states.initialized, named))
        else:
            logger.error(
                "share group %r: states do not begin: %s", group.group_id, failed.error_message
            )
        if after != states:
            edit = Edit(group)
            edit.apply(SetStates(after))
            self.writer.commit(edit, now_ms)

    def topics_changed(self, names: Collection[str]) -> None:
        for name in names:
            self._hashes.pop(name, None)
        for holder in self._core.groups.values():
            if isinstance(holder.consumer, ShareGroup):
                holder.consumer.changed_topics.update(names)

    def _forget_topics(self, edit: Edit) -> None:
        """Forget the states of topics that were deleted; the share coordinator does so itself.

        A topic that is only not known yet keeps them."""
        group = edit.group
        assert isinstance(group, ShareGroup)
        states, changed = group.known_states, group.changed_topics

        def is_there(topic_id: bytes, name: str) -> bool:
            return name not in changed or self._image.topic_name(topic_id) is not None

        after = States(
            {key: topic for key, topic in states.initializing.items() if is_there(key, topic.name)},
            {key: topic for key, topic in states.initialized.items() if is_there(key, topic.name)},
            {key: name for key, name in states.deleting.items() if is_there(key, name)},
        )
        group.changed_topics = set()
        if after != states:
            edit.apply(SetStates(after))


def initialize_request(group: ConsumerGroup, topics: Topics) -> InitializeShareGroupStateRequest:
    """Delivery begins where the leader finds it."""
    return InitializeShareGroupStateRequest(
        group_id=group.group_id,
        topics=[
            InitializeStateData(
                topic_id=topic_id,
                partitions=[
                    PartitionData(
                        partition=partition, state_epoch=group.epoch, start_offset=_NO_OFFSET
                    )
                    for partition in sorted(topic.partitions)
                ],
            )
            for topic_id, topic in topics.items()
        ],
    )


def delete_request(group: ShareGroup) -> DeleteShareGroupStateRequest:
    """All states of the group, those that begin included."""
    states = group.known_states
    topics = with_topics(states.initialized, states.initializing)
    return DeleteShareGroupStateRequest(
        group_id=group.group_id,
        topics=[
            DeleteStateData(
                topic_id=topic_id,
                partitions=[
                    DeletePartition(partition=partition) for partition in sorted(topic.partitions)
                ],
            )
            for topic_id, topic in topics.items()
        ],
    )


def _partitions(topics: Topics, topic_id: bytes) -> frozenset[int]:
    topic = topics.get(topic_id)
    return frozenset() if topic is None else topic.partitions


def _has_unassigned(group: ShareGroup) -> bool:
    """Whether partitions whose states are there are not assigned, or the other way round."""
    if not group.members or not group.names:
        return False
    assigned: dict[bytes, set[int]] = {}
    for target in group.targets.values():
        for topic_id, partitions in target.items():
            assigned.setdefault(topic_id, set()).update(partitions)
    return any(
        topic.name in group.names and assigned.get(topic_id, set()) != topic.partitions
        for topic_id, topic in group.known_states.initialized.items()
    )


def _updated(beat: ShareBeat, member: Member) -> Member:
    request, metadata = beat.request, member.metadata
    names = request.subscribed_topic_names
    return member._replace(
        metadata=metadata._replace(
            rack_id=metadata.rack_id if request.rack_id is None else request.rack_id,
            client_id=beat.client_id,
            client_host=beat.client_host,
            topic_names=metadata.topic_names if names is None else frozenset(names),
        )
    )


def _check_request(request: ShareGroupHeartbeatRequest) -> None:
    for value, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.rack_id, "RackId"),
    ):
        if value is not None and not value.strip():
            raise Refused(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    if request.member_epoch == JOINING_EPOCH:
        if not request.subscribed_topic_names:
            problem = "SubscribedTopicNames must be set in first request."
            raise Refused(ErrorCode.INVALID_REQUEST, problem)
    elif request.member_epoch < LEAVING_EPOCH:
        raise Refused(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")


def _check_epoch(member: Member, epoch: int) -> None:
    """A member that has missed the answer with its new epoch may use the one before."""
    progress = member.progress
    is_known = epoch in (JOINING_EPOCH, progress.epoch, progress.previous_epoch)
    if is_known and epoch <= max(progress.epoch, JOINING_EPOCH):
        return
    how = "greater" if epoch > progress.epoch else "smaller"
    tail = (
        ""
        if epoch > progress.epoch
        else f", and it does not match the previous member epoch ({progress.previous_epoch})"
    )
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {how} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({progress.epoch}){tail}. The member must abandon all its partitions "
        "and rejoin.",
    )


def _unknown(group: ShareGroup, member_id: str) -> Refused:
    return Refused(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )


def _assignment(assigned: PartitionEpochs) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(assigned[topic_id]))
            for topic_id in sorted(assigned)
        ]
    )
