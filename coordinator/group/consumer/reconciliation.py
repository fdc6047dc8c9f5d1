"""One step of a member towards its target.

A member first gives up what it should not have (UNREVOKED_PARTITIONS, in its old epoch), then
enters the epoch of the target with the partitions that are free, and waits for those that others
have not given up (UNRELEASED_PARTITIONS) until it has all (STABLE). It gives up a partition by not
naming it any more among those that it owns.

Invariant: a partition has one owner at a time: it is assigned to a member only while no member owns
it, or the member itself is giving it up.

Mirrors CurrentAssignmentBuilder. Legal states before and after are those of `step`.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from .assignment import Assignment, PartitionEpochs
from .member import MemberState, Owned, Progress, owns_any

FREE: Final = -1


class UnknownStateError(Exception):
    """The member is in a state of a later version of Kafka, and must join again."""


class Target(NamedTuple):
    """Where a member should get to."""

    epoch: int
    assignment: Assignment
    # Of the topics that it is subscribed to now.
    topic_ids: frozenset[bytes]
    # Whether this request changed its subscription.
    is_subscription_new: bool
    # The epoch of a partition's owner, or FREE.
    owner_epoch: Callable[[bytes, int], int]


def step(progress: Progress, target: Target, owned: Owned | None) -> Progress:
    """The member after a step; the same object if there is none. `owned`: None if the request does
    not say it."""
    state = progress.state
    if state is MemberState.STABLE:
        if progress.epoch != target.epoch:
            return _advance(progress, target, owned, progress.epoch)
        return _restrict(progress, target, owned) if target.is_subscription_new else progress
    if state is MemberState.UNREVOKED_PARTITIONS and owns_any(owned, progress.revoking):
        return _restrict(progress, target, owned) if target.is_subscription_new else progress
    if state is MemberState.UNKNOWN:
        if owned is None or owned:
            raise UnknownStateError
        return _advance(progress, target, owned, target.epoch)
    return _advance(progress, target, owned, progress.epoch)


def _restrict(progress: Progress, target: Target, owned: Owned | None) -> Progress:
    """Take away the topics that the member is no longer subscribed to."""
    dropped = {
        topic_id: epochs
        for topic_id, epochs in progress.assigned.items()
        if topic_id not in target.topic_ids
    }
    if not dropped:
        return progress
    assigned = {t: epochs for t, epochs in progress.assigned.items() if t not in dropped}
    revoking = dict(progress.revoking)
    for topic_id, epochs in dropped.items():
        revoking[topic_id] = {**revoking.get(topic_id, {}), **epochs}
    if owns_any(owned, revoking):
        return progress.moved_to(
            progress.epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoking
        )
    return progress._replace(previous_epoch=progress.epoch, assigned=assigned)


def _advance(progress: Progress, target: Target, owned: Owned | None, epoch: int) -> Progress:
    kept: dict[bytes, dict[int, int]] = {}
    revoking: dict[bytes, dict[int, int]] = {}
    added: dict[bytes, dict[int, int]] = {}
    is_waiting = False
    for topic_id in target.assignment.keys() | progress.assigned.keys():
        wanted = _wanted(target, topic_id)
        current = progress.assigned.get(topic_id, {})
        stay = {partition: since for partition, since in current.items() if partition in wanted}
        giving = {p: since for p, since in current.items() if p not in wanted}
        mine = progress.revoking.get(topic_id, {})
        free = [
            partition
            for partition in sorted(wanted)
            if partition not in current
            and (partition in mine or target.owner_epoch(topic_id, partition) == FREE)
        ]
        is_waiting |= len(stay) + len(free) < len(wanted)
        if stay:
            kept[topic_id] = stay
        if giving:
            revoking[topic_id] = giving
        if free:
            added[topic_id] = dict.fromkeys(free, target.epoch)
    if revoking and owns_any(owned, revoking):
        return progress.moved_to(epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    assigned: PartitionEpochs = {
        topic_id: {**kept.get(topic_id, {}), **added.get(topic_id, {})}
        for topic_id in sorted(kept.keys() | added.keys())
    }
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return progress.moved_to(target.epoch, state, assigned, {})


def _wanted(target: Target, topic_id: bytes) -> frozenset[int]:
    if topic_id not in target.topic_ids:
        return frozenset()
    return target.assignment.get(topic_id, frozenset())
