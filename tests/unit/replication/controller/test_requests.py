"""AlterPartition check by check, controlled shutdown, producer ids, elections, rebalancing."""

from collections.abc import Sequence
from typing import Any

import pytest

from pybroker_kafka.protocol.apis.allocate_producer_ids import AllocateProducerIdsRequest
from pybroker_kafka.protocol.apis.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from pybroker_kafka.protocol.apis.controlled_shutdown import ControlledShutdownRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.topics import TopicPartition
from pybroker_kafka.protocol.zookeeper.operations import Create, SetData, ZkOperation
from pybroker_kafka.replication.controller import events, znodes
from pybroker_kafka.replication.controller.requests import ElectionResult
from tests.support.controller_cluster import ControllerCluster

T0 = ("t", 0)


def epoch_of(cluster: ControllerCluster, broker_id: int) -> int:
    return cluster.tree.nodes[znodes.broker_path(broker_id)].czxid


def alter(
    cluster: ControllerCluster,
    isr: Sequence[int],
    *,
    version: int = 3,
    leader: int = 1,
    **changes: Any,
) -> Any:
    """An AlterPartition of t-0 by its leader, as asked, with its answer for the partition."""
    state = cluster.state("t")
    asked = AlterPartitionRequestPartitionData(
        partition_index=changes.get("partition", 0),
        leader_epoch=changes.get("leader_epoch", state.leader_epoch),
        partition_epoch=changes.get("partition_epoch", state.partition_epoch),
        leader_recovery_state=changes.get("recovery", 0),
    )
    if version >= 3:
        asked.new_isr_with_epochs = [
            BrokerState(broker_id=b, broker_epoch=changes.get("member_epoch", -1)) for b in isr
        ]
    else:
        asked.new_isr = list(isr)
    topic = AlterPartitionRequestTopicData(partitions=[asked])
    if version >= 2:
        topic.topic_id = changes.get("topic_id", cluster.active.context.topic_id("t"))
    else:
        topic.topic_name = "t"
    request = AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=changes.get("broker_epoch", epoch_of(cluster, leader) if leader < 9 else 0),
        topics=[topic],
    )
    response = cluster.ask(events.AlterPartition, request, version)
    if response.error_code:
        return response.error_code
    (answered_topic,) = response.topics
    (answer,) = answered_topic.partitions
    return answer.error_code or (answer.leader_id, answer.isr, answer.partition_epoch)


@pytest.fixture
def cluster() -> ControllerCluster:
    cluster = ControllerCluster([1, 2, 3])
    cluster.create_topic("t", {0: [1, 2]})
    return cluster


@pytest.mark.parametrize("member_epoch", [-1, 0, 10**9])
def test_broker_epochs_of_members_do_not_matter(
    cluster: ControllerCluster, member_epoch: int
) -> None:
    assert alter(cluster, [1], member_epoch=member_epoch) == (1, [1], 1)
    assert alter(cluster, [1, 2], member_epoch=member_epoch) == (1, [1, 2], 2)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_the_isr_shrinks_and_grows(cluster: ControllerCluster, version: int) -> None:
    cluster.take_sent()
    assert alter(cluster, [1], version=version) == (1, [1], 1)
    assert cluster.state("t").isr == (1,)
    assert cluster.state("t").leader_epoch == 0, "the leader epoch is not touched"
    assert cluster.take_sent() == [
        f"{b} <- UpdateMetadata alive=1,2,3 t-0:1/[1]" for b in (1, 2, 3)
    ]
    assert alter(cluster, [1, 2], version=version) == (1, [1, 2], 2)


def test_repeating_a_change_that_was_made_succeeds(cluster: ControllerCluster) -> None:
    assert alter(cluster, [1]) == (1, [1], 1)
    cluster.take_sent()
    assert alter(cluster, [1], partition_epoch=0) == (1, [1], 1)
    assert cluster.take_sent() == []


