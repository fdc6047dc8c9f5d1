"""Topics that are deleted and moved while a node is down."""

from __future__ import annotations

from pybroker_kafka.protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pybroker_kafka.protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pybroker_kafka.protocol.apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from tests.faults.scenario import TOPIC, Scenario, case
from tests.support.audit import replicas_of


@case()
def topic_deleted_while_a_replica_is_down(scenario: Scenario) -> None:
    """The topic goes away at once; its replica on the dead node when that comes back."""
    cluster = scenario.cluster
    cluster.create_topic("doomed")
    down = scenario.follower()
    cluster.kill(down)
    cluster.wait_for(lambda: down not in cluster.brokers(), f"{down} is gone")
    cluster.ask_controller(
        DeleteTopicsRequest(topics=[DeleteTopicState(name="doomed")], timeout_ms=1000), 6
    )
    scenario.make_progress()
    assert any(name.startswith("doomed-") for name in directories(scenario, down))
    cluster.start(down)
    cluster.wait_for(
        lambda: (
            not any(
                name.startswith("doomed-")
                for node in cluster.nodes
                for name in directories(scenario, node)
            )
        ),
        "doomed is gone from every disk",
    )
    cluster.wait_for(
        lambda: "doomed" not in {topic.name for topic in cluster.metadata().topics},
        "doomed is gone from the metadata",
    )
    cluster.create_topic("doomed")
    scenario.in_sync()


def directories(scenario: Scenario, node: int) -> list[str]:
    return [name for name, nodes in replicas_of(scenario.cluster).items() if node in nodes]


def reassign(scenario: Scenario, partition: int, replicas: list[int]) -> None:
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=10_000,
        topics=[
            ReassignableTopic(
                name=TOPIC,
                partitions=[ReassignablePartition(partition_index=partition, replicas=replicas)],
            )
        ],
    )

    def accepted() -> bool:
        answer = scenario.cluster.ask_controller(request)
        code = answer.error_code or answer.responses[0].partitions[0].error_code
        scenario.cluster.tell(f"reassignment of {partition} to {replicas}: error {code}")
        return bool(code == 0)

    scenario.cluster.wait_for(accepted, "the reassignment is accepted")


def no_reassignment_left(scenario: Scenario) -> bool:
    answer = scenario.cluster.ask_controller(ListPartitionReassignmentsRequest(topics=None))
    return not answer.topics


TWO_OF_THREE = {0: [1, 2], 1: [2, 1], 2: [2, 3]}


@case(assignment=TWO_OF_THREE, topic_config={"min.insync.replicas": "1"})
def reassignment_with_the_new_replica_killed(scenario: Scenario) -> None:
    """A partition moves to a node that dies on the way: it is finished when that is back."""
    cluster = scenario.cluster
    new = 3
    cluster.pause(new)  # still registered, but it copies nothing
    reassign(scenario, 0, [new, 2])
    cluster.kill(new)
    cluster.wait_for(lambda: new not in cluster.brokers(), f"{new} is gone")
    scenario.make_progress()
    assert not no_reassignment_left(scenario)
    cluster.start(new)
    finished(scenario, 0, (new, 2))


@case(assignment=TWO_OF_THREE, topic_config={"min.insync.replicas": "1"})
def reassignment_with_the_controller_killed(scenario: Scenario) -> None:
    """The next controller reads what the last one had begun, and ends it."""
    cluster = scenario.cluster
    controller = cluster.controller()
    partition, new = (0, 3) if controller != 3 else (2, 1)
    for other in cluster.nodes:
        if other != new:
            cluster.cut(new, other)  # it copies nothing
    reassign(scenario, partition, [new, 2])
    assert not no_reassignment_left(scenario)
    cluster.kill(controller)
    cluster.wait_for(lambda: cluster.controller() != controller, "another controller")
    cluster.heal()
    cluster.start(controller)
    finished(scenario, partition, (new, 2))


def finished(scenario: Scenario, partition: int, replicas: tuple[int, ...]) -> None:
    cluster = scenario.cluster
    cluster.wait_for(lambda: no_reassignment_left(scenario), "the reassignment is finished")
    cluster.wait_for(
        lambda: cluster.partitions(TOPIC)[partition].replicas == replicas, f"it is on {replicas}"
    )
    scenario.in_sync()
    name = f"{TOPIC}-{partition}"
    cluster.wait_for(
        lambda: set(replicas_of(cluster)[name]) == set(replicas), "the old replica is deleted"
    )
    scenario.make_progress()
