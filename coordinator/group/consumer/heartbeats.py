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
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Any, Final

from ....protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from ....protocol.errors import ErrorCode
from ....protocol.records.record import SimpleRecord
from ..core import Core
from ..group import Group
from ..records import group_tombstone
from ..timers import Timer, TimerKind
from .assignment import AssignorError, PartitionEpochs
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
from .config import ConsumerGroupConfig
from .consumer_group import ConsumerGroup, Undo
from .member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    Member,
    MemberState,
    Owned,
    Progress,
    owns_only,
)
from .metadata_hash import group_hash, topic_hash
from .reconciliation import Target, UnknownStateError, step
from .records import record
from .regexes import InvalidRegexError, compile_regex
from .target_assignment import compute_targets, topic_ids
from .topics import TopicImage

logger = logging.getLogger("pybroker.coordinator.group.consumer")

REGEX_MIN_INTERVAL_MS: Final = 10_000
_FIRST_OWN_MEMBER_ID_VERSION: Final = 1
_NOT_GIVEN: Final = -1

# The error that a member gets for a failed append.
_STORE_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
# With these the batch is in the log, and its changes stand.
_IN_THE_LOG: Final = (
    ErrorCode.NONE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)

# The topics of these names that the client of a request may describe.
Permitted = Callable[[Iterable[str]], Collection[str]]


