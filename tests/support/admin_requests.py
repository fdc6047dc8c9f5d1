"""Requests of administration, valid and invalid ones, for two brokers of different makes.

Job: a table of requests in the order in which both are asked; each is sent in every version that a
broker serves, unless it says otherwise. What a request changes, the next ones see.
Invariants: one broker with the id 1 and two log directories; no request depends on time. An
answer is compared whole, with its texts: `said` leaves out what no two brokers have in common.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pybroker_kafka.protocol.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from pybroker_kafka.protocol.apis.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
)
from pybroker_kafka.protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pybroker_kafka.protocol.apis.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pybroker_kafka.protocol.apis.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from pybroker_kafka.protocol.apis.create_acls import AclCreation, CreateAclsRequest
from pybroker_kafka.protocol.apis.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
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
from pybroker_kafka.protocol.apis.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pybroker_kafka.protocol.apis.delete_groups import DeleteGroupsRequest
from pybroker_kafka.protocol.apis.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pybroker_kafka.protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pybroker_kafka.protocol.apis.describe_acls import DescribeAclsRequest
from pybroker_kafka.protocol.apis.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from pybroker_kafka.protocol.apis.describe_cluster import DescribeClusterRequest
from pybroker_kafka.protocol.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pybroker_kafka.protocol.apis.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from pybroker_kafka.protocol.apis.describe_groups import DescribeGroupsRequest
from pybroker_kafka.protocol.apis.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from pybroker_kafka.protocol.apis.describe_producers import DescribeProducersRequest, TopicRequest
from pybroker_kafka.protocol.apis.describe_transactions import DescribeTransactionsRequest
from pybroker_kafka.protocol.apis.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from pybroker_kafka.protocol.apis.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
)
from pybroker_kafka.protocol.apis.expire_delegation_token import ExpireDelegationTokenRequest
from pybroker_kafka.protocol.apis.find_coordinator import FindCoordinatorRequest
from pybroker_kafka.protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from pybroker_kafka.protocol.apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from pybroker_kafka.protocol.apis.list_transactions import ListTransactionsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pybroker_kafka.protocol.apis.renew_delegation_token import RenewDelegationTokenRequest
from pybroker_kafka.protocol.apis.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from pybroker_kafka.protocol.schema import Message, Struct, version_range
from pybroker_kafka.protocol.uuids import ZERO_UUID

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
TIMEOUT_MS = 15_000
UNKNOWN_ID = b"\x07" * 16
LONG_NAME = "n" * 250


class Case(NamedTuple):
    """`versions` are the first and the last; `user` asks over the connection that is logged in."""

    name: str
    request: Message
    versions: tuple[int, int] = (0, 1000)
    user: bool = False


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


# Configs


def whole(
    kind: int, name: str, configs: Mapping[str, str | None], validate_only: bool = True
) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        resources=[
            AlterConfigsRequestAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    AlterConfigsRequestAlterableConfig(name=key, value=value)
                    for key, value in configs.items()
                ],
            )
        ],
        validate_only=validate_only,
    )


def incremental(
    kind: int, name: str, *changes: tuple[int, str, str | None], validate_only: bool = True
) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsRequestAlterableConfig(
                        name=key, config_operation=operation, value=value
                    )
                    for operation, key, value in changes
                ],
            )
        ],
        validate_only=validate_only,
    )


def twice(request: Any) -> Any:
    request.resources = request.resources * 2
    return request


Configs = tuple[int, str, dict[str, str | None]]
CONFIGS: dict[str, Configs] = {
    "topic": (TOPIC, "known", {"retention.ms": "5"}),
    "topic, nothing": (TOPIC, "known", {}),
    "topic, unknown key": (TOPIC, "known", {"no.such": "1"}),
    "topic, bad number": (TOPIC, "known", {"retention.ms": "soon"}),
    "topic, empty number": (TOPIC, "known", {"retention.ms": ""}),
    "topic, low number": (TOPIC, "known", {"segment.bytes": "1"}),
    "topic, bad choice": (TOPIC, "known", {"cleanup.policy": "burn"}),
    "topic, bad boolean": (TOPIC, "known", {"preallocate": "perhaps"}),
    "topic, bad ratio": (TOPIC, "known", {"min.cleanable.dirty.ratio": "x"}),
    "topic, high ratio": (TOPIC, "known", {"min.cleanable.dirty.ratio": "2"}),
    "topic, bad compression": (TOPIC, "known", {"compression.type": "rar"}),
    "topic, bad level": (TOPIC, "known", {"compression.gzip.level": "77"}),
    "topic, bad throttle": (TOPIC, "known", {"follower.replication.throttled.replicas": "0:x"}),
    "topic, null": (TOPIC, "known", {"retention.ms": None}),
    "topic, nulls": (TOPIC, "known", {"retention.ms": None, "segment.ms": None}),
    "topic, compaction backwards": (
        TOPIC, "known", {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "3"}),
    "topic, local beyond": (TOPIC, "known", {"local.retention.ms": "9", "retention.ms": "3"}),
    "topic, remote": (TOPIC, "known", {"remote.storage.enable": "true"}),
    "topic, remote copies": (TOPIC, "known", {"remote.log.copy.disable": "true"}),
    "topic, remote deletion": (TOPIC, "known", {"remote.log.delete.on.disable": "true"}),
    "topic, bad version": (TOPIC, "known", {"message.format.version": "9.9"}),
    "topic that is unknown": (TOPIC, "unknown", {"retention.ms": "5"}),
    "topic with an illegal name": (TOPIC, "a b", {"retention.ms": "5"}),
    "topic without a name": (TOPIC, "", {"retention.ms": "5"}),
    "broker": (BROKER, "1", {"log.retention.ms": "5"}),
    "broker, nothing": (BROKER, "1", {}),
    "broker, empty": (BROKER, "1", {"log.retention.ms": ""}),
    "broker, null": (BROKER, "1", {"log.retention.ms": None}),
    "broker, bad number": (BROKER, "1", {"log.retention.ms": "soon"}),
    "broker, bad thread count": (BROKER, "1", {"num.io.threads": "0"}),
    "broker, threads too many": (BROKER, "1", {"num.io.threads": "999"}),
    "broker, bad choice": (BROKER, "1", {"log.cleanup.policy": "burn"}),
    "broker, static": (BROKER, "1", {"broker.rack": "r"}),
    "broker, two static": (BROKER, "1", {"broker.rack": "r", "num.partitions": "3"}),
    "broker, unknown key": (BROKER, "1", {"no.such": "1"}),
    "broker, listener": (BROKER, "1", {"listener.name.plaintext.ssl.keystore.type": "PEM"}),
    "broker, unknown listener": (BROKER, "1", {"listener.name.none.max.connections": "3"}),
    "broker, listeners": (BROKER, "1", {"listeners": "nonsense"}),
    "broker, max connections per ip": (
        BROKER, "1", {"max.connections.per.ip.overrides": "not a host:x"}),
    "broker that is another": (BROKER, "7", {"log.retention.ms": "5"}),
    "broker that is no number": (BROKER, "one", {"log.retention.ms": "5"}),
    "all brokers": (BROKER, "", {"log.retention.ms": "5"}),
    "all brokers, of one": (BROKER, "", {"ssl.keystore.location": "/no"}),
    "all brokers, two of one": (
        BROKER, "", {"ssl.keystore.location": "/no", "ssl.keystore.type": "JKS"}),
    "all brokers, static": (BROKER, "", {"broker.rack": "r"}),
    "logger": (LOGGER, "1", {"kafka": "INFO"}),
    "logger, bad level": (LOGGER, "1", {"kafka": "LOUD"}),
    "logger, unknown": (LOGGER, "1", {"no.such": "INFO"}),
    "logger, null": (LOGGER, "1", {"kafka": None}),
    "logger of another": (LOGGER, "7", {"kafka": "INFO"}),
    "logger of nobody": (LOGGER, "", {"kafka": "INFO"}),
    "logger of a word": (LOGGER, "one", {"kafka": "INFO"}),
    "unknown kind": (3, "known", {"retention.ms": "5"}),
    "unknown high kind": (99, "known", {"retention.ms": "5"}),
    "no kind": (0, "known", {"retention.ms": "5"}),
    "any kind": (1, "known", {"retention.ms": "5"}),
    "client metrics": (CLIENT_METRICS, "m", {"interval.ms": "100"}),
    "client metrics without a name": (CLIENT_METRICS, "", {"interval.ms": "100"}),
    "group": (GROUP, "g", {"consumer.session.timeout.ms": "50000"}),
}  # fmt: skip
CHANGES: dict[str, tuple[int, str, tuple[tuple[int, str, str | None], ...]]] = {
    "append": (TOPIC, "known", ((APPEND, "cleanup.policy", "compact"),)),
    "append to a number": (TOPIC, "known", ((APPEND, "retention.ms", "5"),)),
    "append to unknown": (TOPIC, "known", ((APPEND, "no.such", "5"),)),
    "append null": (TOPIC, "known", ((APPEND, "cleanup.policy", None),)),
    "subtract": (TOPIC, "known", ((SUBTRACT, "cleanup.policy", "delete"),)),
    "subtract from a number": (TOPIC, "known", ((SUBTRACT, "retention.ms", "5"),)),
    "delete": (TOPIC, "known", ((DELETE, "retention.ms", None),)),
    "delete unknown": (TOPIC, "known", ((DELETE, "no.such", None),)),
    "unknown operation": (TOPIC, "known", ((9, "retention.ms", "5"),)),
    "two operations": (TOPIC, "known", (
        (SET, "retention.ms", "5"), (DELETE, "retention.ms", None))),
    "same twice": (TOPIC, "known", ((SET, "retention.ms", "5"), (SET, "retention.ms", "6"))),
    "broker append to a number": (BROKER, "1", ((APPEND, "log.retention.ms", "5"),)),
    "broker append": (BROKER, "1", ((APPEND, "log.cleanup.policy", "compact"),)),
    "broker append to unknown": (BROKER, "1", ((APPEND, "no.such", "5"),)),
    "broker delete": (BROKER, "1", ((DELETE, "log.retention.ms", None),)),
    "broker delete static": (BROKER, "1", ((DELETE, "broker.rack", None),)),
    "broker delete unknown": (BROKER, "1", ((DELETE, "no.such", None),)),
    "broker null": (BROKER, "", ((SET, "log.retention.ms", None),)),
    "broker unknown operation": (BROKER, "", ((9, "log.retention.ms", "5"),)),
    "broker same twice": (BROKER, "", (
        (SET, "log.retention.ms", "5"), (SET, "log.retention.ms", "6"))),
    "logger append": (LOGGER, "1", ((APPEND, "kafka", "INFO"),)),
    "logger subtract": (LOGGER, "1", ((SUBTRACT, "kafka", "INFO"),)),
    "logger delete": (LOGGER, "1", ((DELETE, "kafka.server", None),)),
    "logger delete root": (LOGGER, "1", ((DELETE, "root", None),)),
    "logger delete unknown": (LOGGER, "1", ((DELETE, "no.such", None),)),
    "logger unknown operation": (LOGGER, "1", ((9, "kafka", "INFO"),)),
}  # fmt: skip
ALTER_CONFIGS = [
    *(Case(f"alter {name}", whole(*asked)) for name, asked in CONFIGS.items()),
    Case("alter twice", twice(whole(TOPIC, "known", {"retention.ms": "5"}))),
    *(
        Case(
            f"change {name}",
            incremental(kind, resource, *((SET, *pair) for pair in configs.items())),
        )
        for name, (kind, resource, configs) in CONFIGS.items()
    ),
    *(
        Case(f"change {name}", incremental(kind, resource, *changes))
        for name, (kind, resource, changes) in CHANGES.items()
    ),
    Case("change twice", twice(incremental(TOPIC, "known", (SET, "retention.ms", "5")))),
]


def described(
    kind: int, name: str, keys: Sequence[str] | None = None, *, synonyms: bool = False
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=kind,
                resource_name=name,
                configuration_keys=None if keys is None else list(keys),
            )
        ],
        include_synonyms=synonyms,
    )


DESCRIBE_CONFIGS = [
    Case("describe topic", described(TOPIC, "configured")),
    Case("describe topic's keys", described(TOPIC, "configured", ["retention.ms", "no.such"])),
    Case("describe topic's no keys", described(TOPIC, "configured", [])),
    Case("describe topic's synonyms",
         described(TOPIC, "configured", ["retention.ms", "segment.ms"], synonyms=True), (1, 1000)),
    Case("describe unknown topic", described(TOPIC, "unknown")),
    Case("describe illegal topic", described(TOPIC, "a b")),
    Case("describe topic without a name", described(TOPIC, "")),
    Case("describe topic with dots", described(TOPIC, "..")),
    Case("describe long topic", described(TOPIC, LONG_NAME)),
    Case("describe broker's keys", described(BROKER, "1", ["log.retention.ms", "num.io.threads"])),
    Case("describe another broker", described(BROKER, "7")),
    Case("describe broker of a word", described(BROKER, "one")),
    Case("describe all brokers", described(BROKER, "")),
    Case("describe another's loggers", described(LOGGER, "7")),
    Case("describe nobody's loggers", described(LOGGER, "")),
    Case("describe a word's loggers", described(LOGGER, "one")),
    Case("describe unknown kind", described(3, "known")),
    Case("describe high kind", described(99, "known")),
    Case("describe no kind", described(0, "known")),
    Case("describe client metrics", described(CLIENT_METRICS, "m")),
    Case("describe client metrics without a name", described(CLIENT_METRICS, "")),
    Case("describe group", described(GROUP, "g")),
]  # fmt: skip


# Elections and reassignments


def election(kind: int, partitions: Mapping[str, Sequence[int]] | None) -> ElectLeadersRequest:
    asked = None
    if partitions is not None:
        asked = [
            ElectLeadersRequestTopicPartitions(topic=topic, partitions=list(indexes))
            for topic, indexes in partitions.items()
        ]
    return ElectLeadersRequest(election_type=kind, topic_partitions=asked, timeout_ms=TIMEOUT_MS)


ELECTIONS: dict[str, Mapping[str, Sequence[int]] | None] = {
    "everywhere": None,
    "nowhere": {},
    "unneeded": {"known": [0, 1]},
    "no partition": {"known": []},
    "unknown partition": {"known": [9]},
    "negative partition": {"known": [-1]},
    "unknown topic": {"unknown": [0]},
    "illegal topic": {"a b": [0]},
    "twice": {"known": [0, 0]},
}
ELECT_LEADERS = [
    Case(f"elect {word} {name}", election(kind, asked), (int(kind > 0), 1000))
    for kind, word in ((0, "preferred"), (1, "unclean"), (7, "odd"))
    for name, asked in ELECTIONS.items()
]


def moves(
    moved: Mapping[str, Mapping[int, Sequence[int] | None]],
) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=[
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(
                        partition_index=index, replicas=None if ids is None else list(ids)
                    )
                    for index, ids in partitions.items()
                ],
            )
            for topic, partitions in moved.items()
        ],
    )


def listed_moves(asked: Mapping[str, Sequence[int]] | None) -> ListPartitionReassignmentsRequest:
    topics = None
    if asked is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=topic, partition_indexes=list(indexes))
            for topic, indexes in asked.items()
        ]
    return ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=topics)


MOVES: dict[str, Mapping[str, Mapping[int, Sequence[int] | None]]] = {
    "nothing": {},
    "no partition": {"known": {}},
    "to where it is": {"known": {0: [1]}},
    "to nowhere": {"known": {0: []}},
    "to another": {"known": {0: [7]}},
    "to others": {"known": {0: [7, 8]}},
    "to negative": {"known": {0: [-1]}},
    "twice to one": {"known": {0: [1, 1]}},
    "unknown partition": {"known": {9: [1]}},
    "unknown topic": {"unknown": {0: [1]}},
    "illegal topic": {"a b": {0: [1]}},
    "cancel nothing": {"known": {0: None}},
    "cancel unknown": {"unknown": {0: None}},
    "some": {"known": {0: [1], 1: [7]}, "unknown": {0: [1]}},
}
LISTED: dict[str, Mapping[str, Sequence[int]] | None] = {
    "everywhere": None,
    "nowhere": {},
    "known": {"known": [0, 1]},
    "unknown": {"unknown": [0], "known": [9]},
    "of no partition": {"known": []},
}
REASSIGNMENTS = [
    *(Case(f"move {name}", moves(moved)) for name, moved in MOVES.items()),
    *(Case(f"moves {name}", listed_moves(asked)) for name, asked in LISTED.items()),
]  # fmt: skip


# Log directories


def into(path: str, topics: Mapping[str, Sequence[int]]) -> AlterReplicaLogDirsRequest:
    moved = [
        AlterReplicaLogDirTopic(name=name, partitions=list(indexes))
        for name, indexes in topics.items()
    ]
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=moved)])


def dirs_of(topics: Mapping[str, Sequence[int]] | None) -> DescribeLogDirsRequest:
    asked = None
    if topics is not None:
        asked = [
            DescribableLogDirTopic(topic=name, partitions=list(indexes))
            for name, indexes in topics.items()
        ]
    return DescribeLogDirsRequest(topics=asked)


LOG_DIRS = [
    Case("to no directory", into("/no/such/place", {"known": [0]})),
    Case("to a relative directory", into("relative", {"known": [0]})),
    Case("to a directory without a name", into("", {"known": [0]})),
    Case("to no directory, unknown topic", into("/no/such/place", {"unknown": [0]})),
    Case("to a directory, nothing", into("/no/such/place", {})),
    Case("directories of unknown", dirs_of({"unknown": [0]})),
    Case("directories of an unknown partition", dirs_of({"known": [9]})),
    Case("directories of nothing", dirs_of({})),
]


# Quotas, credentials, ACLs


def quota(
    entity: Sequence[tuple[str, str | None]], *ops: tuple[str, float, bool], last: bool = False
) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequestEntryData(
                entity=[
                    AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity
                ],
                ops=[OpData(key=key, value=value, remove=remove) for key, value, remove in ops],
            )
        ],
        validate_only=not last,
    )


RATE = ("producer_byte_rate", 1000.0, False)


def quotas_of(
    *components: tuple[str, int, str | None], strict: bool = False
) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=match, match=name)
            for kind, match, name in components
        ],
        strict=strict,
    )


ODD_QUOTAS: dict[
    str, tuple[Sequence[tuple[str, str | None]], Sequence[tuple[str, float, bool]]]
] = {
    "of a user": ([("user", "u")], [RATE]),
    "of all users": ([("user", None)], [RATE]),
    "of a client": ([("client-id", "c")], [RATE]),
    "of both": ([("user", "u"), ("client-id", "c")], [RATE]),
    "of an address": ([("ip", "1.2.3.4")], [("connection_creation_rate", 5.0, False)]),
    "of an unknown address": ([("ip", "not an ip")], [("connection_creation_rate", 5.0, False)]),
    "of an address with another key": ([("ip", "1.2.3.4")], [RATE]),
    "of a user with an address' key": ([("user", "u")], [("connection_creation_rate", 5.0, False)]),
    "of a user and an address": ([("user", "u"), ("ip", "1.2.3.4")], [RATE]),
    "of nobody": ([], [RATE]),
    "of a user without a name": ([("user", "")], [RATE]),
    "of an unknown kind": ([("planet", "u")], [RATE]),
    "of a user twice": ([("user", "u"), ("user", "v")], [RATE]),
    "without a key": ([("user", "u")], []),
    "with an unknown key": ([("user", "u")], [("no_such", 1.0, False)]),
    "of nothing": ([("user", "u")], [("producer_byte_rate", 0.0, False)]),
    "below nothing": ([("user", "u")], [("producer_byte_rate", -1.0, False)]),
    "of a half": ([("user", "u")], [("producer_byte_rate", 0.5, False)]),
    "of an odd number": ([("user", "u")], [("request_percentage", float("nan"), False)]),
    "of a huge number": ([("user", "u")], [("producer_byte_rate", 1e30, False)]),
    "removed": ([("user", "u")], [("producer_byte_rate", 0.0, True)]),
    "removed with an unknown key": ([("user", "u")], [("no_such", 0.0, True)]),
    "said twice": ([("user", "u")], [RATE, RATE]),
}
QUOTAS = [
    *(Case(f"quota {name}", quota(entity, *ops)) for name, (entity, ops) in ODD_QUOTAS.items()),
    Case("quotas of nobody", quotas_of()),
    Case("quotas of a user", quotas_of(("user", 0, "u"))),
    Case("quotas of default users", quotas_of(("user", 1, None))),
    Case("quotas of any user", quotas_of(("user", 2, None))),
    Case("quotas of a user twice", quotas_of(("user", 0, "u"), ("user", 0, "v"))),
    Case("quotas of an unknown kind", quotas_of(("planet", 0, "u"))),
    Case("quotas of no kind", quotas_of(("", 0, "u"))),
    Case("quotas by an unknown match", quotas_of(("user", 9, "u"))),
    Case("quotas of a user without a name", quotas_of(("user", 0, None))),
    Case("quotas of default users with a name", quotas_of(("user", 1, "u"))),
    Case("quotas of any user with a name", quotas_of(("user", 2, "u"))),
    Case("quotas of users and addresses", quotas_of(("user", 0, "u"), ("ip", 0, "1.2.3.4"))),
]  # fmt: skip


def scram(
    deletions: Iterable[tuple[str, int]] = (), upsertions: Iterable[tuple[str, int, int]] = ()
) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=n, mechanism=m) for n, m in deletions],
        upsertions=[
            ScramCredentialUpsertion(
                name=name, mechanism=mechanism, iterations=iterations, salt=b"salt",
                salted_password=b"p" * 32,
            )
            for name, mechanism, iterations in upsertions
        ],
    )  # fmt: skip


def users(*names: str) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest(users=[UserName(name=n) for n in names])


SCRAM = [
    *(Case(f"scram {name}", scram(*asked)) for name, asked in {
        "nothing": ([], []),
        "deletion of unknown": ([("u", 1)], []),
        "deletion by an unknown mechanism": ([("u", 9)], []),
        "deletion by no mechanism": ([("u", 0)], []),
        "deletion without a name": ([("", 1)], []),
        "without a name": ([], [("", 1, 4096)]),
        "by an unknown mechanism": ([], [("u", 9, 4096)]),
        "by no mechanism": ([], [("u", 0, 4096)]),
        "with few iterations": ([], [("u", 1, 10)]),
        "with many iterations": ([], [("u", 1, 100_000)]),
        "twice": ([], [("u", 1, 4096), ("u", 1, 4096)]),
        "twice by two": ([], [("w", 1, 4096), ("w", 2, 8192)]),
        "and deletion": ([("u", 1)], [("u", 1, 4096)]),
        "deletion twice": ([("u", 1), ("u", 1)], []),
        "valid": ([], [("u", 1, 4096)]),
        "deletion of the other mechanism": ([("u", 2)], []),
    }.items()),
    Case("users", users("u", "w")),
    Case("unknown users", users("unknown")),
    Case("users twice", users("u", "u")),
    Case("users without a name", users("")),
    Case("no users", users()),
    Case("all users", DescribeUserScramCredentialsRequest(users=None)),
]  # fmt: skip


def acl(
    kind: int = 2, name: str = "known", pattern: int = 3, principal: str = "User:u",
    host: str = "*", operation: int = 3, permission: int = 3,
) -> CreateAclsRequest:  # fmt: skip
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=kind, resource_name=name, resource_pattern_type=pattern,
                principal=principal, host=host, operation=operation, permission_type=permission,
            )
        ]
    )  # fmt: skip


def acl_filter(
    kind: int = 2, name: str | None = "known", pattern: int = 3, principal: str | None = "User:u",
    host: str | None = "*", operation: int = 3, permission: int = 3,
) -> dict[str, Any]:  # fmt: skip
    return {
        "resource_type_filter": kind, "resource_name_filter": name,
        "pattern_type_filter": pattern, "principal_filter": principal, "host_filter": host,
        "operation": operation, "permission_type": permission,
    }  # fmt: skip


ODD_ACLS: dict[str, dict[str, Any]] = {
    "valid": {},
    "of any kind": {"kind": 1},
    "of no kind": {"kind": 0},
    "of a high kind": {"kind": 99},
    "of any pattern": {"pattern": 1},
    "of a matching pattern": {"pattern": 2},
    "of no pattern": {"pattern": 0},
    "of a high pattern": {"pattern": 99},
    "of a prefix": {"pattern": 4},
    "without a name": {"name": ""},
    "of an illegal name": {"name": "a b"},
    "of any operation": {"operation": 1},
    "of no operation": {"operation": 0},
    "of a high operation": {"operation": 99},
    "of another's operation": {"operation": 12},
    "of any permission": {"permission": 1},
    "of no permission": {"permission": 0},
    "of a high permission": {"permission": 99},
    "of an odd principal": {"principal": "nobody"},
    "without a principal": {"principal": ""},
    "without a host": {"host": ""},
    "of the cluster": {"kind": 4, "name": "kafka-cluster", "operation": 12},
    "of an odd cluster": {"kind": 4, "name": "other", "operation": 12},
    "of a user": {"kind": 7, "name": "User:x", "operation": 14},
    "of an odd user": {"kind": 7, "name": "x", "operation": 14},
}
ACLS = [
    *(Case(f"acl {name}", acl(**odd)) for name, odd in ODD_ACLS.items()),
    Case("no acl", CreateAclsRequest(creations=[])),
    *(
        Case(f"acls {name}", DescribeAclsRequest(**acl_filter(**odd)))
        for name, odd in ODD_ACLS.items()
    ),
    Case("all acls", DescribeAclsRequest(**acl_filter(1, None, 1, None, None, 1, 1))),
    *(
        Case(
            f"deleted acls {name}",
            DeleteAclsRequest(filters=[DeleteAclsFilter(**acl_filter(**odd))]),
        )
        for name, odd in ODD_ACLS.items()
    ),
    Case("no deleted acls", DeleteAclsRequest(filters=[])),
]


# Records, groups, features


def cut(topics: Mapping[str, Mapping[int, int]]) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        timeout_ms=TIMEOUT_MS,
        topics=[
            DeleteRecordsTopic(
                name=name,
                partitions=[
                    DeleteRecordsPartition(partition_index=index, offset=offset)
                    for index, offset in partitions.items()
                ],
            )
            for name, partitions in topics.items()
        ],
    )


def forgotten(group: str, topics: Mapping[str, Sequence[int]]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
            )
            for name, indexes in topics.items()
        ],
    )


def feature(*updates: tuple[str, int, int], validate_only: bool = True) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(
                feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=kind > 1
            )
            for name, level, kind in updates
        ],
        validate_only=validate_only,
    )


OTHERS = [
    *(Case(f"cut {name}", cut(topics)) for name, topics in {
        "nothing": {},
        "at the start": {"known": {0: 0}},
        "at the end": {"known": {0: -1}},
        "beyond": {"known": {0: 77}},
        "below": {"known": {0: -2}},
        "unknown partition": {"known": {9: 0}},
        "negative partition": {"known": {-1: 0}},
        "unknown topic": {"unknown": {0: 0}},
        "illegal topic": {"a b": {0: 0}},
        "compacted": {"configured": {0: 0}},
        "internal": {"__consumer_offsets": {0: 0}},
    }.items()),
    *(Case(f"groups gone: {names}", DeleteGroupsRequest(groups_names=names))
      for names in ([], ["unknown"], [""], ["unknown", "unknown"])),
    *(Case(f"offsets gone {name}", forgotten(group, topics)) for name, (group, topics) in {
        "unknown": ("unknown", {"known": [0]}),
        "without a name": ("", {"known": [0]}),
        "of nothing": ("unknown", {}),
        "unknown topic": ("unknown", {"unknown": [0]}),
    }.items()),
    *(Case(f"groups {names}", DescribeGroupsRequest(groups=names))
      for names in ([], ["unknown"], [""])),
    *(Case(f"feature {name}", feature(*updates)) for name, updates in {
        "none": [],
        "unknown": [("no.such", 1, 1)],
        "metadata": [("metadata.version", 17, 1)],
        "without a name": [("", 1, 1)],
        "deleted": [("no.such", 0, 2)],
        "deleted as an upgrade": [("no.such", 0, 1)],
        "negative": [("no.such", -1, 1)],
        "of no type": [("no.such", 1, 0)],
        "of a high type": [("no.such", 1, 9)],
        "twice": [("no.such", 1, 1), ("no.such", 2, 1)],
    }.items()),
    *(Case(f"coordinator {kind} {keys}", FindCoordinatorRequest(
        key_type=kind, coordinator_keys=keys, key=keys[0] if keys else ""), (int(kind > 0), 1000))
      for kind in (0, 1, 2, 9) for keys in ([], ["g"], [""])),
    Case("transactions", ListTransactionsRequest(state_filters=["Odd", "Ongoing"])),
    Case("transactions that are unknown", DescribeTransactionsRequest(
        transactional_ids=["unknown", ""])),
    Case("producers", DescribeProducersRequest(topics=[
        TopicRequest(name="known", partition_indexes=[0, 9]),
        TopicRequest(name="unknown", partition_indexes=[0]),
        TopicRequest(name="a b", partition_indexes=[0])])),
    *(Case(f"creation by asking for {names}", MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names]), (12, 12))
      for names in (["asked"], ["x.T", "x_T"], ["x_T"], ["a b"], ["__transaction_states"])),
    Case("cluster", DescribeClusterRequest()),
    Case("cluster of controllers", DescribeClusterRequest(endpoint_type=2), (1, 1)),
    Case("cluster of nobody", DescribeClusterRequest(endpoint_type=9), (1, 1)),
]  # fmt: skip


# Delegation tokens


def token(
    lifetime: int = -1, renewers: Sequence[tuple[str, str]] = (),
    owner: tuple[str | None, str | None] = (None, None),
) -> CreateDelegationTokenRequest:  # fmt: skip
    return CreateDelegationTokenRequest(
        owner_principal_type=owner[0],
        owner_principal_name=owner[1],
        renewers=[CreatableRenewers(principal_type=k, principal_name=n) for k, n in renewers],
        max_lifetime_ms=lifetime,
    )


def tokens_of(owners: Sequence[tuple[str, str]] | None) -> DescribeDelegationTokenRequest:
    asked = None
    if owners is not None:
        asked = [
            DescribeDelegationTokenOwner(principal_type=k, principal_name=n) for k, n in owners
        ]
    return DescribeDelegationTokenRequest(owners=asked)


TOKENS = [
    case._replace(name=f"{case.name} ({'user' if is_user else 'nobody'})", user=is_user)
    for is_user in (False, True)
    for case in (
        Case("tokens", tokens_of(None)),
        Case("tokens of nobody", tokens_of([])),
        Case("tokens of a user", tokens_of([("User", "u")])),
        Case("token", token()),
        Case("token renewed by a user", token(1000, [("User", "u")])),
        Case("token renewed by an odd one", token(1000, [("Planet", "u")])),
        Case("token of another", token(owner=("User", "u")), (3, 3)),
        Case("token of an odd one", token(owner=("Planet", "u")), (3, 3)),
        Case("token of half a one", token(owner=("User", None)), (3, 3)),
        Case("token of one without a name", token(owner=("User", "")), (3, 3)),
        Case("token of a long life", token(10**15)),
        Case("token of no life", token(0)),
        Case("unknown token renewed", RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=5)),
        Case("unknown token expired",
             ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1)),
    )
]  # fmt: skip

CASES = [
    *CREATE_TOPICS,
    *CREATE_PARTITIONS,
    *ALTER_CONFIGS,
    *DESCRIBE_CONFIGS,
    *ELECT_LEADERS,
    *REASSIGNMENTS,
    *LOG_DIRS,
    *QUOTAS,
    *SCRAM,
    *ACLS,
    *OTHERS,
    *TOKENS,
    *DELETE_TOPICS,
]


def at(message: Struct, version: int) -> Any:
    """A message without the fields that a version does not have."""
    fitted = type(message)()
    for field in message._fields:
        low, high = version_range(field.versions)
        if low <= version <= high:
            setattr(fitted, field.name, _value_at(getattr(message, field.name), version))
    return fitted


def _value_at(value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return at(value, version)
    return [_value_at(one, version) for one in value] if isinstance(value, list) else value


# What is compared

_LEFT_OUT = frozenset(
    {
        "throttle_time_ms", "cluster_id", "token_id", "hmac", "issue_timestamp",
        "issue_timestamp_ms", "expiry_timestamp", "expiry_timestamp_ms", "max_timestamp",
        "max_timestamp_ms", "documentation", "total_bytes", "usable_bytes", "log_dir", "port",
    }
)  # fmt: skip


def said(answer: Any) -> Any:
    """An answer without what no two brokers have in common; the elements of lists in one order."""
    if isinstance(answer, Struct):
        return {
            field.name: said(getattr(answer, field.name))
            for field in answer._fields
            if field.name not in _LEFT_OUT
        }
    if isinstance(answer, list):
        return sorted((said(one) for one in answer), key=repr)
    if isinstance(answer, (bytes, memoryview, bytearray)):
        return "none" if not any(bytes(answer)) else "some"
    if isinstance(answer, str):
        return re.sub(r"127\.0\.0\.1:\d+|/tmp/[\w./-]+", "...", answer)
    return answer
