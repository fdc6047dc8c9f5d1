"""The state of one consumer group, and the counts and maps that follow from it.

Invariants: the state is that of the changes applied, in any order that keeps each key's own;
`apply` returns the change that undoes it; everything derived (static members, owners, counts) is
that of the members, targets and regular expressions (`check`). A partition is in the owners with
the epoch of the member that has it, assigned or to be given up; the member that leaves it takes it
out only while it is still there with its own epoch.

Mirrors ModernGroup and ConsumerGroup. Left out: views of the state as of a committed offset.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple

from mypy_extensions import mypyc_attr

from ....protocol import invariants
from ....protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ....protocol.errors import ErrorCode
from ....protocol.invariants import BrokenInvariant
from ..changing_group import ChangingGroup
from ..timers import Timer, TimerKind
from .assignment import NOTHING, Assignment
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
from .member import LEAVING_EPOCH, Member, MemberMetadata, Progress
from .records import record

GROUP_TYPE: Final = "consumer"
FIRST_EPOCH: Final = GroupEpoch(1, 0)
NO_TARGET_EPOCH: Final = TargetEpoch(1)
_LEFT: Final = Progress(LEAVING_EPOCH, LEAVING_EPOCH)


class ConsumerGroupState(Enum):
    """The value is the name that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class PutBack(NamedTuple):
    """Undoes a change of a member: it is what it was before, or None."""

    member_id: str
    member: Member | None


Undo = Change | PutBack


