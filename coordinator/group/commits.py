"""OffsetCommit, OffsetFetch, OffsetDelete, and the expiry of offsets.

Mirrors the offset part of GroupCoordinator and GroupMetadataManager (KIP-211, 320, 447, 496, 709).

A commit is accepted from a member of the current generation, or, with a negative generation, from a
"simple" consumer while the group is Empty. It becomes visible when its append is complete. Expiry:
an Empty group's offsets by the time since it became Empty; offsets of topics that a Stable consumer
group no longer subscribes to, and those of simple consumers, by their commit time; offsets with an
explicit expire timestamp (OffsetCommit v2-4) at that time. Others never expire. A group that is
left Empty without offsets is removed, with tombstones.

Offsets that are committed within a transaction are in `transactions`.
"""

import logging
from collections.abc import Callable, Collection, Container, Iterable
from functools import partial
from typing import Final, NamedTuple

from ...protocol.apis.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition
from ...protocol.apis.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ...protocol.apis.offset_fetch import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ...protocol.wall_clock import NOT_SEEN
from .changing_group import ChangingGroup
from .commit_attempt import CommitAttempt, client_error, partition_errors
from .commit_plan import CommitPlan
from .core import Core
from .group import CONSUMER_PROTOCOL_TYPE, Group
from .modern_offsets import (
    check_commit,
    check_fetch,
    check_partition,
    end_records,
    is_current_member,
)
from .offsets import INVALID_OFFSET, NO_EXPIRE_TIMESTAMP, NO_LEADER_EPOCH, OffsetAndMetadata
from .rebalance import Rebalance
from .records import (
    group_tombstone,
    offset_commit_key,
    offset_commit_value,
    offset_tombstones,
)
from .states import GroupState

logger = logging.getLogger("pybroker.coordinator.group.commits")

_DEFAULT_RETENTION_TIME: Final = -1
_DEFAULT_TIMESTAMP: Final = -1


class RepeatedCommit(NamedTuple):
    """A commit by its plan, on its way to the log."""

    group: Group
    values: dict[TopicPartition, OffsetAndMetadata]
    batch: bytearray


