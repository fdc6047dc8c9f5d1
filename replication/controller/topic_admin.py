"""Topics as an administrator changes them: the znode writes of create, grow and delete.

Job: the broker that handles CreateTopics, CreatePartitions or DeleteTopics writes these nodes; the
controller sees them and does the rest. A new topic's config appears with its assignment, so that
it is there when the first replica is made.

These writes are not fenced by the controller epoch (in plain ZooKeeper mode any broker creates
topics automatically), but a topic is created only while a ZooKeeper controller exists.

Mirrors kafka.zk.AdminZkClient, which writes config and assignment one after the other, and each
topic of a request after the one before.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

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
GROUP_TOPICS = 100  # are created in one transaction
GROUP_BYTES = 500_000  # of ZooKeeper's limit of a request, 1 MiB
NODE_BYTES = 400  # of a topic in a request, beside its data

TopicError: TypeAlias = KafkaError | ZkError


class NewTopic(NamedTuple):
    """A topic that has passed `check_new_topics`; its partitions by index."""

    name: str
    topic_id: bytes | None
    assignment: Mapping[int, Sequence[int]]
    config: Mapping[str, str]
    leader_epochs: Sequence[int] = ()  # by partition, of an imported topic


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


def metric_name(name: str) -> str:
    return name.replace(".", "_")


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


def check_new_topics(topics: Sequence[str]) -> Flow[dict[str, KafkaError]]:
    """The refusals of topics that exist, or collide with one that does. None of `topics` may
    collide with another of them.
    """
    results = yield [
        Exists(path)
        for topic in topics
        for path in (znodes.delete_topic_path(topic), znodes.topic_path(topic))
    ]
    refused: dict[str, KafkaError] = {}
    for topic, marked, existing in zip(topics, results[::2], results[1::2], strict=True):
        if marked.ok:
            refused[topic] = KafkaError(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' is marked for deletion."
            )
        elif existing.ok:
            refused[topic] = _already_exists(topic)
    names = {metric_name(t): t for t in topics if may_collide(t) and t not in refused}
    if names:
        listed = yield from run_one(GetChildren(znodes.TOPICS))
        refused |= _collisions(names, listed.children)
    return refused


def _collisions(names: Mapping[str, str], existing: Iterable[str]) -> dict[str, KafkaError]:
    """`names`: of new topics, by the names of their metrics."""
    same: dict[str, list[str]] = {}
    for other in existing:
        if (topic := names.get(metric_name(other))) is not None:
            same.setdefault(topic, []).append(other)
    return {
        topic: _already_exists(topic)  # created since the first read
        if topic in others
        else KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{topic}' collides with existing topics: {', '.join(others)}",
        )
        for topic, others in same.items()
    }


def _already_exists(topic: str) -> KafkaError:
    return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic}' already exists.")


def create_topics(topics: Sequence[NewTopic]) -> Flow[dict[str, TopicError]]:
    """Write topics in groups that cost one transaction each; a group that fails is written topic
    by topic. Returns the errors by topic.
    """
    groups = list(_groups(topics))
    failed = [topic for group in groups if len(group) == 1 for topic in group]
    groups = [group for group in groups if len(group) > 1]
    if groups:
        fence = yield from _controller_fence()
        results = yield [
            Multi((fence, *(create for topic in group for create in _nodes(topic))))
            for group in groups
        ]
        for group, result in zip(groups, results, strict=True):
            if not result.ok:
                failed += group
    errors: dict[str, TopicError] = {}
    for topic in failed:
        try:
            yield from create_topic(topic)
        except (KafkaError, ZkError) as error:
            errors[topic.name] = error.with_traceback(None)  # no cycle with this frame
    return errors


def _groups(topics: Iterable[NewTopic]) -> Iterable[list[NewTopic]]:
    group: list[NewTopic] = []
    size = 0
    for topic in topics:
        size_of_topic = NODE_BYTES + sum(len(node.data or b"") for node in _nodes(topic))
        if group and (size + size_of_topic > GROUP_BYTES or len(group) >= GROUP_TOPICS):
            yield group
            group, size = [], 0
        group.append(topic)
        size += size_of_topic
    if group:
        yield group


def _nodes(topic: NewTopic) -> tuple[Create, ...]:
    """The nodes of its config, of its assignment, and of the states that it brings along."""
    partitions = {index: ReplicaAssignment(tuple(ids)) for index, ids in topic.assignment.items()}
    assignment = znodes.encode_topic(TopicAssignment(topic.topic_id, partitions))
    return (
        Create(znodes.config_path(f"topics/{topic.name}"), znodes.encode_config(topic.config)),
        Create(znodes.topic_path(topic.name), assignment),
        *_states(topic.name, topic.assignment, topic.leader_epochs),
    )


def create_topic(topic: NewTopic) -> Flow[None]:
    """Write config and assignment, in one step.

    No broker is notified of the config: none knows the topic yet. A config that an unfinished
    creation has left behind is replaced. What a lost connection has let arrive before is ours. With
    leader epochs (see `topic_import`) the partitions have states, without a leader, and the first
    replica alone in the ISR.
    """
    config, assignment, *states = _nodes(topic)
    put_config: Create | SetData = config
    for _ in range(MAX_WRITE_ATTEMPTS):
        fence = yield from _controller_fence()
        result = yield from run_one(Multi((fence, put_config, assignment, *states)))
        if result.ok:
            return
        if not result.results:
            raise ZkError(result.code, assignment.path)
        put, created = (part.code for part in result.results[1:3])
        if created is ZkCode.NODE_EXISTS or put is ZkCode.NODE_EXISTS:
            stored = yield from run_one(GetData(assignment.path))
            if stored.ok and topic.topic_id is not None and stored.data == assignment.data:
                return
            if stored.ok:
                raise _already_exists(topic.name)
            put_config = SetData(config.path, config.data or b"")
        elif put is ZkCode.NO_NODE:
            yield from create_recursive(config.path.rpartition("/")[0])
            put_config = config
        else:
            expect(result, assignment.path, ZkCode.BAD_VERSION, ZkCode.NO_NODE)  # controller moved
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Could not write topic '{topic.name}'.")


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
