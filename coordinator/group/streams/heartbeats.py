"""StreamsGroupHeartbeat: members come, say what they have, and go (KIP-1071).

A heartbeat has five parts: the member's metadata; the topology, which the first member brings; the
topics, which are looked at again when one of them has changed, and created where they are missing;
the target, computed for the group's epoch at most once in `assignment_interval_ms`, and of an empty
group not before `initial_rebalance_delay_ms`; a step of the member towards it. A change of the
member, of the topics or of the assignor's configs begins an epoch of the group. What changed goes
to the log as one batch, and the answer waits for it.

A member that sends no heartbeat within its session timeout, or gives up no tasks within its
rebalance timeout, is removed.

Mirrors the streams half of GroupMetadataManager. The time of the last target is that of this
process: a coordinator that has just loaded a group does not wait.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Any, Final

from ....protocol.apis.streams_group_heartbeat import (
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatResponseStatus,
    StreamsGroupHeartbeatResponseTaskIds,
)
from ....protocol.errors import ErrorCode, KafkaError
from ..consumer.metadata_hash import group_hash, topic_hash
from ..consumer.requests import Refused
from ..consumer.sessions import Sessions
from ..consumer.topics import TopicImage
from ..consumer.writing import GroupEdit, Writer
from ..core import Core
from ..rebalance import Rebalance
from ..timers import Timer, TimerKind
from .changes import (
    GroupEpoch,
    SetEpoch,
    SetMember,
    SetProgress,
    SetTarget,
    SetTargetEpoch,
    SetTopology,
    TargetEpoch,
)
from .config import StreamsGroupConfig
from .endpoints import endpoints
from .member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    Endpoint,
    Member,
    MemberState,
    Progress,
)
from .reconciliation import Target, UnknownStateError, step
from .requests import (
    NOT_GIVEN,
    Beat,
    HeartbeatResult,
    check_epoch,
    check_request,
    check_tasks,
    refusal,
)
from .sticky_task_assignor import (
    NUM_STANDBY_REPLICAS,
    MemberSpec,
    SubtopologySpec,
    TaskAssignorError,
    assign,
)
from .streams_group import StreamsGroup
from .tasks import NO_TASKS, OwnedTasks, Tasks
from .topic_configuration import ConfiguredTopology, Status, configure
from .topology import Topology, topology_of

logger = logging.getLogger("pybroker.coordinator.group.streams")

NO_TOPOLOGY_EPOCH: Final = -1
Edit = GroupEdit[StreamsGroup]
_Statuses = list[StreamsGroupHeartbeatResponseStatus]


class StreamsGroups:
    """The part of the coordinator for the groups of Streams applications."""

    __slots__ = (
        "_config", "_configs", "_core", "_image", "_own_values", "_sessions", "_writer"
    )  # fmt: skip

    def __init__(
        self, core: Core, config: StreamsGroupConfig, image: TopicImage, rebalance: Rebalance
    ) -> None:
        self._core = core
        self._config = config
        # Of the groups that set some keys themselves: their values, and the config with them.
        self._own_values: dict[str, Mapping[str, Any]] = {}
        self._configs: dict[str, StreamsGroupConfig] = {}
        self._image = image
        self._sessions = Sessions(
            core.timers, TimerKind.STREAMS_SESSION, TimerKind.STREAMS_REBALANCE
        )
        self._writer = Writer(core, self._sessions, rebalance)
        self._writer.on_lost = self._give_time

    # Configuration

    def config_changed(self, config: StreamsGroupConfig) -> None:
        """The broker's own; members get to know it with their next heartbeat."""
        self._config = config
        self._configs = {
            group_id: config.of_group(values) for group_id, values in self._own_values.items()
        }

    def group_config_changed(self, group_id: str, values: Mapping[str, Any]) -> None:
        """That of one group: these keys are its own."""
        if values:
            self._own_values[group_id] = values
            self._configs[group_id] = self._config.of_group(values)
        else:
            self._own_values.pop(group_id, None)
            self._configs.pop(group_id, None)

    def config_of(self, group_id: str) -> StreamsGroupConfig:
        return self._configs.get(group_id, self._config)

    # Requests

    def heartbeat(self, beat: Beat, now_ms: int) -> None:
        request = beat.request
        try:
            if not self._core.is_active:
                raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            check_request(request)
            error = self._core.check_group(request.group_id)
            if error is not ErrorCode.NONE:
                raise Refused(error)
            if request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH):
                self._leave(beat, now_ms)
            else:
                self._beat(beat, now_ms)
        except Refused as refused:
            self._core.reply(beat.token, refusal(refused.error, refused.message))

    # A heartbeat

    def _beat(self, beat: Beat, now_ms: int) -> None:
        request = beat.request
        config = self.config_of(request.group_id)
        is_joining = request.member_epoch == JOINING_EPOCH
        group = self._group_for(request.group_id, may_create=is_joining)
        if is_joining and len(group.members) >= config.max_size:
            raise Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The streams group has reached its maximum capacity of {config.max_size} members.",
            )
        is_empty, is_new = not group.members, not group.is_persisted
        old = self._member_for(group, beat, is_joining=is_joining)
        is_delayed = group.delay_timer is not None or (
            is_empty and config.initial_rebalance_delay_ms > 0
        )
        status: _Statuses = []
        edit = Edit(group)
        try:
            updated = self._set_member(edit, beat, old)
            configured = self._refresh(edit, beat, old, updated, status)
            target = NO_TASKS
            if is_delayed:
                text = "Assignment delayed due to the configured initial rebalance delay."
                _add(status, Status.ASSIGNMENT_DELAYED, text)
            else:
                self._update_targets(edit, configured, now_ms, status)
                target = group.target(updated.member_id)
            progress = self._reconcile(edit, updated, target, beat, now_ms)
        except Refused:
            edit.take_back()
            raise
        except KafkaError as error:
            edit.take_back()
            raise Refused(error.code, error.message) from error
        if is_delayed and group.delay_timer is None:
            group.delay_timer = Timer(TimerKind.STREAMS_INITIAL_DELAY, group)
            due_ms = now_ms + config.initial_rebalance_delay_ms
            self._core.timers.reschedule(group.delay_timer, due_ms)
        self._restart_session(group, updated.member_id, now_ms)
        if request.shutdown_application and not is_new:
            self._shut_down(group, updated.member_id)
        response = self._response(group, beat, old, updated._replace(progress=progress), status)
        if is_new:
            group.endpoint_epoch = 0
        else:
            response.endpoint_information_epoch = group.endpoint_epoch
        _add_problems(group, configured, status)
        topics = {} if configured.is_ready else configured.missing_topics
        self._writer.commit(edit, now_ms, beat.token, HeartbeatResult(response, topics))

    def _group_for(self, group_id: str, *, may_create: bool) -> StreamsGroup:
        found = self._core.groups.get(group_id)
        if found is not None and found.streams is not None:
            return found.streams
        if found is None and not may_create:
            problem = f"Streams group {group_id} not found."
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, problem)
        if found is not None and (found.modern is not None or found.has_members or not may_create):
            problem = f"Group {group_id} is not a streams group."
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, problem)
        return StreamsGroup(group_id)

    @staticmethod
    def _member_for(group: StreamsGroup, beat: Beat, *, is_joining: bool) -> Member:
        """The member that sends it, as it was before, or a new one."""
        member_id = beat.request.member_id
        member = group.members.get(member_id)
        if member is None:
            if not is_joining:
                raise _unknown_member(group, member_id)
            member = Member(member_id)
        check_epoch(member, beat.request.member_epoch, beat.owned)
        if is_joining:
            logger.info("group %r: member %s joins", group.group_id, member_id)
        return member

    @staticmethod
    def _set_member(edit: Edit, beat: Beat, old: Member) -> Member:
        request, metadata = beat.request, old.metadata
        timeout_ms, endpoint, tags = (
            request.rebalance_timeout_ms, request.user_endpoint, request.client_tags,
        )  # fmt: skip
        if tags is not None and len({tag.key for tag in tags}) < len(tags):
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        updated = metadata._replace(
            rack_id=metadata.rack_id if request.rack_id is None else request.rack_id,
            client_id=beat.client_id,
            client_host=beat.client_host,
            rebalance_timeout_ms=metadata.rebalance_timeout_ms
            if timeout_ms == NOT_GIVEN
            else timeout_ms,
            topology_epoch=metadata.topology_epoch
            if request.topology is None
            else request.topology.epoch,
            process_id=metadata.process_id if request.process_id is None else request.process_id,
            user_endpoint=metadata.user_endpoint
            if endpoint is None
            else Endpoint(endpoint.host, endpoint.port),
            client_tags=metadata.client_tags
            if tags is None
            else tuple(sorted((tag.key, tag.value) for tag in tags)),
        )
        if updated != metadata:
            edit.apply(SetMember(old.member_id, updated))
        return old._replace(metadata=updated)

    def _refresh(
        self, edit: Edit, beat: Beat, old: Member, updated: Member, status: _Statuses
    ) -> ConfiguredTopology:
        """The topology with its topics as they are now; what changed begins the next epoch."""
        group = edit.group
        begins_epoch = updated.metadata != old.metadata
        is_first = group.topology is None
        topology = self._set_topology(edit, beat)
        if updated.metadata.topology_epoch < topology.epoch:
            _add(
                status,
                Status.STALE_TOPOLOGY,
                f"The member's topology epoch {updated.metadata.topology_epoch} is behind the "
                f"group's topology epoch {topology.epoch}.",
            )
        metadata_hash, configured = group.metadata_hash, group.configured
        if is_first or configured is None or group.is_refresh_due:
            metadata_hash = self._metadata_hash(topology)
            has_changed = metadata_hash != group.metadata_hash
            begins_epoch |= has_changed
            if is_first or configured is None or has_changed:
                configured = group.configured = configure(topology, self._image)
                logger.info(
                    "group %r: topology %d: %s", group.group_id, topology.epoch,
                    "ready" if configured.problem is None else configured.problem.detail,
                )  # fmt: skip
            group.is_refresh_due = False
        validated_epoch = NO_TOPOLOGY_EPOCH
        if configured.is_ready:
            validated_epoch = topology.epoch
            check_tasks(beat.owned, configured)
        configs = self._assignment_configs(group.group_id)
        if (
            begins_epoch
            or validated_epoch != group.validated_topology_epoch
            or configs != group.assignment_configs
        ):
            epoch = GroupEpoch(group.epoch + 1, metadata_hash, validated_epoch, configs)
            edit.apply(SetEpoch(epoch))
            self._core.stats.streams_rebalances += 1
            logger.info("group %r: epoch %d", group.group_id, group.epoch)
        return configured

    @staticmethod
    def _set_topology(edit: Edit, beat: Beat) -> Topology:
        group, sent = edit.group, beat.request.topology
        if sent is None:
            if group.topology is None:
                raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
            return group.topology
        topology = topology_of(sent)
        if group.topology is None:
            edit.apply(SetTopology(topology))
        elif topology.epoch >= group.topology.epoch and topology != group.topology:
            problem = "Topology updates are not supported yet."
            raise Refused(ErrorCode.INVALID_REQUEST, problem)
        assert group.topology is not None
        return group.topology

    def _metadata_hash(self, topology: Topology) -> int:
        found = map(self._image.topic, topology.topics)
        return group_hash({topic.name: topic_hash(topic) for topic in found if topic is not None})

    def _assignment_configs(self, group_id: str) -> tuple[tuple[str, str], ...]:
        return ((NUM_STANDBY_REPLICAS, str(self.config_of(group_id).num_standby_replicas)),)

    def _update_targets(
        self, edit: Edit, configured: ConfiguredTopology, now_ms: int, status: _Statuses
    ) -> None:
        group = edit.group
        if group.target_epoch >= group.epoch:
            return
        interval_ms = self.config_of(group.group_id).assignment_interval_ms
        if group.assigned_ms is not None and now_ms < group.assigned_ms + interval_ms:
            text = "Assignment delayed due to the configured assignment interval."
            _add(status, Status.ASSIGNMENT_DELAYED, text)
            return
        try:
            targets = compute_targets(group, configured)
        except TaskAssignorError as error:
            logger.error("group %r: no target of epoch %d: %s", group.group_id, group.epoch, error)
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                edit.apply(SetTarget(member_id, target))
        stamp_ms = self._core.wall.stamp_ms(now_ms)
        edit.apply(SetTargetEpoch(TargetEpoch(group.epoch, stamp_ms)))
        group.assigned_ms = now_ms
        logger.info("group %r: target of epoch %d", group.group_id, group.epoch)

    def _reconcile(
        self, edit: Edit, member: Member, tasks: Tasks, beat: Beat, now_ms: int
    ) -> Progress:
        group, before = edit.group, member.progress
        target = Target(
            group.target_epoch,
            tasks,
            member.metadata.process_id,
            group.active_process,
            group.standby_processes,
            group.warmup_processes,
        )
        try:
            after = step(before, target, beat.owned)
        except UnknownStateError:
            raise Refused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The streams group member is in a unknown state. The member must abandon all its "
                "tasks and rejoin.",
            ) from None
        if after != before:
            edit.apply(SetProgress(member.member_id, after))
            if after.state is MemberState.UNREVOKED_TASKS:
                self._sessions.start_rebalance(group, member.member_id, now_ms)
            else:
                self._sessions.stop_rebalance(group, member.member_id)
        return after

    # Answers

    def _response(
        self, group: StreamsGroup, beat: Beat, old: Member, member: Member, status: _Statuses
    ) -> StreamsGroupHeartbeatResponse:
        request, assigned = beat.request, member.progress.assigned
        response = StreamsGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.progress.epoch,
            heartbeat_interval_ms=self.config_of(group.group_id).heartbeat_interval_ms,
            status=status,
        )
        if request.member_epoch == JOINING_EPOCH or assigned != old.progress.assigned:
            _set_tasks(response, assigned)
            group.endpoint_epoch += member.metadata.user_endpoint is not None
        if group.endpoint_epoch != request.endpoint_information_epoch:
            response.partitions_by_user_endpoint = endpoints(group, self._image)
        return response

    @staticmethod
    def _shut_down(group: StreamsGroup, member_id: str) -> None:
        if group.shutdown_member_id is None:
            logger.info("group %r: member %s asks for a shutdown", group.group_id, member_id)
            group.shutdown_member_id = member_id

    # Leaving

    def _leave(self, beat: Beat, now_ms: int) -> None:
        request = beat.request
        found = self._core.groups.get(request.group_id)
        if found is None or found.streams is None:
            what = "not found" if found is None else "is not a streams group"
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {what}.")
        group, member_id = found.streams, request.member_id
        if request.shutdown_application:
            self._shut_down(group, member_id)
        if member_id not in group.members:
            raise _unknown_member(group, member_id)
        logger.info("group %r: member %s left", group.group_id, member_id)
        response = StreamsGroupHeartbeatResponse(
            member_id=member_id, member_epoch=request.member_epoch
        )
        self._remove(group, member_id, now_ms, beat.token, HeartbeatResult(response))

    def _remove(
        self,
        group: StreamsGroup,
        member_id: str,
        now_ms: int,
        token: object = None,
        result: HeartbeatResult | None = None,
    ) -> None:
        edit = Edit(group)
        edit.apply(SetProgress(member_id, None))
        edit.apply(SetTarget(member_id, None))
        edit.apply(SetMember(member_id, None))
        epoch = GroupEpoch(
            group.epoch + 1,
            group.metadata_hash,
            group.validated_topology_epoch,
            group.assignment_configs,
        )
        edit.apply(SetEpoch(epoch))
        self._sessions.stop_session(group, member_id)
        self._sessions.stop_rebalance(group, member_id)
        self._writer.commit(edit, now_ms, token, result)

    # Time

    def _restart_session(self, group: StreamsGroup, member_id: str, now_ms: int) -> None:
        timeout_ms = self.config_of(group.group_id).session_timeout_ms
        self._sessions.restart_session(group, member_id, now_ms, timeout_ms)

    def session_expired(self, group: StreamsGroup, member_id: str, now_ms: int) -> None:
        group.session_timers.pop(member_id, None)
        if member_id in group.members:
            logger.info("group %r: the session of %s expired", group.group_id, member_id)
            self._remove(group, member_id, now_ms)

    def rebalance_timed_out(self, group: StreamsGroup, member_id: str, now_ms: int) -> None:
        _, epoch = group.rebalance_timers.pop(member_id)
        member = group.members.get(member_id)
        if member is not None and member.progress.epoch == epoch:
            logger.info(
                "group %r: member %s did not leave epoch %d in time",
                group.group_id, member_id, epoch,
            )  # fmt: skip
            self._remove(group, member_id, now_ms)

    def initial_delay_over(self, group: StreamsGroup, now_ms: int) -> None:
        """Compute the first target of a group that was empty."""
        group.delay_timer = None
        if not group.members or group.configured is None or group.epoch <= group.target_epoch:
            return
        edit = Edit(group)
        try:
            self._update_targets(edit, group.configured, now_ms, [])
        except Refused:
            edit.take_back()  # the next heartbeat tries it again
        else:
            self._writer.commit(edit, now_ms)

    def loaded(self, group: StreamsGroup, now_ms: int) -> None:
        """Give each member of a loaded group its time."""
        self._give_time(group, now_ms)

    def _give_time(self, group: StreamsGroup, now_ms: int) -> None:
        """Members that have none, as after a removal that did not get into the log."""
        for member_id, member in group.members.items():
            if member_id not in group.session_timers:
                self._restart_session(group, member_id, now_ms)
            if (
                member.progress.state is MemberState.UNREVOKED_TASKS
                and member_id not in group.rebalance_timers
            ):
                self._sessions.start_rebalance(group, member_id, now_ms)

    def topics_changed(self, names: Collection[str]) -> None:
        """Topics were made or deleted, or have other partitions."""
        for holder in self._core.groups.values():
            group = holder.streams
            if group is not None:
                group.is_refresh_due |= any(group.needs(name) for name in names)