class Commits:
    """The part of the coordinator that keeps offsets."""

    __slots__ = ("_core", "_rebalance", "_topic_id")

    def __init__(
        self, core: Core, rebalance: Rebalance, topic_id: Callable[[str], bytes | None]
    ) -> None:
        self._core = core
        self._rebalance = rebalance
        self._topic_id = topic_id

    # OffsetCommit

    def commit(
        self,
        token: object,
        request: OffsetCommitRequest,
        unknown: Container[TopicPartition],
        now_ms: int,
        *,
        is_old: bool = False,
    ) -> None:
        """Commit; partitions in `unknown` do not exist and are answered so. `is_old`: of a version
        that members of the consumer protocol must not use."""
        stamp_ms = self._core.wall.stamp_ms(now_ms)
        expire_timestamp_ms = NO_EXPIRE_TIMESTAMP
        if request.retention_time_ms != _DEFAULT_RETENTION_TIME:
            expire_timestamp_ms = stamp_ms + request.retention_time_ms
        attempt = CommitAttempt(
            token,
            request,
            unknown,
            lambda entry: _to_offset(entry, now_ms, stamp_ms, expire_timestamp_ms),
        )
        group = None
        if attempt.values:
            group, error = self._find_group_for_commit(request, now_ms, is_old=is_old)
            if error is not ErrorCode.NONE:
                attempt.fail_rest(error)
            elif group is not None and group.modern is not None:
                self._check_partitions(group.modern, attempt)
            elif group is not None and group.state is not GroupState.EMPTY:
                self._rebalance.restart_session(group.members[request.member_id], now_ms)
        attempt.refuse_too_large(self._core.config.offset_metadata_max_bytes)
        if group is None or not attempt.values:
            self._core.reply(token, attempt.response())
            return
        group_id = group.group_id
        records = [
            (offset_commit_key(group_id, partition), offset_commit_value(value))
            for partition, value in attempt.values.items()
        ]
        completion = partial(self._committed, attempt, group)
        append_id = self._core.append_values(group.partition, records, now_ms, completion)
        group.offsets.prepare(append_id, attempt.values)

    def _find_group_for_commit(
        self, request: OffsetCommitRequest, now_ms: int, *, is_old: bool
    ) -> tuple[Group | None, ErrorCode]:
        error = self._core.check_group(request.group_id, allow_empty_id=True)
        if error is not ErrorCode.NONE:
            return None, error
        generation_id = request.generation_id_or_member_epoch
        group = self._core.groups.get(request.group_id)
        if group is None:
            if generation_id >= 0:
                return None, ErrorCode.ILLEGAL_GENERATION
            return self._core.create_group(request.group_id, now_ms), ErrorCode.NONE
        if group.modern is not None:
            member_id = request.member_id
            return group, check_commit(group.modern, member_id, generation_id, is_old=is_old)
        if generation_id < 0 and group.state is GroupState.EMPTY:
            return group, ErrorCode.NONE
        if generation_id < 0 and not request.member_id and request.group_instance_id is None:
            return group, ErrorCode.UNKNOWN_MEMBER_ID
        error = group.validate_member(request.member_id, request.group_instance_id)
        if error is ErrorCode.NONE and generation_id != group.generation_id:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is ErrorCode.NONE and group.state is GroupState.COMPLETING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        return group, error

    def _check_partitions(
        self, group: ChangingGroup, attempt: CommitAttempt[OffsetCommitRequest]
    ) -> None:
        """Refuse the partitions that a member has not got in the epoch that it commits in."""
        request, topic_id = attempt.request, self._topic_id
        epoch = request.generation_id_or_member_epoch
        for partition in list(attempt.values):
            error = check_partition(group, request.member_id, epoch, partition, topic_id)
            if error is not ErrorCode.NONE:
                del attempt.values[partition]
                attempt.errors[partition] = error

    def _committed(
        self,
        attempt: CommitAttempt[OffsetCommitRequest],
        group: Group,
        append_id: int,
        error: ErrorCode,
        base_offset: int,
        now_ms: int,
    ) -> None:
        values = attempt.values
        if error is ErrorCode.NONE:
            group.offsets.complete(append_id, base_offset, values)
            self._core.stats.offsets_committed += len(values)
        else:
            logger.info("append %d of offsets failed: %s", append_id, error.name)
            group.offsets.fail(append_id, values)
        attempt.fail_rest(client_error(error))
        self._core.reply(attempt.token, attempt.response())

    # The same commit again

    def begin_again(self, plan: CommitPlan, now_ms: int) -> RepeatedCommit | None:
        """Begin a commit by its plan; None: it must go through the full checks.

        The caller appends the batch at once. If the append must wait for replicas, it calls
        `wait_again` before anything else happens; it calls `end_again` with the outcome.
        """
        core = self._core
        group = core.groups.get(plan.group_id)
        if group is None or not core.may_repeat_commits:
            return None
        generation_id = plan.generation_id
        if group.modern is not None:
            is_current = is_current_member(group.modern, plan.member_id, generation_id)
            if plan.is_old or not is_current:
                return None
        elif generation_id < 0:
            if group.state is not GroupState.EMPTY:
                return None
        else:
            if (
                generation_id != group.generation_id
                or group.state is GroupState.COMPLETING_REBALANCE
                or group.validate_member(plan.member_id, plan.group_instance_id)
            ):
                return None
            if group.state is not GroupState.EMPTY:
                self._rebalance.restart_session(group.members[plan.member_id], now_ms)
        stamp_ms = core.wall.stamp_ms(now_ms)
        return RepeatedCommit(group, plan.values(now_ms, stamp_ms), plan.batch(stamp_ms))

    def wait_again(self, commit: RepeatedCommit) -> int:
        """Note that the append waits for replicas: its offsets are pending until `end_again` gets
        this id."""
        append_id = self._core.next_append_id()
        commit.group.offsets.prepare(append_id, commit.values)
        return append_id

    def end_again(
        self, commit: RepeatedCommit, append_id: int | None, error: ErrorCode, base_offset: int
    ) -> None:
        """The outcome of its append; `append_id` is None if it did not wait."""
        group, values, _ = commit
        if error is not ErrorCode.NONE:
            logger.info("an append of offsets of %r failed: %s", group.group_id, error.name)
            if append_id is not None:
                group.offsets.fail(append_id, values)
            return
        if append_id is None:
            group.offsets.put(base_offset, values)
        else:
            group.offsets.complete(append_id, base_offset, values)
        self._core.stats.offsets_committed += len(values)

    # OffsetFetch

    def fetch(
        self,
        group_id: str,
        topics: Iterable[tuple[str, Iterable[int]]] | None,
        member_id: str | None = None,
        member_epoch: int = -1,
        *,
        require_stable: bool,
    ) -> OffsetFetchResponseGroup:
        """Committed offsets of the named partitions, or of all with `topics` None. Only a group of
        the consumer protocol looks at the member."""
        error = self._core.check_group(group_id, allow_empty_id=True)
        group = self._core.groups.get(group_id)
        if error is ErrorCode.NONE and group is not None and group.modern is not None:
            error = check_fetch(group.modern, member_id, member_epoch)
        if error is not ErrorCode.NONE:
            return OffsetFetchResponseGroup(group_id=group_id, error_code=error)
        if topics is None:
            by_topic: dict[str, list[int]] = {}
            for topic, partition in () if group is None else group.offsets:
                by_topic.setdefault(topic, []).append(partition)
            topics = by_topic.items()
        return OffsetFetchResponseGroup(
            group_id=group_id,
            topics=[
                OffsetFetchResponseTopics(
                    name=name,
                    partitions=[
                        _fetched(group, (name, index), require_stable) for index in indexes
                    ],
                )
                for name, indexes in topics
            ],
        )

    # OffsetDelete

    def delete(
        self,
        token: object,
        request: OffsetDeleteRequest,
        unknown: Container[TopicPartition],
        now_ms: int,
    ) -> None:
        """Delete offsets of partitions that the group does not consume."""
        error = self._core.check_group(request.group_id)
        group = self._core.groups.get(request.group_id)
        if error is ErrorCode.NONE:
            if group is None:
                error = ErrorCode.GROUP_ID_NOT_FOUND
            elif (
                group.modern is None
                and group.state is not GroupState.EMPTY
                and group.protocol_type != CONSUMER_PROTOCOL_TYPE
            ):
                error = ErrorCode.NON_EMPTY_GROUP
        if group is None or error is not ErrorCode.NONE:
            self._core.reply(token, OffsetDeleteResponse(error_code=error))
            return
        is_consumed = group.has_members
        errors: dict[TopicPartition, ErrorCode] = {}
        for topic in request.topics:
            for entry in topic.partitions:
                partition = (topic.name, entry.partition_index)
                errors[partition] = ErrorCode.NONE
                if partition in unknown:
                    errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif is_consumed and group.is_subscribed_to(topic.name):
                    errors[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        deletable = [partition for partition, e in errors.items() if e is ErrorCode.NONE]
        if deletable:
            removed = group.offsets.remove(deletable)
            self._core.stats.offsets_deleted += len(removed)
            self._clean_up(group, removed, now_ms)
        self._core.reply(token, partition_errors(request, errors))

    # Clean-up

    def partitions_deleted(self, partitions: Collection[TopicPartition], now_ms: int) -> None:
        """Topics were deleted: no group has offsets there any more."""
        for group in list(self._core.groups.values()):
            self._clean_up(group, group.offsets.remove(partitions), now_ms)

    def expire(self, now_ms: int) -> None:
        """Remove offsets that have outlived their retention, and groups that are left with none."""
        count = 0
        for group in list(self._core.groups.values()):
            expired = self._expired(group, now_ms)
            count += len(expired)
            self._clean_up(group, expired, now_ms)
        if count:
            self._core.stats.offsets_expired += count
            logger.info("removed %d expired offsets", count)

    def delete_group(self, group: Group, now_ms: int) -> None:
        """Remove a group with all its offsets; its members have no request left that waits."""
        self._clean_up(group, group.offsets.remove_all(), now_ms, is_deleted=True)

    def _expired(self, group: Group, now_ms: int) -> list[TopicPartition]:
        """The partitions whose offsets have expired. Ages of events in this process are measured by
        the monotonic clock. Ages of events read from the log are measured by their timestamps, and
        not in the first interval after a jump of the wall clock."""
        core = self._core
        interval_ms = core.config.offsets_retention_check_interval_ms
        wall_ms = core.wall.comparable_ms(now_ms, interval_ms)
        remove: Callable[..., list[TopicPartition]] = partial(
            group.offsets.remove_expired, now_ms, wall_ms, core.config.offsets_retention_ms
        )
        if group.modern is not None:
            return remove(None, group.modern.subscribed_topics)
        if group.protocol_type is None:
            return remove()
        if group.state is GroupState.EMPTY:
            if group.state_since_ms is not None:
                return remove(now_ms - group.state_since_ms)
            if group.state_timestamp_ms is None:
                return remove()
            return [] if wall_ms is None else remove(wall_ms - group.state_timestamp_ms)
        if group.state is GroupState.STABLE and group.subscribed_topics is not None:
            return remove(None, group.subscribed_topics)
        return []

    def _clean_up(
        self,
        group: Group,
        removed: Collection[TopicPartition],
        now_ms: int,
        *,
        is_deleted: bool = False,
    ) -> None:
        """Write tombstones for removed offsets, and remove the group if nothing is left of it."""
        stamp_ms = self._core.wall.stamp_ms(now_ms)
        records = offset_tombstones(group.group_id, removed, stamp_ms)
        is_left_over = not group.has_members and group.offsets.is_empty and not group.is_share
        if is_deleted or is_left_over:
            if group.modern is not None:
                records += end_records(group.modern, stamp_ms)
            group.transition_to(GroupState.DEAD, now_ms)
            self._core.forget_group(group)
            logger.info("group %r: removed in generation %d", group.group_id, group.generation_id)
            if group.generation_id > 0:
                records.append(group_tombstone(group.group_id, stamp_ms))
        if records:
            self._core.append_and_forget(group.partition, records)


def _to_offset(
    entry: OffsetCommitRequestPartition, now_ms: int, stamp_ms: int, expire_timestamp_ms: int
) -> OffsetAndMetadata:
    timestamp_ms = entry.commit_timestamp
    is_now = timestamp_ms == _DEFAULT_TIMESTAMP
    return OffsetAndMetadata(
        entry.committed_offset,
        entry.committed_leader_epoch,
        entry.committed_metadata or "",
        stamp_ms if is_now else timestamp_ms,
        expire_timestamp_ms,
        now_ms if is_now else NOT_SEEN,
    )


def _fetched(
    group: Group | None, partition: TopicPartition, require_stable: bool
) -> OffsetFetchResponsePartitions:
    result = OffsetFetchResponsePartitions(
        partition_index=partition[1],
        committed_offset=INVALID_OFFSET,
        committed_leader_epoch=NO_LEADER_EPOCH,
        metadata="",
    )
    if group is None:
        return result
    if require_stable and group.offsets.has_pending(partition):
        result.error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
        return result
    value = group.offsets.get(partition)
    if value is not None:
        result.committed_offset = value.offset
        result.committed_leader_epoch = value.leader_epoch
        result.metadata = value.metadata
    return result
