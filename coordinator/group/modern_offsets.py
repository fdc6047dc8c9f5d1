"""Offsets of groups that are not classic: one way to ask for all kinds.

Mirrors the methods of Kafka's Group that each kind has: validateOffsetCommit, validateOffsetFetch
and createGroupTombstoneRecords.
"""

from collections.abc import Callable

from ...protocol.errors import ErrorCode
from ...protocol.records.record import SimpleRecord
from ...protocol.topics import TopicPartition
from .changing_group import ChangingGroup
from .consumer import commits as of_consumers
from .consumer.consumer_group import ConsumerGroup
from .streams import commits as of_streams
from .streams.streams_group import StreamsGroup


def check_commit(
    group: ChangingGroup, member_id: str, epoch: int, *, is_old: bool = False
) -> ErrorCode:
    """Whether the request may commit at all. `is_old`: of a version that members must not use."""
    if isinstance(group, StreamsGroup):
        return of_streams.check_commit(group, member_id, epoch, is_old=is_old)
    assert isinstance(group, ConsumerGroup)
    return of_consumers.check_commit(group, member_id, epoch, is_old=is_old)


def check_partition(
    group: ChangingGroup,
    member_id: str,
    epoch: int,
    partition: TopicPartition,
    topic_id: Callable[[str], bytes | None],
) -> ErrorCode:
    """Whether a request that `check_commit` accepts may commit this partition."""
    if isinstance(group, StreamsGroup):
        return of_streams.check_partition(group, member_id, epoch, partition)
    assert isinstance(group, ConsumerGroup)
    return of_consumers.check_partition(group, member_id, epoch, partition, topic_id)


def is_current_member(group: ChangingGroup, member_id: str, epoch: int) -> bool:
    """Whether the member commits in its current epoch; nothing else is to be checked then."""
    if isinstance(group, StreamsGroup):
        return of_streams.is_current_member(group, member_id, epoch)
    assert isinstance(group, ConsumerGroup)
    return of_consumers.is_current_member(group, member_id, epoch)


def check_fetch(group: ChangingGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Whether the request may fetch offsets; without member and epoch it may."""
    if isinstance(group, StreamsGroup):
        return of_streams.check_fetch(group, member_id, epoch)
    assert isinstance(group, ConsumerGroup)
    return of_consumers.check_fetch(group, member_id, epoch)


def end_records(group: ChangingGroup, stamp_ms: int) -> list[SimpleRecord]:
    """The records after which nothing is left of the group."""
    if isinstance(group, StreamsGroup):
        return of_streams.end_records(group, stamp_ms)
    assert isinstance(group, ConsumerGroup)
    return of_consumers.end_records(group, stamp_ms)
