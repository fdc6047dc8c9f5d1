"""ConsumerGroupHeartbeat: members come, say what they want and own, and go (KIP-848, 1082, 1263).

A heartbeat has three parts: the member's metadata (a change of its subscription, or of a topic that
it is subscribed to, begins an epoch of the group); the target, computed for the group's epoch at
most once in `assignment_interval_ms`; a step of the member towards it. What changed goes to the log
as one batch, and the answer waits for it; a heartbeat that changes nothing waits for the changes of
the group that are on their way.

A member that sends no heartbeat within its session timeout, or gives up no partitions within its
rebalance timeout, is removed. A member with an instance id may leave for a while (epoch -2): its
partitions stay with it until another member of that instance id comes, or its session ends.

Regular expressions are RE2's, of the package google-re2. They are tried on the topics right behind
the heartbeat that needs it, but not within `REGEX_MIN_INTERVAL_MS` of the last time, and the
group's next epoch begins then.

Mirrors the consumer half of GroupMetadataManager. The times of the last target and of the last look
for topics are those of this process: a coordinator that has just loaded a group does not wait.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from mypy_extensions import mypyc_attr

from ....protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from ....protocol.errors import ErrorCode, KafkaError
from ....protocol.regular_expressions import compiled
from ..core import Core
from ..rebalance import Rebalance
from ..timers import TimerKind
from .assignment import AssignorError, PartitionEpochs
from .changes import (
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
from .config import ConsumerGroupConfig
from .consumer_group import ConsumerGroup
from .member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    Member,
    MemberState,
    Owned,
    Progress,
)
from .metadata_hash import group_hash, topic_hash
from .migration import Migration
from .reconciliation import Target, UnknownStateError, step
from .requests import (
    NOT_GIVEN,
    Beat,
    Permitted,
    Refused,
    check_epoch,
    check_regex,
    check_released,
    check_request,
    known_static,
    unknown_member,
)
from .sessions import Sessions
from .target_assignment import compute_targets, topic_ids
from .topics import TopicImage
from .writing import Edit, Failed, Writer

logger = logging.getLogger("pybroker.coordinator.group.consumer")

REGEX_MIN_INTERVAL_MS: Final = 10_000


@mypyc_attr(allow_interpreted_subclasses=True)
class ConsumerGroups:
    """The part of the coordinator for the groups of the consumer protocol."""

    __slots__ = (
        "_config", "_configs", "_core", "_hashes", "_image", "_known_topics", "_own_values",
        "migration", "sessions", "writer",
    )  # fmt: skip

    def __init__(
        self, core: Core, config: ConsumerGroupConfig, image: TopicImage, rebalance: Rebalance
    ) -> None:
        self._core = core
        self._config = config
        # Of the groups that set some keys themselves: their values, and the config with them.
        self._own_values: dict[str, Mapping[str, Any]] = {}
        self._configs: dict[str, ConsumerGroupConfig] = {}
        self._image = image
        # Hashes of topics by name, of those that did not change since.
        self._hashes: dict[str, int] = {}
        self._known_topics: set[str] = set()
        self.sessions = Sessions(core.timers)
        self.writer = Writer(core, self.sessions, rebalance)
        self.migration = Migration(core, config, image, rebalance, self.sessions)
        self.writer.on_lost = self._give_time

    # Configuration

    def config_changed(self, config: ConsumerGroupConfig) -> None:
        """The broker's own; members get to know it with their next heartbeat."""
        self._config = self.migration.config = config
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

    def _config_of(self, group_id: str) -> ConsumerGroupConfig:
        return self._configs.get(group_id, self._config)

    # Requests

    def heartbeat(self, beat: Beat, now_ms: int) -> None:
        request = beat.request
        error = self._core.check_group(request.group_id)
        if error is ErrorCode.NONE and self._beat_quietly(beat, now_ms):
            return
        try:
            if not self._core.is_active:
                raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            check_request(beat, self._config.assignors)
            if error is not ErrorCode.NONE:
                raise Refused(error)
            if request.member_epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH):
                self._leave(beat, now_ms)
            else:
                self._beat(beat, now_ms)
        except Refused as refused:
            response = ConsumerGroupHeartbeatResponse(
                error_code=refused.error, error_message=refused.message
            )
            self._core.reply(beat.token, response)

    # A heartbeat

    def _beat_quietly(self, beat: Beat, now_ms: int) -> bool:
        """A heartbeat that changes nothing, as almost all: its member and its group are as they
        should be. False: it has to be looked at."""
        request = beat.request
        holder = self._core.groups.get(request.group_id)
        group = None if holder is None else holder.consumer
        if holder is None or group is None or holder.is_share:
            return False
        if group.is_refresh_due or group.regex_members or beat.says_more:
            return False
        member = group.members.get(request.member_id)
        target_epoch = group.target_epoch
        if (
            member is None
            or request.member_epoch != target_epoch
            or target_epoch < group.epoch
            or not member.progress.is_reconciled_to(target_epoch)
            or member.metadata.client_id != beat.client_id
            or member.metadata.client_host != beat.client_host
            or member.is_classic
        ):
            return False
        self._restart_session(group, member.member_id, now_ms)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=target_epoch,
            heartbeat_interval_ms=self._config_of(group.group_id).heartbeat_interval_ms,
        )
        self.writer.answer(group, beat.token, response)
        return True

    def _beat(self, beat: Beat, now_ms: int) -> None:
        request = beat.request
        edit = self._begin(request.group_id, may_create=request.member_epoch == JOINING_EPOCH)
        group, member_id, is_upgrade = edit.group, request.member_id, bool(edit.changes)
        self.check_room(group, member_id)
        try:
            old = self._member_for(edit, beat, member_id or self._core.new_uuid())
            updated = self._updated(beat, old)
            names_changed = updated.metadata.topic_names != old.metadata.topic_names
            regex_changed, is_resolved = self._set_member(edit, old, updated)
            self.refresh(edit, begins_epoch=names_changed or is_resolved)
            self.update_targets(edit, now_ms)
            is_new = names_changed or regex_changed
            progress = self.reconcile(edit, updated, is_new, beat.owned, now_ms)
        except Refused:
            edit.take_back()
            raise
        if is_upgrade:
            self.migration.restart_sessions(group, now_ms)
        self._restart_session(group, updated.member_id, now_ms)
        response = ConsumerGroupHeartbeatResponse(
            member_id=updated.member_id,
            member_epoch=progress.epoch,
            heartbeat_interval_ms=self._config_of(group.group_id).heartbeat_interval_ms,
        )
        has_moved = progress.assigned != old.progress.assigned
        if request.member_epoch == JOINING_EPOCH or beat.is_full or has_moved:
            response.assignment = _assignment(progress.assigned)
        self.writer.commit(edit, now_ms, beat.token, response)
        self._maybe_resolve(group, beat.permitted, now_ms)

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        if len(group.members) >= self._config.max_size and member_id not in group.members:
            raise Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                "The consumer group has reached its maximum capacity of "
                f"{self._config.max_size} members.",
            )

    def _begin(self, group_id: str, *, may_create: bool) -> Edit:
        """An edit of the group; it has changes already if a classic group goes over."""
        found = self._core.groups.get(group_id)
        if found is not None and found.consumer is not None and not found.is_share:
            return Edit(found.consumer)
        if found is None and not may_create:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if found is not None and (found.modern is not None or not may_create):
            raise Refused(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group."
            )
        if found is not None and found.has_members:
            return self.migration.upgraded(found, self._metadata_hash)
        return Edit(ConsumerGroup(group_id))

    def _member_for(self, edit: Edit, beat: Beat, member_id: str) -> Member:
        """The member that sends it, as it was before, or a new one."""
        group, request = edit.group, beat.request
        is_joining = request.member_epoch == JOINING_EPOCH
        member = group.members.get(member_id)
        if request.instance_id is not None:
            existing = group.static_member(request.instance_id)
            if not is_joining:
                member = known_static(existing, request.instance_id, member_id)
            elif existing is not None:
                if not existing.is_classic:
                    check_released(existing, member_id)
                return self.replace(edit, existing, member_id)
        if member is None:
            if not is_joining:
                raise unknown_member(group, member_id)
            logger.info("group %r: member %s joins", group.group_id, member_id)
            return Member(member_id)
        check_epoch(member, request.member_epoch, beat.owned)
        return member

    def replace(self, edit: Edit, existing: Member, member_id: str) -> Member:
        """Another member takes the place of a static one."""
        progress = existing.progress._replace(epoch=0, previous_epoch=0)
        target = edit.group.target(existing.member_id)
        edit.remove(existing.member_id)
        edit.apply(SetMember(member_id, existing.metadata))
        edit.apply(SetTarget(member_id, target))
        edit.apply(SetProgress(member_id, progress))
        logger.info(
            "group %r: member %s replaces %s of instance %s",
            edit.group.group_id, member_id, existing.member_id, existing.metadata.instance_id,
        )  # fmt: skip
        return edit.group.members[member_id]

    @staticmethod
    def _updated(beat: Beat, member: Member) -> Member:
        request, metadata = beat.request, member.metadata
        if (
            not beat.says_more
            and metadata.client_id == beat.client_id
            and metadata.client_host == beat.client_host
            and metadata.classic is None
        ):
            return member
        names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
        timeout_ms = request.rebalance_timeout_ms
        return member._replace(
            metadata=metadata._replace(
                instance_id=metadata.instance_id
                if request.instance_id is None
                else request.instance_id,
                rack_id=metadata.rack_id if request.rack_id is None else request.rack_id,
                client_id=beat.client_id,
                client_host=beat.client_host,
                topic_names=metadata.topic_names if names is None else frozenset(names),
                topic_regex=metadata.topic_regex if regex is None else regex,
                rebalance_timeout_ms=metadata.rebalance_timeout_ms
                if timeout_ms == NOT_GIVEN
                else timeout_ms,
                server_assignor=metadata.server_assignor
                if request.server_assignor is None
                else request.server_assignor,
                classic=None,
            )
        )

    def change_member(self, edit: Edit, old: Member, updated: Member) -> bool:
        """A classic member joins; whether the group's next epoch begins with it."""
        names_changed = updated.metadata.topic_names != old.metadata.topic_names
        _, is_resolved = self._set_member(edit, old, updated)
        return names_changed or is_resolved

    def _set_member(self, edit: Edit, old: Member, updated: Member) -> tuple[bool, bool]:
        """Whether its regular expression changed, and whether the new one's topics are known."""
        group = edit.group
        regex_changed = old.regex != updated.regex
        if regex_changed and updated.regex is not None and not group.regex_members[updated.regex]:
            check_regex(updated.regex)
        if updated.metadata != old.metadata:
            edit.apply(SetMember(updated.member_id, updated.metadata))
        if not regex_changed:
            return False, False
        if old.regex is not None and not group.regex_members[old.regex]:
            edit.apply(SetRegex(old.regex, None))
        return True, updated.regex is None or updated.regex in group.regexes

    def refresh(self, edit: Edit, *, begins_epoch: bool) -> None:
        """Begin the group's next epoch if `begins_epoch`, or if its topics have changed."""
        group = edit.group
        if not (begins_epoch or group.is_refresh_due):
            return
        metadata_hash = self._metadata_hash(group)
        if begins_epoch or metadata_hash != group.metadata_hash:
            self._begin_epoch(edit, metadata_hash)
            self._count_rebalance()
        group.is_refresh_due = False
        if group.has_partition_metadata:
            edit.apply(SetPartitionMetadata(None))

    def _count_rebalance(self) -> None:
        self._core.stats.consumer_rebalances += 1

    @staticmethod
    def _begin_epoch(edit: Edit, metadata_hash: int) -> None:
        group = edit.group
        edit.apply(SetEpoch(GroupEpoch(group.epoch + 1, metadata_hash)))
        logger.info("group %r: epoch %d", group.group_id, group.epoch)

    def _metadata_hash(self, group: ConsumerGroup) -> int:
        hashes = {}
        for name in group.subscribed_topics:
            known = self._hashes.get(name)
            if known is None:
                topic = self._image.topic(name)
                if topic is None:
                    continue
                known = self._hashes[name] = topic_hash(topic)
            hashes[name] = known
        return group_hash(hashes)

    def update_targets(self, edit: Edit, now_ms: int) -> None:
        group = edit.group
        if group.target_epoch >= group.epoch:
            return
        interval_ms = self._config_of(group.group_id).assignment_interval_ms
        if group.assigned_ms is not None and now_ms < group.assigned_ms + interval_ms:
            return
        assignor = group.preferred_assignor(self._config.assignors[0])
        try:
            targets = compute_targets(group, assignor, self._image)
        except AssignorError as error:
            problem = f"Failed to compute a new target assignment for epoch {group.epoch}: {error}"
            logger.error("group %r: %s", group.group_id, problem)
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, problem) from error
        for member_id, target in targets.items():
            if group.targets.get(member_id) != target:
                edit.apply(SetTarget(member_id, target))
        stamp_ms = self._core.wall.stamp_ms(now_ms)
        edit.apply(SetTargetEpoch(TargetEpoch(group.epoch, stamp_ms)))
        group.assigned_ms = now_ms
        logger.info("group %r: target of epoch %d by %s", group.group_id, group.epoch, assignor)

    def reconcile(
        self, edit: Edit, member: Member, is_new: bool, owned: Owned | None, now_ms: int
    ) -> Progress:
        group, before = edit.group, member.progress
        if not is_new and before.is_reconciled_to(group.target_epoch):
            return before
        target = Target(
            group.target_epoch,
            group.target(member.member_id),
            topic_ids(group, member.metadata, self._image),
            is_new,
            group.owner_epoch,
        )
        try:
            after = step(before, target, owned)
        except UnknownStateError:
            raise Refused(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The consumer group member is in a unknown state. The member must abandon all its "
                "partitions and rejoin.",
            ) from None
        if after != before:
            edit.apply(SetProgress(member.member_id, after))
            if member.is_classic:
                pass  # it has to join and to sync in time
            elif after.state is MemberState.UNREVOKED_PARTITIONS:
                self.sessions.start_rebalance(group, member.member_id, now_ms)
            else:
                self.sessions.stop_rebalance(group, member.member_id)
        return after

    # Leaving

    def _leave(self, beat: Beat, now_ms: int) -> None:
        request = beat.request
        found = self._core.groups.get(request.group_id)
        if found is None or found.consumer is None or found.is_share:
            what = "not found" if found is None else "is not a consumer group"
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {what}.")
        group, member_id = found.consumer, request.member_id
        member = group.members.get(member_id)
        if request.instance_id is not None:
            existing = group.static_member(request.instance_id)
            member = known_static(existing, request.instance_id, member_id)
        if member is None:
            raise unknown_member(group, member_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id, member_epoch=request.member_epoch
        )
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            edit = Edit(group)
            progress = member.progress.as_of_a_leaving_static_member()
            edit.apply(SetProgress(member_id, progress))
            logger.info("group %r: static member %s left for a while", group.group_id, member_id)
            self.writer.commit(edit, now_ms, beat.token, response)
            return
        logger.info("group %r: member %s left", group.group_id, member_id)
        self.fence(group, [member], now_ms, (beat.token, response, None))

    def fence(
        self,
        group: ConsumerGroup,
        members: Sequence[Member],
        now_ms: int,
        answer: tuple[object, Any, Failed | None] = (None, None, None),
    ) -> None:
        """Remove members, and answer when that is written. If only classic ones stay, it is a
        classic group again."""
        edit = Edit(group)
        if self.migration.goes_back_without(group, members):
            reason = "the last member of the consumer protocol left"
            self.migration.go_back(edit, members, reason, now_ms, answer)
            return
        for member in members:
            edit.remove(member.member_id)
        for regex in {member.regex: None for member in members if member.regex is not None}:
            if not group.regex_members[regex]:
                edit.apply(SetRegex(regex, None))
        self._begin_epoch(edit, self._metadata_hash(group))
        for member in members:
            self.sessions.stop_all(group, member.member_id)
        self.writer.commit(edit, now_ms, *answer)

    # Regular expressions

    def _maybe_resolve(self, group: ConsumerGroup, permitted: Permitted, now_ms: int) -> None:
        """Look for the topics of the group's regular expressions, if it is time."""
        if not group.regex_members:
            return
        since_ms = None
        if group.resolved_ms is not None and group.regexes:
            since_ms = now_ms - group.resolved_ms
        if since_ms is not None and since_ms <= REGEX_MIN_INTERVAL_MS:
            return
        is_old = since_ms is not None and since_ms > self._config.regex_refresh_interval_ms
        is_complete = len(group.regexes) == len(group.regex_members)
        if is_complete and not is_old and not group.has_new_topics:
            return
        group.resolved_ms, group.has_new_topics = now_ms, False
        edit = Edit(group)
        stamp_ms = self._core.wall.stamp_ms(now_ms)
        begins_epoch = False
        for regex, topics in self._resolve(group.regex_members, permitted).items():
            before = group.regexes.get(regex)
            begins_epoch |= topics != (frozenset() if before is None else before.topics)
            edit.apply(SetRegex(regex, ResolvedRegex(topics, self._image.version, stamp_ms)))
        metadata_hash = self._metadata_hash(group)
        if begins_epoch or metadata_hash != group.metadata_hash:
            self._begin_epoch(edit, metadata_hash)
            self._core.stats.consumer_rebalances += 1
            group.is_refresh_due = False
        self.writer.commit(edit, now_ms)

    def _resolve(self, regexes: Collection[str], permitted: Permitted) -> dict[str, frozenset[str]]:
        matches = {}
        names = list(self._image.topic_names())
        for regex in regexes:
            try:
                is_match = compiled(regex).matches
            except KafkaError as error:
                logger.warning("%r, which was valid, is not any more: %s", regex, error.message)
                matches[regex] = frozenset[str]()
                continue
            matches[regex] = frozenset(name for name in names if is_match(name))
        seen = frozenset(permitted(sorted(frozenset().union(*matches.values()))))
        return {regex: found & seen for regex, found in matches.items()}

    # Time

    def _restart_session(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        timeout_ms = self._config_of(group.group_id).session_timeout_ms
        self.sessions.restart_session(group, member_id, now_ms, timeout_ms)

    def session_expired(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        group.session_timers.pop(member_id, None)
        member = group.members.get(member_id)
        if member is not None:
            logger.info("group %r: the session of %s expired", group.group_id, member_id)
            self.fence(group, [member], now_ms)

    def rebalance_timed_out(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        _, epoch = group.rebalance_timers.pop(member_id)
        member = group.members.get(member_id)
        if member is not None and member.progress.epoch == epoch:
            logger.info(
                "group %r: member %s did not leave epoch %d in time",
                group.group_id, member_id, epoch,
            )  # fmt: skip
            self.fence(group, [member], now_ms)

    def classic_timed_out(
        self, group: ConsumerGroup, member_id: str, kind: TimerKind, now_ms: int
    ) -> None:
        """A classic member has not joined, or not synced, in time."""
        group.classic_timers.pop((member_id, kind))
        member = group.members.get(member_id)
        if member is not None:
            logger.info("group %r: %s: no %s in time", group.group_id, member_id, kind.value)
            self.fence(group, [member], now_ms)

    def _give_time(self, group: ConsumerGroup, now_ms: int) -> None:
        """Members are back that could not be removed: they have a session again."""
        for member_id, member in group.members.items():
            if member_id not in group.session_timers:
                self.migration.restart_session(group, member, now_ms)
            if (
                member.progress.state is MemberState.UNREVOKED_PARTITIONS
                and not member.is_classic
                and member_id not in group.rebalance_timers
            ):
                self.sessions.start_rebalance(group, member_id, now_ms)

    def loaded(self, group: ConsumerGroup, now_ms: int) -> None:
        """Give each member of a loaded group its time."""
        for member in group.members.values():
            self._restart_session(group, member.member_id, now_ms)
            if member.progress.state is MemberState.UNREVOKED_PARTITIONS:
                self.sessions.start_rebalance(group, member.member_id, now_ms)

    def topics_changed(self, names: Collection[str]) -> None:
        """Topics were made or deleted, or have other partitions."""
        for name in names:
            self._hashes.pop(name, None)
        made = {name for name in names if self._image.topic_id(name) is not None}
        has_new = not made <= self._known_topics
        self._known_topics |= made
        self._known_topics.difference_update(set(names) - made)
        for holder in self._core.groups.values():
            group = holder.consumer
            if group is not None:
                group.has_new_topics |= has_new
                group.is_refresh_due |= any(group.is_subscribed_to(name) for name in names)


def _assignment(assigned: PartitionEpochs) -> ConsumerGroupHeartbeatResponseAssignment:
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(
                topic_id=topic_id, partitions=sorted(assigned[topic_id])
            )
            for topic_id in sorted(assigned)
        ]
    )
