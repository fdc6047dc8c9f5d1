"""Leaders, ISRs and controllers come and go: the controller's story, scene by scene."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest

from pybroker_kafka.protocol.apis.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from pybroker_kafka.protocol.apis.update_metadata import UpdateMetadataRequest
from pybroker_kafka.protocol.zookeeper.operations import Create, SetData, ZkOperation
from pybroker_kafka.replication.controller import events, znodes
from pybroker_kafka.replication.controller.effects import ControlRequest
from pybroker_kafka.replication.controller.kafka_controller import Controller
from pybroker_kafka.replication.controller.znodes import BrokerRegistration
from pybroker_kafka.replication.metadata_cache import Endpoint
from tests.support.controller_cluster import ControllerCluster, state_seen_by


def test_the_first_broker_becomes_controller_and_tells_itself() -> None:
    cluster = ControllerCluster([1])
    assert cluster.active.context.epoch == 1
    assert cluster.json(znodes.CONTROLLER)["brokerid"] == 1
    assert cluster.tree.nodes[znodes.CONTROLLER_EPOCH].data == b"1"
    assert cluster.json(znodes.FEATURE) == {"version": 2, "status": 1, "features": {}}
    assert cluster.take_sent() == ["1 <- UpdateMetadata alive=1"]


def test_those_who_were_there_learn_of_a_new_broker_first() -> None:
    cluster = ControllerCluster([1])
    cluster.take_sent()
    cluster.start(2)
    assert cluster.take_sent() == [
        "1 <- UpdateMetadata alive=1,2",
        "2 <- UpdateMetadata alive=1,2",
    ]
    assert cluster.channels == {1, 2}


def test_a_topic_gets_leaders() -> None:
    cluster = ControllerCluster([1, 2, 3])
    cluster.take_sent()
    cluster.create_topic("t", {0: [1, 2], 1: [2, 3]})
    assert cluster.take_sent() == [
        "1 <- LeaderAndIsr t-0:leader=1 epoch=0 isr=[1, 2] new",
        "2 <- LeaderAndIsr t-0:leader=1 epoch=0 isr=[1, 2] new t-1:leader=2 epoch=0 isr=[2, 3] new",
        "3 <- LeaderAndIsr t-1:leader=2 epoch=0 isr=[2, 3] new",
        "1 <- UpdateMetadata alive=1,2,3 t-0:1/[1, 2] t-1:2/[2, 3]",
        "2 <- UpdateMetadata alive=1,2,3 t-0:1/[1, 2] t-1:2/[2, 3]",
        "3 <- UpdateMetadata alive=1,2,3 t-0:1/[1, 2] t-1:2/[2, 3]",
    ]
    assert cluster.json(znodes.partition_state_path("t", 0)) == {
        "version": 1,
        "leader": 1,
        "leader_epoch": 0,
        "controller_epoch": 1,
        "isr": [1, 2],
    }


def test_control_requests_carry_ids_epochs_and_endpoints() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.sent.clear()
    cluster.create_topic("t", {0: [1, 2]})
    epochs = {b: cluster.tree.nodes[znodes.broker_path(b)].czxid for b in (1, 2)}
    topic_id = cluster.active.context.topic_id("t")
    (_, leader_and_isr), _, (_, update), _ = cluster.sent
    assert isinstance(leader_and_isr, LeaderAndIsrRequest)
    assert isinstance(update, UpdateMetadataRequest)
    assert (leader_and_isr.controller_id, leader_and_isr.controller_epoch) == (1, 1)
    assert leader_and_isr.broker_epoch == update.broker_epoch == epochs[1]
    assert leader_and_isr.topic_states[0].topic_id == topic_id == update.topic_states[0].topic_id
    (leader,) = leader_and_isr.live_leaders
    assert (leader.broker_id, leader.host_name, leader.port) == (1, "h", 9001)
    assert [broker.id for broker in update.live_brokers] == [1, 2]
    assert update.live_brokers[1].endpoints[0].listener == "PLAINTEXT"


def test_the_next_isr_member_takes_over_from_a_dead_leader() -> None:
    cluster = ControllerCluster([1, 2, 3])
    cluster.create_topic("t", {0: [3, 2]})
    cluster.take_sent()
    cluster.kill(3)
    assert cluster.state("t").leader == 2
    assert cluster.state("t").isr == (2,)
    assert cluster.state("t").leader_epoch == 1
    assert cluster.take_sent() == [
        "2 <- LeaderAndIsr t-0:leader=2 epoch=1 isr=[2]",
        "1 <- UpdateMetadata alive=1,2 t-0:2/[2]",
        "2 <- UpdateMetadata alive=1,2 t-0:2/[2]",
        "2 <- LeaderAndIsr t-0:leader=2 epoch=1 isr=[2]",
        "1 <- UpdateMetadata alive=1,2 t-0:2/[2]",
        "2 <- UpdateMetadata alive=1,2 t-0:2/[2]",
    ]


def test_a_dead_follower_leaves_the_isr() -> None:
    cluster = ControllerCluster([1, 2, 3])
    cluster.create_topic("t", {0: [1, 3, 2]})
    cluster.kill(3)
    state = cluster.state("t")
    assert (state.leader, state.leader_epoch, state.isr) == (1, 1, (1, 2))


def test_the_last_isr_member_stays_in_the_isr_and_leads_again() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.create_topic("t", {0: [2]})
    cluster.kill(2)
    gone = cluster.state("t")
    assert (gone.leader, gone.isr, gone.leader_epoch) == (-1, (2,), 1)
    assert state_seen_by(cluster.brokers[1], "t").leader == -1
    cluster.start(2)
    back = cluster.state("t")
    assert (back.leader, back.isr, back.leader_epoch) == (2, (2,), 2)
    assert state_seen_by(cluster.brokers[1], "t").leader == 2


def test_no_leader_outside_the_isr_unless_the_topic_allows_it() -> None:
    for unclean in ("false", "true"):
        cluster = ControllerCluster([1, 2, 3])
        config = {"unclean.leader.election.enable": unclean}
        cluster.create_topic("t", {0: [2, 3]}, config)
        cluster.kill(3)
        assert cluster.state("t").isr == (2,)
        cluster.start(3)  # alive, but behind
        cluster.kill(2)
        state = cluster.state("t")
        if unclean == "false":
            assert (state.leader, state.isr) == (-1, (2,))
        else:
            assert (state.leader, state.isr) == (3, (3,))
            assert state.leader_recovery_state == znodes.RECOVERING


def test_the_default_for_unclean_elections_comes_from_the_broker() -> None:
    cluster = ControllerCluster([1, 2, 3], unclean_leader_election_enable=True)
    cluster.create_topic("t", {0: [2, 3]})
    cluster.create_topic("careful", {0: [2, 3]}, {"unclean.leader.election.enable": "false"})
    cluster.kill(3)
    cluster.start(3)
    cluster.kill(2)
    assert cluster.state("t").leader == 3
    assert cluster.state("careful").leader == -1


def test_a_partition_without_a_live_replica_waits_for_one() -> None:
    cluster = ControllerCluster([1])
    cluster.create_topic("t", {0: [2, 3]})
    assert znodes.partition_state_path("t", 0) not in cluster.tree.nodes
    cluster.start(3)
    assert cluster.state("t").leader == 3
    assert cluster.state("t").isr == (3,)


def test_a_bounced_broker_is_dead_first_and_new_then() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.create_topic("t", {0: [2, 1]})
    cluster.take_sent()
    # Expiry and registration come before the controller looks.
    with patch.object(Controller, "process", lambda *_: iter(())):
        cluster.kill(2)
    cluster.tree.child_watches.setdefault(znodes.BROKER_IDS, set()).add(1)
    cluster.start(2)
    state = cluster.state("t")
    assert (state.leader, state.leader_epoch) == (1, 1)
    assert state.isr == (1,)
    lines = cluster.take_sent()
    assert "2 <- LeaderAndIsr t-0:leader=1 epoch=1 isr=[1]" in lines


def test_another_broker_becomes_controller_with_a_higher_epoch() -> None:
    cluster = ControllerCluster([1, 2, 3])
    cluster.create_topic("t", {0: [1, 2]})
    cluster.kill(1)
    assert cluster.active.context.epoch == 2
    assert cluster.state("t").leader == 2
    assert cluster.state("t").controller_epoch == 2
    assert all(broker.cache.controller_id in (2, 3) for broker in cluster.brokers.values())


def test_an_operator_moves_the_controller() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.delete_controller_node()
    assert cluster.active.context.epoch == 2
    assert sum(controller.is_active for controller in cluster.controllers.values()) == 1


def test_a_controller_that_was_replaced_cannot_write() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.create_topic("t", {0: [2]})
    old = cluster.controllers[1]

    def replaced(operations: Sequence[ZkOperation]) -> None:
        cluster.tree.interfere = None
        cluster.tree.perform([SetData(znodes.CONTROLLER_EPOCH, b"2")])

    cluster.tree.interfere = replaced
    cluster.kill(2)
    assert not old.is_active
    assert cluster.state("t").leader == 2, "nothing was written"
    assert old.context.brokers == {}


def test_a_leader_changes_its_isr_while_a_leader_is_elected() -> None:
    cluster = ControllerCluster([1, 2, 3])
    cluster.create_topic("t", {0: [3, 1, 2]})
    path = znodes.partition_state_path("t", 0)

    def shrink(operations: Sequence[ZkOperation]) -> None:
        if any(getattr(o, "path", None) == path for o in operations):
            return
        if not any(SetData in map(type, getattr(o, "operations", ())) for o in operations):
            return
        cluster.tree.interfere = None  # between the read and the write of the election
        data = b'{"version":1,"leader":3,"leader_epoch":0,"controller_epoch":1,"isr":[3,2]}'
        cluster.tree.perform([SetData(path, data)])

    cluster.tree.interfere = shrink
    cluster.kill(3)
    state = cluster.state("t")
    assert (state.leader, state.isr) == (2, (2,)), "1 is not in sync any more"


def test_states_of_a_newer_controller_are_not_touched() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.create_topic("t", {0: [2]})
    data = b'{"version":1,"leader":2,"leader_epoch":9,"controller_epoch":8,"isr":[2]}'
    cluster.write(SetData(znodes.partition_state_path("t", 0), data))
    cluster.kill(2)
    assert cluster.state("t").leader_epoch == 9


def test_a_malformed_topic_is_left_alone() -> None:
    cluster = ControllerCluster([1])
    cluster.create_topic("good", {0: [1]})
    cluster.write(SetData(znodes.topic_path("good"), b"?"))
    cluster.create_topic("other", {0: [1]})
    cluster.kill(1)
    cluster.start(1)
    assert cluster.active.context.assignments.keys() == {"other"}
    assert cluster.state("other").leader == 1


def test_a_lost_disk_takes_its_replicas_offline() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.create_topic("t", {0: [2, 1]})
    answered = cluster.brokers[2].receive

    def broken(request: ControlRequest) -> object:
        response = answered(request)
        if isinstance(request, LeaderAndIsrRequest):
            assert isinstance(response, LeaderAndIsrResponse)
            topic_id = request.topic_states[0].topic_id
            error = LeaderAndIsrPartitionError(partition_index=0, error_code=56)
            response.topics = [LeaderAndIsrTopicError(topic_id=topic_id, partition_errors=[error])]
        return response

    cluster.brokers[2].answer = broken
    cluster.write(
        Create(
            f"{znodes.LOG_DIR_EVENTS}/log_dir_event_",
            znodes.encode_log_dir_event(2),
            sequential=True,
        )
    )
    assert cluster.tree.children(znodes.LOG_DIR_EVENTS) == ()
    state = cluster.state("t")
    assert (state.leader, state.isr) == (1, (1,))
    assert state_seen_by(cluster.brokers[1], "t").offline_replicas == (2,)
    partition = ("t", 0)
    assert not cluster.active.context.is_replica_online(2, partition)


def test_changed_listeners_are_told_to_all() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.take_sent()
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "elsewhere", 1)
    registration = znodes.encode_broker(BrokerRegistration(2, (endpoint,)), 0)
    cluster.write(SetData(znodes.broker_path(2), registration))
    assert cluster.brokers[1].cache.broker_endpoint(2, "PLAINTEXT") == endpoint


def test_a_broker_that_cannot_take_over_sits_out_for_a_while() -> None:
    cluster = ControllerCluster([1, 2])
    cluster.write(SetData(znodes.FEATURE, b"?"))
    cluster.delete_controller_node()
    assert not any(controller.is_active for controller in cluster.controllers.values())
    assert znodes.CONTROLLER not in cluster.tree.nodes
    waiting = [timer for timer in cluster.timers if timer.event == events.Startup()]
    assert [timer.delay_ms for timer in waiting] == [1_000, 1_000]
    cluster.write(SetData(znodes.FEATURE, znodes.encode_features({})))
    event: Any = waiting[0].event
    cluster.process(2, event)
    assert cluster.controllers[2].is_active


def test_who_has_lost_its_session_is_no_candidate_until_it_is_registered_again() -> None:
    cluster = ControllerCluster([1])
    cluster.process(1, events.SessionLost())
    cluster.tree.expire(cluster.sessions[1])
    cluster.process(1, events.NodeChanged(znodes.CONTROLLER))
    assert znodes.CONTROLLER not in cluster.tree.nodes
    cluster.process(1, events.Startup())
    assert cluster.active.context.epoch == 2


def test_elections_are_counted() -> None:
    cluster = ControllerCluster([1, 2, 3], unclean_leader_election_enable=True)
    cluster.create_topic("t", {0: [2, 3]})
    counters = cluster.active.partitions
    assert (counters.elections, counters.unclean_elections) == (0, 0)
    cluster.kill(2)
    assert (counters.elections, counters.unclean_elections) == (1, 0)
    cluster.start(2)
    cluster.kill(3)
    assert (counters.elections, counters.unclean_elections) == (2, 1)


def test_a_new_controller_elects_leaders_before_isrs_shrink() -> None:
    """Each broker is told of all it has first; no partition is told of no leader."""
    cluster = ControllerCluster([1, 2, 3])
    cluster.create_topic("t", {0: [1, 2], 1: [2, 1]})
    cluster.take_sent()
    cluster.kill(1)
    assert [line for line in cluster.take_sent() if line.startswith("2 <- ")] == [
        "2 <- UpdateMetadata alive=2,3 t-0:1/[1, 2] t-1:2/[2, 1]",
        "2 <- LeaderAndIsr t-0:leader=1 epoch=0 isr=[1, 2] t-1:leader=2 epoch=0 isr=[2, 1]",
        "2 <- UpdateMetadata alive=2,3 t-0:1/[1, 2] t-1:2/[2, 1]",
        "2 <- LeaderAndIsr t-0:leader=2 epoch=2 isr=[2]",
        "2 <- UpdateMetadata alive=2,3 t-0:2/[2]",
        "2 <- LeaderAndIsr t-0:leader=2 epoch=2 isr=[2] t-1:leader=2 epoch=1 isr=[2]",
        "2 <- UpdateMetadata alive=2,3 t-0:2/[2] t-1:2/[2]",
    ]


@pytest.mark.parametrize(
    ("replicas", "epoch", "isr"), [([1, 2], 2, (2,)), ([1, 3, 2], 3, (2,)), ([2, 1], 1, (2,))]
)
def test_a_leader_that_dies_with_the_controller(
    replicas: list[int], epoch: int, isr: tuple[int, ...]
) -> None:
    """The epochs that Apache Kafka's new controller comes to: it takes each replica that is gone
    out of the ISR, and then elects. Here that is one write, and nobody hears of a leader -1."""
    cluster = ControllerCluster([1, 2, 3])
    cluster.create_topic("both", {0: replicas})
    cluster.take_sent()
    cluster.settling = True  # until all are gone
    for broker_id in {1, *replicas} - {2}:
        cluster.kill(broker_id)
    cluster.settling = False
    cluster.settle()
    state = cluster.state("both")
    assert (state.leader, state.leader_epoch, state.isr) == (2, epoch, isr)
    assert state.controller_epoch == cluster.active.context.epoch
    assert not any("leader=-1" in line for line in cluster.take_sent())
