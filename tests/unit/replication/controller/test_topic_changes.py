"""Topics grow, get ids, and are deleted with all the pauses that deletion knows."""

from pybroker_kafka.protocol.apis.stop_replica import StopReplicaRequest, StopReplicaResponse
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.zookeeper.operations import Create, Delete, SetData
from pybroker_kafka.replication.controller import znodes
from pybroker_kafka.replication.controller.context import ReplicaStateName
from pybroker_kafka.replication.controller.effects import ControlRequest
from pybroker_kafka.replication.controller.events import BrokerResponse
from tests.support.controller_cluster import ControllerCluster, state_seen_by


def topic_nodes(cluster: ControllerCluster, topic: str) -> list[str]:
    return [path for path in cluster.tree.nodes if topic in path.split("/")]


def test_added_partitions_get_leaders() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.create_topic("t", {0: [1]})
    cluster.take_sent()
    cluster.add_partitions("t", {1: [2, 1]})
    assert cluster.state("t", 1).leader == 2
    assert cluster.take_sent() == [
        "1 <- LeaderAndIsr t-1:leader=2 epoch=0 isr=[2, 1] new",
        "2 <- LeaderAndIsr t-1:leader=2 epoch=0 isr=[2, 1] new",
        "1 <- UpdateMetadata alive=1,2 t-1:2/[2, 1]",
        "2 <- UpdateMetadata alive=1,2 t-1:2/[2, 1]",
    ]


def test_a_topic_without_id_gets_one() -> None:
    cluster = ControllerCluster([1])
    cluster.write(Create(znodes.topic_path("old"), b'{"version":1,"partitions":{"0":[1]}}'))
    stored = cluster.json(znodes.topic_path("old"))
    assert stored["version"] == 3
    assert len(stored["topic_id"]) == 22
    topic_id = cluster.active.context.topic_id("old")
    assert cluster.brokers[1].cache.topic_name(topic_id) == "old"


def test_a_deleted_topic_is_gone_everywhere() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.create_topic("t", {0: [1, 2]}, {"retention.ms": "1"})
    cluster.create_topic("kept", {0: [1]})
    cluster.take_sent()
    cluster.delete_topic("t")
    assert cluster.take_sent() == [
        "1 <- UpdateMetadata alive=1,2 t-0:-2/[1, 2]",
        "2 <- UpdateMetadata alive=1,2 t-0:-2/[1, 2]",
        "1 <- StopReplica t-0:epoch=-2",
        "2 <- StopReplica t-0:epoch=-2",
        "1 <- StopReplica t-0:epoch=-2 delete",
        "2 <- StopReplica t-0:epoch=-2 delete",
    ]
    assert topic_nodes(cluster, "t") == []
    assert not any(broker.cache.contains("t") for broker in cluster.brokers.values())
    assert cluster.active.context.topics == {"kept"}
    assert cluster.active.illegal_transitions == 0


def test_a_deleted_topic_can_be_created_again() -> None:
    cluster = ControllerCluster([1])
    cluster.create_topic("t", {0: [1]})
    first = cluster.active.context.topic_id("t")
    cluster.delete_topic("t")
    cluster.create_topic("t", {0: [1], 1: [1]})
    assert cluster.active.context.topic_id("t") != first
    assert cluster.state("t", 1).leader == 1


def test_deletion_waits_for_a_dead_broker() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.create_topic("t", {0: [1, 2]})
    cluster.kill(2)
    cluster.delete_topic("t")
    context = cluster.active.context
    assert not cluster.brokers[1].cache.contains("t"), "clients do not see it any more"
    assert "t" in context.topics_ineligible_for_deletion
    assert context.replicas_in("t", ReplicaStateName.DELETION_SUCCESSFUL) == [("t", 0, 1)]
    assert znodes.delete_topic_path("t") in cluster.tree.nodes
    cluster.start(2)
    assert topic_nodes(cluster, "t") == []
    assert cluster.active.illegal_transitions == 0


def test_deletion_goes_on_after_a_broker_dies_in_the_middle() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.create_topic("t", {0: [1, 2]})
    cluster.answering = False
    cluster.delete_topic("t")
    cluster.kill(2)
    assert "t" in cluster.active.context.topics_ineligible_for_deletion
    cluster.answering = True
    cluster.start(2)
    cluster.sent.clear()
    # Broker 1 never answered: its deletion is still under way, so that nothing is sent twice.
    assert topic_nodes(cluster, "t") != []
    cluster.kill(1)
    cluster.start(1)
    assert topic_nodes(cluster, "t") == []
    assert all(c.illegal_transitions == 0 for c in cluster.controllers.values())


