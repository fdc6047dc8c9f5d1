"""Partitions move (KIP-455): started, finished, replaced, cancelled, resumed, told by the znode."""

import pytest

from pybroker_kafka.protocol.apis.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
)
from pybroker_kafka.protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pybroker_kafka.protocol.apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.zookeeper.operations import Create, SetData
from pybroker_kafka.replication.controller import events, znodes
from tests.support.controller_cluster import ControllerCluster, state_seen_by

LEGACY = znodes.REASSIGN_PARTITIONS


def reassign(
    cluster: ControllerCluster,
    target: list[int] | None,
    topic: str = "t",
    partition: int = 0,
    *,
    may_differ: bool = True,
) -> ErrorCode:
    asked = ReassignablePartition(partition_index=partition, replicas=target)
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_differ,
        topics=[ReassignableTopic(name=topic, partitions=[asked])],
    )
    answer = cluster.ask(events.AlterPartitionReassignments, request)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
    ((outcome,),) = [topic.partitions for topic in answer.responses]
    assert (outcome.error_message is None) == (outcome.error_code == ErrorCode.NONE)
    return ErrorCode(outcome.error_code)


def listed(
    cluster: ControllerCluster, *asked: tuple[str, int]
) -> dict[tuple[str, int], tuple[list[int], ...]]:
    topics = [
        ListPartitionReassignmentsTopics(name=topic, partition_indexes=[index])
        for topic, index in asked
    ]
    request = ListPartitionReassignmentsRequest(topics=topics or None)
    answer = cluster.ask(events.ListPartitionReassignments, request)
    return {
        (topic.name, p.partition_index): (p.replicas, p.adding_replicas, p.removing_replicas)
        for topic in answer.topics
        for p in topic.partitions
    }


def catch_up(cluster: ControllerCluster, isr: list[int], topic: str = "t") -> None:
    """The leader says who is in sync now."""
    state = cluster.state(topic)
    asked = AlterPartitionRequestPartitionData(
        partition_index=0,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        new_isr=isr,
    )
    request = AlterPartitionRequest(
        broker_id=state.leader,
        broker_epoch=cluster.tree.nodes[znodes.broker_path(state.leader)].czxid,
        topics=[AlterPartitionRequestTopicData(topic_name=topic, partitions=[asked])],
    )
    answer = cluster.ask(events.AlterPartition, request, 1)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def assignment(cluster: ControllerCluster, topic: str = "t") -> tuple[list[int], object, object]:
    node = cluster.json(znodes.topic_path(topic))
    return node["partitions"]["0"], node["adding_replicas"], node["removing_replicas"]


def cluster_of(count: int, replicas: list[int]) -> ControllerCluster:
    cluster = ControllerCluster(list(range(1, count + 1)))
    cluster.create_topic("t", {0: replicas})
    cluster.take_sent()
    return cluster


def test_all_replicas_move_in_two_phases() -> None:
    cluster = cluster_of(4, [1, 2])
    assert reassign(cluster, [3, 4]) == ErrorCode.NONE
    assert assignment(cluster) == ([3, 4, 1, 2], {"0": [3, 4]}, {"0": [1, 2]})
    assert listed(cluster) == {("t", 0): ([3, 4, 1, 2], [3, 4], [1, 2])}
    state = cluster.state("t")
    assert (state.leader, state.leader_epoch, state.isr) == (1, 1, (1, 2))
    sent = [line for line in cluster.take_sent() if "LeaderAndIsr" in line]
    told = "LeaderAndIsr t-0:leader=1 epoch=1 isr=[1, 2]"
    assert sent == [
        f"1 <- {told}",
        f"2 <- {told}",
        f"3 <- {told} new",
        f"4 <- {told} new",
        f"3 <- {told} new",
        f"4 <- {told} new",
    ]

    catch_up(cluster, [1, 2, 3])  # not all yet
    assert cluster.state("t").leader == 1
    assert cluster.take_sent() == [
        f"{b} <- UpdateMetadata alive=1,2,3,4 t-0:1/[1, 2, 3]" for b in (1, 2, 3, 4)
    ]

    catch_up(cluster, [1, 2, 3, 4])
    assert assignment(cluster) == ([3, 4], {}, {})
    assert listed(cluster) == {}
    state = cluster.state("t")
    assert (state.leader, state.isr) == (3, (3, 4))
    assert {b for b in cluster.brokers if ("t", 0) in cluster.brokers[b].replicas} == {3, 4}
    for broker in cluster.brokers.values():
        assert state_seen_by(broker, "t").replicas == (3, 4)
    deletions = [line for line in cluster.take_sent() if "delete" in line]
    assert [line[:16] for line in deletions] == ["1 <- StopReplica", "2 <- StopReplica"]
    assert cluster.active.illegal_transitions == 0