class Refused(Exception):
    """The request is answered with an error, and nothing changes."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class Beat:
    """One heartbeat with the values that the machine needs."""

    __slots__ = ("client_host", "client_id", "owned", "permitted", "request", "token", "version")

    def __init__(
        self,
        token: object,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        client_id: str,
        client_host: str,
        permitted: Permitted,
    ) -> None:
        self.token = token
        self.request = request
        self.version = version
        self.client_id = client_id
        self.client_host = client_host
        self.permitted = permitted
        partitions = request.topic_partitions
        # The partitions that the member says it owns.
        self.owned: Owned | None = (
            None
            if partitions is None
            else {bytes(topic.topic_id): frozenset(topic.partitions) for topic in partitions}
        )

    @property
    def is_full(self) -> bool:
        """Whether the member said everything, as it does after an error."""
        request = self.request
        has_subscription = (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        return (
            request.rebalance_timeout_ms != _NOT_GIVEN
            and has_subscription
            and request.topic_partitions is not None
        )


class Edit:
    """Changes of one group that go to the log together, each applied at once."""

    __slots__ = ("changes", "group", "undo")

    def __init__(self, group: ConsumerGroup) -> None:
        self.group = group
        self.changes: list[Change] = []
        self.undo: list[Undo] = []

    def apply(self, change: Change) -> None:
        self.undo.append(self.group.apply(change))
        self.changes.append(change)

    def take_back(self) -> None:
        for change in reversed(self.undo):
            self.group.apply(change)
        if self.changes:
            self.group.forget_what_was_seen()

    def remove(self, member_id: str) -> None:
        self.apply(SetProgress(member_id, None))
        self.apply(SetTarget(member_id, None))
        self.apply(SetMember(member_id, None))


class ConsumerGroups:
    """The part of the coordinator for the groups of the consumer protocol."""

    __slots__ = ("_config", "_core", "_hashes", "_image", "_known_topics", "_waiting")

    def __init__(self, core: Core, config: ConsumerGroupConfig, image: TopicImage) -> None:
        self._core = core
        self._config = config
        self._image = image
        # Hashes of topics by name, of those that did not change since.
        self._hashes: dict[str, int] = {}
        self._known_topics: set[str] = set()
        # Answers that wait for an append, by its id.
        self._waiting: dict[int, list[tuple[object, Any]]] = {}

    # Requests

    def heartbeat(self, beat: Beat, now_ms: int) -> None:
        request = beat.request
        error = self._core.check_group(request.group_id)
        try:
            self._check(beat)
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

    def _check(self, beat: Beat) -> None:
        request, epoch = beat.request, beat.request.member_epoch
        if not self._core.is_active:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if beat.version >= _FIRST_OWN_MEMBER_ID_VERSION or epoch > 0 or epoch == LEAVING_EPOCH:
            _check_text(request.member_id, "MemberId")
        _check_text(request.group_id, "GroupId")
        _check_text(request.instance_id, "InstanceId")
        _check_text(request.rack_id, "RackId")
        problem = None
        if epoch == JOINING_EPOCH:
            if request.rebalance_timeout_ms == _NOT_GIVEN:
                problem = "RebalanceTimeoutMs must be provided in first request."
            elif request.topic_partitions is None or request.topic_partitions:
                problem = "TopicPartitions must be empty when (re-)joining."
            elif request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
                problem = (
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
                    "(re-)joining."
                )
        elif epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
            problem = "InstanceId can't be null."
        elif epoch < STATIC_LEAVING_EPOCH:
            problem = "MemberEpoch is invalid."
        if problem is not None:
            raise Refused(ErrorCode.INVALID_REQUEST, problem)
        assignors, assignor = self._config.assignors, request.server_assignor
        if assignor is not None and assignor not in assignors:
            raise Refused(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {assignor} is not supported. Supported assignors: "
                f"{', '.join(assignors)}.",
            )

    # A heartbeat

    def _beat(self, beat: Beat, now_ms: int) -> None:
        request = beat.request
        group = self._group_for(request.group_id, may_create=request.member_epoch == JOINING_EPOCH)
        member_id = request.member_id
        if len(group.members) >= self._config.max_size and member_id not in group.members:
            raise Refused(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                "The consumer group has reached its maximum capacity of "
                f"{self._config.max_size} members.",
            )
        edit = Edit(group)
        try:
            old = self._member_for(edit, beat, member_id or self._core.new_uuid())
            updated = self._updated(beat, old)
            names_changed = updated.metadata.topic_names != old.metadata.topic_names
            regex_changed, is_resolved = self._set_member(edit, old, updated)
            self._refresh(edit, begins_epoch=names_changed or is_resolved)
            self._update_targets(edit, now_ms)
            is_new = names_changed or regex_changed
            progress = self._reconcile(edit, updated, is_new, beat.owned, now_ms)
        except Refused:
            edit.take_back()
            raise
        self._restart_session(group, updated.member_id, now_ms)
        response = ConsumerGroupHeartbeatResponse(
            member_id=updated.member_id,
            member_epoch=progress.epoch,
            heartbeat_interval_ms=self._config.heartbeat_interval_ms,
        )
        has_moved = progress.assigned != old.progress.assigned
        if request.member_epoch == JOINING_EPOCH or beat.is_full or has_moved:
            response.assignment = _assignment(progress.assigned)
        self._commit(edit, now_ms, beat.token, response)
        self._maybe_resolve(group, beat.permitted, now_ms)

    def _group_for(self, group_id: str, *, may_create: bool) -> ConsumerGroup:
        found = self._core.groups.get(group_id)
        if found is not None and found.consumer is not None:
            return found.consumer
        if found is None and not may_create:
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if found is not None and (found.has_members or not may_create):
            raise Refused(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group."
            )
        return ConsumerGroup(group_id)

    def _member_for(self, edit: Edit, beat: Beat, member_id: str) -> Member:
        """The member that sends it, as it was before, or a new one."""
        group, request = edit.group, beat.request
        is_joining = request.member_epoch == JOINING_EPOCH
        member = group.members.get(member_id)
        if request.instance_id is not None:
            existing = group.static_member(request.instance_id)
            if not is_joining:
                member = _known_static(existing, request.instance_id, member_id)
            elif existing is not None:
                return self._replace(edit, existing, member_id)
        if member is None:
            if not is_joining:
                raise _unknown(group, member_id)
            logger.info("group %r: member %s joins", group.group_id, member_id)
            return Member(member_id)
        _check_epoch(member, request.member_epoch, beat.owned)
        return member

    def _replace(self, edit: Edit, existing: Member, member_id: str) -> Member:
        """Another member takes the place of a static one that has left for a while."""
        if existing.progress.epoch != STATIC_LEAVING_EPOCH:
            raise Refused(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {existing.metadata.instance_id} "
                f"cannot join the group because the instance id is owned by {existing.member_id} "
                "member.",
            )
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
                if timeout_ms == _NOT_GIVEN
                else timeout_ms,
                server_assignor=metadata.server_assignor
                if request.server_assignor is None
                else request.server_assignor,
                classic=None,
            )
        )

    def _set_member(self, edit: Edit, old: Member, updated: Member) -> tuple[bool, bool]:
        """Whether its regular expression changed, and whether the new one's topics are known."""
        group = edit.group
        regex_changed = old.regex != updated.regex
        if regex_changed and updated.regex is not None and not group.regex_members[updated.regex]:
            _check_regex(updated.regex)
        if updated.metadata != old.metadata:
            edit.apply(SetMember(updated.member_id, updated.metadata))
        if not regex_changed:
            return False, False
        if old.regex is not None and not group.regex_members[old.regex]:
            edit.apply(SetRegex(old.regex, None))
        return True, updated.regex is None or updated.regex in group.regexes

    def _refresh(self, edit: Edit, *, begins_epoch: bool) -> None:
        """Begin the group's next epoch if `begins_epoch`, or if its topics have changed."""
        group = edit.group
        if not (begins_epoch or group.is_refresh_due):
            return
        metadata_hash = self._metadata_hash(group)
        if begins_epoch or metadata_hash != group.metadata_hash:
            self._begin_epoch(edit, metadata_hash)
        group.is_refresh_due = False
        if group.has_partition_metadata:
            edit.apply(SetPartitionMetadata(None))

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

    def _update_targets(self, edit: Edit, now_ms: int) -> None:
        group, interval_ms = edit.group, self._config.assignment_interval_ms
        if group.target_epoch >= group.epoch:
            return
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

    def _reconcile(
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
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                self._start_rebalance(group, member.member_id, now_ms)
            else:
                self._stop_rebalance(group, member.member_id)
        return after

    # Leaving

    def _leave(self, beat: Beat, now_ms: int) -> None:
        request = beat.request
        found = self._core.groups.get(request.group_id)
        if found is None or found.consumer is None:
            what = "not found" if found is None else "is not a consumer group"
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} {what}.")
        group, member_id = found.consumer, request.member_id
        member = group.members.get(member_id)
        if request.instance_id is not None:
            existing = group.static_member(request.instance_id)
            member = _known_static(existing, request.instance_id, member_id)
        if member is None:
            raise _unknown(group, member_id)
        edit = Edit(group)
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            progress = member.progress.as_of_a_leaving_static_member()
            edit.apply(SetProgress(member_id, progress))
            logger.info("group %r: static member %s left for a while", group.group_id, member_id)
        else:
            logger.info("group %r: member %s left", group.group_id, member_id)
            self._remove(edit, member)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id, member_epoch=request.member_epoch
        )
        self._commit(edit, now_ms, beat.token, response)

    def _remove(self, edit: Edit, member: Member) -> None:
        group = edit.group
        edit.remove(member.member_id)
        if member.regex is not None and not group.regex_members[member.regex]:
            edit.apply(SetRegex(member.regex, None))
        self._begin_epoch(edit, self._metadata_hash(group))
        self._stop_session(group, member.member_id)
        self._stop_rebalance(group, member.member_id)

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
            group.is_refresh_due = False
        self._commit(edit, now_ms)

    def _resolve(self, regexes: Collection[str], permitted: Permitted) -> dict[str, frozenset[str]]:
        matches = {}
        names = list(self._image.topic_names())
        for regex in regexes:
            try:
                is_match = compile_regex(regex)
            except InvalidRegexError as error:
                logger.warning("%r, which was valid, is not any more: %s", regex, error)
                matches[regex] = frozenset[str]()
                continue
            matches[regex] = frozenset(name for name in names if is_match(name))
        seen = frozenset(permitted(sorted(frozenset().union(*matches.values()))))
        return {regex: found & seen for regex, found in matches.items()}

    # Time

    def _restart_session(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        timer = group.session_timers.get(member_id)
        if timer is None:
            timer = Timer(TimerKind.CONSUMER_SESSION, group, member_id)
            group.session_timers[member_id] = timer
        self._core.timers.reschedule(timer, now_ms + self._config.session_timeout_ms)

    def _stop_session(self, group: ConsumerGroup, member_id: str) -> None:
        timer = group.session_timers.pop(member_id, None)
        if timer is not None:
            self._core.timers.cancel(timer)

    def _start_rebalance(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        self._stop_rebalance(group, member_id)
        member = group.members[member_id]
        timer = Timer(TimerKind.CONSUMER_REBALANCE, group, member_id)
        group.rebalance_timers[member_id] = timer, member.progress.epoch
        self._core.timers.reschedule(timer, now_ms + member.metadata.rebalance_timeout_ms)

    def _stop_rebalance(self, group: ConsumerGroup, member_id: str) -> None:
        timer, _ = group.rebalance_timers.pop(member_id, (None, 0))
        if timer is not None:
            self._core.timers.cancel(timer)

    def session_expired(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        group.session_timers.pop(member_id, None)
        member = group.members.get(member_id)
        if member is not None:
            logger.info("group %r: the session of %s expired", group.group_id, member_id)
            edit = Edit(group)
            self._remove(edit, member)
            self._commit(edit, now_ms)

    def rebalance_timed_out(self, group: ConsumerGroup, member_id: str, now_ms: int) -> None:
        _, epoch = group.rebalance_timers.pop(member_id)
        member = group.members.get(member_id)
        if member is not None and member.progress.epoch == epoch:
            logger.info(
                "group %r: member %s did not leave epoch %d in time",
                group.group_id, member_id, epoch,
            )  # fmt: skip
            edit = Edit(group)
            self._remove(edit, member)
            self._commit(edit, now_ms)

    def loaded(self, group: ConsumerGroup, now_ms: int) -> None:
        """Give each member of a loaded group its time."""
        for member in group.members.values():
            self._restart_session(group, member.member_id, now_ms)
            if member.progress.state is MemberState.UNREVOKED_PARTITIONS:
                self._start_rebalance(group, member.member_id, now_ms)

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

    # The log

    def _commit(
        self, edit: Edit, now_ms: int, token: object = None, response: object = None
    ) -> None:
        """Write the changes, and answer when they are written."""
        group = edit.group
        if not edit.changes:
            waits_for = group.last_append_id
            if token is None:
                return
            if waits_for is None:
                self._core.reply(token, response)
            else:
                self._waiting[waits_for].append((token, response))
            return
        core, group_id = self._core, group.group_id
        stamp_ms = core.wall.stamp_ms(now_ms)
        records = []
        holder = core.groups.get(group_id)
        if holder is None:
            holder = core.create_group(group_id, now_ms)
        if holder.consumer is None:
            if holder.generation_id > 0:
                records.append(group_tombstone(group_id, stamp_ms))
            for timer in holder.pending_members.values():
                core.timers.cancel(timer)
            holder.pending_members.clear()
            holder.consumer = group
        records += [SimpleRecord(stamp_ms, *record(group_id, change)) for change in edit.changes]
        append_id = core.append(holder.partition, records, partial(self._appended, holder, group))
        group.sent(append_id, edit.changes, edit.undo)
        self._waiting[append_id] = [] if token is None else [(token, response)]

    def _appended(
        self,
        holder: Group,
        group: ConsumerGroup,
        append_id: int,
        error: ErrorCode,
        base_offset: int,
        now_ms: int,
    ) -> None:
        waiting = self._waiting.pop(append_id)
        is_current = self._core.is_current(holder) and holder.consumer is group
        if error in _IN_THE_LOG:
            group.stored(append_id)
            if is_current:
                holder.end_classic()
        else:
            logger.warning(
                "append %d of group %r failed: %s", append_id, group.group_id, error.name
            )
            group.lost(append_id)
            if is_current and not group.is_persisted:
                self._forget(holder)
        answer_error = _STORE_ERRORS.get(error, error)
        if error is ErrorCode.NONE and not is_current:
            answer_error = ErrorCode.NOT_COORDINATOR
        for token, response in waiting:
            if answer_error is not ErrorCode.NONE:
                response = ConsumerGroupHeartbeatResponse(error_code=answer_error)
            self._core.reply(token, response)

    def _forget(self, holder: Group) -> None:
        """A group whose first records did not get into the log: it is what it was before."""
        self.stop_timers(holder.consumer)
        holder.consumer = None
        if holder.offsets.is_empty and holder.protocol_type is None:
            self._core.forget_group(holder)

    def stop_timers(self, group: ConsumerGroup | None) -> None:
        if group is not None:
            for member_id in list(group.session_timers):
                self._stop_session(group, member_id)
            for member_id in list(group.rebalance_timers):
                self._stop_rebalance(group, member_id)


def _check_text(text: str | None, name: str) -> None:
    if text is not None and not text.strip():
        raise Refused(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")


def _check_regex(regex: str) -> None:
    try:
        compile_regex(regex)
    except InvalidRegexError as error:
        raise Refused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from None


def _check_epoch(member: Member, epoch: int, owned: Owned | None) -> None:
    known = member.progress.epoch
    if epoch in (JOINING_EPOCH, known):
        return
    if (
        epoch < known
        and epoch == member.progress.previous_epoch
        and owns_only(owned, member.progress.assigned)
    ):
        return  # it has probably not seen the answer with its new epoch
    size = "greater" if epoch > known else "smaller"
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )


def _known_static(member: Member | None, instance_id: str, member_id: str) -> Member:
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}.",
        )
    return member


def _unknown(group: ConsumerGroup, member_id: str) -> Refused:
    return Refused(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )


def _assignment(assigned: PartitionEpochs) -> ConsumerGroupHeartbeatResponseAssignment:
    return ConsumerGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponseTopicPartitions(
                topic_id=topic_id, partitions=sorted(assigned[topic_id])
            )
            for topic_id in sorted(assigned)
        ]
    )
