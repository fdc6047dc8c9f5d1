"""A member of a consumer group: its subscription, and its way to its target.

Members are values: a change makes another one. `metadata` and `progress` are the contents of its
two records. Mirrors ConsumerGroupMember and MemberState.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from .assignment import PartitionEpochs

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2  # gone for a while: its partitions stay reserved


class MemberState(IntEnum):
    """A member's state; the value is that of its record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # it has to give up partitions before it gets to the next epoch
    UNRELEASED_PARTITIONS = 2  # it waits for partitions that others have not given up
    UNKNOWN = 127  # of a later version of Kafka

    @classmethod
    def of(cls, value: int) -> "MemberState":
        return cls(value) if value in _STATES else cls.UNKNOWN


_STATES: Final = frozenset(MemberState)


class ClassicProtocol(NamedTuple):
    """A protocol of a member that uses the classic one."""

    name: str
    metadata: bytes


class ClassicMetadata(NamedTuple):
    """What a member of the classic protocol told in its JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]


class MemberMetadata(NamedTuple):
    """What a member told about itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    # "" or None: none.
    topic_regex: str | None = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    # None: it uses the consumer protocol.
    classic: ClassicMetadata | None = None


class Progress(NamedTuple):
    """A member's epoch and the partitions that it may use."""

    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = {}
    # It still owns them, and has to give them up.
    revoking: PartitionEpochs = {}

    def moved_to(
        self, epoch: int, state: MemberState, assigned: PartitionEpochs, revoking: PartitionEpochs
    ) -> "Progress":
        return Progress(epoch, self.epoch, state, assigned, revoking)

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def assignment_epoch(self, topic_id: bytes, partition: int) -> int | None:
        """The epoch in which it got a partition; None: it does not own it."""
        for owned in (self.assigned, self.revoking):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None

    def as_of_a_leaving_static_member(self) -> "Progress":
        """Another member with its instance id will get the same partitions, from epoch 0 on."""
        assigned = {
            topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in self.assigned.items()
        }
        return self._replace(epoch=STATIC_LEAVING_EPOCH, assigned=assigned, revoking={})


class Member(NamedTuple):
    """A member with the contents of both of its records."""

    member_id: str
    metadata: MemberMetadata = MemberMetadata()
    progress: Progress = Progress()

    @property
    def regex(self) -> str | None:
        """Its regular expression, None without one."""
        return self.metadata.topic_regex or None

    @property
    def is_classic(self) -> bool:
        return self.metadata.classic is not None


# Partitions that a member says it owns.
Owned = Mapping[bytes, frozenset[int]]


def owns_only(owned: Owned | None, epochs: PartitionEpochs) -> bool:
    """Whether all partitions that a member says it owns are among these; False if it said nothing.

    A topic that it names without partitions counts too."""
    if owned is None:
        return False
    return all(
        topic_id in epochs and epochs[topic_id].keys() >= partitions
        for topic_id, partitions in owned.items()
    )


def owns_any(owned: Owned | None, epochs: PartitionEpochs) -> bool:
    """Whether a member owns one of these partitions; one that said nothing may."""
    if owned is None:
        return True
    return any(
        not partitions.isdisjoint(epochs.get(topic_id, {}))
        for topic_id, partitions in owned.items()
    )
