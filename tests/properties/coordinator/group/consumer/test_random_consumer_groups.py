"""Random members of consumer groups, topics, failures of the log and restarts.

Each seed is one run. Checked after every step: what the coordinator derives from its members is
that of the members; no partition is used by two members that the coordinator knows; epochs do not
go back, but for what was not written. Checked at each restart: the state read from the log is what
it was. Checked at the end: all requests are answered, and when nothing happens any more, every
partition is used by one member, no timer is left of members that are gone.
"""

from __future__ import annotations

import random

import pytest

from pybroker_kafka.coordinator.group.consumer.config import ConsumerGroupConfig
from pybroker_kafka.coordinator.group.consumer.member import MemberState
from pybroker_kafka.protocol import invariants
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support import examples
from tests.unit.coordinator.group.consumer_harness import Consumer, ConsumerHarness, Topics

STEPS = 150
SEEDS = examples.of(40)
ROUNDS = 30
APPEND_ERRORS = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.MESSAGE_TOO_LARGE,
)
TOPICS = ("t", "u", "v")
INTERVAL_MS = ConsumerGroupConfig().assignment_interval_ms
TIMEOUT_MS = ConsumerGroupConfig().session_timeout_ms


class Run:
    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.h = ConsumerHarness(Topics(t=4, u=2))
        self.consumers: list[Consumer] = []
        self.names = 0

    def step(self) -> None:
        choose, h = self.choose, self.h
        kind = choose.random()
        if kind < 0.12 and len(self.consumers) < 5:
            self.start()
        elif kind < 0.17 and self.consumers:
            self.consumers.remove(choose.choice(self.consumers))  # it is not heard of any more
        elif kind < 0.24 and self.consumers:
            self.leave(choose.choice(self.consumers))
        elif kind < 0.30 and self.consumers:
            consumer = choose.choice(self.consumers)
            consumer.names = tuple(choose.sample(TOPICS, choose.randint(0, 3)))
            consumer.beat(names=consumer.names)
        elif kind < 0.34:
            name = choose.choice(TOPICS)
            h.topics.make(name, 1 + (h.topics.partition_count(h.topics.topic_id(name) or b"") or 0))
            h.machine.topics_changed({name})
        elif kind < 0.37:
            self.restart()
        elif kind < 0.43:
            self.fail()
        elif kind < 0.6:
            h.advance(choose.choice((1, INTERVAL_MS, TIMEOUT_MS // 3)))
        elif self.consumers:
            choose.choice(self.consumers).beat()
        self.check()

    def start(self) -> None:
        self.names += 1
        values = {}
        free = {"i0", "i1"} - {c.values.get("instance_id") for c in self.consumers}
        if free and self.choose.random() < 0.4:
            values["instance_id"] = min(free)
        names = self.choose.sample(TOPICS, self.choose.randint(1, 3))
        self.consumers.append(Consumer(self.h, f"m{self.names}", *names, **values))
        self.consumers[-1].beat()

    def leave(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        if consumer.epoch:
            instance = consumer.values.get("instance_id")
            epoch = -1 if instance is None or self.choose.random() < 0.3 else -2
            self.h.beat(consumer.member_id, epoch, instance_id=instance)

    def restart(self) -> None:
        h = self.h
        before = [(g.consumer.members, g.consumer.targets) for g in h.machine.groups if g.consumer]
        h.restart()
        after = [(g.consumer.members, g.consumer.targets) for g in h.machine.groups if g.consumer]
        assert after == before

    def fail(self) -> None:
        """Some requests meet with a log that does not take records, or is slow."""
        h, choose = self.h, self.choose
        h.is_holding = True
        calls = [(c, c.beat()) for c in choose.sample(self.consumers, min(2, len(self.consumers)))]
        error = choose.choice((ErrorCode.NONE, *APPEND_ERRORS))
        h.release(error)
        h.is_holding = False
        for consumer, call in calls:
            assert not call.is_waiting
            consumer.take(call)

    def check(self) -> None:
        for group in self.h.machine.groups:
            if group.consumer is None:
                continue
            group.consumer.check()
            members = group.consumer.members
            used: dict[tuple[str, int], str] = {}
            for consumer in self.consumers:
                known = members.get(consumer.member_id)
                if known is None or known.progress.epoch < consumer.epoch:
                    continue
                for name, partitions in consumer.owned.items():
                    for partition in partitions:
                        owner = used.setdefault((name, partition), consumer.member_id)
                        assert owner == consumer.member_id, (name, partition)
            assert group.consumer.session_timers.keys() >= {
                member_id
                for member_id, member in members.items()
                if member.progress.state is not MemberState.UNKNOWN
            }

    def settle(self) -> None:
        h = self.h
        h.advance(TIMEOUT_MS - 1)
        for consumer in self.consumers:
            consumer.beat()
        h.advance(1)
        for _ in range(ROUNDS):
            h.advance(INTERVAL_MS)
            for consumer in self.consumers:
                consumer.beat()
        owned = [
            (name, partition)
            for consumer in self.consumers
            for name, partitions in consumer.owned.items()
            for partition in partitions
        ]
        wanted = {name for consumer in self.consumers for name in consumer.names}
        assert sorted(owned) == sorted(
            (topic.name, partition)
            for name in wanted
            if (topic := h.topics.topic(name)) is not None
            for partition in range(topic.partition_count)
        )
        for consumer in self.consumers:
            assert consumer.owned.keys() <= set(consumer.names)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_consumer_groups(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "THOROUGH", True)
    run = Run(seed)
    for _ in range(STEPS):
        run.step()
    run.settle()
    assert all(not call.is_waiting for call in run.h.calls)
    run.consumers.clear()
    run.h.advance(2 * TIMEOUT_MS)
    for group in run.h.machine.groups:
        assert group.consumer is None or not group.consumer.members
        assert group.consumer is None or not group.consumer.session_timers
