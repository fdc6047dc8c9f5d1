"""What every fault case has in common: a cluster under load, a fault, a mended cluster, an audit.

Job: `play(case, directory, zookeeper)` starts three brokers, lets two producers and a
consumer group of each client work (`tests.support.ledger`), runs the case's script against them,
mends what is still broken and lists the promises that were not kept (`tests.support.audit`).
Invariants: unless a case says so, no client sees an error: producers retry for two minutes, which
is longer than any fault here.
"""

from __future__ import annotations

import contextlib
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.audit import audit
from tests.support.cluster import Cluster, cluster
from tests.support.ledger import CLIENTS, Ledger
from tests.support.namespaces import MEMBERS, ZOOKEEPER, Net, net_of, why_not
from tests.support.observer import Observer

TOPIC = "ledger"
PARTITIONS = 3
NODES = 3
ALL_ZOOKEEPERS = ("embedded", "real", "members")
OUR_MEMBERS = ("members",)


class Unavailable(Exception):
    """This machine cannot play a case; says why."""


class Scenario:
    """A cluster under load, in the hands of a script."""

    def __init__(self, cluster: Cluster, ledger: Ledger, seed: int) -> None:
        self.cluster = cluster
        self.ledger = ledger
        self.random = random.Random(seed)

    def make_progress(self, records: int = 15, *clients: str) -> None:
        """Until every producer (of these clients) has more acknowledgements."""
        before = self.ledger.acknowledged
        self.cluster.wait_for(
            self.ledger.progress(records, *clients),
            f"{records} more records of each producer after {before}",
        )

    def under_load_for(self, seconds: float) -> None:
        """Let a time limit pass that nobody tells of, such as a session's."""
        until = time.monotonic() + seconds

        def passed() -> bool:
            self.ledger.raise_crashes()
            return time.monotonic() >= until

        self.cluster.wait_for(passed, f"{seconds:.0f} s")

    def leader(self, partition: int = 0) -> int:
        return self.cluster.leader(TOPIC, partition)

    def follower(self, partition: int = 0) -> int:
        leader = self.leader(partition)
        return self.random.choice([node for node in self.cluster.serving if node != leader])

    def coordinator(self, group: str = "") -> int:
        return self.cluster.coordinator(group or self.ledger.consumers[0].name)

    def in_sync(self) -> None:
        self.cluster.wait_for_isr(TOPIC)

    def moved_from(self, node: int) -> None:
        """Until all others know that others lead all that it led. It may be the last to know."""
        others = [other for other in self.cluster.serving if other != node]

        def moved() -> bool:
            views = [self.cluster.partitions(TOPIC, other).values() for other in others]
            return all(view.leader in others for partitions in views for view in partitions)

        self.cluster.wait_for(moved, f"{node} leads nothing")

    def out_of_sync(self, node: int) -> None:
        self.cluster.wait_for(
            lambda: any(node not in view.isr for view in self.cluster.partitions(TOPIC).values()),
            f"{node} leaves an ISR",
        )


Script = Callable[[Scenario], None]
NOBODY_LAGS = {"replica.lag.time.max.ms": "60000"}


@dataclass(frozen=True)
class Case:
    name: str
    script: Script
    quick: bool = False
    zookeepers: Sequence[str] = ("embedded",)
    config: Mapping[str, str] = field(default_factory=dict)
    topic_config: Mapping[str, str] = field(default_factory=dict)
    assignment: Mapping[int, Sequence[int]] | None = None
    may_lose: bool = False
    # It waits for an ISR without those who lag. Others may not meet one: a leader that a busy
    # machine has left alone in its ISR has no heir.
    lags: bool = False
    prepare: Callable[[Cluster], None] | None = None
    net: bool = False  # each server in a network namespace of its own


@dataclass(frozen=True)
class Outcome:
    case: str
    zookeeper: str
    seconds: float
    acknowledged: int
    broken: Sequence[str]
    details: Sequence[str]
    story: Sequence[str]

    def told(self) -> list[str]:
        return [*self.broken, *self.details, "the story:", *self.story]


CASES: dict[str, Case] = {}


def case(**options: object) -> Callable[[Script], Script]:
    """Registers a script under its function's name."""

    def register(script: Script) -> Script:
        CASES[script.__name__] = Case(script.__name__, script, **options)  # type: ignore[arg-type]
        return script

    return register


def last_words(running: Cluster) -> list[str]:
    """The state of the topic as each node sees it, after a failure."""
    found = []
    for node in running.serving:
        try:
            found.append(f"node {node} says {running.partitions(TOPIC, node)}")
        except OSError as error:
            found.append(f"node {node} does not answer: {error}")
    return found


def net_for(what: Case, zookeeper: str, seed: int) -> Net | None:
    """Raises Unavailable."""
    if not what.net:
        return None
    if reason := why_not():
        raise Unavailable(reason)
    places = MEMBERS.values() if zookeeper in OUR_MEMBERS else (ZOOKEEPER,)
    return net_of(NODES, seed, places)


def play(
    what: Case, directory: Path, zookeeper: str, seed: int, clients: Sequence[str] = CLIENTS
) -> Outcome:
    """Raises Unavailable where it cannot be played, and nothing else."""
    started = time.monotonic()
    acknowledged = 0
    broken: list[str] = []
    details: list[str] = []
    story: list[str] = []
    try:
        config = {**({} if what.lags else NOBODY_LAGS), **what.config}
        net = net_for(what, zookeeper, seed)
        with cluster(directory, zookeeper, config, what.prepare, net) as running:
            story = running.story
            running.create_topic(
                TOPIC, PARTITIONS, config=what.topic_config, assignment=what.assignment
            )
            with working_on(running, what, clients) as ledger:
                try:
                    broken += play_on(what, Scenario(running, ledger, seed))
                except Exception:
                    details += [*last_words(running), *ledger.summary()]
                    raise
                finally:
                    acknowledged = ledger.acknowledged
                    if broken or sys.exc_info()[0] is not None:
                        details += ledger.write_logs(directory)
    except Unavailable:
        raise
    except Exception as error:
        broken.append(f"{type(error).__name__}: {error}")
        details += traceback.format_tb(error.__traceback__)[-3:]
    seconds = time.monotonic() - started
    return Outcome(what.name, zookeeper, seconds, acknowledged, broken, details, story)


@contextlib.contextmanager
def working_on(running: Cluster, what: Case, clients: Sequence[str]) -> Iterator[Ledger]:
    # An idempotent producer ends when records that it knows as acknowledged are gone.
    ledger = Ledger(running.bootstrap, TOPIC, PARTITIONS, clients, idempotent=not what.may_lose)
    ledger.start()
    running.tell("under load")
    try:
        yield ledger
    finally:
        ledger.abandon()


def play_on(what: Case, scenario: Scenario) -> list[str]:
    running, ledger = scenario.cluster, scenario.ledger
    observer = Observer(running, TOPIC)
    observer.start()
    try:
        scenario.make_progress()
        what.script(scenario)
        running.mend()
        scenario.make_progress()
        running.tell(f"mended; {ledger.acknowledged} acknowledged")
        broken = audit(running, ledger, observer, may_lose=what.may_lose)
        running.tell("audited")
    finally:
        observer.end()
    if ledger.errors:
        broken.append(f"{len(ledger.errors)} producer errors: {ledger.errors[:3]}")
    return broken
