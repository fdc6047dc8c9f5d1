"""Connections cut while every process runs."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.scenario import TOPIC, Scenario, case
from tests.support.namespaces import ZOOKEEPER


def away_from_the_controller(scenario: Scenario) -> tuple[int, int, int]:
    """A leader and its follower, neither of them the controller, and a partition of the leader."""
    cluster = scenario.cluster
    controller = cluster.controller()
    leader, follower = (node for node in cluster.nodes if node != controller)
    for partition, view in cluster.partitions(TOPIC).items():
        if view.leader == leader:
            return leader, follower, partition
    raise AssertionError(f"{leader} leads nothing: {cluster.partitions(TOPIC)}")


def follower_cut_off(scenario: Scenario, sever: Callable[[int, int], None]) -> None:
    """It leaves the ISR of that leader only, and comes back."""
    leader, follower, partition = away_from_the_controller(scenario)
    cluster = scenario.cluster
    sever(leader, follower)
    cluster.wait_for(
        lambda: follower not in cluster.partitions(TOPIC)[partition].isr,
        f"{follower} leaves the ISR of {leader}",
    )
    scenario.make_progress()
    view = cluster.partitions(TOPIC)[partition]
    assert view.leader == leader, f"{view}: a cut between two replicas elects nobody"
    cluster.heal()
    scenario.in_sync()


@case(quick=True, lags=True)
def link_between_leader_and_follower_cut(scenario: Scenario) -> None:
    follower_cut_off(scenario, scenario.cluster.cut)


@case(lags=True)
def link_between_leader_and_follower_silent(scenario: Scenario) -> None:
    """The connections stay and carry nothing."""
    follower_cut_off(scenario, scenario.cluster.silence)


@case()
def link_to_the_controller_cut(scenario: Scenario) -> None:
    """A broker that the controller cannot reach goes on leading, and hears of all when it can."""
    cluster = scenario.cluster
    controller = cluster.controller()
    other, third = (node for node in cluster.nodes if node != controller)
    cluster.cut(controller, other)
    scenario.make_progress()
    cluster.kill(third)
    cluster.start(third)
    cluster.heal()
    scenario.in_sync()
    scenario.make_progress()


@case()
def leader_cut_from_zookeeper(scenario: Scenario) -> None:
    """Its session expires while it serves: others lead, and it is fenced, then comes back."""
    leader = scenario.leader()
    scenario.cluster.cut(leader, ZOOKEEPER)
    scenario.moved_from(leader)
    scenario.make_progress()
    scenario.cluster.heal()
    scenario.in_sync()
    scenario.make_progress()


@case()
def controller_cut_from_zookeeper(scenario: Scenario) -> None:
    """Two believe that they are the controller for a while."""
    controller = scenario.cluster.controller()
    scenario.cluster.silence(controller, ZOOKEEPER)
    scenario.moved_from(controller)
    scenario.make_progress()
    scenario.cluster.heal()
    scenario.in_sync()
    scenario.make_progress()
