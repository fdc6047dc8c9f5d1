"""DeleteRecords v0-2: moves the start of logs, and waits until all live replicas have followed.

Mirrors KafkaApis.handleDeleteRecordsRequest. Leaves out authorization.
"""

from collections.abc import Mapping

from ...protocol.api import ApiKey
from ...protocol.apis.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ...replication.types import DeleteRecordsResult, DeleteRecordsResults
from ..network.request import Handler, Request
from ..replicas.applied_replicas import AppliedReplicas
from .request_waits import RequestWait


class DeleteRecordsHandler:
    """Moves the log starts, and answers once all live replicas have followed or time is up."""

    __slots__ = ("_replicas",)

    def __init__(self, replicas: AppliedReplicas) -> None:
        self._replicas = replicas

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.DELETE_RECORDS: self.delete_records}

    def delete_records(self, request: Request) -> None:
        body: DeleteRecordsRequest = request.body
        metadata = self._replicas.hosted.metadata
        unknown: DeleteRecordsResults = {}
        wanted: dict[TopicPartition, int] = {}
        for topic in body.topics:
            for partition in topic.partitions:
                key = (topic.name, partition.partition_index)
                if metadata.partition_state(*key) is None:
                    unknown[key] = DeleteRecordsResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    wanted[key] = partition.offset
        now_ms = self._replicas.clock()
        results = self._replicas.delete_records(
            wanted,
            body.timeout_ms,
            now_ms,
            _DeleteRecordsWait,
            (self._replicas, request, unknown),
        )
        if results is not None:
            _DeleteRecordsWait(self._replicas, request, unknown).complete(results)


class _DeleteRecordsWait(RequestWait):
    """The token of a DeleteRecords, with the partitions refused before."""

    __slots__ = ("_unknown",)

    def __init__(
        self, replicas: AppliedReplicas, request: Request, unknown: DeleteRecordsResults
    ) -> None:
        super().__init__(request, replicas)
        self._unknown = unknown

    def answer(self, results: DeleteRecordsResults) -> None:
        all_results = results | self._unknown
        body: DeleteRecordsRequest = self.request.body
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
        self.request.respond(DeleteRecordsResponse(topics=topics))
