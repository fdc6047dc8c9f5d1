"""What the supervisor's certainty of a death is worth: other leaders at once, in all circumstances.

`python -m tests.faults.failover` measures the same with more kills and all five clients.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psutil
import pytest
from kazoo.client import KazooClient

from pybroker_kafka.local import cluster_state
from pybroker_kafka.local.cluster_control import command_node
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.testing import KafkaCluster
from tests.faults.failover import PARTITIONS, Result, audit, gaps_ms, play
from tests.support.nightly import nightly
from tests.support.patience import fair, until
from tests.support.processes import ZooKeeperProcess
from tests.support.real_zookeeper import RealZooKeeper
from tests.support.wire import WireClient

# 1 s is the aim, and a third of it what is spent; the rest is for machines with other work. With
# the default of local clusters no session expires before this.
GAP_MS = 4000
# So long that nothing in these tests can come from an expired session.
LONG_SESSION = {"zookeeper.session.timeout.ms": "40000"}
AT_ONCE_SECONDS = 20.0
CALL_SECONDS = 5.0
KILLS = 2
STAYS_SECONDS = 1.0


@pytest.mark.nightly
def test_two_leaders_are_killed_under_idempotent_load(tmp_path: Path) -> None:
    """One of them is the controller. Nothing is lost, nothing doubled, nobody waits for long."""
    settings = {"librdkafka": ["enable.idempotence=true"], "kafka-python": [], "pybroker": []}
    results = play(tmp_path, settings, KILLS, quiet_seconds=0.2)
    for result in results.values():
        print(result.summary())
        assert not result.broken
        assert result.doubled == 0
        assert result.acknowledged > 0
        assert any(kill.was_controller for kill in result.kills)
        assert result.worst < GAP_MS


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=3, config=LONG_SESSION, data_dir=tmp_path / "data") as started:
        yield started


def kill_from_outside(cluster: KafkaCluster, node: int) -> None:
    """SIGKILL of somebody else: nobody tells the supervisor."""
    os.kill(cluster.node(node).pid, signal.SIGKILL)


def order(cluster: KafkaCluster, command: str, node: int | str) -> str:
    """What the supervisor says."""
    return command_node(cluster.data_dir, command, str(node))


def brokers_seen(cluster: KafkaCluster, node: int) -> set[int]:
    try:
        with WireClient(cluster.address(node)) as kafka, kafka.timeout(CALL_SECONDS):
            return {one.node_id for one in kafka.call(MetadataRequest(topics=[])).brokers}
    except OSError:
        return set()


def seconds_until_missed(cluster: KafkaCluster, victim: int) -> float:
    """Until both others say that it is gone."""
    started = time.monotonic()
    others = {1, 2, 3} - {victim}
    until(
        lambda: all(brokers_seen(cluster, other) == others for other in others),
        f"broker {victim} is missed",
    )
    return time.monotonic() - started


def test_deaths_and_what_the_supervisor_makes_of_them(cluster: KafkaCluster) -> None:
    kill_from_outside(cluster, 2)  # by somebody else
    assert seconds_until_missed(cluster, 2) < AT_ONCE_SECONDS
    until(lambda: cluster.node(2).status == "killed", "the supervisor knows it too")
    assert "broker 2 is ready" in order(cluster, "restart", 2)
    assert order(cluster, "kill", 1) == "broker 1 is killed"
    assert seconds_until_missed(cluster, 1) < AT_ONCE_SECONDS
    assert "broker 1 is ready" in order(cluster, "restart", 1)

    assert order(cluster, "kill-as-lost", 3) == "broker 3 is killed"
    time.sleep(STAYS_SECONDS)
    assert brokers_seen(cluster, 1) == {1, 2, 3}, "its session lives on"
    assert "broker 3 is ready" in order(cluster, "restart", 3)

    order(cluster, "pause", "zookeeper")
    kill_from_outside(cluster, 3)
    until(lambda: cluster.node(3).status == "killed", "the supervisor knows it")
    time.sleep(STAYS_SECONDS)
    assert brokers_seen(cluster, 1) == {1, 2, 3}, "nobody can be told"
    order(cluster, "resume", "zookeeper")
    assert seconds_until_missed(cluster, 3) < AT_ONCE_SECONDS


def children_beside(process: psutil.Process, known: set[int]) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):  # one of them has just ended
        return [child for child in process.children() if child.pid not in known]
    return []


def test_a_death_while_the_supervisor_waits_for_another_node(cluster: KafkaCluster) -> None:
    supervisor = psutil.Process(cluster_state.load(cluster.data_dir).supervisor_pid)
    with ThreadPoolExecutor(1) as pool:
        while True:
            before = {one.pid for one in cluster_state.load(cluster.data_dir).nodes}
            answer = pool.submit(order, cluster, "restart", 3)
            (starting,) = until(
                partial(children_beside, supervisor, before), "the new life of broker 3"
            )
            starting.suspend()  # it does not become ready for a while
            time.sleep(STAYS_SECONDS)
            if not answer.done():
                break
            starting.resume()  # it was ready before we saw it
        try:
            kill_from_outside(cluster, 2)
            until(lambda: brokers_seen(cluster, 1) == {1}, "brokers 2 and 3 are missed")
            assert not answer.done()
        finally:
            starting.resume()
        assert "broker 3 is ready" in answer.result()


def test_what_a_gap_is() -> None:
    """From the kill to the end of the silence that it began, whatever comes before and after."""
    acknowledged = [
        (at_ms * 1_000_000, partition, 0, 0)
        for partition in range(PARTITIONS)
        for at_ms in (0, 700, 995, 1003, 1400 + partition, 1500, 2500, 9000)
    ]
    assert gaps_ms(acknowledged, 1_000_000_000, 3_000_000_000) == {
        partition: 400.0 + partition for partition in range(PARTITIONS)
    }


@pytest.mark.parametrize(
    ("log", "broken", "doubled"),
    [
        ({(0, 0): 0, (0, 1): 1}, 0, 0),
        ({(0, 0): 0}, 1, 0),
        ({(0, 0): 1, (0, 1): 0}, 2, 0),
        ({(0, 0): 0, (0, 1): 1, (0, 2): 1}, 0, 1),
    ],
)
def test_the_audit_bites(log: dict[tuple[int, int], int], broken: int, doubled: int) -> None:
    result = Result("client")
    audit([(1, 0, 0, 0), (2, 0, 1, 1)], log, result)
    assert (len(result.broken), result.doubled, result.acknowledged) == (broken, doubled, 2)


@pytest.mark.parametrize("kind", ["embedded", nightly("real")])
def test_the_ensemble_is_somebody_elses(kind: str, tmp_path: Path) -> None:
    """There the session is closed with the password that the broker has kept."""
    place = tmp_path / "zookeeper"
    server = ZooKeeperProcess(place) if kind == "embedded" else RealZooKeeper(place)
    try:
        server.start()
        asking = KazooClient(f"127.0.0.1:{server.port}")
        asking.start()
        ensemble = f"127.0.0.1:{server.port}/apps/kafka"
        with KafkaCluster(config=LONG_SESSION, zookeeper=ensemble) as cluster:
            registration = "/apps/kafka/brokers/ids/1"
            assert asking.exists(registration)
            kill_from_outside(cluster, 1)
            started = fair.now()
            until(lambda: not asking.exists(registration), "the registration goes")
            assert fair.now() - started < AT_ONCE_SECONDS
            assert not asking.exists("/apps/kafka/controller")
        asking.stop()
        asking.close()
    finally:
        server.kill()