@pytest.mark.parametrize(
    ("origin", "target", "epoch"), [([1], [2], 3), ([1, 2], [3, 4], 4), ([1, 2], [1, 3], 3)]
)
def test_the_epochs_at_the_end_are_apache_kafkas(
    origin: list[int], target: list[int], epoch: int
) -> None:
    """One for the start, one for the leader that moves or stays, one for each replica that leaves
    the ISR (ControllerIntegrationTest.testPartitionReassignment)."""
    cluster = cluster_of(4, origin)
    assert reassign(cluster, target) == ErrorCode.NONE
    catch_up(cluster, sorted({*origin, *target}))
    state = cluster.state("t")
    assert (state.leader, state.leader_epoch, set(state.isr)) == (target[0], epoch, set(target))
    assert assignment(cluster) == (target, {}, {})
    assert state_seen_by(cluster.brokers[target[0]], "t").leader == target[0]


def test_a_preferred_election_while_a_reassignment_is_stuck() -> None:
    """The preferred replica is the first of the target, which is not there: nothing changes."""
    cluster = cluster_of(3, [1, 2])
    cluster.kill(3)
    target = znodes.encode_reassignment({("t", 0): (3, 1)})
    cluster.write(Create(LEGACY, target))
    assert assignment(cluster) == ([3, 1, 2], {"0": [3]}, {"0": [2]})
    before = cluster.state("t")
    assert (before.leader, before.leader_epoch) == (1, 1)
    answer = cluster.ask(events.ElectLeaders, (("t", 0),), False)
    assert answer[("t", 0)].error is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert cluster.state("t") == before
    assert listed(cluster) == {("t", 0): ([3, 1, 2], [3], [2])}


def test_a_leader_that_stays_learns_the_new_replicas_under_a_new_epoch() -> None:
    cluster = cluster_of(3, [1, 2])
    assert reassign(cluster, [1, 3]) == ErrorCode.NONE
    catch_up(cluster, [1, 2, 3])
    state = cluster.state("t")
    assert (state.leader, state.isr) == (1, (1, 3))
    last = cluster.brokers[1].replicas[("t", 0)]
    assert (last.leader_epoch, last.replicas, last.adding_replicas) == (
        state.leader_epoch,
        [1, 3],
        [],
    )


def test_fewer_replicas_and_another_order_need_no_catching_up() -> None:
    cluster = cluster_of(3, [1, 2, 3])
    assert reassign(cluster, [3, 1]) == ErrorCode.NONE
    assert assignment(cluster) == ([3, 1], {}, {})
    assert (cluster.state("t").leader, set(cluster.state("t").isr)) == (1, {1, 3})
    assert reassign(cluster, [1, 3]) == ErrorCode.NONE
    assert assignment(cluster) == ([1, 3], {}, {})
    assert reassign(cluster, [1, 3]) == ErrorCode.NONE
    assert listed(cluster) == {}