def compute_targets(group: StreamsGroup, configured: ConfiguredTopology) -> Mapping[str, Tasks]:
    """The targets of all members by member id; raises TaskAssignorError. They are empty while
    the topics are not right."""
    member_ids = sorted(group.members)
    if not configured.is_ready or configured.subtopologies is None:
        return dict.fromkeys(member_ids, NO_TASKS)
    members = [
        MemberSpec(name, group.members[name].metadata.process_id, group.target(name))
        for name in member_ids
    ]
    subtopologies = [
        SubtopologySpec(name, one.task_count, bool(one.state_changelog_topics))
        for name, one in configured.subtopologies.items()
    ]
    replicas = dict(group.assignment_configs).get(NUM_STANDBY_REPLICAS, "0")
    return assign(members, subtopologies, int(replicas))


def _unknown_member(group: StreamsGroup, member_id: str) -> Refused:
    return Refused(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )


def _add(status: _Statuses, code: Status, detail: str) -> None:
    status.append(StreamsGroupHeartbeatResponseStatus(status_code=code, status_detail=detail))


def _add_problems(group: StreamsGroup, configured: ConfiguredTopology, status: _Statuses) -> None:
    if configured.problem is not None:
        _add(status, *configured.problem)
    if group.shutdown_member_id is not None:
        _add(
            status,
            Status.SHUTDOWN_APPLICATION,
            f"Streams group member {group.shutdown_member_id} encountered a fatal error and "
            "requested a shutdown for the entire application.",
        )


def _set_tasks(response: StreamsGroupHeartbeatResponse, assigned: OwnedTasks) -> None:
    response.active_tasks, response.standby_tasks, response.warmup_tasks = (
        [
            StreamsGroupHeartbeatResponseTaskIds(
                subtopology_id=name, partitions=sorted(tasks[name])
            )
            for name in sorted(tasks)
        ]
        for tasks in assigned
    )
