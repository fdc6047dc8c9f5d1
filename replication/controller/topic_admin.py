"""Topics as an administrator changes them: the znode writes of create, grow and delete.

Job: the broker that handles CreateTopics, CreatePartitions or DeleteTopics writes these nodes; the
controller sees them and does the rest. A new topic's config appears with its assignment, so that
it is there when the first replica is made.

These writes are not fenced by the controller epoch (in plain ZooKeeper mode any broker creates
topics automatically), but a topic is created only while a ZooKeeper controller exists.

Mirrors kafka.zk.AdminZkClient, which writes config and assignment one after the other.
"""

import re
from collections.abc import Mapping, Sequence

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.scala_texts import buffer_text
from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import (
    Check,
    Create,
    Exists,
    Flow,
    GetChildren,
    GetData,
    Multi,
    SetData,
    ZkError,
    create_recursive,
    expect,
    run_one,
)
from . import znodes
from .context import NO_LEADER
from .topic_import import NO_RECORDS
from .znodes import LeaderAndIsr, ReplicaAssignment, TopicAssignment

MAX_TOPIC_NAME_LENGTH = 249
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")
MAX_WRITE_ATTEMPTS = 10


def check_topic_name(name: str) -> None:
    """Kafka's rules for names, with its words."""
    if not name:
        problem = "Topic name is invalid: the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"Topic name is invalid: '{name}' is not allowed"
    elif len(name) > MAX_TOPIC_NAME_LENGTH:
        problem = (
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed "
            f"length {MAX_TOPIC_NAME_LENGTH}"
        )
    elif _LEGAL_NAME.fullmatch(name) is None:
        problem = (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        )
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)


def may_collide(name: str) -> bool:
    """Metric names turn '.' into '_', so that names with either may become the same."""
    return "." in name or "_" in name


def check_replicas(assignment: Mapping[int, Sequence[int]]) -> None:
    """A manual assignment of a new topic: 0..n-1, equal sizes, no broker twice."""
    if sorted(assignment) != list(range(len(assignment))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All partitions should have the same number of replicas",
        )
    if not assignment[0]:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition has no replicas")
    if any(len(set(replicas)) != len(replicas) for replicas in assignment.values()):
        placed = [f"{index} -> {buffer_text(ids)}" for index, ids in assignment.items()]
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Duplicate replica assignment found: HashMap({', '.join(placed)})",
        )


def check_new_topic(topic: str) -> Flow[None]:
    """KafkaError if a topic of this name, or one that collides with it, exists."""
    marked, existing = yield [
        Exists(znodes.delete_topic_path(topic)),
        Exists(znodes.topic_path(topic)),
    ]
    if marked.ok:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' is marked for deletion.")
    already = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")
    if existing.ok:
        raise already
    if may_collide(topic):
        listed = yield from run_one(GetChildren(znodes.TOPICS))
        if topic in listed.children:  # created since the first read
            raise already
        same = [t for t in listed.children if t.replace(".", "_") == topic.replace(".", "_")]
        if same:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{topic}' collides with existing topics: {', '.join(same)}",
            )


def create_topic(
    topic: str,
    topic_id: bytes | None,
    assignment: Mapping[int, Sequence[int]],
    config: Mapping[str, str],
    leader_epochs: Sequence[int] = (),
) -> Flow[None]:
    """Write config and assignment of a topic that has passed `check_new_topic`, in one step.

    No broker is notified of the config: none knows the topic yet. A config that an unfinished
    creation has left behind is replaced. With `leader_epochs` (see `topic_import`) the partitions
    have states, without a leader, and the first replica alone in the ISR.
    """
    partitions = {index: ReplicaAssignment(tuple(ids)) for index, ids in assignment.items()}
    create = Create(
        znodes.topic_path(topic), znodes.encode_topic(TopicAssignment(topic_id, partitions))
    )
    states = _states(topic, assignment, leader_epochs)
    config_path = znodes.config_path(f"topics/{topic}")
    config_data = znodes.encode_config(config)
    put_config: Create | SetData = Create(config_path, config_data)
    for _ in range(MAX_WRITE_ATTEMPTS):
        fence = yield from _controller_fence()
        result = yield from run_one(Multi((fence, put_config, create, *states)))
        if result.ok:
            return
        if not result.results:
            raise ZkError(result.code, create.path)
        put, created = (part.code for part in result.results[1:3])
        if created is ZkCode.NODE_EXISTS:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")
        if put is ZkCode.NODE_EXISTS:
            put_config = SetData(config_path, config_data)
        elif put is ZkCode.NO_NODE:
            yield from create_recursive(config_path.rpartition("/")[0])
            put_config = Create(config_path, config_data)
        else:
            expect(result, create.path, ZkCode.BAD_VERSION, ZkCode.NO_NODE)  # controller moved
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Could not write topic '{topic}'.")


def _states(
    topic: str, assignment: Mapping[int, Sequence[int]], leader_epochs: Sequence[int]
) -> list[Create]:
    made = []
    for index, epoch in enumerate(leader_epochs):
        if epoch == NO_RECORDS:
            continue
        state = LeaderAndIsr(
            leader=NO_LEADER,
            leader_epoch=epoch,
            isr=(assignment[index][0],),
            partition_epoch=0,
            controller_epoch=0,
        )
        made.append(Create(znodes.partition_path(topic, index)))
        path = znodes.partition_state_path(topic, index)
        made.append(Create(path, znodes.encode_partition_state(state)))
    return [Create(znodes.partitions_path(topic)), *made] if made else []


def _controller_fence() -> Flow[Check]:
    """A check that holds while the cluster has the ZooKeeper controller that it has now."""
    controller = yield from run_one(GetData(znodes.CONTROLLER))
    if not controller.ok or znodes.is_kraft_controller(controller.data):
        raise KafkaError(
            ErrorCode.NOT_CONTROLLER, "There is no controller in ZooKeeper at the moment."
        )
    return Check(znodes.CONTROLLER, controller.version)


def read_assignment(topic: str) -> Flow[tuple[TopicAssignment, int] | None]:
    """The assignment of a topic with the version of its node; None if there is no such topic."""
    path = znodes.topic_path(topic)
    stored = yield from run_one(GetData(path))
    if expect(stored, path, ZkCode.NO_NODE).code is ZkCode.NO_NODE:
        return None
    return znodes.decode_topic(topic, stored.data), stored.version


def add_partitions(
    topic: str, current: TopicAssignment, version: int, added: Mapping[int, Sequence[int]]
) -> Flow[None]:
    """Write the grown assignment, if the node is still as it was read."""
    partitions = dict(current.partitions)
    partitions.update({index: ReplicaAssignment(tuple(ids)) for index, ids in added.items()})
    path = znodes.topic_path(topic)
    data = znodes.encode_topic(TopicAssignment(current.topic_id, partitions))
    written = yield from run_one(SetData(path, data, version))
    if not expect(written, path, ZkCode.BAD_VERSION, ZkCode.NO_NODE).ok:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Topic '{topic}' was changed at the same time; try again.",
        )


def request_deletion(topic: str) -> Flow[None]:
    """Mark a topic for deletion; marked already is fine."""
    path = znodes.delete_topic_path(topic)
    expect((yield from run_one(Create(path))), path, ZkCode.NODE_EXISTS)
