"""Nodes that die, end, stand still and come back."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.scenario import ALL_ZOOKEEPERS, Scenario, case


def kill_and_start(scenario: Scenario, choose: Callable[[], int]) -> None:
    node = choose()
    scenario.cluster.kill(node)
    scenario.moved_from(node)
    scenario.make_progress()
    scenario.cluster.start(node)
    scenario.in_sync()


def stop_and_start(scenario: Scenario, choose: Callable[[], int]) -> None:
    node = choose()
    scenario.cluster.stop(node)
    scenario.make_progress()
    scenario.cluster.start(node)
    scenario.in_sync()
    scenario.make_progress()


@case(quick=True, zookeepers=ALL_ZOOKEEPERS)
def leader_killed(scenario: Scenario) -> None:
    kill_and_start(scenario, scenario.leader)


@case()
def follower_killed(scenario: Scenario) -> None:
    kill_and_start(scenario, scenario.follower)


@case(quick=True, zookeepers=ALL_ZOOKEEPERS)
def controller_killed(scenario: Scenario) -> None:
    kill_and_start(scenario, scenario.cluster.controller)


@case()
def coordinator_killed(scenario: Scenario) -> None:
    kill_and_start(scenario, scenario.coordinator)


@case()
def leader_killed_and_started_at_once(scenario: Scenario) -> None:
    """Back before its session has expired: it takes over its own old session."""
    for _ in range(4):
        node = scenario.leader()
        scenario.cluster.kill(node)
        scenario.cluster.start(node)
        scenario.make_progress()
    scenario.in_sync()


@case()
def leader_stopped(scenario: Scenario) -> None:
    stop_and_start(scenario, scenario.leader)


@case()
def follower_stopped(scenario: Scenario) -> None:
    stop_and_start(scenario, scenario.follower)


@case()
def controller_stopped(scenario: Scenario) -> None:
    stop_and_start(scenario, scenario.cluster.controller)


@case()
def coordinator_stopped(scenario: Scenario) -> None:
    stop_and_start(scenario, scenario.coordinator)


@case(quick=True)
def rolling_restart(scenario: Scenario) -> None:
    """One node after the other; no client may see an error."""
    for node in scenario.cluster.nodes:
        scenario.cluster.stop(node)
        scenario.cluster.start(node)
        scenario.in_sync()
    scenario.make_progress()


@case(lags=True)
def follower_paused(scenario: Scenario) -> None:
    """It leaves the ISR after the lag limit and comes back when it runs again."""
    node = scenario.follower()
    scenario.cluster.pause(node)
    scenario.out_of_sync(node)
    scenario.make_progress()
    scenario.cluster.resume(node)
    scenario.in_sync()


@case(quick=True, zookeepers=ALL_ZOOKEEPERS)
def zombie_leader(scenario: Scenario) -> None:
    """It stands still until others lead, and wakes up with what it believed."""
    node = scenario.leader()
    scenario.cluster.pause(node)
    scenario.moved_from(node)
    scenario.make_progress()
    scenario.cluster.resume(node)
    scenario.in_sync()
    scenario.make_progress()


@case(zookeepers=ALL_ZOOKEEPERS)
def zombie_controller(scenario: Scenario) -> None:
    node = scenario.cluster.controller()
    scenario.cluster.pause(node)
    scenario.moved_from(node)
    assert scenario.cluster.controller() != node
    scenario.make_progress()
    scenario.cluster.resume(node)
    scenario.in_sync()
    assert scenario.cluster.controller() != node
    scenario.make_progress()


@case(quick=True)
def all_killed_at_once(scenario: Scenario) -> None:
    for _ in range(2):
        scenario.cluster.kill(*scenario.cluster.nodes)
        scenario.cluster.start(*scenario.cluster.nodes)
        scenario.in_sync()
        scenario.make_progress()
