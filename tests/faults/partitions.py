"""Partitions of a real network: packets are lost, in both directions or in one, while every process
runs; and lines that are slow, lossy or come and go.

Each server is in a network namespace of its own. Nobody is told of a partition: connections stay
and carry nothing, until a limit of time passes at one of their ends.
"""

from __future__ import annotations

from tests.faults.scenario import TOPIC, Scenario, case
from tests.support.cluster import LAG_LIMIT_SECONDS, SESSION_TIMEOUT_SECONDS
from tests.support.namespaces import ALL_LOST, CLIENTS, ZOOKEEPER, Net

FLAPS = 8
FLAP_SECONDS = 0.7
SLOW_MS = 40.0
LOSS = 0.03
LONGER_THAN_A_SESSION = SESSION_TIMEOUT_SECONDS + 2


def net_of(scenario: Scenario) -> Net:
    net = scenario.cluster.links
    assert isinstance(net, Net)
    return net


def drop(scenario: Scenario, source: int, target: int) -> None:
    net_of(scenario).lose(source, target)
    scenario.cluster.tell(f"packets from {source} to {target} are lost")


def isolate(scenario: Scenario, place: int, *but: int) -> None:
    net_of(scenario).isolate(place, but=but)
    scenario.cluster.tell(f"{place} cut from all but {but}")


def followers_of(scenario: Scenario, leader: int) -> list[int]:
    return [node for node in scenario.cluster.nodes if node != leader]


def healed(scenario: Scenario) -> None:
    scenario.cluster.heal()
    scenario.in_sync()
    scenario.make_progress()


def acknowledged_in(scenario: Scenario, partitions: set[int]) -> int:
    return sum(
        place[0] in partitions
        for producer in scenario.ledger.producers
        for place in list(producer.acknowledged.values())
    )


@case(quick=True, net=True, lags=True)
def leader_cut_from_its_followers(scenario: Scenario) -> None:
    """ZooKeeper and clients reach it: it goes on leading, and acknowledges nothing alone."""
    cluster = scenario.cluster
    leader = scenario.leader()
    before = cluster.partitions(TOPIC)
    led = {index for index, view in before.items() if view.leader == leader}
    for follower in followers_of(scenario, leader):
        drop(scenario, leader, follower)
        drop(scenario, follower, leader)
    scenario.under_load_for(LAG_LIMIT_SECONDS + 1)
    count = acknowledged_in(scenario, led)
    scenario.under_load_for(LAG_LIMIT_SECONDS)
    assert acknowledged_in(scenario, led) == count, "acknowledged without a second replica"
    for index in led:
        view = cluster.partitions(TOPIC, leader)[index]
        assert (view.leader, view.epoch) == (leader, before[index].epoch), view
    healed(scenario)


@case(net=True)
def leader_that_hears_nothing(scenario: Scenario) -> None:
    """What it sends arrives; no fetch and no answer reaches it, and its session ends.

    Where followers may lag for less than a session lives it would have been the last in its ISRs,
    since its changes of them arrive: then nobody leads until it is back, as with Apache Kafka.
    """
    leader = scenario.leader()
    for other in (*followers_of(scenario, leader), ZOOKEEPER):
        drop(scenario, other, leader)
    scenario.moved_from(leader)
    scenario.make_progress()
    healed(scenario)


@case(net=True, lags=True)
def leader_that_is_not_heard(scenario: Scenario) -> None:
    """It hears all, and nobody hears it: ZooKeeper ends its session."""
    leader = scenario.leader()
    for other in (*followers_of(scenario, leader), ZOOKEEPER):
        drop(scenario, leader, other)
    scenario.moved_from(leader)
    scenario.make_progress()
    healed(scenario)


@case(net=True, lags=True)
def follower_that_is_not_heard(scenario: Scenario) -> None:
    """Its fetches do not arrive, all else does: it leaves the ISR of that leader."""
    leader = scenario.leader()
    follower = followers_of(scenario, leader)[-1]
    drop(scenario, follower, leader)
    scenario.out_of_sync(follower)
    scenario.under_load_for(1)
    healed(scenario)


@case(net=True)
def leader_cut_from_zookeeper_but_not_from_clients(scenario: Scenario) -> None:
    """Its session expires while it serves; who goes on sending to it is told of the new leader."""
    leader = scenario.leader()
    net_of(scenario).cut(leader, ZOOKEEPER)
    scenario.cluster.tell(f"{leader} cut from ZooKeeper")
    scenario.moved_from(leader)
    scenario.make_progress()
    healed(scenario)


