"""Who may commit and fetch offsets of a consumer group, and the records that end one.

A member commits in its current epoch, or in an older one those partitions that it got no later and
has not given up (KIP-1251): a commit that was on its way while the epoch rose is not refused. A
client that is no member may commit while there are none. Members of the consumer protocol use
version 9 and above, whose answers have the error STALE_MEMBER_EPOCH.

Mirrors ConsumerGroup.validateOffsetCommit, validateOffsetFetch and createGroupTombstoneRecords.
"""

from collections.abc import Callable
from typing import Final

from ....protocol.errors import ErrorCode
from ....protocol.records.record import SimpleRecord
from ....protocol.topics import TopicPartition
from .changes import (
    Change,
    SetEpoch,
    SetMember,
    SetProgress,
    SetTarget,
    SetTargetEpoch,
)
from .consumer_group import ConsumerGroup
from .member import Member

FIRST_COMMIT_VERSION: Final = 9


def check_commit(
    group: ConsumerGroup, member_id: str, epoch: int, *, is_old: bool = False
) -> ErrorCode:
    """Whether the request may commit at all; `check_partition` is about its partitions. `is_old`:
    it is of a version before `FIRST_COMMIT_VERSION`."""
    if not group.has_offsets:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if is_old and not member.is_classic:
        return ErrorCode.UNSUPPORTED_VERSION
    return _late(member) if epoch > member.progress.epoch else ErrorCode.NONE


def check_partition(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    partition: TopicPartition,
    topic_id: Callable[[str], bytes | None],
) -> ErrorCode:
    """Whether a request that `check_commit` accepts may commit this partition."""
    member = group.members.get(member_id)
    if member is None or epoch == member.progress.epoch:
        return ErrorCode.NONE
    found = topic_id(partition[0])
    since = None if found is None else member.progress.assignment_epoch(found, partition[1])
    return _late(member) if since is None or epoch < since else ErrorCode.NONE


def is_current_member(group: ConsumerGroup, member_id: str, epoch: int) -> bool:
    """Whether the member commits in its current epoch; nothing else is to be checked then."""
    if not group.has_offsets:
        return False
    member = group.members.get(member_id)
    return member is not None and epoch == member.progress.epoch


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Whether the request may fetch offsets; without member and epoch it may."""
    if not group.has_offsets:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.progress.epoch else _late(member)


def _late(member: Member) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH


def end_changes(group: ConsumerGroup) -> list[Change]:
    """The changes after which nothing is left of the group."""
    members = list(group.members)
    changes: list[Change] = [SetProgress(member_id, None) for member_id in members]
    changes += [SetTarget(member_id, None) for member_id in members]
    changes.append(SetTargetEpoch(None))
    changes += [SetMember(member_id, None) for member_id in members]
    changes += [*group.last_changes(), SetEpoch(None)]
    return changes


def end_records(group: ConsumerGroup, stamp_ms: int) -> list[SimpleRecord]:
    """Their records."""
    return [SimpleRecord(stamp_ms, *group.record(change)) for change in end_changes(group)]
