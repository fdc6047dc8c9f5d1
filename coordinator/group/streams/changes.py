"""The changes of a streams group's state: one for each kind of record.

A change says what is under its key from now on; None removes it. The state of a group is what its
changes left, whatever the way (`streams_group.py`), and a record is a change in bytes
(`records.py`).
"""

from typing import NamedTuple

from ..changing_group import TargetEpoch as TargetEpoch
from .member import MemberMetadata, Progress
from .tasks import Tasks
from .topology import Topology


class GroupEpoch(NamedTuple):
    epoch: int
    metadata_hash: int
    # The epoch of the topology whose topics were found to be right; -1: of none.
    validated_topology_epoch: int = -1
    # The configs of the assignor, as pairs of key and value by key.
    assignment_configs: tuple[tuple[str, str], ...] = ()


class SetEpoch(NamedTuple):
    """The group's epoch; None ends the group."""

    value: GroupEpoch | None


class SetTopology(NamedTuple):
    value: Topology | None


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
    value: Tasks | None


Change = SetEpoch | SetTopology | SetTargetEpoch | SetMember | SetProgress | SetTarget
