"""The state of one streams group, and the maps that follow from it.

Invariants: the state is that of the changes applied, in any order that keeps each key's own;
`apply` returns the change that undoes it; everything derived (the processes that have a task) is
that of the members (`check`): a process has a task that is assigned to one of its members, or that
the member has to give up.

In memory only are what the topics were found to be, a request to shut the application down, and
the epoch of the endpoints: a coordinator that loads the group begins anew with these.

Mirrors StreamsGroup. Left out: views of the state as of a committed offset, the cache of endpoints.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

from ....protocol import invariants
from ....protocol.errors import ErrorCode
from ....protocol.invariants import BrokenInvariant
from ..changing_group import ChangingGroup
from ..timers import Timer
from .changes import (
    Change,
    GroupEpoch,
    SetEpoch,
    SetMember,
    SetProgress,
    SetTarget,
    SetTargetEpoch,
    SetTopology,
    TargetEpoch,
)
from .member import LEAVING_EPOCH, Member, Progress
from .records import record
from .requests import refusal
from .tasks import NO_TASKS, OwnedTasks, Tasks
from .topic_configuration import ConfiguredTopology
from .topology import Topology

GROUP_TYPE: Final = "streams"
PROTOCOL_TYPE: Final = "streams"
# A new group counts as one whose topology of epoch 0 is right, as in Kafka.
FIRST_EPOCH: Final = GroupEpoch(1, 0, 0)
FIRST_TARGET_EPOCH: Final = TargetEpoch(1)
_LEFT: Final = Progress(LEAVING_EPOCH, LEAVING_EPOCH)


class StreamsGroupState(Enum):
    """The value is the name that clients see."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class PutBack(NamedTuple):
    """Undoes a change of a member: it is what it was before, or None."""

    member_id: str
    member: Member | None


Undo = Change | PutBack
# How often each process has a task, by subtopology and partition.
_Holders = dict[str, dict[int, Counter[str]]]