@pytest.mark.parametrize(
    ("target", "topic", "error"),
    [
        (None, "t", ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        (None, "ghost", ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ([], "t", ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], "t", ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([-1], "t", ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], "t", ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([9], "ghost", ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1], "ghost", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1], "deleted", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_is_refused_changes_nothing(
    target: list[int] | None, topic: str, error: ErrorCode
) -> None:
    cluster = cluster_of(3, [1, 2])
    cluster.create_topic("deleted", {0: [1, 3]})
    cluster.kill(3)
    cluster.delete_topic("deleted")
    before = {path: node.data for path, node in cluster.tree.nodes.items()}
    assert reassign(cluster, target, topic) == error
    assert {path: node.data for path, node in cluster.tree.nodes.items()} == before


def test_another_replication_factor_can_be_forbidden() -> None:
    cluster = cluster_of(5, [1, 2])
    refused = ErrorCode.INVALID_REPLICATION_FACTOR
    assert reassign(cluster, [1], may_differ=False) == refused
    assert reassign(cluster, [1, 2, 3], may_differ=False) == refused
    assert listed(cluster) == {}
    assert reassign(cluster, [3, 4], may_differ=False) == ErrorCode.NONE
    # Of a partition on its way the replicas that stay count.
    assert reassign(cluster, [3, 4, 5, 1], may_differ=False) == refused
    assert reassign(cluster, [4, 5], may_differ=False) == ErrorCode.NONE
    assert listed(cluster) == {("t", 0): ([4, 5, 1, 2], [4, 5], [1, 2])}
    assert reassign(cluster, None, may_differ=False) == ErrorCode.NONE
    assert reassign(cluster, [9], "ghost", may_differ=False) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_an_unknown_partition_of_a_known_topic() -> None:
    cluster = cluster_of(2, [1, 2])
    assert reassign(cluster, [1], partition=7) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_cancelling_removes_what_was_added() -> None:
    cluster = cluster_of(4, [1, 2])
    reassign(cluster, [3, 4])
    catch_up(cluster, [1, 2, 3])
    assert reassign(cluster, None) == ErrorCode.NONE
    assert assignment(cluster) == ([1, 2], {}, {})
    assert (cluster.state("t").leader, cluster.state("t").isr) == (1, (1, 2))
    assert {b for b in cluster.brokers if ("t", 0) in cluster.brokers[b].replicas} == {1, 2}
    assert listed(cluster) == {}
    assert cluster.active.illegal_transitions == 0


def test_cancelling_takes_the_leadership_from_an_added_replica() -> None:
    cluster = cluster_of(3, [1, 2])
    reassign(cluster, [3, 2])
    catch_up(cluster, [1, 3])
    cluster.kill(1)
    assert cluster.state("t").leader == 3
    assert reassign(cluster, None) == ErrorCode.INVALID_REPLICA_ASSIGNMENT  # 3 has the data alone
    assert assignment(cluster)[0] == [3, 2, 1]
    catch_up(cluster, [3, 2])
    assert assignment(cluster) == ([3, 2], {}, {})


def test_a_new_target_replaces_the_old_one() -> None:
    cluster = cluster_of(4, [1, 2])
    reassign(cluster, [3, 2])
    catch_up(cluster, [1, 2])
    assert reassign(cluster, [4, 1]) == ErrorCode.NONE
    assert assignment(cluster) == ([4, 1, 2], {"0": [4]}, {"0": [2]})
    assert ("t", 0) not in cluster.brokers[3].replicas
    catch_up(cluster, [1, 2, 4])
    assert assignment(cluster) == ([4, 1], {}, {})
    assert cluster.state("t").isr == (1, 4)
    assert cluster.active.illegal_transitions == 0


def test_replacing_drops_a_leader_that_is_not_wanted_any_more() -> None:
    cluster = cluster_of(4, [1, 2])
    reassign(cluster, [3, 4])
    catch_up(cluster, [1, 2, 3])
    cluster.kill(1)
    cluster.kill(2)
    assert cluster.state("t").leader == 3
    catch_up(cluster, [3])
    cluster.start(2)
    catch_up(cluster, [3, 2])
    assert reassign(cluster, [2, 4]) == ErrorCode.NONE
    assert (cluster.state("t").leader, cluster.state("t").isr) == (2, (2,))
    assert assignment(cluster) == ([2, 4, 1], {"0": [4]}, {"0": [1]})


def test_a_new_controller_goes_on() -> None:
    cluster = cluster_of(4, [1, 2])
    reassign(cluster, [3, 4])
    cluster.delete_controller_node()
    assert listed(cluster) == {("t", 0): ([3, 4, 1, 2], [3, 4], [1, 2])}
    catch_up(cluster, [1, 2, 3, 4])
    assert assignment(cluster) == ([3, 4], {}, {})
    assert cluster.active.illegal_transitions == 0


def test_a_new_controller_finishes_what_only_wants_finishing() -> None:
    cluster = cluster_of(4, [1, 2])
    reassign(cluster, [3, 4])
    path = znodes.partition_state_path("t", 0)
    node = cluster.tree.nodes[path]
    state = znodes.decode_partition_state(node.data, node.version)
    in_sync = znodes.LeaderAndIsr(1, state.leader_epoch, (1, 2, 3, 4), 0, state.controller_epoch)
    cluster.tree.perform([SetData(path, znodes.encode_partition_state(in_sync))])
    cluster.delete_controller_node()
    assert assignment(cluster) == ([3, 4], {}, {})


def test_it_waits_for_a_broker_that_has_died() -> None:
    cluster = cluster_of(3, [1])
    reassign(cluster, [3])
    cluster.kill(3)
    assert assignment(cluster) == ([3, 1], {"0": [3]}, {"0": [1]})
    cluster.start(3)
    assert cluster.brokers[3].replicas[("t", 0)].adding_replicas == [3]
    catch_up(cluster, [1, 3])
    assert assignment(cluster) == ([3], {}, {})
    assert cluster.state("t").leader == 3


def test_the_target_is_not_left_alone_while_it_is_dead() -> None:
    cluster = cluster_of(3, [1])
    reassign(cluster, [3])
    cluster.kill(1)  # the origin is gone before anything was copied
    assert assignment(cluster) == ([3, 1], {"0": [3]}, {"0": [1]})
    assert cluster.state("t").isr == (1,)
    cluster.start(1)
    catch_up(cluster, [1, 3])
    assert assignment(cluster) == ([3], {}, {})


def test_a_partition_that_never_had_a_leader_gets_one() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.create_topic("t", {0: [7]})
    assert reassign(cluster, [2]) == ErrorCode.NONE
    assert assignment(cluster) == ([2], {}, {})
    assert (cluster.state("t").leader, cluster.state("t").isr) == (2, (2,))
    assert cluster.active.illegal_transitions == 0


def test_partitions_that_another_broker_adds_meanwhile_are_kept() -> None:
    cluster = cluster_of(3, [1])
    reassign(cluster, [2])
    node = cluster.tree.nodes[znodes.topic_path("t")]
    grown = znodes.decode_topic("t", node.data)
    partitions = {**grown.partitions, 1: znodes.ReplicaAssignment((3,))}
    data = znodes.encode_topic(znodes.TopicAssignment(grown.topic_id, partitions))
    cluster.tree.perform([SetData(znodes.topic_path("t"), data)])
    catch_up(cluster, [1, 2])
    assert cluster.json(znodes.topic_path("t"))["partitions"] == {"0": [2], "1": [3]}
    assert cluster.state("t", 1).leader == 3


# Replicas whose brokers are away when they are removed


def test_a_removed_replica_is_deleted_when_its_broker_is_back() -> None:
    cluster = cluster_of(3, [2, 1])
    cluster.kill(1)
    assert reassign(cluster, [2]) == ErrorCode.NONE
    cluster.take_sent()
    cluster.start(1)
    stops = [line for line in cluster.take_sent() if "StopReplica" in line]
    assert stops == [f"1 <- StopReplica t-0:epoch={cluster.state('t').leader_epoch} delete"]
    cluster.kill(1)
    cluster.start(1)
    assert not [line for line in cluster.take_sent() if "StopReplica" in line]  # it has confirmed


def test_a_removed_replica_that_is_added_again_is_not_deleted() -> None:
    cluster = cluster_of(3, [2, 1])
    cluster.kill(1)
    reassign(cluster, [2])
    cluster.write(
        Create(LEGACY, znodes.encode_reassignment({("t", 0): [2, 1]}))
    )  # by the API it would have to be alive
    cluster.take_sent()
    cluster.start(1)
    assert not [line for line in cluster.take_sent() if "StopReplica" in line]
    assert cluster.brokers[1].replicas[("t", 0)].adding_replicas == [1]


# Deletion


def test_a_topic_is_deleted_after_its_reassignment() -> None:
    cluster = cluster_of(3, [1])
    reassign(cluster, [2])
    cluster.delete_topic("t")
    assert znodes.topic_path("t") in cluster.tree.nodes
    catch_up(cluster, [1, 2])
    assert znodes.topic_path("t") not in cluster.tree.nodes
    assert znodes.delete_topic_path("t") not in cluster.tree.nodes
    assert all(("t", 0) not in broker.replicas for broker in cluster.brokers.values())
    assert cluster.active.illegal_transitions == 0


def test_a_new_controller_keeps_the_deletion_waiting() -> None:
    cluster = cluster_of(3, [1])
    reassign(cluster, [2])
    cluster.delete_topic("t")
    cluster.delete_controller_node()
    assert znodes.topic_path("t") in cluster.tree.nodes
    catch_up(cluster, [1, 2])
    assert znodes.topic_path("t") not in cluster.tree.nodes


# The legacy znode


def request_by_znode(cluster: ControllerCluster, targets: dict[tuple[str, int], list[int]]) -> None:
    cluster.write(Create(LEGACY, znodes.encode_reassignment(targets)))


def test_the_legacy_znode_is_emptied_as_partitions_finish() -> None:
    cluster = cluster_of(3, [1])
    cluster.create_topic("u", {0: [1]})
    request_by_znode(cluster, {("t", 0): [2], ("u", 0): [3], ("ghost", 0): [1], ("u", 9): [1]})
    assert cluster.json(LEGACY)["partitions"] == [
        {"topic": "t", "partition": 0, "replicas": [2]},
        {"topic": "u", "partition": 0, "replicas": [3]},
    ]
    catch_up(cluster, [1, 2])
    assert cluster.json(LEGACY)["partitions"] == [{"topic": "u", "partition": 0, "replicas": [3]}]
    catch_up(cluster, [1, 3], "u")
    assert LEGACY not in cluster.tree.nodes
    request_by_znode(cluster, {("t", 0): [3]})  # the watch is armed again
    assert assignment(cluster)[1] == {"0": [3]}


def test_the_legacy_znode_may_name_a_broker_that_comes_later() -> None:
    cluster = cluster_of(2, [1])
    request_by_znode(cluster, {("t", 0): [3]})
    cluster.start(3)
    assert cluster.brokers[3].replicas[("t", 0)].is_new
    catch_up(cluster, [1, 3])
    assert assignment(cluster) == ([3], {}, {})
    assert cluster.active.illegal_transitions == 0


def test_a_new_controller_reads_the_legacy_znode() -> None:
    cluster = cluster_of(3, [1])
    cluster.tree.perform([Create(LEGACY, znodes.encode_reassignment({("t", 0): [2]}))])
    cluster.tree.take_fired()
    cluster.delete_controller_node()
    assert assignment(cluster) == ([2, 1], {"0": [2]}, {"0": [1]})


def test_the_api_has_the_last_word_over_the_legacy_znode() -> None:
    cluster = cluster_of(3, [1])
    request_by_znode(cluster, {("t", 0): [2]})
    assert reassign(cluster, [3]) == ErrorCode.NONE
    assert LEGACY not in cluster.tree.nodes
    assert assignment(cluster) == ([3, 1], {"0": [3]}, {"0": [1]})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b'{"partitions":[{"topic":"t"}]}',
        b'{"partitions":[{"topic":"t","partition":0,"replicas":["x"]}]}',
        b'{"partitions":[{"topic":"t","partition":0,"replicas":[]}]}',
        b'{"partitions":[{"topic":"t","partition":0,"replicas":[2,2]}]}',
    ],
)
def test_nonsense_in_the_legacy_znode_is_removed(data: bytes | None) -> None:
    cluster = cluster_of(3, [1])
    cluster.write(Create(LEGACY, data))
    assert LEGACY not in cluster.tree.nodes
    assert assignment(cluster) == ([1], {}, {})


def test_listing_some_partitions() -> None:
    cluster = cluster_of(3, [1])
    cluster.create_topic("u", {0: [1]})
    reassign(cluster, [2])
    assert listed(cluster, ("u", 0), ("ghost", 3)) == {}
    assert listed(cluster, ("t", 0), ("u", 0)) == {("t", 0): ([2, 1], [2], [1])}


def test_nobody_but_the_controller_answers() -> None:
    cluster = cluster_of(2, [1])
    (other,) = [i for i, c in cluster.controllers.items() if not c.is_active]
    asked: tuple[events.Event, ...] = (
        events.AlterPartitionReassignments("token", AlterPartitionReassignmentsRequest()),
        events.ListPartitionReassignments("token", ListPartitionReassignmentsRequest()),
    )
    for event in asked:
        cluster.process(other, event)
        assert cluster.replies.pop("token").error_code == ErrorCode.NOT_CONTROLLER
