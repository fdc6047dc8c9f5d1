"""ZooKeeper dies and comes back; the brokers go on serving, and then go on together."""

from __future__ import annotations

from tests.faults.scenario import ALL_ZOOKEEPERS, OUR_MEMBERS, Scenario, case
from tests.support.cluster import LAG_LIMIT_SECONDS, SESSION_TIMEOUT_SECONDS
from tests.support.ensembles import OurMember
from tests.support.real_zookeeper import RealZooKeeper


@case(quick=True, zookeepers=ALL_ZOOKEEPERS)
def zookeeper_killed_and_back_at_once(scenario: Scenario) -> None:
    for _ in range(3):
        scenario.cluster.kill_zookeeper()
        scenario.cluster.start_zookeeper()
        scenario.make_progress()
    scenario.in_sync()


@case(zookeepers=ALL_ZOOKEEPERS, lags=True)
def zookeeper_away_for_longer_than_sessions(scenario: Scenario) -> None:
    scenario.cluster.kill_zookeeper()
    scenario.under_load_for(SESSION_TIMEOUT_SECONDS + 2 * LAG_LIMIT_SECONDS)
    scenario.make_progress()
    scenario.cluster.start_zookeeper()
    scenario.in_sync()
    scenario.make_progress()


@case(zookeepers=ALL_ZOOKEEPERS)
def leader_killed_while_zookeeper_is_away(scenario: Scenario) -> None:
    leader = scenario.leader()
    scenario.cluster.kill_zookeeper()
    scenario.cluster.kill(leader)
    scenario.cluster.start_zookeeper()
    scenario.moved_from(leader)
    scenario.make_progress()
    scenario.cluster.start(leader)
    scenario.in_sync()


@case(zookeepers=["ensemble", *OUR_MEMBERS])
def ensemble_loses_a_member(scenario: Scenario) -> None:
    """Each member in turn, among them the one that leads; then a broker, while one is away."""
    cluster = scenario.cluster
    for server in cluster.zookeepers:
        server.kill()
        cluster.tell(f"ZooKeeper at {server.port} killed")
        scenario.make_progress()
        server.start()
    member = next(
        one
        for one in cluster.zookeepers
        if isinstance(one, RealZooKeeper | OurMember) and one.mode == "leader"
    )
    member.kill()
    leader = scenario.leader()
    cluster.kill(leader)
    scenario.moved_from(leader)
    scenario.make_progress()
    cluster.start(leader)
    scenario.in_sync()
    member.start()
    scenario.make_progress()
