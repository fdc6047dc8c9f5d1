"""DescribeLogDirs v0-4: the log directories of this broker, with the replicas in them.

Mirrors KafkaApis.handleDescribeLogDirsRequest. Leaves out authorization.
"""

from collections.abc import Mapping

from ...protocol.api import ApiKey
from ...protocol.apis.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ...protocol.topics import TopicPartition
from ...replication.log_dirs import describe_log_dirs
from ...replication.replica_manager import ReplicaManager
from ..network.request import Handler, Request
from ..network.turns import Steps


class DescribeLogDirsHandler:
    __slots__ = ("_manager",)

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.DESCRIBE_LOG_DIRS: self.describe_log_dirs}

    def describe_log_dirs(self, request: Request) -> Steps:
        body: DescribeLogDirsRequest = request.body
        wanted: set[TopicPartition] | None = None
        if body.topics is not None:
            wanted = set()
            for topic in body.topics:
                for partition in topic.partitions:
                    wanted.add((topic.topic, partition))
                    yield
        results = yield from describe_log_dirs(self._manager.hosted, wanted)
        request.respond(DescribeLogDirsResponse(results=results))
