"""Random members of a streams group, topics, configs, failures of the log and restarts.

Each seed is one run. Checked after every step: the processes that have a task are those of the
members; no active task has two owners, neither for the coordinator nor among the members that it
knows; a process has a task in one role. Checked at each restart: the state read from the log is
what it was. Checked at the end: all requests are answered, and when nothing happens any more, each
task is active once and has as many standby tasks as there are other processes, at most those asked
for; no timer is left of members that are gone.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from pybroker_kafka.coordinator.group.streams.config import StreamsGroupConfig
from pybroker_kafka.protocol import invariants
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support import examples
from tests.unit.coordinator.group.consumer_harness import Topics
from tests.unit.coordinator.group.harness import GROUP
from tests.unit.coordinator.group.streams_harness import (
    Streams,
    StreamsHarness,
    subtopology,
    topology,
)

STEPS = 150
SEEDS = examples.of(40)
ROUNDS = 40
APPEND_ERRORS = (
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.MESSAGE_TOO_LARGE,
)
CONFIG = StreamsGroupConfig()
INTERVAL_MS = CONFIG.assignment_interval_ms
TIMEOUT_MS = CONFIG.session_timeout_ms
OF = topology(
    subtopology("0", "t", "u", sinks=["r"]),
    subtopology("1", repartition={"r": 0}, changelogs=["c"]),
)
Task = tuple[str, int]


class Run:
    def __init__(self, seed: int) -> None:
        self.choose = random.Random(seed)
        self.h = StreamsHarness(Topics(t=4, u=2), CONFIG)
        self.members: list[Streams] = []
        self.names = 0
        self.replicas = 0

    def step(self) -> None:
        choose, h = self.choose, self.h
        kind = choose.random()
        if kind < 0.12 and len(self.members) < 5:
            self.start()
        elif kind < 0.16 and self.members:
            self.members.remove(choose.choice(self.members))  # it is not heard of any more
        elif kind < 0.22 and self.members:
            member = choose.choice(self.members)
            self.members.remove(member)
            if member.epoch:
                h.beat(member.member_id, -1)
        elif kind < 0.26:
            self.replicas = choose.randint(0, 2)
            h.machine.group_config_changed(GROUP, {"streams.num.standby.replicas": self.replicas})
        elif kind < 0.29:
            # Internal topics that have another size than the topology's are not used.
            self.make("t", 1 + (h.topics.topic("t") or h.topics._topics["u"]).partition_count)
        elif kind < 0.33:
            self.create_missing()
        elif kind < 0.36:
            self.restart()
        elif kind < 0.43:
            self.fail()
        elif kind < 0.6:
            h.advance(choose.choice((1, INTERVAL_MS, TIMEOUT_MS // 3)))
        elif self.members:
            choose.choice(self.members).beat()
        self.check()

    def make(self, name: str, count: int) -> None:
        self.h.topics.make(name, count)
        self.h.machine.topics_changed({name})

    def create_missing(self) -> None:
        count = max(self.h.topics._topics[name].partition_count for name in "tu")
        for name in "rc":
            self.make(name, count)

    def start(self) -> None:
        self.names += 1
        process = self.choose.choice("pqr")
        self.members.append(Streams(self.h, f"m{self.names}", process, OF))
        self.members[-1].beat()

    def restart(self) -> None:
        h = self.h

        def states() -> list[Any]:
            return [
                (g.streams.members, g.streams.targets, g.streams.topology, g.streams.epoch)
                for g in h.machine.groups
                if g.streams
            ]

        before = states()
        h.restart()
        h.machine.group_config_changed(GROUP, {"streams.num.standby.replicas": self.replicas})
        assert states() == before

    def fail(self) -> None:
        """Some requests meet with a log that does not take records, or is slow."""
        h, choose = self.h, self.choose
        h.is_holding = True
        calls = [(m, m.beat()) for m in choose.sample(self.members, min(2, len(self.members)))]
        error = choose.choice((ErrorCode.NONE, *APPEND_ERRORS))
        h.release(error)
        h.is_holding = False
        for member, call in calls:
            assert not call.is_waiting
            member.take(call)

    def check(self) -> None:
        for holder in self.h.machine.groups:
            group = holder.streams
            if group is None:
                continue
            group.check()
            owners: dict[Task, str] = {}
            roles: dict[tuple[str, Task], str] = {}
            for member in group.members.values():
                process = member.metadata.process_id
                for owned in (member.progress.assigned, member.progress.revoking):
                    for name, epochs in owned.active.items():
                        for partition in epochs:
                            task = (name, partition)
                            assert task not in owners, task
                            owners[task] = member.member_id
                            assert roles.setdefault((process, task), "active") == "active"
                    for name, partitions in owned.standby.items():
                        for partition in partitions:
                            place = (process, (name, partition))
                            assert place not in roles, place
                            roles[place] = "standby"
            used: dict[Task, str] = {}
            for streams in self.members:
                known = group.members.get(streams.member_id)
                if known is None or known.progress.epoch < streams.epoch:
                    continue
                for name, active in streams.active.items():
                    for partition in active:
                        owner = used.setdefault((name, partition), streams.member_id)
                        assert owner == streams.member_id, (name, partition)
            assert group.session_timers.keys() >= group.members.keys()

    def settle(self) -> None:
        h = self.h
        h.advance(TIMEOUT_MS - 1)
        self.create_missing()
        for member in self.members:
            member.beat()
        h.advance(1)
        for _ in range(ROUNDS):
            h.advance(INTERVAL_MS)
            for member in self.members:
                member.beat()
        count = max(h.topics._topics[name].partition_count for name in "tu")
        sizes = {"0": count, "1": count}
        tasks = {(name, n) for name, size in sizes.items() for n in range(size)}
        active = [
            (name, n) for m in self.members for name, found in m.active.items() for n in found
        ]
        standby = [
            (name, n) for m in self.members for name, found in m.standby.items() for n in found
        ]
        if not self.members:
            return
        assert sorted(active) == sorted(tasks)
        processes = {member.process for member in self.members}
        wanted = min(self.replicas, len(processes) - 1)
        assert sorted(standby) == sorted([("1", n) for n in range(count)] * wanted)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_streams_groups(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invariants, "THOROUGH", True)
    run = Run(seed)
    for _ in range(STEPS):
        run.step()
    run.settle()
    assert all(not call.is_waiting for call in run.h.calls)
    run.members.clear()
    run.h.advance(2 * TIMEOUT_MS)
    for holder in run.h.machine.groups:
        group = holder.streams
        assert group is None or not (group.members or group.session_timers or group.delay_timer)
