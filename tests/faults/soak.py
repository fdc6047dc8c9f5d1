"""A cluster under load for a given time, with every kind of fault in turn.

    python -m tests.faults.soak [--minutes 25] [--seed N] [--zookeeper members]
                                [--clients pybroker,confluent,kafka-python]

Three brokers and their ZooKeeper are real processes, each in its own network namespace
(`tests.support.namespaces`). Each broker has a disk that can fail and a clock that can be stepped
(`tests.support.sick_disk`). Real clients record what they write and read (`tests.support.ledger`).
The seed chooses the faults, one after the other: SIGKILL, SIGSTOP and SIGTERM of one broker,
SIGKILL of all; network partitions in one or both directions, flapping, slow and lossy links;
ZooKeeper dead or cut off; broken, full and slow disks; steps of the wall clock. After each fault
all replicas must be in sync again and every producer must make progress. At the end the ledgers are
compared with the logs of all replicas (`tests.support.audit`).

With `--zookeeper members` ZooKeeper is an ensemble of three of ours. Its members die, stand still
and are cut off, too, the leading one most often, alone or with a broker at the same moment. After
each fault all members must serve, and a topic is created. At the end their trees must be equal.
Invariants: one broker at a time is faulty (or all are dead at once), so min.insync.replicas=2 can
be kept: no client may see an error, and no acknowledged record may be lost. Faults that this
machine cannot simulate (no root, no gcc) are skipped, with a note.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.ensembles import all_serve, another_leads, topic_is_made
from tests.faults.partitions import net_of
from tests.faults.run import named_clients
from tests.faults.scenario import OUR_MEMBERS, PARTITIONS, TOPIC, Scenario
from tests.faults.schedules import cut_off, killed, one_link_cut, paused, stopped
from tests.support import namespaces
from tests.support import sick_disk as disks
from tests.support.audit import audit
from tests.support.cluster import (
    LAG_LIMIT_SECONDS,
    SESSION_TIMEOUT_SECONDS,
    Cluster,
    cluster,
)
from tests.support.ensembles import tree_at
from tests.support.ledger import CLIENTS, Ledger
from tests.support.namespaces import MEMBERS, ZOOKEEPER, Net
from tests.support.observer import Observer
from tests.support.patience import Limit
from tests.support.sick_disk import SickDisk
from tests.support.terminated import clean_up_when_terminated

MINUTES = 25.0
MAX_SEED = 2**32
PAUSES_SECONDS = (0.2, 1.0, LAG_LIMIT_SECONDS + 1, SESSION_TIMEOUT_SECONDS + 2)
SLOW_SYNC_MS, SLOW_WRITE_MS = 3000, 100
LOSS, DELAY_MS = 0.03, 30.0
FLAPS = 6
STEPS_SECONDS = (-3600, -61, -5, 5, 61, 3600)
RECORDS = 10
EQUAL_SECONDS = 30.0

Fault = Callable[["Soak", int, Callable[[], None]], None]


@dataclass
class Result:
    faults: Counter[str] = field(default_factory=Counter)
    left_out: list[str] = field(default_factory=list)
    acknowledged: int = 0
    read: int = 0
    frames: tuple[int, int] = (0, 0)
    seconds: float = 0.0
    broken: list[str] = field(default_factory=list)
    story: Sequence[str] = ()

    def summary(self) -> str:
        carried, lost = self.frames
        return (
            f"{self.seconds / 60:.1f} minutes, {self.faults.total()} faults: "
            f"{self.acknowledged} records acknowledged, {self.read} read; "
            f"{carried} frames carried, {lost} lost; {len(self.broken)} promises broken"
        )


class Soak:
    """A cluster whose network, disks and clocks are in the hands of faults."""

    def __init__(
        self, directory: Path, seed: int, clients: Sequence[str], zookeeper: str = "embedded"
    ) -> None:
        self.directory = directory
        self.zookeeper = zookeeper
        self.random = random.Random(seed)
        self.clients = clients
        self.result = Result()
        self.net: Net | None = None
        self.disks: dict[int, SickDisk] = {}
        self.scenario: Scenario
        if reason := namespaces.why_not():
            self.result.left_out.append(f"partitions by namespaces: {reason}")
        else:
            places = MEMBERS.values() if zookeeper in OUR_MEMBERS else (ZOOKEEPER,)
            self.net = namespaces.net_of(3, seed, places)

    def prepare(self, started: Cluster) -> None:
        if reason := disks.why_not():
            self.result.left_out.append(f"sick disks and clocks: {reason}")
        else:
            for node, broker in started.nodes.items():
                self.disks[node] = SickDisk(self.directory / f"disk-{node}")
                self.disks[node].ail(broker)

    def faults(self) -> dict[str, Fault]:
        found: dict[str, Fault] = {
            "killed": lambda s, node, pause: killed(s.scenario, node, pause),
            "killed, back at once": lambda s, node, _: killed(s.scenario, node, lambda: None),
            "stopped": lambda s, node, pause: stopped(s.scenario, node, pause),
            "paused": lambda s, node, pause: paused(s.scenario, node, pause),
            "cut from all but clients": lambda s, node, pause: cut_off(s.scenario, node, pause),
            "one link cut": lambda s, node, pause: one_link_cut(s.scenario, node, pause),
            "all killed": all_killed,
            "ZooKeeper killed": zookeeper_killed,
        }
        if self.net is not None:
            found |= {
                "isolated": isolated,
                "not heard": not_heard,
                "hears nothing": hears_nothing,
                "flapping": flapping,
                "slow and lossy": slow_and_lossy,
                "clients cut off": clients_cut_off,
                "ZooKeeper isolated": zookeeper_isolated,
            }
        if self.zookeeper in OUR_MEMBERS:
            found |= {
                "member killed": member_killed,
                "member and broker killed": member_and_broker_killed,
                "member paused": member_paused,
                "two members killed": two_members_killed,
            }
            if self.net is not None:
                found |= {
                    "member isolated": member_isolated,
                    "member isolated, controller killed": member_isolated_and_controller_killed,
                    "members cut from each other": members_cut_from_each_other,
                }
        if self.disks:
            found |= {
                "disk breaks": disk_breaks,
                "disk full": disk_full,
                "disk slow": disk_slow,
                "clock stepped": clock_stepped,
            }
        return found

    def heal(self) -> None:
        for disk in self.disks.values():
            disk.heal()
        self.scenario.cluster.mend()

    def run(self, minutes: float, tell: Callable[[str], None]) -> Result:
        began = time.monotonic()
        result = self.result
        try:
            with cluster(
                self.directory, self.zookeeper, prepare=self.prepare, net=self.net
            ) as running:
                result.story = running.story
                running.create_topic(TOPIC, PARTITIONS)
                ledger = Ledger(running.bootstrap, TOPIC, PARTITIONS, self.clients)
                self.scenario = Scenario(running, ledger, 0)
                observer = Observer(running, TOPIC)
                try:
                    ledger.start()
                    observer.start()
                    self.work(began + 60 * minutes, tell, began)
                    result.broken += audit(running, ledger, observer)
                    result.broken += ledger.errors[:5]
                    result.broken += unequal_members(running)
                finally:
                    result.acknowledged = ledger.acknowledged
                    result.read = sum(len(one.read) for one in ledger.consumers)
                    if self.net is not None:
                        result.frames = self.net.counts
                    observer.end()
                    if result.broken or sys.exc_info()[0] is not None:
                        result.broken += [*ledger.summary(), *ledger.write_logs(self.directory)]
                    ledger.abandon()
        except Exception as error:
            result.broken.insert(0, f"{type(error).__name__}: {error}")
            result.broken += traceback.format_tb(error.__traceback__)[-3:]
        result.seconds = time.monotonic() - began
        return result

    def work(self, until: float, tell: Callable[[str], None], began: float) -> None:
        scenario, running = self.scenario, self.scenario.cluster
        scenario.make_progress()
        known = self.faults()
        while time.monotonic() < until:
            name = self.random.choice(list(known))
            node = self.random.choice(list(running.nodes))
            seconds = self.random.choice(PAUSES_SECONDS) * self.random.uniform(0.5, 1.2)
            tell(f"{time.monotonic() - began:7.1f} s  {name} (broker {node}, {seconds:.1f} s)")
            running.tell(f"*** {name} (broker {node}, {seconds:.1f} s)")
            self.result.faults[name] += 1
            known[name](self, node, lambda: scenario.under_load_for(seconds))  # noqa: B023
            self.heal()
            if running.has_members:
                all_serve(scenario)
                topic_is_made(scenario)
            for topic in (TOPIC, "__consumer_offsets"):
                running.wait_for_isr(topic)
            scenario.make_progress(RECORDS)
        for node in self.disks:
            self.step(node, 0)

    def step(self, node: int, seconds: int) -> None:
        self.disks[node].step_clock(seconds)
        self.scenario.cluster.tell(f"the clock of {node} is {seconds:+} s off")


def all_killed(soak: Soak, _node: int, _pause: Callable[[], None]) -> None:
    running = soak.scenario.cluster
    running.kill(*running.nodes)
    running.start(*running.nodes)


def zookeeper_killed(soak: Soak, _node: int, pause: Callable[[], None]) -> None:
    soak.scenario.cluster.kill_zookeeper()
    pause()
    soak.scenario.cluster.start_zookeeper()


def others(soak: Soak, node: int) -> list[int]:
    running = soak.scenario.cluster
    return [place for place in (*running.zookeeper_places, *running.nodes) if place != node]


def isolated(soak: Soak, node: int, pause: Callable[[], None]) -> None:
    net_of(soak.scenario).isolate(node)
    pause()


def not_heard(soak: Soak, node: int, pause: Callable[[], None]) -> None:
    for other in others(soak, node):
        net_of(soak.scenario).lose(node, other)
    pause()


def hears_nothing(soak: Soak, node: int, pause: Callable[[], None]) -> None:
    for other in others(soak, node):
        net_of(soak.scenario).lose(other, node)
    pause()


def flapping(soak: Soak, node: int, _pause: Callable[[], None]) -> None:
    for _ in range(FLAPS):
        net_of(soak.scenario).cut(node, soak.random.choice(others(soak, node)))
        soak.scenario.under_load_for(soak.random.uniform(0.1, 1.0))
        soak.scenario.cluster.heal()
        soak.scenario.under_load_for(soak.random.uniform(0.1, 0.5))


def slow_and_lossy(soak: Soak, node: int, pause: Callable[[], None]) -> None:
    net_of(soak.scenario).shape(node, LOSS, DELAY_MS)
    pause()


def clients_cut_off(soak: Soak, node: int, pause: Callable[[], None]) -> None:
    net_of(soak.scenario).cut(node, namespaces.CLIENTS)
    pause()


def zookeeper_isolated(soak: Soak, _node: int, pause: Callable[[], None]) -> None:
    running, net = soak.scenario.cluster, net_of(soak.scenario)
    members = running.zookeeper_places
    for place in members:
        net.isolate(place, but=[other for other in members if other != place])
    pause()


def some_member(soak: Soak) -> int:
    """The one that leads, or any."""
    running = soak.scenario.cluster
    return soak.random.choice([running.leading_member(), *running.zookeeper_places])


def member_killed(soak: Soak, _node: int, pause: Callable[[], None]) -> None:
    running, member = soak.scenario.cluster, some_member(soak)
    running.kill_member(member)
    pause()
    running.start_member(member)


def member_and_broker_killed(soak: Soak, node: int, pause: Callable[[], None]) -> None:
    running, member = soak.scenario.cluster, some_member(soak)
    running.kill_member(member)
    running.kill(node)
    soak.scenario.moved_from(node)
    pause()
    running.start_member(member)


def member_paused(soak: Soak, _node: int, pause: Callable[[], None]) -> None:
    running, member = soak.scenario.cluster, some_member(soak)
    running.pause_member(member)
    pause()
    running.resume_member(member)


def two_members_killed(soak: Soak, _node: int, pause: Callable[[], None]) -> None:
    """No quorum is left."""
    running = soak.scenario.cluster
    members = soak.random.sample(running.zookeeper_places, 2)
    running.kill_member(*members)
    pause()
    running.start_member(*members)


def isolate_member(soak: Soak) -> int:
    """From members and brokers."""
    member = some_member(soak)
    net_of(soak.scenario).isolate(member, but=[namespaces.CLIENTS])
    soak.scenario.cluster.tell(f"ZooKeeper {member} isolated")
    return member


def member_isolated(soak: Soak, _node: int, pause: Callable[[], None]) -> None:
    isolate_member(soak)
    pause()


def member_isolated_and_controller_killed(
    soak: Soak, _node: int, _pause: Callable[[], None]
) -> None:
    running = soak.scenario.cluster
    controller = running.controller()
    member = isolate_member(soak)
    running.kill(controller)
    another_leads(soak.scenario, member)
    soak.scenario.moved_from(controller)


def members_cut_from_each_other(soak: Soak, _node: int, pause: Callable[[], None]) -> None:
    """No quorum is left, and all brokers reach all members."""
    net, members = net_of(soak.scenario), soak.scenario.cluster.zookeeper_places
    for number, place in enumerate(members):
        for other in members[number + 1 :]:
            net.cut(place, other)
    pause()


def ends_itself(soak: Soak, node: int, *rules: str) -> None:
    """Its only log directory goes offline; it starts again over a disk that is well."""
    running = soak.scenario.cluster
    soak.disks[node].says(*rules)
    running.wait_for(lambda: not running.nodes[node].is_running, f"{node} ends itself")


def disk_breaks(soak: Soak, node: int, _pause: Callable[[], None]) -> None:
    operation = soak.random.choice(["write", "sync", "read"])
    places = "*/data/*"
    if operation != "write":  # only now and then, or by nobody: what is written is always noticed
        soak.disks[node].says(f"{operation} {errno.EIO} {places}")
        soak.scenario.under_load_for(1)
    ends_itself(soak, node, f"write {errno.EIO} {places}", f"{operation} {errno.EIO} {places}")


def disk_full(soak: Soak, node: int, _pause: Callable[[], None]) -> None:
    """A part of an append is written before the disk is full."""
    full = [f"{what} {errno.ENOSPC} */data/*" for what in ("create", "write")]
    ends_itself(soak, node, *full)


def disk_slow(soak: Soak, node: int, pause: Callable[[], None]) -> None:
    soak.disks[node].says(f"sync sleep={SLOW_SYNC_MS} *", f"write sleep={SLOW_WRITE_MS} */data/*")
    pause()


def clock_stepped(soak: Soak, node: int, pause: Callable[[], None]) -> None:
    soak.step(node, soak.random.choice(STEPS_SECONDS))
    pause()


def unequal_members(running: Cluster) -> list[str]:
    """The members whose tree is not that of the first, also once the brokers write no more."""
    if not running.has_members:
        return []
    limit = Limit(EQUAL_SECONDS)
    while (found := other_trees(running)) and not limit.is_over:
        time.sleep(1)
    return found


def other_trees(running: Cluster) -> list[str]:
    members = [running.member(place) for place in running.zookeeper_places]
    first, *trees = [tree_at(f"{one.host}:{one.port}") for one in members]
    return [
        f"ZooKeeper {member.number} has another tree than ZooKeeper {members[0].number}: "
        f"{sorted(path for path in {*first, *tree} if first.get(path) != tree.get(path))[:5]}"
        for member, tree in zip(members[1:], trees, strict=True)
        if tree != first
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--seed", type=int, default=random.randrange(MAX_SEED))
    parser.add_argument("--zookeeper", choices=["embedded", *OUR_MEMBERS], default="embedded")
    parser.add_argument(
        "--clients",
        type=named_clients,
        default=CLIENTS,
        help="clients that run, separated by commas",
    )
    arguments = parser.parse_args()
    clean_up_when_terminated()
    directory = Path(tempfile.mkdtemp(prefix="soak-"))
    print(f"seed {arguments.seed}, in {directory}", flush=True)
    soak = Soak(directory, arguments.seed, arguments.clients, arguments.zookeeper)
    result = soak.run(arguments.minutes, lambda what: print(f"  {what}", flush=True))
    for what, count in sorted(result.faults.items()):
        print(f"{count:4} {what}")
    for what in result.left_out:
        print(f"left out: {what}")
    print(result.summary())
    if result.broken:
        print("\n".join([*result.broken, "the story:", *result.story]))
        return 1
    with contextlib.suppress(OSError):
        shutil.rmtree(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
