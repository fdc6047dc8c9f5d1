"""The znode writes of topic administration, and the names that are allowed."""

from collections.abc import Callable, Sequence

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.zookeeper.operations import (
    Create,
    GetChildren,
    Multi,
    SetData,
    ZkOperation,
)
from pybroker_kafka.replication.controller import topic_admin, topic_import, znodes
from pybroker_kafka.replication.controller.topic_admin import NewTopic
from tests.support.controller_cluster import ControllerCluster

ID = b"\x07" * 16


@pytest.fixture
def cluster() -> ControllerCluster:
    return ControllerCluster([1, 2])


def create(
    cluster: ControllerCluster,
    topic: str,
    assignment: dict[int, list[int]] | None = None,
    config: dict[str, str] | None = None,
) -> None:
    for refusal in cluster.tree.run(topic_admin.check_new_topics([topic])).values():
        raise refusal
    cluster.tree.run(topic_admin.create_topic(new(topic, assignment, config)))
    cluster.settle()


def new(
    topic: str,
    assignment: dict[int, list[int]] | None = None,
    config: dict[str, str] | None = None,
    topic_id: bytes | None = ID,
) -> NewTopic:
    return NewTopic(topic, topic_id, assignment or {0: [1]}, config or {})


def fails(code: ErrorCode, call: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(KafkaError) as caught:
        call(*arguments)
    assert caught.value.code is code
    return caught.value.message or ""


def test_the_nodes_of_a_new_topic(cluster: ControllerCluster) -> None:
    create(cluster, "t", {0: [1, 2], 1: [2, 1]}, {"retention.ms": "5"})
    assert cluster.json("/config/topics/t") == {"version": 1, "config": {"retention.ms": "5"}}
    assert cluster.json("/brokers/topics/t") == {
        "version": 3,
        "partitions": {"0": [1, 2], "1": [2, 1]},
        "adding_replicas": {},
        "removing_replicas": {},
        "topic_id": "BwcHBwcHBwcHBwcHBwcHBw",
    }
    assert cluster.tree.children(znodes.CONFIG_CHANGES) == (), "a new config notifies nobody"
    assert cluster.state("t", 1).leader == 2


def test_an_existing_topic(cluster: ControllerCluster) -> None:
    create(cluster, "t")
    fails(ErrorCode.TOPIC_ALREADY_EXISTS, create, cluster, "t")
    for topic_id in (bytes(16), None):
        flow = topic_admin.create_topic(new("t", topic_id=topic_id))
        fails(ErrorCode.TOPIC_ALREADY_EXISTS, cluster.tree.run, flow)


def test_a_topic_whose_creation_was_sent_twice_is_created(cluster: ControllerCluster) -> None:
    """As after a lost connection: the first has arrived, and its answer has not."""
    for _ in range(2):
        cluster.tree.run(topic_admin.create_topic(new("t")))
        assert cluster.tree.run(topic_admin.create_topics([new("t"), new("u")])) == {}


def test_many_topics_are_written_in_few_transactions(cluster: ControllerCluster) -> None:
    written: list[int] = []

    def note(operations: Sequence[ZkOperation]) -> None:
        written.extend(len(o.operations) for o in operations if isinstance(o, Multi))

    cluster.tree.interfere = note
    topics = [new(f"t-{number}", config={"a": "b"}) for number in range(250)]
    assert cluster.tree.run(topic_admin.create_topics(topics)) == {}
    assert written == [201, 201, 101]
    written.clear()
    wide = {index: [1] for index in range(10_000)}
    topics = [new(f"wide-{number}", wide) for number in range(5)]
    assert cluster.tree.run(topic_admin.create_topics(topics)) == {}
    assert sum(written) > 10, "no request has more than ZooKeeper takes"
    assert max(written) < 10
    assert cluster.json("/brokers/topics/wide-4")["partitions"]["9999"] == [1]
    assert cluster.json("/config/topics/t-249")["config"] == {"a": "b"}


def test_a_topic_that_cannot_be_written_keeps_no_other_from_it(cluster: ControllerCluster) -> None:
    cluster.tree.perform([Create(znodes.topic_path("b")), Create("/config/topics/c", b"left")])
    errors = cluster.tree.run(topic_admin.create_topics([new("a"), new("b"), new("c")]))
    assert [(name, error.code) for name, error in errors.items()] == [
        ("b", ErrorCode.TOPIC_ALREADY_EXISTS)
    ]
    assert cluster.json("/config/topics/c")["config"] == {}
    assert cluster.json("/brokers/topics/a")["topic_id"] == "BwcHBwcHBwcHBwcHBwcHBw"


def test_only_those_that_exist_or_collide_are_refused(cluster: ControllerCluster) -> None:
    create(cluster, "a.b")
    create(cluster, "c")
    cluster.tree.perform([Create(znodes.delete_topic_path("d"))])
    asked = ["a_b", "a.c", "b", "c", "d", "e_"]
    refused = cluster.tree.run(topic_admin.check_new_topics(asked))
    assert {name: error.code for name, error in refused.items()} == {
        "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "c": ErrorCode.TOPIC_ALREADY_EXISTS,
        "d": ErrorCode.TOPIC_ALREADY_EXISTS,
    }


def test_a_topic_that_another_broker_creates_meanwhile_does_not_collide_with_itself(
    cluster: ControllerCluster,
) -> None:
    def create_first(operations: Sequence[ZkOperation]) -> None:
        if list(operations) == [GetChildren(znodes.TOPICS)]:
            cluster.tree.interfere = None
            cluster.tree.perform([Create(znodes.topic_path("a_b"))])

    cluster.tree.interfere = create_first
    fails(ErrorCode.TOPIC_ALREADY_EXISTS, create, cluster, "a_b")
    assert cluster.tree.interfere is None


def test_a_topic_that_is_being_deleted(cluster: ControllerCluster) -> None:
    cluster.tree.perform([Create(znodes.delete_topic_path("t"))])
    assert "marked for deletion" in fails(ErrorCode.TOPIC_ALREADY_EXISTS, create, cluster, "t")


def test_names_that_collide_in_metrics(cluster: ControllerCluster) -> None:
    create(cluster, "a.b_c")
    assert "a.b_c" in fails(ErrorCode.INVALID_TOPIC_EXCEPTION, create, cluster, "a_b.c")
    create(cluster, "a-b-c")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250, "a\n"])