@case(net=True, lags=True)
def zombie_leader_with_clients_of_its_own(scenario: Scenario) -> None:
    """Only clients reach it: it believes that it leads, until the partition heals."""
    leader = scenario.leader()
    isolate(scenario, leader, CLIENTS)
    scenario.moved_from(leader)
    scenario.under_load_for(LAG_LIMIT_SECONDS + 1)
    healed(scenario)


@case(quick=True, net=True, lags=True)
def controller_isolated(scenario: Scenario) -> None:
    """From everybody, clients too: another is elected, and this one resigns when it hears of it."""
    cluster = scenario.cluster
    controller = cluster.controller()
    isolate(scenario, controller)
    cluster.paused.add(controller)  # nobody can ask it
    scenario.moved_from(controller)
    cluster.wait_for(lambda: cluster.controller() != controller, "another controller")
    scenario.make_progress()
    cluster.paused.discard(controller)
    cluster.heal()
    scenario.in_sync()
    assert cluster.controller() != controller
    scenario.make_progress()


@case(net=True, lags=True)
def minority_with_zookeeper(scenario: Scenario) -> None:
    """ZooKeeper and one broker on one side; two brokers and the clients on the other."""
    cluster = scenario.cluster
    alone, *others = cluster.nodes
    net = net_of(scenario)
    for place in (alone, ZOOKEEPER):
        for other in (*others, CLIENTS):
            net.cut(place, other)
    cluster.tell(f"{alone} and ZooKeeper on one side, {others} and clients on the other")
    scenario.under_load_for(LONGER_THAN_A_SESSION + LAG_LIMIT_SECONDS)
    healed(scenario)


@case(net=True, lags=True)
def zookeeper_alone(scenario: Scenario) -> None:
    """No broker reaches it for longer than sessions live; what is led is led on."""
    isolate(scenario, ZOOKEEPER)
    scenario.under_load_for(LONGER_THAN_A_SESSION)
    scenario.make_progress()
    healed(scenario)


@case(net=True, lags=True)
def zookeeper_hears_and_is_not_heard(scenario: Scenario) -> None:
    for node in scenario.cluster.nodes:
        drop(scenario, ZOOKEEPER, node)
    scenario.under_load_for(LONGER_THAN_A_SESSION)
    scenario.make_progress()
    healed(scenario)


@case(net=True)
def clients_cut_from_a_leader(scenario: Scenario) -> None:
    """The cluster is well: clients wait, and nothing is lost or twice."""
    leader = scenario.leader()
    net_of(scenario).cut(leader, CLIENTS)
    scenario.cluster.tell(f"clients cut from {leader}")
    scenario.under_load_for(3)
    healed(scenario)


@case(net=True)
def answers_to_clients_lost(scenario: Scenario) -> None:
    """What they send is appended, and sent again: idempotent producers have nothing twice."""
    for node in scenario.cluster.nodes:
        drop(scenario, node, CLIENTS)
    scenario.under_load_for(3)
    healed(scenario)


@case(net=True, lags=True)
def links_that_flap(scenario: Scenario) -> None:
    """Links come and go, each for less than any limit of time."""
    cluster, chance = scenario.cluster, scenario.random
    for _ in range(FLAPS):
        node = chance.choice([*cluster.nodes])
        other = chance.choice([p for p in (ZOOKEEPER, *cluster.nodes) if p != node])
        net_of(scenario).lose(node, other)
        if chance.random() < 0.5:
            net_of(scenario).lose(other, node)
        scenario.under_load_for(FLAP_SECONDS * chance.uniform(0.5, 1.5))
        cluster.heal()
        scenario.under_load_for(FLAP_SECONDS * chance.uniform(0.2, 1.0))
    healed(scenario)


@case(quick=True, net=True, lags=True)
def slow_and_lossy_lines(scenario: Scenario) -> None:
    """40 ms each way and 3 % loss at one node, then at all: slower, and nothing else."""
    cluster = scenario.cluster
    for node in cluster.nodes:
        net_of(scenario).shape(node, LOSS, SLOW_MS)
        cluster.tell(f"{node} is slow and lossy")
        scenario.make_progress()
    scenario.make_progress()
    healed(scenario)


@case(net=True, lags=True)
def one_way_losses_one_after_the_other(scenario: Scenario) -> None:
    """Each direction between each two brokers, longer than a replica may lag."""
    cluster = scenario.cluster
    for node in cluster.nodes:
        for other in cluster.nodes:
            if other != node:
                net_of(scenario).lose(node, other, ALL_LOST)
                scenario.under_load_for(LAG_LIMIT_SECONDS + 0.5)
                cluster.heal()
                scenario.in_sync()
    scenario.make_progress()
