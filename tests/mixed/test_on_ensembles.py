"""Brokers of both kinds on an ensemble of both kinds, whose members are replaced one by one.

Each ZooKeeper is killed, and a server of the other kind comes back in its place with empty files,
until all have changed from JVM to Python and back. Brokers of both kinds are killed on the way.
Clients of ours and of librdkafka work all the time; nothing acknowledged is lost. At the end Apache
ZooKeeper's own tools dump the files of each member: the trees are equal.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mixed.cluster import KAFKA_A, OURS, Load, MixedCluster, under_load
from tests.support.apache_kafka import kafka_jars
from tests.support.ensembles import OTHER_KIND, Ensemble, ensemble
from tests.support.patience import until
from tests.support.real_zookeeper import dumped_tree

KINDS = ("real", "ours", "real")


def replace_each(running: Ensemble, load: Load, kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Put a member of the other kind in the place of each; returns the kinds after it."""
    replaced = tuple(OTHER_KIND[kind] for kind in kinds)
    for number, kind in enumerate(replaced, 1):
        running.kill(number)
        running.await_leader(*[one for one in running.members if one != number])
        load.goes_on()
        running.place(number, kind, port=running.members[number].port)
        running.launch(number)
        running.await_leader()
        load.goes_on()
    return replaced


def kill_with_the_leading_zookeeper(
    cluster: MixedCluster, running: Ensemble, load: Load, topic: str, node: int
) -> None:
    """A broker and the ZooKeeper that leads die at the same moment, and both come back."""
    cluster.all_agree_on_in_sync(topic)
    leader = running.await_leader()
    running.kill(leader)
    cluster.kill_and_expire(node)
    cluster.all_agree_on_loss(topic, node)
    load.goes_on()
    running.launch(leader)
    running.await_leader()
    cluster.start(node)
    cluster.all_agree_on_in_sync(topic)


@pytest.mark.timeout(1200)
def test_members_change_their_kind_and_back_below_brokers_of_both_kinds(tmp_path: Path) -> None:
    kafka_jars()
    topic = "on-an-ensemble"
    with ensemble(tmp_path / "zookeepers", KINDS) as running:
        running.launch()
        running.await_leader()
        cluster = MixedCluster(tmp_path / "brokers", [], running.connect_string())
        try:
            cluster.start_all()
            cluster.elect(OURS)
            with under_load(cluster, topic) as load:
                replaced = replace_each(running, load, KINDS)
                for node in (KAFKA_A, OURS):
                    kill_with_the_leading_zookeeper(cluster, running, load, topic, node)
                assert replace_each(running, load, replaced) == KINDS
                cluster.all_agree_on_in_sync(topic)
        finally:
            cluster.close()
        with running.client() as client:
            until(lambda: client.get_children("/brokers/ids") == [])
        for number in running.members:
            with running.client(number) as client:
                client.sync("/")
        zxids = {running.zxid(number) for number in running.members}
        assert len(zxids) == 1, zxids
        data = {number: member.data for number, member in running.members.items()}
    first, *others = [
        dumped_tree(directory, tmp_path / f"dumped-{number}") for number, directory in data.items()
    ]
    assert f"/config/topics/{topic}" in first
    assert others == [first, first]