@pytest.mark.parametrize(
    ("isr", "changes", "code"),
    [
        ([1], {"broker_epoch": 1}, ErrorCode.STALE_BROKER_EPOCH),
        ([1], {"leader": 9}, ErrorCode.STALE_BROKER_EPOCH),
        ([1], {"topic_id": b"x" * 16}, ErrorCode.UNKNOWN_TOPIC_ID),
        ([1], {"partition": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1], {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ([1], {"partition_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ([1], {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ([1], {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ([1, 2], {"recovery": 1}, ErrorCode.INVALID_REQUEST),
        ([1], {"recovery": 1}, ErrorCode.INVALID_REQUEST),
        ([2], {}, ErrorCode.INVALID_REQUEST),
        ([2, 1], {"leader": 2}, ErrorCode.INVALID_REQUEST),
        ([1, 3], {}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused_changes_change_nothing(
    cluster: ControllerCluster, isr: list[int], changes: dict[str, Any], code: ErrorCode
) -> None:
    before = cluster.state("t")
    assert alter(cluster, isr, **changes) == code
    assert cluster.state("t") == before


@pytest.mark.parametrize(
    ("version", "code"),
    [(1, ErrorCode.OPERATION_NOT_ATTEMPTED), (3, ErrorCode.INELIGIBLE_REPLICA)],
)
def test_a_broker_that_shuts_down_cannot_join_the_isr(
    cluster: ControllerCluster, version: int, code: ErrorCode
) -> None:
    alter(cluster, [1])
    request = ControlledShutdownRequest(broker_id=2, broker_epoch=epoch_of(cluster, 2))
    cluster.ask(events.ControlledShutdown, request)
    assert alter(cluster, [1, 2], version=version) == code


def test_a_conflict_in_zookeeper_is_reported(cluster: ControllerCluster) -> None:
    path = znodes.partition_state_path("t", 0)
    data = b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1,2]}'
    cluster.tree.perform([SetData(path, data)])
    assert alter(cluster, [1], partition_epoch=0) == ErrorCode.INVALID_UPDATE_VERSION
    assert alter(cluster, [1], partition_epoch=1) == (1, [1], 2), "the state was read again"


def test_an_own_write_whose_answer_was_lost_counts(cluster: ControllerCluster) -> None:
    path = znodes.partition_state_path("t", 0)
    data = b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[1]}'
    cluster.tree.perform([SetData(path, data)])
    assert alter(cluster, [1], partition_epoch=0) == (1, [1], 1)


def test_only_the_controller_answers(cluster: ControllerCluster) -> None:
    (other,) = {2, 3} - {i for i, c in cluster.controllers.items() if c.is_active} - {3}
    asked: list[events.AlterPartition | events.ControlledShutdown | events.AllocateProducerIds] = [
        events.AlterPartition("a", AlterPartitionRequest(), 3),
        events.ControlledShutdown("c", ControlledShutdownRequest()),
        events.AllocateProducerIds("p", AllocateProducerIdsRequest()),
    ]
    for event in asked:
        cluster.process(other, event)
        code = cluster.replies[event.token].error_code
        stops = isinstance(event, events.ControlledShutdown)
        assert code == (ErrorCode.STALE_CONTROLLER_EPOCH if stops else ErrorCode.NOT_CONTROLLER)
    cluster.process(other, events.ElectLeaders("e", (T0,), False))
    assert cluster.replies["e"] == {T0: ElectionResult(ErrorCode.NOT_CONTROLLER)}


def test_a_request_is_answered_when_the_controller_moves_in_the_middle(
    cluster: ControllerCluster,
) -> None:
    def replaced(operations: Sequence[ZkOperation]) -> None:
        cluster.tree.interfere = None
        cluster.tree.perform([SetData(znodes.CONTROLLER_EPOCH, b"2")])

    cluster.tree.interfere = replaced
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=epoch_of(cluster, 1),
        topics=[
            AlterPartitionRequestTopicData(
                topic_id=cluster.active.context.topic_id("t"),
                partitions=[
                    AlterPartitionRequestPartitionData(
                        new_isr_with_epochs=[BrokerState(broker_id=1)]
                    )
                ],
            )
        ],
    )
    cluster.process(1, events.AlterPartition("a", request, 3))
    assert cluster.replies["a"].error_code == ErrorCode.NOT_CONTROLLER
    assert cluster.state("t").isr == (1, 2)


# Controlled shutdown


def test_leaderships_move_before_a_broker_goes(cluster: ControllerCluster) -> None:
    cluster.create_topic("follows", {0: [2, 1]})
    cluster.create_topic("alone", {0: [1]})
    cluster.take_sent()
    request = ControlledShutdownRequest(broker_id=1, broker_epoch=epoch_of(cluster, 1))
    response = cluster.ask(events.ControlledShutdown, request)
    assert (response.error_code, response.remaining_partitions) == (ErrorCode.NONE, [])
    moved = cluster.state("t")
    assert (moved.leader, moved.isr, moved.leader_epoch) == (2, (2,), 1)
    followed = cluster.state("follows")
    assert (followed.leader, followed.isr) == (2, (2,))
    assert cluster.state("alone").leader == 1, "nobody else could lead it"
    assert "1 <- StopReplica follows-0:epoch=0" in cluster.take_sent()


def test_what_nobody_else_can_lead_remains(cluster: ControllerCluster) -> None:
    alter(cluster, [1])
    request = ControlledShutdownRequest(broker_id=1, broker_epoch=-1)
    response = cluster.ask(events.ControlledShutdown, request)
    (remaining,) = response.remaining_partitions
    assert (remaining.topic_name, remaining.partition_index) == ("t", 0)


@pytest.mark.parametrize(
    ("broker_id", "epoch", "code"),
    [(1, 0, ErrorCode.STALE_BROKER_EPOCH), (8, -1, ErrorCode.BROKER_NOT_AVAILABLE)],
)
def test_a_shutdown_by_the_wrong_broker(
    cluster: ControllerCluster, broker_id: int, epoch: int, code: ErrorCode
) -> None:
    request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=epoch)
    assert cluster.ask(events.ControlledShutdown, request).error_code == code


# Producer ids


def test_blocks_of_producer_ids_never_overlap(cluster: ControllerCluster) -> None:
    def allocate(broker_id: int) -> tuple[int, int]:
        request = AllocateProducerIdsRequest(
            broker_id=broker_id, broker_epoch=epoch_of(cluster, broker_id)
        )
        response = cluster.ask(events.AllocateProducerIds, request)
        return response.producer_id_start, response.producer_id_len

    assert [allocate(1), allocate(2), allocate(1)] == [(0, 1000), (1000, 1000), (2000, 1000)]
    assert cluster.json(znodes.PRODUCER_ID_BLOCK) == {
        "version": 1,
        "broker": 1,
        "block_start": "2000",
        "block_end": "2999",
    }


@pytest.mark.parametrize(
    ("broker_id", "code"),
    [(1, ErrorCode.STALE_BROKER_EPOCH), (8, ErrorCode.BROKER_ID_NOT_REGISTERED)],
)
def test_producer_ids_for_the_wrong_broker(
    cluster: ControllerCluster, broker_id: int, code: ErrorCode
) -> None:
    request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=0)
    assert cluster.ask(events.AllocateProducerIds, request).error_code == code


# Elections


def elect(cluster: ControllerCluster, *partitions: TopicPartition, unclean: bool = False) -> Any:
    return cluster.ask(events.ElectLeaders, partitions or None, unclean)


def test_preferred_election(cluster: ControllerCluster) -> None:
    cluster.create_topic("u", {0: [2, 1]})
    cluster.kill(2)
    cluster.start(2)
    u0 = ("u", 0)
    unavailable = ElectionResult(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    assert elect(cluster, u0) == {u0: unavailable}, "2 is alive, but not in the ISR"
    data = b'{"version":1,"leader":1,"leader_epoch":1,"controller_epoch":1,"isr":[1,2]}'
    cluster.tree.perform([SetData(znodes.partition_state_path("u", 0), data)])
    assert elect(cluster, u0) == {u0: ElectionResult(leader=2)}
    assert (cluster.state("u").leader, cluster.state("u").isr) == (2, (1, 2))
    assert elect(cluster, u0) == {u0: ElectionResult(ErrorCode.ELECTION_NOT_NEEDED)}
    ghost = ("ghost", 0)
    unknown = ElectionResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert elect(cluster, ghost) == {ghost: unknown}
    assert set(elect(cluster)) == {T0, u0}


def test_unclean_election_on_request(cluster: ControllerCluster) -> None:
    cluster.create_topic("u", {0: [2, 3]})
    cluster.kill(3)
    cluster.start(3)
    u0 = ("u", 0)
    assert elect(cluster, u0, unclean=True) == {u0: ElectionResult(ErrorCode.ELECTION_NOT_NEEDED)}
    cluster.kill(2)
    assert cluster.state("u").leader == -1
    assert elect(cluster, u0, unclean=True) == {u0: ElectionResult(leader=3)}
    assert cluster.state("u").leader_recovery_state == znodes.RECOVERING
    cluster.kill(3)
    none_left = ElectionResult(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    assert elect(cluster, u0, unclean=True) == {u0: none_left}


def test_elections_that_fail_say_why(cluster: ControllerCluster) -> None:
    """In Kafka's words, which its tools print."""
    cluster.create_topic("u", {0: [2, 1]})

    def told(partition: TopicPartition, *, unclean: bool = False) -> str | None:
        message: str | None = elect(cluster, partition, unclean=unclean)[partition].message
        return message

    u0 = ("u", 0)
    assert told(u0) == "Leader election not needed for topic partition."
    assert told(("ghost", 0)) == "The partition does not exist."
    cluster.kill(2)
    failed = "Failed to elect leader for partition u-0 under strategy "
    assert told(u0) == f"{failed}PreferredReplicaPartitionLeaderElectionStrategy"
    cluster.kill(1)
    assert told(u0, unclean=True) == f"{failed}OfflinePartitionLeaderElectionStrategy(true)"


def test_allowing_unclean_election_later_elects_at_once(cluster: ControllerCluster) -> None:
    cluster.create_topic("u", {0: [2, 3]})
    cluster.kill(3)
    cluster.start(3)
    cluster.kill(2)
    allowed = znodes.encode_config({"unclean.leader.election.enable": "true"})
    cluster.write(SetData("/config/topics/u", allowed))
    assert cluster.state("u").leader == -1
    cluster.process(1, events.UncleanElectionEnabled("u"))
    assert cluster.state("u").leader == 3


def test_the_legacy_node_for_preferred_elections(cluster: ControllerCluster) -> None:
    cluster.create_topic("u", {0: [2, 1]})
    state = b'{"version":1,"leader":1,"leader_epoch":0,"controller_epoch":1,"isr":[2,1]}'
    cluster.tree.perform([SetData(znodes.partition_state_path("u", 0), state)])
    cluster.active.context.leadership[("u", 0)] = cluster.state("u")
    wanted = b'{"version":1,"partitions":[{"topic":"u","partition":0}]}'
    cluster.write(Create(znodes.PREFERRED_ELECTION, wanted))
    assert cluster.state("u").leader == 2
    assert znodes.PREFERRED_ELECTION not in cluster.tree.nodes
    cluster.write(Create(znodes.PREFERRED_ELECTION, b"?"))
    assert znodes.PREFERRED_ELECTION not in cluster.tree.nodes


def test_leadership_goes_back_when_a_broker_is_short_of_it() -> None:
    cluster = ControllerCluster([1, 2])
    (first,) = cluster.timers
    assert (first.delay_ms, first.event) == (5_000, events.AutoRebalance())
    cluster.create_topic("t", {0: [2, 1], 1: [1, 2]})
    cluster.kill(2)
    cluster.start(2)
    path = znodes.partition_state_path("t", 0)
    data = b'{"version":1,"leader":1,"leader_epoch":1,"controller_epoch":1,"isr":[1,2]}'
    cluster.tree.perform([SetData(path, data)])
    cluster.active.context.leadership[T0] = cluster.state("t")
    event: Any = first.event
    cluster.process(1, event)
    assert cluster.state("t").leader == 2
    assert cluster.timers[1:]
    assert cluster.timers[1].delay_ms == 300_000


def test_little_imbalance_is_left_alone() -> None:
    cluster = ControllerCluster([1, 2], leader_imbalance_per_broker_percentage=50)
    cluster.create_topic("t", {0: [2, 1], 1: [2, 1]})
    path = znodes.partition_state_path("t", 0)
    data = b'{"version":1,"leader":1,"leader_epoch":1,"controller_epoch":1,"isr":[1,2]}'
    cluster.tree.perform([SetData(path, data)])
    cluster.active.context.leadership[T0] = cluster.state("t")
    cluster.process(1, events.AutoRebalance())
    assert cluster.state("t").leader == 1
