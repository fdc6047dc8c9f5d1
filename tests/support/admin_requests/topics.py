"""CreateTopics, CreatePartitions and DeleteTopics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pybroker_kafka.protocol.apis.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pybroker_kafka.protocol.apis.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pybroker_kafka.protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pybroker_kafka.protocol.uuids import ZERO_UUID
from tests.support.admin_requests.cases import LONG_NAME, TIMEOUT_MS, UNKNOWN_ID, Case

# CreateTopics


def creation(*topics: CreatableTopic, validate_only: bool = True) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=list(topics), timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )


def new(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    configs: Mapping[str, str | None] | None = None,
    assignments: Mapping[int, Sequence[int]] | Sequence[tuple[int, Sequence[int]]] = (),
) -> CreatableTopic:
    pairs = assignments.items() if isinstance(assignments, Mapping) else assignments
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
            for index, ids in pairs
        ],
    )


def placed(name: str, *pairs: tuple[int, Sequence[int]]) -> CreatableTopic:
    return new(name, -1, -1, assignments=list(pairs))


SINCE_VALIDATION = (1, 1000)
NEW_TOPICS: dict[str, list[CreatableTopic]] = {
        "create nothing": [],
        "create valid": [new("fresh", 3)],
        "create defaults": [new("fresh", -1, -1)],
        "create existing": [new("known")],
        "create colliding": [new("with_dot")],
        "create without a name": [new("")],
        "create dot": [new(".")],
        "create dots": [new("..")],
        "create long name": [new(LONG_NAME)],
        "create odd name": [new("a b")],
        "create other odd name": [new("\u00e4/%")],
        "create metadata topic": [new("__cluster_metadata")],
        "create twice": [new("twice"), new("twice")],
        "create no partitions": [new("fresh", 0)],
        "create fewer partitions": [new("fresh", -2)],
        "create no replicas": [new("fresh", 1, 0)],
        "create fewer replicas": [new("fresh", 1, -2)],
        "create many replicas": [new("fresh", 1, 3)],
        "create placed": [placed("fresh", (0, [1]), (1, [1]))],
        "create placed and counted": [new("fresh", 1, 1, assignments={0: [1]})],
        "create placed and replicated": [new("fresh", -1, 1, assignments={0: [1]})],
        "create placed on nothing": [placed("fresh", (0, []))],
        "create placed elsewhere": [placed("fresh", (0, [7]))],
        "create placed on two elsewhere": [placed("fresh", (0, [7, 8]))],
        "create placed twice on one": [placed("fresh", (0, [1, 1]))],
        "create placed with a gap": [placed("fresh", (0, [1]), (2, [1]))],
        "create placed from one": [placed("fresh", (1, [1]))],
        "create placed below": [placed("fresh", (-1, [1]))],
        "create placed on negative": [placed("fresh", (0, [-1]))],
        "create placed unevenly": [placed("fresh", (0, [1]), (1, [1, 2]))],
        "create partition placed twice": [placed("fresh", (0, [1]), (0, [1]))],
        "create unknown config": [new("fresh", configs={"no.such": "1"})],
        "create null config": [new("fresh", configs={"retention.ms": None})],
        "create null configs": [new("fresh", configs={"retention.ms": None, "segment.ms": None})],
        "create empty config": [new("fresh", configs={"retention.ms": ""})],
        "create bad number": [new("fresh", configs={"retention.ms": "soon"})],
        "create low number": [new("fresh", configs={"segment.bytes": "1"})],
        "create bad choice": [new("fresh", configs={"cleanup.policy": "burn"})],
        "create bad boolean": [new("fresh", configs={"preallocate": "perhaps"})],
        "create bad double": [new("fresh", configs={"min.cleanable.dirty.ratio": "2"})],
        "create bad compression": [new("fresh", configs={"compression.type": "rar"})],
        "create bad level": [new("fresh", configs={"compression.gzip.level": "77"})],
        "create bad throttle": [
            new("fresh", configs={"leader.replication.throttled.replicas": "0:x"})],
        "create compaction backwards": [
            new("fresh", configs={"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "3"})],
        "create remote": [new("fresh", configs={"remote.storage.enable": "true"})],
        "create local beyond": [
            new("fresh", configs={"local.retention.ms": "20", "retention.ms": "10"})],
        "create local bytes beyond": [
            new("fresh", configs={"local.retention.bytes": "20", "retention.bytes": "10"})],
        "create bad version": [new("fresh", configs={"message.format.version": "9.9"})],
        "create bad timestamps": [new("fresh", configs={"message.timestamp.type": "Birth"})],
        "create duplicate config": [CreatableTopic(
            name="fresh", num_partitions=1, replication_factor=1, configs=[
                CreatableTopicConfig(name="retention.ms", value="1"),
                CreatableTopicConfig(name="retention.ms", value="2")])],
    }  # fmt: skip
CREATE_TOPICS = [
    Case("create", creation(new("known", 2), validate_only=False), (7, 7)),
    Case("create with dots", creation(new("with.dot"), validate_only=False), (7, 7)),
    Case("create with configs", creation(
        new("configured", 1, 1, {"retention.ms": "1000", "cleanup.policy": "compact"}),
        validate_only=False), (7, 7)),
    *(Case(name, creation(*topics), SINCE_VALIDATION) for name, topics in NEW_TOPICS.items()),
]  # fmt: skip


# CreatePartitions


def growth(*topics: tuple[str, int, Sequence[Sequence[int]] | None]) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if placed is None
                else [CreatePartitionsAssignment(broker_ids=list(ids)) for ids in placed],
            )
            for name, count, placed in topics
        ],
        timeout_ms=TIMEOUT_MS,
        validate_only=True,
    )


GROWTHS: dict[str, list[tuple[str, int, Sequence[Sequence[int]] | None]]] = {
    "nothing": [],
    "valid": [("known", 3, None)],
    "to the same": [("known", 2, None)],
    "to fewer": [("known", 1, None)],
    "to none": [("known", 0, None)],
    "to negative": [("known", -1, None)],
    "unknown": [("unknown", 3, None)],
    "without a name": [("", 3, None)],
    "illegal name": [("a b", 3, None)],
    "twice": [("known", 3, None), ("known", 4, None)],
    "placed": [("known", 3, [[1]])],
    "placed nowhere": [("known", 3, [])],
    "placed on nothing": [("known", 3, [[]])],
    "placed too few": [("known", 4, [[1]])],
    "placed too many": [("known", 3, [[1], [1]])],
    "placed elsewhere": [("known", 3, [[7]])],
    "placed on more elsewhere": [("known", 4, [[7, 8], [9, 1]])],
    "placed twice on one": [("known", 3, [[1, 1]])],
    "placed unevenly": [("known", 4, [[1], [1, 2]])],
    "placed on more": [("known", 3, [[1, 2]])],
    "placed and smaller": [("known", 1, [[1]])],
}
CREATE_PARTITIONS = [
    Case(f"grow {name}", growth(*topics)) for name, topics in GROWTHS.items()
]  # fmt: skip


# DeleteTopics


def by_name(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=list(names),
        timeout_ms=TIMEOUT_MS,
    )


def by_id(*pairs: tuple[str | None, bytes]) -> DeleteTopicsRequest:
    topics = [DeleteTopicState(name=name, topic_id=id_) for name, id_ in pairs]
    return DeleteTopicsRequest(topics=topics, timeout_ms=TIMEOUT_MS)


DELETE_TOPICS = [
    Case("delete nothing", by_name()),
    Case("delete unknown", by_name("unknown")),
    Case("delete without a name", by_name("")),
    Case("delete illegal", by_name("a b", "..")),
    Case("delete twice", by_name("unknown", "unknown")),
    Case("delete by unknown id", by_id((None, UNKNOWN_ID)), (6, 6)),
    Case("delete by both", by_id(("known", UNKNOWN_ID)), (6, 6)),
    Case("delete by neither", by_id((None, ZERO_UUID)), (6, 6)),
    Case("delete by unknown id twice", by_id((None, UNKNOWN_ID), (None, UNKNOWN_ID)), (6, 6)),
    Case("delete", by_name("with.dot"), (6, 6)),
]