def test_illegal_names(name: str) -> None:
    fails(ErrorCode.INVALID_TOPIC_EXCEPTION, topic_admin.check_topic_name, name)


@pytest.mark.parametrize("name", ["a", "...", "A.b_C-1", "x" * 249])
def test_legal_names(name: str) -> None:
    topic_admin.check_topic_name(name)


@pytest.mark.parametrize(
    "assignment",
    [{1: [1]}, {0: [1], 2: [1]}, {0: [1, 1]}, {0: [1], 1: [1, 2]}, {0: []}, {-1: [1], 0: [1]}],
)
def test_bad_manual_assignments(assignment: dict[int, list[int]]) -> None:
    fails(ErrorCode.INVALID_REPLICA_ASSIGNMENT, topic_admin.check_replicas, assignment)


def test_without_a_controller_nothing_is_created(cluster: ControllerCluster) -> None:
    cluster.kill(1)
    cluster.kill(2)
    flow = topic_admin.create_topic(new("t"))
    fails(ErrorCode.NOT_CONTROLLER, cluster.tree.run, flow)
    fails(ErrorCode.NOT_CONTROLLER, cluster.tree.run, topic_admin.create_topics([new("t")] * 2))
    assert "/brokers/topics/t" not in cluster.tree.nodes


def test_growing_a_topic(cluster: ControllerCluster) -> None:
    create(cluster, "t")
    found = cluster.tree.run(topic_admin.read_assignment("t"))
    assert found is not None
    current, version = found
    cluster.tree.run(topic_admin.add_partitions("t", current, version, {1: [2]}))
    cluster.settle()
    assert cluster.state("t", 1).leader == 2
    stale = topic_admin.add_partitions("t", current, version, {1: [1]})
    fails(ErrorCode.UNKNOWN_SERVER_ERROR, cluster.tree.run, stale)
    assert cluster.tree.run(topic_admin.read_assignment("ghost")) is None


def test_marking_twice_for_deletion_is_fine(cluster: ControllerCluster) -> None:
    cluster.tree.run(topic_admin.request_deletion("t"))
    cluster.tree.run(topic_admin.request_deletion("t"))
    assert cluster.tree.nodes[znodes.delete_topic_path("t")].data is None


def test_a_controller_change_in_the_middle_is_tried_again(cluster: ControllerCluster) -> None:
    def move(operations: Sequence[ZkOperation]) -> None:
        if any(type(o).__name__ == "Multi" for o in operations):
            cluster.tree.interfere = None
            data = cluster.tree.nodes[znodes.CONTROLLER].data
            cluster.tree.perform([SetData(znodes.CONTROLLER, data or b"")])

    cluster.tree.interfere = move
    cluster.tree.run(topic_admin.create_topic(new("t", config={"a": "b"})))
    assert cluster.json("/config/topics/t")["config"] == {"a": "b"}


def test_a_topic_that_is_imported_has_leaders_above_its_epochs(cluster: ControllerCluster) -> None:
    assignment = {0: [1, 2], 1: [2, 1], 2: [1, 2]}
    epochs = [4, topic_import.NO_RECORDS, 0]
    cluster.tree.run(topic_admin.create_topic(NewTopic("t", ID, assignment, {}, epochs)))
    cluster.settle()
    found = [cluster.state("t", index) for index in range(3)]
    assert [(one.leader, one.leader_epoch, one.isr) for one in found] == [
        (1, 5, (1,)), (2, 0, (2, 1)), (1, 1, (1,)),
    ]  # fmt: skip
    assert cluster.active.illegal_transitions == 0
    sent = cluster.take_sent()
    assert "1 <- LeaderAndIsr t-0:leader=1 epoch=5 isr=[1]" in " ".join(sent)


def test_what_is_imported_is_said_in_a_config_that_is_not_stored() -> None:
    wanted = topic_import.TopicImport(ID, (4, -1))
    configs = {"retention.ms": "5", topic_import.IMPORT_CONFIG: str(wanted)}
    assert topic_import.take_import(configs) == ({"retention.ms": "5"}, wanted)
    assert topic_import.take_import({"a": "b"}) == ({"a": "b"}, None)


@pytest.mark.parametrize(
    "text",
    ["", "x", "BwcHBwcHBwcHBwcHBwcHBw:", "BwcHBwcHBwcHBwcHBwcHBw:-2", "B:1",
     "AAAAAAAAAAAAAAAAAAAAAA:1", "BwcHBwcHBwcHBwcHBwcHBw:2147483647"],
)  # fmt: skip
def test_a_wrong_import(text: str) -> None:
    fails(ErrorCode.INVALID_CONFIG, topic_import.take_import, {topic_import.IMPORT_CONFIG: text})
