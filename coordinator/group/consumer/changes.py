"""The changes of a consumer group's state: one for each kind of record.

A change says what is under its key from now on; None removes it. The state of a group is what its
changes left, whatever the way (`consumer_group.py`), and a record is a change in bytes
(`records.py`).
"""

from typing import NamedTuple

from ..changing_group import TargetEpoch as TargetEpoch
from .assignment import Assignment
from .member import MemberMetadata, Progress


class GroupEpoch(NamedTuple):
    epoch: int
    metadata_hash: int


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched."""

    topics: frozenset[str]
    # Of the topics among which it was looked for.
    version: int
    # Of the wall clock.
    timestamp_ms: int


class SetEpoch(NamedTuple):
    """The group's epoch; None ends the group."""

    value: GroupEpoch | None


class SetTargetEpoch(NamedTuple):
    value: TargetEpoch | None


class SetMember(NamedTuple):
    member_id: str
    value: MemberMetadata | None


class SetProgress(NamedTuple):
    member_id: str
    value: Progress | None


class SetTarget(NamedTuple):
    member_id: str
    value: Assignment | None


class SetRegex(NamedTuple):
    regex: str
    value: ResolvedRegex | None


class SetPartitionMetadata(NamedTuple):
    """Of Kafka 4.0, which kept the topics in it: only whether there is such a record."""

    value: bool | None


Change = (
    SetEpoch
    | SetTargetEpoch
    | SetMember
    | SetProgress
    | SetTarget
    | SetRegex
    | SetPartitionMetadata
)
