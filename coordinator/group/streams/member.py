"""A member of a streams group: what it told about itself, and its way to its target.

Members are values: a change makes another one. `metadata` and `progress` are the contents of its
two records. Mirrors StreamsGroupMember and MemberState.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from .tasks import NOTHING_OWNED, OwnedTasks

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2


class MemberState(IntEnum):
    """A member's state; the value is that of its record."""

    STABLE = 1
    UNREVOKED_TASKS = 2  # it has to give up tasks before it gets to the next epoch
    UNRELEASED_TASKS = 3  # it waits for tasks that others have not given up
    UNKNOWN = 127  # of a later version of Kafka

    @classmethod
    def of(cls, value: int) -> "MemberState":
        return cls(value) if value in _STATES else cls.UNKNOWN


_STATES: Final = frozenset(MemberState)


class Endpoint(NamedTuple):
    """The address at which a member answers questions about its state (interactive queries)."""

    host: str
    port: int


class MemberMetadata(NamedTuple):
    """What a member told about itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    # Of the process, whose threads are members with one state directory.
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    # Pairs of key and value, by key.
    client_tags: tuple[tuple[str, str], ...] = ()


class Progress(NamedTuple):
    """A member's epoch and tasks."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: OwnedTasks = NOTHING_OWNED
    # It still has them, and has to give them up.
    revoking: OwnedTasks = NOTHING_OWNED

    def moved_to(
        self, epoch: int, state: MemberState, assigned: OwnedTasks, revoking: OwnedTasks
    ) -> "Progress":
        return Progress(epoch, self.epoch, state, assigned, revoking)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def assignment_epoch(self, subtopology_id: str, partition: int) -> int | None:
        """The epoch in which it got an active task; None: it does not have it."""
        for owned in (self.assigned, self.revoking):
            epoch = owned.active.get(subtopology_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None


class Member(NamedTuple):
    """A member with the contents of both of its records."""

    member_id: str
    metadata: MemberMetadata = MemberMetadata()
    progress: Progress = Progress()
