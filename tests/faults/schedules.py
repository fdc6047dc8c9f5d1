"""Random schedules: faults on random nodes, one after the other, all from a seed.

Invariants: at most one node at a time is dead, paused or cut off, so that two of three replicas
remain and min.insync.replicas=2 can be kept: no client may see an error. Before the next fault
the last one is mended and all replicas are in sync again, or else two could be behind at once.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.faults.scenario import Case, Scenario
from tests.support.cluster import LAG_LIMIT_SECONDS, SESSION_TIMEOUT_SECONDS
from tests.support.namespaces import ZOOKEEPER

STEPS = 5


def killed(scenario: Scenario, node: int, pause: Callable[[], None]) -> None:
    scenario.cluster.kill(node)
    pause()
    scenario.cluster.start(node)


def stopped(scenario: Scenario, node: int, pause: Callable[[], None]) -> None:
    scenario.cluster.stop(node)
    pause()
    scenario.cluster.start(node)


def paused(scenario: Scenario, node: int, pause: Callable[[], None]) -> None:
    scenario.cluster.pause(node)
    pause()
    scenario.cluster.resume(node)


def cut_off(scenario: Scenario, node: int, pause: Callable[[], None]) -> None:
    """From ZooKeeper and from both others: alone in the world, but clients reach it."""
    for other in (ZOOKEEPER, *scenario.cluster.nodes):
        if other != node:
            scenario.cluster.cut(node, other)
    pause()
    scenario.cluster.heal()


def silent(scenario: Scenario, node: int, pause: Callable[[], None]) -> None:
    for other in (ZOOKEEPER, *scenario.cluster.nodes):
        if other != node:
            scenario.cluster.silence(node, other)
    pause()
    scenario.cluster.heal()


def one_link_cut(scenario: Scenario, node: int, pause: Callable[[], None]) -> None:
    other = next(other for other in scenario.cluster.nodes if other != node)
    scenario.cluster.cut(node, other)
    pause()
    scenario.cluster.heal()


FAULTS = (killed, killed, stopped, paused, cut_off, silent, one_link_cut)
PAUSES_SECONDS = (0.0, 0.5, LAG_LIMIT_SECONDS + 1, SESSION_TIMEOUT_SECONDS + 2)


def schedule(seed: int) -> Case:
    def script(scenario: Scenario) -> None:
        chance = random.Random(seed)
        for _ in range(STEPS):
            fault = chance.choice(FAULTS)
            node = chance.choice(list(scenario.cluster.nodes))
            seconds = chance.choice(PAUSES_SECONDS) * chance.uniform(0.5, 1.2)
            fault(scenario, node, lambda: scenario.under_load_for(seconds))  # noqa: B023
            scenario.in_sync()
            scenario.make_progress()

    return Case(f"schedule-{seed}", script, lags=True)
