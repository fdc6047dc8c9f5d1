"""DescribeLogDirs v0-5 and AlterReplicaLogDirs v0-2: the log directories of this broker with the
replicas in them, and the moves of replicas between them.

`replicas.log_dir_mover` drives the moves that begin here.
Mirrors KafkaApis.handleDescribeLogDirsRequest and handleAlterReplicaLogDirsRequest. Leaves out
authorization.
"""

from collections.abc import Mapping

from ...protocol.api import ApiKey
from ...protocol.apis.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ...protocol.apis.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ...replication.log_dirs import describe_log_dirs
from ..network.request import Handler, Request
from ..network.turns import Steps
from ..replicas.applied_replicas import AppliedReplicas
from ..replicas.log_dir_mover import LogDirMover


class LogDirHandlers:
    __slots__ = ("_mover", "_replicas")

    def __init__(self, replicas: AppliedReplicas, mover: LogDirMover) -> None:
        self._replicas = replicas
        self._mover = mover

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.DESCRIBE_LOG_DIRS: self.describe_log_dirs,
            ApiKey.ALTER_REPLICA_LOG_DIRS: self.alter_replica_log_dirs,
        }

    def describe_log_dirs(self, request: Request) -> Steps:
        body: DescribeLogDirsRequest = request.body
        wanted: set[TopicPartition] | None = None
        if body.topics is not None:
            wanted = set()
            for topic in body.topics:
                for partition in topic.partitions:
                    wanted.add((topic.topic, partition))
                    yield
        results = yield from describe_log_dirs(self._replicas.manager.hosted, wanted)
        request.respond(DescribeLogDirsResponse(results=results))

    def alter_replica_log_dirs(self, request: Request) -> None:
        body: AlterReplicaLogDirsRequest = request.body
        wanted = {
            (topic.name, partition): directory.path
            for directory in body.dirs
            for topic in directory.topics
            for partition in topic.partitions
        }
        with self._replicas.applying as manager:
            results = manager.moves.alter_log_dirs(wanted, self._replicas.clock())
            self._mover.begin()
            request.respond(_response(results))


def _response(results: Mapping[TopicPartition, ErrorCode]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, partition), error in results.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = AlterReplicaLogDirTopicResult(topic_name=name, partitions=[])
        topic.partitions.append(
            AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=error)
        )
    return AlterReplicaLogDirsResponse(results=list(topics.values()))
