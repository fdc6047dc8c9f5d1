"""Members of an ensemble of ours die, stand still and are cut off; brokers and clients go on.

A broker whose member is gone goes to another within its session, so that no broker is missed while
two members see each other. Without a quorum what is led is led on, as without any ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.faults.partitions import LONGER_THAN_A_SESSION, drop, healed, isolate, net_of
from tests.faults.scenario import CASES, OUR_MEMBERS, TOPIC, Case, Scenario, case
from tests.support.cluster import MEMBER_TICK_MS
from tests.support.namespaces import CLIENTS

SYNC_LIMIT_SECONDS = 5 * MEMBER_TICK_MS / 1000
LONGER_THAN_SYNC_LIMIT = SYNC_LIMIT_SECONDS + 1
STEPS = 6
SCHEDULES = 4
LOSS, SLOW_MS = 0.03, 40.0


def others_of(scenario: Scenario, place: int) -> list[int]:
    return [one for one in scenario.cluster.zookeeper_places if one != place]


def another_leads(scenario: Scenario, place: int) -> int:
    """The new leader, once there is one."""
    cluster = scenario.cluster
    leader = cluster.leading_member(*others_of(scenario, place))
    cluster.tell(f"ZooKeeper {leader} leads")
    return leader


def topic_is_made(scenario: Scenario) -> None:
    """The ensemble serves writes of the controller."""
    name = f"made-{scenario.random.randrange(10**9)}"
    scenario.cluster.create_topic(name, partitions=1, replication_factor=2)


def all_serve(scenario: Scenario) -> None:
    cluster = scenario.cluster
    for place in cluster.zookeeper_places:
        cluster.wait_for(lambda p=place: cluster.member(p).mode, f"{place} serves")  # type: ignore[misc]


def leader_replaced(
    scenario: Scenario, fail: Callable[[int], None], mend: Callable[[int], None]
) -> None:
    """No broker is missed meanwhile: partitions stay where they are."""
    cluster = scenario.cluster
    before = cluster.partitions(TOPIC)
    leader = cluster.leading_member()
    fail(leader)
    another_leads(scenario, leader)
    topic_is_made(scenario)
    scenario.under_load_for(LONGER_THAN_A_SESSION)
    scenario.make_progress()
    mend(leader)
    all_serve(scenario)
    topic_is_made(scenario)
    after = cluster.partitions(TOPIC)
    assert after == before, f"leaders moved: {before} -> {after}"
    healed(scenario)


@case(quick=True, zookeepers=OUR_MEMBERS)
def leading_member_killed_and_back(scenario: Scenario) -> None:
    """With the broker that leads, at the same moment."""
    cluster = scenario.cluster
    member, leader = cluster.leading_member(), scenario.leader()
    cluster.kill_member(member)
    cluster.kill(leader)
    scenario.moved_from(leader)
    scenario.make_progress()
    cluster.start_member(member)
    cluster.start(leader)
    scenario.in_sync()


@case(zookeepers=OUR_MEMBERS)
def leading_member_and_controller_killed(scenario: Scenario) -> None:
    cluster = scenario.cluster
    for _ in range(3):
        member, controller = cluster.leading_member(), cluster.controller()
        cluster.kill_member(member)
        cluster.kill(controller)
        scenario.moved_from(controller)
        scenario.make_progress()
        topic_is_made(scenario)
        cluster.start_member(member)
        cluster.start(controller)
        scenario.in_sync()


@case(zookeepers=OUR_MEMBERS)
def leading_member_killed(scenario: Scenario) -> None:
    cluster = scenario.cluster
    leader_replaced(scenario, cluster.kill_member, cluster.start_member)


@case(quick=True, zookeepers=OUR_MEMBERS)
def leading_member_frozen(scenario: Scenario) -> None:
    """It wakes up believing that it leads."""
    cluster = scenario.cluster
    leader_replaced(scenario, cluster.pause_member, cluster.resume_member)


@case(zookeepers=OUR_MEMBERS)
def leading_member_frozen_for_a_moment(scenario: Scenario) -> None:
    """About as long as followers wait: it may lead on, or another does."""
    cluster = scenario.cluster
    for share in (0.5, 0.9, 1.1):
        leader = cluster.leading_member()
        cluster.pause_member(leader)
        scenario.under_load_for(share * SYNC_LIMIT_SECONDS)
        cluster.resume_member(leader)
        scenario.make_progress()
        all_serve(scenario)
        topic_is_made(scenario)


@case(zookeepers=OUR_MEMBERS)
def members_frozen_in_turn(scenario: Scenario) -> None:
    cluster = scenario.cluster
    for place in cluster.zookeeper_places:
        cluster.pause_member(place)
        scenario.under_load_for(LONGER_THAN_A_SESSION)
        topic_is_made(scenario)
        cluster.resume_member(place)
        all_serve(scenario)
        scenario.make_progress()
    scenario.in_sync()


@case(zookeepers=OUR_MEMBERS, lags=True)
def two_members_away_for_longer_than_sessions(scenario: Scenario) -> None:
    """Without a quorum no session can end: the brokers are all there when it is back."""
    cluster = scenario.cluster
    _, *lost = cluster.zookeeper_places
    cluster.kill_member(*lost)
    scenario.under_load_for(2 * LONGER_THAN_A_SESSION)
    scenario.make_progress()
    cluster.start_member(*lost)
    scenario.in_sync()
    topic_is_made(scenario)


@case(zookeepers=OUR_MEMBERS, lags=True)
def all_members_frozen(scenario: Scenario) -> None:
    """All wake up after longer than sessions live."""
    cluster = scenario.cluster
    cluster.pause_member(*cluster.zookeeper_places)
    scenario.under_load_for(LONGER_THAN_A_SESSION)
    scenario.make_progress()
    cluster.resume_member(*cluster.zookeeper_places)
    all_serve(scenario)
    scenario.in_sync()
    topic_is_made(scenario)


@case(zookeepers=OUR_MEMBERS, net=True)
def leading_member_cut_from_members(scenario: Scenario) -> None:
    """Brokers reach it, and are sent away once it knows that it leads nobody."""

    def cut(leader: int) -> None:
        for other in others_of(scenario, leader):
            net_of(scenario).cut(leader, other)
        scenario.cluster.tell(f"ZooKeeper {leader} cut from the others")

    leader_replaced(scenario, cut, lambda _: scenario.cluster.heal())


@case(zookeepers=OUR_MEMBERS, net=True)
def leading_member_isolated(scenario: Scenario) -> None:
    leader_replaced(
        scenario,
        lambda leader: isolate(scenario, leader, CLIENTS),
        lambda _: scenario.cluster.heal(),
    )


@case(zookeepers=OUR_MEMBERS, net=True)
def leading_member_hears_nothing(scenario: Scenario) -> None:
    """What it sends arrives: its pings keep followers that it no longer hears."""

    def cut(leader: int) -> None:
        for other in others_of(scenario, leader):
            drop(scenario, other, leader)

    leader_replaced(scenario, cut, lambda _: scenario.cluster.heal())


@case(zookeepers=OUR_MEMBERS, net=True)
def leading_member_is_not_heard(scenario: Scenario) -> None:
    def cut(leader: int) -> None:
        for other in others_of(scenario, leader):
            drop(scenario, leader, other)

    leader_replaced(scenario, cut, lambda _: scenario.cluster.heal())


@case(zookeepers=OUR_MEMBERS, net=True, lags=True)
def leaders_of_both_kinds_in_a_minority(scenario: Scenario) -> None:
    """The member that leads and a broker that leads see each other and clients, and nobody else."""
    cluster, net = scenario.cluster, net_of(scenario)
    member, leader = cluster.leading_member(), scenario.leader()
    for near in (member, leader):
        for far in (*others_of(scenario, member), *cluster.nodes):
            if far not in (member, leader):
                net.cut(near, far)
    cluster.tell(f"{member} and {leader} cut from the others")
    another_leads(scenario, member)
    scenario.moved_from(leader)
    scenario.make_progress()
    healed(scenario)


@case(zookeepers=OUR_MEMBERS, net=True, lags=True)
def members_cut_from_each_other(scenario: Scenario) -> None:
    """No two see each other, and all brokers see all: no quorum for longer than sessions live."""
    cluster = scenario.cluster
    for place in cluster.zookeeper_places:
        for other in others_of(scenario, place):
            net_of(scenario).lose(place, other)
    cluster.tell("no member reaches another")
    scenario.under_load_for(LONGER_THAN_A_SESSION)
    scenario.make_progress()
    cluster.heal()
    all_serve(scenario)
    topic_is_made(scenario)
    healed(scenario)


@case(zookeepers=OUR_MEMBERS, net=True, lags=True)
def slow_and_lossy_members(scenario: Scenario) -> None:
    for place in scenario.cluster.zookeeper_places:
        net_of(scenario).shape(place, LOSS, SLOW_MS)
    scenario.cluster.tell("members are slow and lossy")
    scenario.make_progress()
    topic_is_made(scenario)
    leader = scenario.leader()
    scenario.cluster.kill(leader)
    scenario.moved_from(leader)
    scenario.make_progress()
    healed_members(scenario)
    scenario.cluster.start(leader)
    scenario.in_sync()


def healed_members(scenario: Scenario) -> None:
    scenario.cluster.heal()
    all_serve(scenario)


def random_faults(seed: int) -> Case:
    """One member and one broker at a time; both at the same moment."""

    def script(scenario: Scenario) -> None:
        cluster, chance = scenario.cluster, scenario.random
        for _ in range(STEPS):
            member = chance.choice([cluster.leading_member(), *cluster.zookeeper_places])
            node = chance.choice([scenario.leader(), cluster.controller()])
            fault = chance.choice(("kill", "pause", "isolate"))
            if fault == "kill":
                cluster.kill_member(member)
            elif fault == "pause":
                cluster.pause_member(member)
            else:
                isolate(scenario, member, CLIENTS)
            is_dead = chance.random() < 0.5
            if is_dead:
                cluster.kill(node)
            scenario.under_load_for(chance.choice((0.0, 1.0, LONGER_THAN_SYNC_LIMIT)))
            if is_dead:
                scenario.moved_from(node)
            scenario.make_progress()
            if fault == "kill":
                cluster.start_member(member)
            elif fault == "pause":
                cluster.resume_member(member)
            healed_members(scenario)
            if is_dead:
                cluster.start(node)
            scenario.in_sync()
            topic_is_made(scenario)

    return Case(
        f"members_and_brokers_at_random_{seed}",
        script,
        zookeepers=OUR_MEMBERS,
        net=True,
        lags=True,
    )


for number in range(1, SCHEDULES + 1):
    one = random_faults(number)
    CASES[one.name] = one
