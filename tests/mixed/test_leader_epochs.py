"""The leader epochs that a controller writes, of either kind: the same steps, the same numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from pybroker_kafka.protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pybroker_kafka.protocol.apis.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.mixed.cluster import KAFKA_A, KAFKA_B, OURS, MixedCluster, mixed_cluster
from tests.support.kazoo_clients import started

pytestmark = pytest.mark.timeout(900)

KINDS = pytest.mark.parametrize("controller", [KAFKA_A, OURS])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    with mixed_cluster(tmp_path_factory.mktemp("epochs"), "real") as started:
        yield started


@pytest.fixture(scope="module")
def zookeeper(cluster: MixedCluster) -> Iterator[KazooClient]:
    with started(KazooClient(f"127.0.0.1:{cluster.zookeepers[0].port}")) as client:
        yield client


class Written:
    """What stands in ZooKeeper of partition 0."""

    def __init__(self, cluster: MixedCluster, zookeeper: KazooClient, topic: str) -> None:
        self._cluster, self._zookeeper, self.topic = cluster, zookeeper, topic

    def state(self) -> tuple[int, int, list[int]]:
        path = f"/brokers/topics/{self.topic}/partitions/0/state"
        node = json.loads(self._zookeeper.get(path)[0])
        return node["leader"], node["leader_epoch"], sorted(node["isr"])

    def replicas(self) -> tuple[list[int], dict[str, list[int]]]:
        node = json.loads(self._zookeeper.get(f"/brokers/topics/{self.topic}")[0])
        return node["partitions"]["0"], node["adding_replicas"]

    def wait_for_replicas(self, wanted: list[int]) -> None:
        self._cluster.wait_for(
            lambda: self.replicas() == (wanted, {}), f"{self.topic} is on {wanted}"
        )


def reassign(cluster: MixedCluster, topic: str, target: list[int]) -> None:
    asked = ReassignablePartition(partition_index=0, replicas=target)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=[asked])]
    )
    answer = cluster.ask_controller(request)
    assert not answer.responses[0].partitions[0].error_code, answer


@KINDS
@pytest.mark.parametrize(
    ("origin", "target", "epoch"),
    [([KAFKA_A], [KAFKA_B], 3), ([OURS, KAFKA_A], [KAFKA_B], 4), ([OURS, KAFKA_A], [OURS], 2),
     ([KAFKA_B, OURS], [KAFKA_B, KAFKA_A], 3), ([OURS, KAFKA_B], [KAFKA_B, OURS], 1)],
)  # fmt: skip
def test_the_end_of_a_reassignment(
    cluster: MixedCluster, zookeeper: KazooClient, controller: int, origin: list[int],
    target: list[int], epoch: int,
) -> None:  # fmt: skip
    cluster.elect(controller)
    topic = f"from-{'-'.join(map(str, origin))}-to-{'-'.join(map(str, target))}-{controller}"
    cluster.create_topic(topic, assignment={0: origin})
    cluster.all_agree_on_in_sync(topic)
    reassign(cluster, topic, target)
    written = Written(cluster, zookeeper, topic)
    written.wait_for_replicas(target)
    leader = origin[0] if origin[0] in target else target[0]
    assert written.state() == (leader, epoch, sorted(target))


@KINDS
def test_a_preferred_election_while_a_reassignment_is_stuck(
    cluster: MixedCluster, zookeeper: KazooClient, controller: int
) -> None:
    cluster.elect(controller)
    topic = f"stuck-{controller}"
    cluster.create_topic(topic, assignment={0: [OURS, KAFKA_A]})
    cluster.all_agree_on_in_sync(topic)
    written = Written(cluster, zookeeper, topic)
    cluster.kill_and_expire(KAFKA_B)
    try:
        moved = [{"topic": topic, "partition": 0, "replicas": [KAFKA_B, OURS]}]
        plan = json.dumps({"version": 1, "partitions": moved}).encode()
        zookeeper.create("/admin/reassign_partitions", plan)
        cluster.wait_for(lambda: written.state()[1] == 1, "the reassignment has begun")
        before = written.state(), written.replicas()
        assert before == (
            (OURS, 1, [OURS, KAFKA_A]),
            ([KAFKA_B, OURS, KAFKA_A], {"0": [KAFKA_B]}),
        )
        asked = [ElectLeadersRequestTopicPartitions(topic=topic, partitions=[0])]
        answer = cluster.ask_controller(
            ElectLeadersRequest(election_type=0, topic_partitions=asked, timeout_ms=10_000)
        )
        (result,) = answer.replica_election_results[0].partition_result
        assert (ErrorCode(result.error_code), result.error_message) == (
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"Failed to elect leader for partition {topic}-0 under strategy "
            "PreferredReplicaPartitionLeaderElectionStrategy",
        )
        everywhere = cluster.ask_controller(
            ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000)
        )
        told = {
            (one.topic, each.partition_id): ErrorCode(each.error_code)
            for one in everywhere.replica_election_results
            for each in one.partition_result
        }
        assert told[topic, 0] is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert (written.state(), written.replicas()) == before
    finally:
        cluster.start(KAFKA_B)
    written.wait_for_replicas([KAFKA_B, OURS])
    assert written.state() == (OURS, 4, [OURS, KAFKA_B])


@pytest.mark.parametrize("successor", [KAFKA_B, OURS])
@pytest.mark.parametrize("leads", [True, False])
def test_a_broker_dies_with_the_controller(
    cluster: MixedCluster, zookeeper: KazooClient, successor: int, leads: bool
) -> None:
    """It is the controller, and leads a partition or follows."""
    cluster.elect(KAFKA_A)
    topic = f"died-{successor}-{leads}"
    other = KAFKA_B if successor == OURS else OURS
    replicas = [KAFKA_A, other] if leads else [other, KAFKA_A]
    cluster.create_topic(topic, assignment={0: replicas})
    cluster.all_agree_on_in_sync(topic)
    written = Written(cluster, zookeeper, topic)
    cluster.pause(other)  # it would be elected
    try:
        cluster.kill(KAFKA_A)
        gone = zookeeper.transaction()
        gone.delete("/controller")
        gone.delete(f"/brokers/ids/{KAFKA_A}")
        assert not any(isinstance(one, Exception) for one in gone.commit())
        cluster.wait_for(
            lambda: (
                json.loads(zookeeper.get("/controller")[0])["brokerid"] == successor
                if zookeeper.exists("/controller")
                else None
            ),
            f"{successor} is the controller",
        )
    finally:
        cluster.resume(other)
    cluster.all_agree_on_loss(topic, KAFKA_A)
    assert written.state() == (other, 2 if leads else 1, [other])
    cluster.wait_for(
        lambda: KAFKA_A not in {b.node_id for b in cluster.metadata("", other).brokers},
        "it is gone",
    )
    cluster.start(KAFKA_A)
    cluster.all_agree_on_in_sync(topic)
