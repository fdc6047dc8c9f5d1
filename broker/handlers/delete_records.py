"""DeleteRecords v0-2: moves the start of logs, and waits until all live replicas have followed.

Mirrors KafkaApis.handleDeleteRecordsRequest. Leaves out authorization.
"""

from collections.abc import Mapping

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.offsets import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ...replication.types import DeleteRecordsResult, DeleteRecordsResults, Done, PartitionKey
from ..network.request import Handler, Request
from ..replicas.replica_runtime import ReplicaShell


class DeleteRecordsHandler:
    __slots__ = ("_manager", "_shell")

    def __init__(self, shell: ReplicaShell) -> None:
        self._shell = shell
        self._manager = shell.manager

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.DELETE_RECORDS: self.delete_records}

    def delete_records(self, request: Request) -> None:
        body: DeleteRecordsRequest = request.body
        manager = self._manager
        unknown: DeleteRecordsResults = {}
        wanted: dict[PartitionKey, int] = {}
        for topic in body.topics:
            for partition in topic.partitions:
                key = (topic.name, partition.partition_index)
                if manager.metadata.partition_state(*key) is None:
                    unknown[key] = DeleteRecordsResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    wanted[key] = partition.offset
        now_ms = self._shell.clock()
        wait = _DeleteRecordsWait(request, unknown)
        outcome = manager.offsets.delete_records(wait, wanted, body.timeout_ms, now_ms)
        if isinstance(outcome, Done):
            wait.complete(outcome.result)
        else:
            self._shell.parked(body.timeout_ms, now_ms)
        self._shell.settle()


class _DeleteRecordsWait:
    """The token of a DeleteRecords, with what was refused before."""

    __slots__ = ("_request", "_unknown")

    def __init__(self, request: Request, unknown: DeleteRecordsResults) -> None:
        self._request = request
        self._unknown = unknown

    def complete(self, results: DeleteRecordsResults) -> None:
        all_results = results | self._unknown
        body: DeleteRecordsRequest = self._request.body
        topics = []
        for topic in body.topics:
            partitions = []
            for partition in topic.partitions:
                result = all_results[topic.name, partition.partition_index]
                partitions.append(
                    DeleteRecordsPartitionResult(
                        partition_index=partition.partition_index,
                        low_watermark=result.low_watermark,
                        error_code=result.error_code,
                    )
                )
            topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=partitions))
        self._request.respond(
            DeleteRecordsResponse(throttle_time_ms=self._request.throttle_ms, topics=topics)
        )
