"""AlterReplicaLogDirs v0-2: in which log directory of this broker a replica is to be.

The moves that it begins are driven by `replicas.log_dir_mover`.
Mirrors KafkaApis.handleAlterReplicaLogDirsRequest. Leaves out authorization.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...protocol.api import ApiKey
from ...protocol.apis.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ..network.request import Handler, Request
from ..replicas.log_dir_mover import LogDirMover
from ..replicas.settled_replicas import SettledReplicas


class AlterReplicaLogDirsHandler:
    __slots__ = ("_mover", "_replicas")

    def __init__(self, replicas: SettledReplicas, mover: LogDirMover) -> None:
        self._replicas = replicas
        self._mover = mover

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.ALTER_REPLICA_LOG_DIRS: self.alter_replica_log_dirs}

    def alter_replica_log_dirs(self, request: Request) -> None:
        body: AlterReplicaLogDirsRequest = request.body
        wanted = {
            (topic.name, partition): directory.path
            for directory in body.dirs
            for topic in directory.topics
            for partition in topic.partitions
        }
        with self._replicas.settling as manager:
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