def test_a_late_refusal_of_an_earlier_run_of_a_broker_halts_no_deletion() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.create_topic("t", {0: [2]})
    cluster.answering = False
    cluster.delete_topic("t")
    asked_before = stop_requests(cluster)
    cluster.kill(2)
    cluster.start(2)  # the refusal was on its way when the controller learned of both
    asked_again = stop_requests(cluster)
    refusal = StopReplicaResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    for request in asked_before:
        cluster.process(1, BrokerResponse(2, request, refusal))
    assert "t" not in cluster.active.context.topics_ineligible_for_deletion
    for request in asked_again:
        answer = cluster.brokers[2].receive(request)
        cluster.process(1, BrokerResponse(2, request, answer))
    assert topic_nodes(cluster, "t") == []
    assert cluster.active.illegal_transitions == 0


def stop_requests(cluster: ControllerCluster) -> list[StopReplicaRequest]:
    """Those sent since last asked."""
    found = [request for _, request in cluster.sent if isinstance(request, StopReplicaRequest)]
    cluster.sent.clear()
    assert found
    return found


def test_a_new_controller_finishes_deletions() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.create_topic("t", {0: [2]})
    cluster.answering = False
    cluster.delete_topic("t")
    cluster.answering = True
    cluster.delete_controller_node()
    assert topic_nodes(cluster, "t") == []


def test_a_replica_that_cannot_be_deleted_halts_the_deletion() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.create_topic("t", {0: [1, 2]})
    good = cluster.brokers[2].receive

    def failing(request: ControlRequest) -> object:
        response = good(request)
        if isinstance(request, StopReplicaRequest):
            assert isinstance(response, StopReplicaResponse)
            for error in response.partition_errors:
                error.error_code = 56
        return response

    cluster.brokers[2].answer = failing
    cluster.delete_topic("t")
    assert "t" in cluster.active.context.topics_ineligible_for_deletion
    cluster.kill(2)
    cluster.start(2)
    assert topic_nodes(cluster, "t") == []


def test_requests_to_delete_unknown_topics_are_removed() -> None:
    cluster = ControllerCluster([1])
    cluster.delete_topic("never")
    assert znodes.delete_topic_path("never") not in cluster.tree.nodes


def test_deletion_may_be_disabled() -> None:
    cluster = ControllerCluster([1], delete_topic_enable=False)
    cluster.create_topic("t", {0: [1]})
    cluster.delete_topic("t")
    assert znodes.delete_topic_path("t") not in cluster.tree.nodes
    assert cluster.state("t").leader == 1


def test_partitions_added_to_a_topic_being_deleted_are_taken_out_again() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.create_topic("t", {0: [1, 2]})
    cluster.kill(2)
    cluster.delete_topic("t")
    cluster.add_partitions("t", {1: [1]})
    assert cluster.json(znodes.topic_path("t"))["partitions"] == {"0": [1, 2]}
    cluster.start(2)
    assert topic_nodes(cluster, "t") == []


def test_a_topic_removed_behind_our_back_is_forgotten() -> None:
    cluster = ControllerCluster([1])
    cluster.create_topic("t", {0: [1]})
    for path in sorted(topic_nodes(cluster, "t"), key=len, reverse=True):
        cluster.write(Delete(path))
    assert cluster.active.context.topics == set()
    cluster.create_topic("t", {0: [1]})
    assert cluster.state("t").leader == 1


def test_isr_changes_by_old_brokers_reach_the_metadata() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.create_topic("t", {0: [1, 2]})
    data = b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1]}'
    change = b'{"version":1,"partitions":[{"topic":"t","partition":0},{"topic":"x","partition":1}]}'
    cluster.write(
        SetData(znodes.partition_state_path("t", 0), data),
        Create(f"{znodes.ISR_CHANGES}/isr_change_", change, sequential=True),
        Create(f"{znodes.ISR_CHANGES}/isr_change_", b"?", sequential=True),
    )
    assert cluster.tree.children(znodes.ISR_CHANGES) == ()
    assert state_seen_by(cluster.brokers[2], "t").isr == (1,)
