"""Who may commit and fetch offsets of a streams group, and the records that end one.

A member commits in its current epoch, or in an older one the partitions of active tasks that it got
no later and has not given up. A client that is no member may commit while there are none. Members
use version 9 and above, whose answers have the error STALE_MEMBER_EPOCH.

Mirrors StreamsGroup.validateOffsetCommit, validateOffsetFetch and createGroupTombstoneRecords.
"""

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
    SetTopology,
)
from .records import record
from .streams_group import StreamsGroup


def check_commit(
    group: StreamsGroup, member_id: str, epoch: int, *, is_old: bool = False
) -> ErrorCode:
    """Whether the request may commit at all; `check_partition` is about its partitions. `is_old`:
    it is of a version before 9."""
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if is_old:
        return ErrorCode.UNSUPPORTED_VERSION
    known = member.progress.epoch
    is_stale = epoch > known or (epoch < known and group.topology is None)
    return ErrorCode.STALE_MEMBER_EPOCH if is_stale else ErrorCode.NONE


def check_partition(
    group: StreamsGroup, member_id: str, epoch: int, partition: TopicPartition
) -> ErrorCode:
    """Whether a request that `check_commit` accepts may commit this partition."""
    member = group.members.get(member_id)
    if member is None or group.topology is None or epoch == member.progress.epoch:
        return ErrorCode.NONE
    reader = group.topology.readers.get(partition[0])
    since = None
    if reader is not None:
        since = member.progress.assignment_epoch(reader.subtopology_id, partition[1])
    is_stale = since is None or epoch < since
    return ErrorCode.STALE_MEMBER_EPOCH if is_stale else ErrorCode.NONE


def is_current_member(group: StreamsGroup, member_id: str, epoch: int) -> bool:
    """Whether the member commits in its current epoch; nothing else is to be checked then."""
    member = group.members.get(member_id)
    return member is not None and epoch == member.progress.epoch


def check_fetch(group: StreamsGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Whether the request may fetch offsets; without member and epoch it may."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    is_current = epoch == member.progress.epoch
    return ErrorCode.NONE if is_current else ErrorCode.STALE_MEMBER_EPOCH


def end_records(group: StreamsGroup, stamp_ms: int) -> list[SimpleRecord]:
    """The records after which nothing is left of the group."""
    members = list(group.members)
    changes: list[Change] = [SetProgress(member_id, None) for member_id in members]
    changes += [SetTarget(member_id, None) for member_id in members]
    changes.append(SetTargetEpoch(None))
    changes += [SetMember(member_id, None) for member_id in members]
    changes += [SetEpoch(None), SetTopology(None)]
    return [SimpleRecord(stamp_ms, *record(group.group_id, change)) for change in changes]
