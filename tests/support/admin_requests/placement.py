"""Where replicas and leaders are: elections, reassignments and log directories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from pybroker_kafka.protocol.apis.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from pybroker_kafka.protocol.apis.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
)
from pybroker_kafka.protocol.apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.support.admin_requests.cases import (
    TIMEOUT_MS,
    Case,
)

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
