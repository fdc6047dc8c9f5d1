"""Random members of both protocols in one group, failures of the log and restarts.

Each seed is one run. Checked after each step: nobody uses a partition that another uses, as far as
the coordinator knows both in their present epoch; what the coordinator derives is that of its
members. Checked at each restart: the group read from the log has the members that it had. Checked
at the end: when nothing happens any more, each partition is used by one member, and the group has
the protocol of its members; offsets are those that were committed.
"""

from __future__ import annotations

import random

import pytest

from pybroker_kafka.coordinator.group.consumer.config import ConsumerGroupConfig
from pybroker_kafka.coordinator.group.core import GroupConfig
from pybroker_kafka.coordinator.group.group import Group
from pybroker_kafka.protocol import invariants
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support import examples
from tests.unit.coordinator.group.classic_consumer import (
    COOPERATIVE,
    EAGER,
    REBALANCE_MS,
    ClassicConsumer,
)
from tests.unit.coordinator.group.consumer_harness import Consumer, ConsumerHarness, Topics
from tests.unit.coordinator.group.harness import GROUP

STEPS = 120
SEEDS = examples.of(40)
ROUNDS = 40
PARTITIONS = [("t", partition) for partition in range(5)]
INTERVAL_MS = ConsumerGroupConfig().assignment_interval_ms
TIMEOUT_MS = ConsumerGroupConfig().session_timeout_ms
APPEND_ERRORS = (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT)

AnyConsumer = Consumer | ClassicConsumer


class Run:
    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        config = GroupConfig(initial_rebalance_delay_ms=0)
        self.h = ConsumerHarness(Topics(t=5), config)
        self.protocol = self.choose.choice((EAGER, COOPERATIVE))
        self.members: list[AnyConsumer] = []
        self.names = 0
        self.committed: dict[tuple[str, int], int] = {}

    def step(self) -> None:
        kind = self.choose.random()
        if kind < 0.14 and len(self.members) < 4:
            self.start()
        elif kind < 0.17 and self.members:
            self.members.remove(self.choose.choice(self.members))
        elif kind < 0.28 and self.members:
            self.leave(self.choose.choice(self.members))
        elif kind < 0.31:
            self.restart()
        elif kind < 0.36:
            self.fail()
        elif kind < 0.5:
            self.h.advance(self.choose.choice((1, INTERVAL_MS, 3_000)))
        elif kind < 0.55 and self.members:
            self.commit(self.choose.choice(self.members))
        else:
            for member in self.choose.sample(self.members, len(self.members)):
                member.beat()
                self.check()
        self.check()

    def start(self) -> None:
        self.names += 1
        if self.choose.random() < 0.5:
            self.members.append(Consumer(self.h, f"m{self.names}", "t"))
        else:
            self.members.append(ClassicConsumer(self.h, "t", protocol=self.protocol))
        self.members[-1].beat()

    def leave(self, member: AnyConsumer) -> None:
        self.members.remove(member)
        if isinstance(member, ClassicConsumer):
            member.leave()
        elif member.epoch:
            self.h.beat(member.member_id, -1)

    def commit(self, member: AnyConsumer) -> None:
        if not member.owned:
            return
        place = ("t", self.choose.choice(member.owned["t"]))
        generation = member.epoch if isinstance(member, Consumer) else member.generation
        offset = self.committed.get(place, -1) + 1
        call = self.h.commit({place: offset}, member_id=member.member_id, generation_id=generation)
        if not call.response.topics[0].partitions[0].error_code:
            self.committed[place] = offset

    def restart(self) -> None:
        h = self.h
        before = {group.group_id: self.state_of(group) for group in h.machine.groups}
        for member in self.members:
            if isinstance(member, ClassicConsumer):
                member.joining = member.syncing = None
                member.generation = -1
                member.owned = {}
        h.restart()
        after = {group.group_id: self.state_of(group) for group in h.machine.groups}
        for group_id, state in after.items():
            assert before[group_id][0] == state[0]
            if state[0]:
                assert before[group_id] == state

    @staticmethod
    def state_of(group: Group) -> tuple[bool, object]:
        consumer = group.consumer
        if consumer is None:
            return False, None
        return True, (consumer.members, consumer.targets, consumer.epoch, consumer.target_epoch)

    def fail(self) -> None:
        """Some requests meet with a log that does not take records, or is slow."""
        h, choose = self.h, self.choose
        h.is_holding = True
        waiting = []
        for member in choose.sample(self.members, min(2, len(self.members))):
            if isinstance(member, Consumer):
                waiting.append((member, member.beat()))
            else:
                member.beat()
        leaving = [one for one in self.members if isinstance(one, Consumer) and one.epoch]
        if leaving and choose.random() < 0.5:
            gone = choose.choice(leaving)
            self.members.remove(gone)
            h.beat(gone.member_id, -1)
        h.release(choose.choice((ErrorCode.NONE, *APPEND_ERRORS)))
        h.is_holding = False
        h.release()
        for member, call in waiting:
            assert not call.is_waiting
            member.take(call)

    def check(self) -> None:
        used: dict[tuple[str, int], object] = {}
        for group in self.h.machine.groups:
            group.check()
            if group.consumer is not None:
                group.consumer.check()
            for member in self.members:
                if not self.is_present(member):
                    continue
                for partition in member.owned.get("t", ()):
                    owner = used.setdefault(("t", partition), member)
                    assert owner is member, partition

    def is_present(self, member: AnyConsumer) -> bool:
        """Whether the coordinator knows it in the epoch in which it is."""
        (group,) = self.h.machine.groups
        if group.consumer is None:
            return (
                isinstance(member, ClassicConsumer)
                and member.member_id in group.members
                and member.generation == group.generation_id
                and member.joining is None
            )
        known = group.consumer.members.get(member.member_id)
        epoch = member.epoch if isinstance(member, Consumer) else member.generation
        return known is not None and known.progress.epoch == epoch

    def settle(self) -> None:
        h = self.h
        for _ in range(TIMEOUT_MS // 3_000 + 1):
            h.advance(3_000)
            for member in self.members:
                member.beat()
        for _ in range(ROUNDS):
            h.advance(INTERVAL_MS)
            for member in self.members:
                member.beat()
        owned = sorted(
            (name, partition)
            for member in self.members
            for name, partitions in member.owned.items()
            for partition in partitions
        )
        assert owned == (PARTITIONS if self.members else [])
        for place, offset in self.committed.items():
            assert h.offset(*place) == offset
        if self.members:
            is_classic = all(isinstance(member, ClassicConsumer) for member in self.members)
            assert (h.group(GROUP).consumer is None) is is_classic


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_migrations(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "THOROUGH", True)
    assert TIMEOUT_MS > REBALANCE_MS
    run = Run(seed)
    for _ in range(STEPS):
        run.step()
    run.settle()