@mypyc_attr(allow_interpreted_subclasses=True)
class ConsumerGroup(ChangingGroup):
    """One group; a `Group` has its offsets."""

    has_offsets: ClassVar[bool] = True

    members: dict[str, Member]
    targets: dict[str, Assignment]

    __slots__ = (
        "assigned_ms",
        "assignors",
        "classic_count",
        "classic_timers",
        "has_new_topics",
        "has_partition_metadata",
        "is_refresh_due",
        "names",
        "owners",
        "regex_members",
        "regex_topics",
        "regexes",
        "resolved_ms",
        "static_members",
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        # From here on set by `apply` only.
        self.regexes: dict[str, ResolvedRegex] = {}
        # There is a record of Kafka 4.0's, to be removed.
        self.has_partition_metadata = False
        # Derived. From instance id to member id.
        self.static_members: dict[str, str] = {}
        # How many members are subscribed to a topic by name, to a regular expression, and how many
        # regular expressions match a topic.
        self.names: Counter[str] = Counter()
        self.regex_members: Counter[str] = Counter()
        self.regex_topics: Counter[str] = Counter()
        # How many members ask for an assignor.
        self.assignors: Counter[str] = Counter()
        # How many members use the classic protocol.
        self.classic_count = 0
        # The epoch of each partition's owner.
        self.owners: dict[bytes, dict[int, int]] = {}
        # In memory only. A topic of the group may have changed since its hash was computed.
        self.is_refresh_due = True
        # There are topics that the regular expressions have not been tried on.
        self.has_new_topics = True
        # By the monotonic clock: when the target and the regular expressions were computed; None:
        # not by this process.
        self.assigned_ms: int | None = None
        self.resolved_ms: int | None = None
        # Until a classic member has to join or to sync.
        self.classic_timers: dict[tuple[str, TimerKind], Timer] = {}

    def timers(self) -> Iterator[Timer]:
        yield from super().timers()
        yield from self.classic_timers.values()

    def record(self, change: Any) -> tuple[bytes, bytes | None]:
        return record(self.group_id, change)

    def refusal(self, error: ErrorCode) -> Any:
        return ConsumerGroupHeartbeatResponse(error_code=error)

    def last_changes(self) -> list[Any]:
        """The changes that end the parts of this kind alone."""
        return [*(SetRegex(regex, None) for regex in self.regexes), SetPartitionMetadata(None)]

    # Reading

    @property
    def epoch(self) -> int:
        now: GroupEpoch = self._epoch or FIRST_EPOCH
        return now.epoch

    @property
    def metadata_hash(self) -> int:
        now: GroupEpoch = self._epoch or FIRST_EPOCH
        return now.metadata_hash

    @property
    def target_epoch(self) -> int:
        return (self._target_epoch or NO_TARGET_EPOCH).epoch

    @property
    def epoch_change(self) -> SetEpoch:
        return SetEpoch(self._epoch)

    @property
    def is_persisted(self) -> bool:
        """Whether the log has anything of it."""
        return self._epoch is not None or bool(self.members)

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        target_epoch = self.target_epoch
        if all(m.progress.is_reconciled_to(target_epoch) for m in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def subscribed_topics(self) -> set[str]:
        return self.names.keys() | self.regex_topics.keys()

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.names or topic in self.regex_topics

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members are subscribed to the same topics, as far as counts tell."""
        everybody = len(self.members)
        if not self.regex_members:
            return all(count == everybody for count in self.names.values())
        # One regular expression for all, and no names.
        return next(iter(self.regex_members.values())) == everybody and not self.names

    def owner_epoch(self, topic_id: bytes, partition: int) -> int:
        """The epoch of the member that has the partition, or -1."""
        return self.owners.get(topic_id, {}).get(partition, -1)

    def target(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NOTHING)

    def static_member(self, instance_id: str | None) -> Member | None:
        if instance_id is None:
            return None
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def preferred_assignor(self, default: str) -> str:
        """The one that most members ask for; of equals, the first by name."""
        if not self.assignors:
            return default
        return min(self.assignors, key=lambda name: (-self.assignors[name], name))

    def topics_of(self, metadata: MemberMetadata) -> frozenset[str]:
        """The names of the topics that a member is subscribed to, by name or regular expression."""
        resolved = self.regexes.get(metadata.topic_regex or "")
        return metadata.topic_names if resolved is None else metadata.topic_names | resolved.topics

    # Classic members

    def supports_classic(self, names: Collection[str]) -> bool:
        """Whether all classic members support one of these protocols."""
        classic = [m.metadata.classic for m in self.members.values() if m.metadata.classic]
        return any(
            all(any(one.name == name for one in told.protocols) for told in classic)
            for name in names
        )

    def waits_for_partitions(self, member: Member) -> bool:
        """Whether others have not given up a partition that the member is to get."""
        assigned = member.progress.assigned
        return any(
            partition not in assigned.get(topic_id, {})
            and self.owner_epoch(topic_id, partition) != -1
            for topic_id, partitions in self.target(member.member_id).items()
            for partition in partitions
        )

    # Changing

    def apply(self, change: Change | PutBack) -> Undo:
        """Apply a change; returns the one that undoes it."""
        undo: Undo = _APPLY[type(change)](self, change)
        if invariants.THOROUGH:
            self.check()
        return undo

    def _set_partition_metadata(self, change: SetPartitionMetadata) -> Undo:
        undo = SetPartitionMetadata(self.has_partition_metadata or None)
        self.has_partition_metadata = change.value is not None
        return undo

    def _set_regex(self, change: SetRegex) -> Undo:
        before = self.regexes.pop(change.regex, None)
        if before is not None:
            _count(self.regex_topics, before.topics, -1)
        if change.value is not None:
            self.regexes[change.regex] = change.value
            _count(self.regex_topics, change.value.topics, 1)
        return SetRegex(change.regex, before)

    def _set_member(self, change: SetMember) -> Undo:
        member_id, metadata = change
        if metadata is None:
            return self._put(member_id, None)
        member = self.members.get(member_id) or Member(member_id)
        return self._put(member_id, member._replace(metadata=metadata))

    def _set_progress(self, change: SetProgress) -> Undo:
        member_id, progress = change
        member = self.members.get(member_id)
        if progress is None:
            return self._put(member_id, member and member._replace(progress=_LEFT))
        return self._put(member_id, (member or Member(member_id))._replace(progress=progress))

    def _put_back(self, change: PutBack) -> Undo:
        return self._put(*change)

    def _put(self, member_id: str, member: Member | None) -> Undo:
        before = self.members.get(member_id)
        if before is not None:
            self._count_member(before, -1)
            self._disown(before.progress)
        if member is not None:
            self.members[member_id] = member
            self._count_member(member, 1)
            self._own(member.progress)
        elif before is not None:
            del self.members[member_id]
        return PutBack(member_id, before)

    def _count_member(self, member: Member, change: int) -> None:
        metadata = member.metadata
        self.classic_count += change if member.is_classic else 0
        _count(self.names, metadata.topic_names, change)
        if member.regex is not None:
            _count(self.regex_members, (member.regex,), change)
        if metadata.server_assignor is not None:
            _count(self.assignors, (metadata.server_assignor,), change)
        instance_id = metadata.instance_id
        if instance_id is None:
            return
        if change > 0:
            self.static_members[instance_id] = member.member_id
        elif self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def _own(self, progress: Progress) -> None:
        for partitions in (progress.assigned, progress.revoking):
            for topic_id, epochs in partitions.items():
                owners = self.owners.setdefault(topic_id, {})
                for partition in epochs:
                    owners[partition] = max(progress.epoch, owners.get(partition, progress.epoch))

    def _disown(self, progress: Progress) -> None:
        for partitions in (progress.assigned, progress.revoking):
            for topic_id, epochs in partitions.items():
                owners = self.owners.get(topic_id, {})
                for partition in epochs:
                    if owners.get(partition) == progress.epoch:
                        del owners[partition]
                if not owners:
                    self.owners.pop(topic_id, None)

    def check(self) -> None:
        """Thorough: everything derived is that of the members."""
        members = self.members.values()
        names, assignors = Counter[str](), Counter[str]()
        regexes = Counter(member.regex for member in members if member.regex is not None)
        for member in members:
            names.update(member.metadata.topic_names)
            if member.metadata.server_assignor is not None:
                assignors.update((member.metadata.server_assignor,))
        facts = {
            "member ids": all(name == member.member_id for name, member in self.members.items()),
            "names": names == self.names,
            "regular expressions": regexes == self.regex_members,
            "assignors": assignors == self.assignors,
            "classic members": self.classic_count == sum(m.is_classic for m in members),
            "static members": all(
                member_id in self.members for member_id in self.static_members.values()
            ),
        }
        wrong = [name for name, is_right in facts.items() if not is_right]
        if wrong:
            raise BrokenInvariant(f"consumer group {self.group_id!r}: wrong {wrong}")

    def forget_what_was_seen(self) -> None:
        """Changes were undone: what this process noted when they were made may not hold."""
        self.is_refresh_due = self.has_new_topics = True
        self.assigned_ms = self.resolved_ms = None
        # Where two members had a partition for a moment, the later epoch hid the earlier one.
        self.owners.clear()
        for member in self.members.values():
            self._own(member.progress)


def _count(counts: Counter[str], names: Any, change: int) -> None:
    for name in names:
        counts[name] += change
        if not counts[name]:
            del counts[name]


_APPLY: Final[dict[type, Callable[..., Undo]]] = {
    PutBack: ConsumerGroup._put_back,
    SetEpoch: ConsumerGroup._set_epoch,
    SetTargetEpoch: ConsumerGroup._set_target_epoch,
    SetTarget: ConsumerGroup._set_target,
    SetPartitionMetadata: ConsumerGroup._set_partition_metadata,
    SetRegex: ConsumerGroup._set_regex,
    SetMember: ConsumerGroup._set_member,
    SetProgress: ConsumerGroup._set_progress,
}