class StreamsGroup(ChangingGroup):
    """One group; a `Group` has its offsets."""

    _epoch: GroupEpoch | None
    members: dict[str, Member]
    targets: dict[str, Tasks]

    __slots__ = (
        "_active",
        "_standby",
        "_warmup",
        "assigned_ms",
        "configured",
        "delay_timer",
        "endpoint_epoch",
        "is_refresh_due",
        "shutdown_member_id",
        "topology",
    )

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        # From here on set by `apply` only.
        self.topology: Topology | None = None
        # Derived.
        self._active: _Holders = {}
        self._standby: _Holders = {}
        self._warmup: _Holders = {}
        # In memory only. A topic of the group may have changed since its hash was computed.
        self.is_refresh_due = True
        # The topology with its topics as they were last; None: not known.
        self.configured: ConfiguredTopology | None = None
        # The member that has asked to shut down the application; None again without members.
        self.shutdown_member_id: str | None = None
        # Grows when a member with an endpoint gets other tasks.
        self.endpoint_epoch = 0
        # By the monotonic clock: when the target was computed; None: not by this process.
        self.assigned_ms: int | None = None
        # In the queue while the first target of an empty group waits for more members.
        self.delay_timer: Timer | None = None

    # Reading

    @property
    def epoch(self) -> int:
        return (self._epoch or FIRST_EPOCH).epoch

    @property
    def metadata_hash(self) -> int:
        return (self._epoch or FIRST_EPOCH).metadata_hash

    @property
    def validated_topology_epoch(self) -> int:
        return (self._epoch or FIRST_EPOCH).validated_topology_epoch

    @property
    def assignment_configs(self) -> tuple[tuple[str, str], ...]:
        """The configs of the assignor when the group's epoch began."""
        return (self._epoch or FIRST_EPOCH).assignment_configs

    @property
    def target_epoch(self) -> int:
        return (self._target_epoch or FIRST_TARGET_EPOCH).epoch

    @property
    def is_persisted(self) -> bool:
        return self._epoch is not None or bool(self.members)

    @property
    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        target_epoch = self.target_epoch
        if self.epoch > target_epoch:
            return StreamsGroupState.ASSIGNING
        if all(m.progress.is_reconciled_to(target_epoch) for m in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    @property
    def subscribed_topics(self) -> Collection[str]:
        """The topics that its members read; none without members, so that offsets expire."""
        if self.topology is None or not self.members:
            return ()
        return self.topology.readers.keys()

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics

    def needs(self, topic: str) -> bool:
        """Whether the topology has this topic, to read it or for its state."""
        return self.topology is not None and topic in self.topology.topics

    def target(self, member_id: str) -> Tasks:
        return self.targets.get(member_id, NO_TASKS)

    def active_process(self, subtopology_id: str, partition: int) -> str | None:
        """The process that has an active task."""
        return next(iter(self._active.get(subtopology_id, {}).get(partition, ())), None)

    def standby_processes(self, subtopology_id: str, partition: int) -> Collection[str]:
        return self._standby.get(subtopology_id, {}).get(partition, ())

    def warmup_processes(self, subtopology_id: str, partition: int) -> Collection[str]:
        return self._warmup.get(subtopology_id, {}).get(partition, ())

    def timers(self) -> Iterator[Timer]:
        yield from super().timers()
        if self.delay_timer is not None:
            yield self.delay_timer

    # Changing

    def record(self, change: Any) -> tuple[bytes, bytes | None]:
        return record(self.group_id, change)

    @property
    def epoch_change(self) -> SetEpoch:
        return SetEpoch(self._epoch)

    def refusal(self, error: ErrorCode) -> Any:
        return refusal(error)

    def apply(self, change: Change | PutBack) -> Undo:
        undo: Undo = _APPLY[type(change)](self, change)
        if not self.members:
            self.shutdown_member_id = None
        if invariants.THOROUGH:
            self.check()
        return undo

    def _set_topology(self, change: SetTopology) -> Undo:
        undo = SetTopology(self.topology)
        self.topology = change.value
        return undo

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
            for owned in (before.progress.assigned, before.progress.revoking):
                self._disown(owned, before.metadata.process_id)
        if member is not None:
            self.members[member_id] = member
            for owned in (member.progress.assigned, member.progress.revoking):
                self._own(owned, member.metadata.process_id)
        elif before is not None:
            del self.members[member_id]
        return PutBack(member_id, before)

    def _own(self, owned: OwnedTasks, process_id: str) -> None:
        for holders, tasks in self._by_role(owned):
            for name, partitions in tasks.items():
                of_name = holders.setdefault(name, {})
                for partition in partitions:
                    of_name.setdefault(partition, Counter())[process_id] += 1

    def _disown(self, owned: OwnedTasks, process_id: str) -> None:
        for holders, tasks in self._by_role(owned):
            for name, partitions in tasks.items():
                of_name = holders[name]
                for partition in partitions:
                    counts = of_name[partition]
                    counts[process_id] -= 1
                    if not counts[process_id]:
                        del counts[process_id]
                    if not counts:
                        del of_name[partition]
                if not of_name:
                    del holders[name]

    def _by_role(
        self, owned: OwnedTasks
    ) -> tuple[tuple[_Holders, Mapping[str, Collection[int]]], ...]:
        return (
            (self._active, owned.active),
            (self._standby, owned.standby),
            (self._warmup, owned.warmup),
        )

    def check(self) -> None:
        """Thorough: the processes that have a task are those of the members."""
        twin = StreamsGroup(self.group_id)
        for member in self.members.values():
            for owned in (member.progress.assigned, member.progress.revoking):
                twin._own(owned, member.metadata.process_id)
        facts = {
            "member ids": all(name == member.member_id for name, member in self.members.items()),
            "active tasks": twin._active == self._active,
            "standby tasks": twin._standby == self._standby,
            "warm-up tasks": twin._warmup == self._warmup,
        }
        wrong = [name for name, is_right in facts.items() if not is_right]
        if wrong:
            raise BrokenInvariant(f"streams group {self.group_id!r}: wrong {wrong}")

    def forget_what_was_seen(self) -> None:
        self.is_refresh_due = True
        self.configured = None
        self.assigned_ms = None


_APPLY: Final[Mapping[type, Callable[[StreamsGroup, Any], Undo]]] = {
    PutBack: StreamsGroup._put_back,
    SetEpoch: StreamsGroup._set_epoch,
    SetTopology: StreamsGroup._set_topology,
    SetTargetEpoch: StreamsGroup._set_target_epoch,
    SetTarget: StreamsGroup._set_target,
    SetMember: StreamsGroup._set_member,
    SetProgress: StreamsGroup._set_progress,
}
