"""Members on their way to random targets: no partition has two owners, and all get there.

Each example is a group of a few members, whose targets change from time to time, and who send
heartbeats in any order: they own what they were told last, and give up what they must, or not yet.
The dumb twin of a partition's epochs is a dictionary from partitions to the members that use them.
"""

from __future__ import annotations

import random

import pytest

from pybroker_kafka.coordinator.group.consumer.member import MemberState, Progress
from pybroker_kafka.coordinator.group.consumer.reconciliation import FREE, Target, step
from tests.support import examples

TOPICS = [bytes([n]) * 16 for n in range(3)]
PARTITIONS = 4
MEMBERS = range(4)
STEPS = 120
SEEDS = examples.of(60)


class Group:
    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.epoch = 0
        self.progress = {member: Progress() for member in MEMBERS}
        self.owned: dict[int, dict[bytes, frozenset[int]]] = {member: {} for member in MEMBERS}
        self.topics = dict.fromkeys(MEMBERS, frozenset(TOPICS))
        self.new_target()

    def new_target(self) -> None:
        self.epoch += 1
        self.target: dict[int, dict[bytes, set[int]]] = {member: {} for member in MEMBERS}
        for topic in TOPICS:
            takers = [member for member in MEMBERS if topic in self.topics[member]]
            for partition in range(PARTITIONS):
                if takers and self.choose.random() < 0.9:
                    owner = self.choose.choice(takers)
                    self.target[owner].setdefault(topic, set()).add(partition)

    def owner_epoch(self, topic: bytes, partition: int) -> int:
        for progress in self.progress.values():
            for owned in (progress.assigned, progress.revoking):
                if partition in owned.get(topic, {}):
                    return progress.epoch
        return FREE

    def beat(self, member: int, *, changes: bool, says: bool) -> None:
        before = self.progress[member]
        target = Target(
            self.epoch,
            {topic: frozenset(found) for topic, found in self.target[member].items()},
            self.topics[member],
            changes,
            self.owner_epoch,
        )
        after = step(before, target, self.owned[member] if says else None)
        self.check(before, after)
        self.progress[member] = after
        # It is told what it may use, and may take its time to stop with the rest.
        told = {topic: frozenset(found) for topic, found in after.assigned.items()}
        if self.choose.random() < 0.8:
            self.owned[member] = told
        else:
            for topic, found in told.items():
                self.owned[member][topic] = self.owned[member].get(topic, frozenset()) | found

    def check(self, before: Progress, after: Progress) -> None:
        assert after.epoch in (before.epoch, self.epoch)
        assert bool(after.revoking) == (after.state is MemberState.UNREVOKED_PARTITIONS)
        if after != before:
            assert after.previous_epoch == before.epoch

    def check_owners(self) -> None:
        """What a member owns is its own or to be given up, and nobody else's."""
        owners: dict[tuple[bytes, int], int] = {}
        for member, progress in self.progress.items():
            for owned in (progress.assigned, progress.revoking):
                for topic, epochs in owned.items():
                    for partition, since in epochs.items():
                        assert owners.setdefault((topic, partition), member) == member
                        assert since <= progress.epoch
        for member, owned_now in self.owned.items():
            for topic, found in owned_now.items():
                for partition in found:
                    assert owners.get((topic, partition)) in (member, None)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_partitions_have_one_owner(seed: int) -> None:
    choose = random.Random(seed)
    group = Group(choose)
    for _ in range(STEPS):
        member = choose.choice(MEMBERS)
        changes = choose.random() < 0.1
        if changes:
            group.topics[member] = frozenset(choose.sample(TOPICS, choose.randint(0, 3)))
        if choose.random() < 0.1:
            group.new_target()
        group.beat(member, changes=changes, says=choose.random() < 0.8)
        group.check_owners()
    group.new_target()
    for _ in range(4):
        for member in MEMBERS:
            group.beat(member, changes=False, says=True)
            group.owned[member] = {
                topic: frozenset(found) for topic, found in group.progress[member].assigned.items()
            }
    for member, progress in group.progress.items():
        assert progress.is_reconciled_to(group.epoch), f"seed {seed}"
        assert {t: set(found) for t, found in progress.assigned.items()} == group.target[member]


def test_a_state_of_a_later_version_begins_anew() -> None:
    progress = Progress(5, 4, MemberState.UNKNOWN, {TOPICS[0]: {1: 3}})
    target = Target(7, {TOPICS[0]: frozenset({1, 2})}, frozenset(TOPICS), False, lambda *_: FREE)
    after = step(progress, target, {})
    assert (after.epoch, after.previous_epoch, after.state) == (7, 5, MemberState.STABLE)
    assert after.assigned == {TOPICS[0]: {1: 3, 2: 7}}
