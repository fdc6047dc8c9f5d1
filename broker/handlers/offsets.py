"""ListOffsets v0-9, OffsetForLeaderEpoch v0-4, DeleteRecords v0-2.

ListOffsets: v0 lists segment offsets, v1+ one offset; special timestamps need v1 (earliest), v7
(max timestamp, KIP-734), v8 (earliest local), v9 (latest tiered); v4 brought leader epochs, v5
OFFSET_NOT_AVAILABLE instead of LEADER_NOT_AVAILABLE (KIP-207).

Mirrors KafkaApis.handleListOffsetRequest, handleOffsetForLeaderEpochRequest and
handleDeleteRecordsRequest. Leaves out authorization.
"""

from collections import Counter
from collections.abc import Mapping

from broker.dispatch import Handler, Request
from broker.replica_shell import ReplicaShell
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.offsets import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderTopicResult,
)
from replication.offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    MAX_TIMESTAMP,
    OffsetQuery,
    legacy_offsets,
)
from replication.types import (
    CONSUMER_REPLICA_ID,
    DEBUG_REPLICA_ID,
    DeleteRecordsResult,
    DeleteRecordsResults,
    Done,
    Isolation,
    PartitionKey,
)

_FIRST_VERSION_OF = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL_TIMESTAMP: 8, LATEST_TIERED_TIMESTAMP: 9}
_SMALLEST_TIMESTAMP = LATEST_TIERED_TIMESTAMP


class OffsetsHandler:
    __slots__ = ("_manager", "_shell")

    def __init__(self, shell: ReplicaShell) -> None:
        self._shell = shell
        self._manager = shell.manager

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.LIST_OFFSETS: self.list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: self.offset_for_leader_epoch,
            ApiKey.DELETE_RECORDS: self.delete_records,
        }

    def list_offsets(self, request: Request) -> None:
        body: ListOffsetsRequest = request.body
        version = request.api_version
        counts = Counter(
            (topic.name, partition.partition_index)
            for topic in body.topics
            for partition in topic.partitions
        )
        answer = self._list_legacy if version == 0 else self._list_one
        topics = []
        for topic in body.topics:
            partitions = []
            for partition in topic.partitions:
                key = (topic.name, partition.partition_index)
                if version > 0 and counts[key] > 1:
                    partitions.append(_no_offset(key, ErrorCode.INVALID_REQUEST))
                else:
                    partitions.append(answer(body, key, partition, version))
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        request.respond(ListOffsetsResponse(throttle_time_ms=request.throttle_ms, topics=topics))
        self._shell.settle()

    def _list_one(
        self,
        body: ListOffsetsRequest,
        key: PartitionKey,
        partition: ListOffsetsPartition,
        version: int,
    ) -> ListOffsetsPartitionResponse:
        timestamp = partition.timestamp
        if timestamp < _SMALLEST_TIMESTAMP or version < _FIRST_VERSION_OF.get(timestamp, 1):
            return _no_offset(key, ErrorCode.UNSUPPORTED_VERSION)
        if body.replica_id != CONSUMER_REPLICA_ID:
            isolation = Isolation.LOG_END
        elif body.isolation_level == Isolation.READ_COMMITTED:
            isolation = Isolation.READ_COMMITTED
        else:
            isolation = Isolation.READ_UNCOMMITTED
        found = self._manager.list_offset(
            key,
            OffsetQuery(
                timestamp,
                isolation,
                partition.current_leader_epoch,
                body.replica_id != DEBUG_REPLICA_ID,
            ),
        )
        error = found.error_code
        if error is ErrorCode.OFFSET_NOT_AVAILABLE and version < 5:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        return ListOffsetsPartitionResponse(
            partition_index=key[1],
            error_code=error,
            timestamp=found.timestamp,
            offset=found.offset,
            leader_epoch=found.leader_epoch if version >= 4 else -1,
        )

    def _list_legacy(
        self,
        body: ListOffsetsRequest,
        key: PartitionKey,
        partition: ListOffsetsPartition,
        _version: int,
    ) -> ListOffsetsPartitionResponse:
        error, found = legacy_offsets(
            self._manager,
            key,
            partition.timestamp,
            partition.max_num_offsets,
            self._shell.clock(),
            is_consumer=body.replica_id == CONSUMER_REPLICA_ID,
            only_leader=body.replica_id != DEBUG_REPLICA_ID,
        )
        return ListOffsetsPartitionResponse(
            partition_index=key[1], error_code=error, old_style_offsets=found
        )

    def offset_for_leader_epoch(self, request: Request) -> None:
        body: OffsetForLeaderEpochRequest = request.body
        topics = []
        for topic in body.topics:
            partitions = []
            for partition in topic.partitions:
                error, epoch, end_offset = self._manager.end_offset_for_epoch(
                    (topic.topic, partition.partition),
                    partition.current_leader_epoch,
                    partition.leader_epoch,
                )
                partitions.append(
                    OffsetForLeaderEpochResponseEpochEndOffset(
                        error_code=error,
                        partition=partition.partition,
                        leader_epoch=epoch,
                        end_offset=end_offset,
                    )
                )
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
        request.respond(
            OffsetForLeaderEpochResponse(throttle_time_ms=request.throttle_ms, topics=topics)
        )

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
        outcome = manager.delete_records(wait, wanted, body.timeout_ms, now_ms)
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


def _no_offset(key: PartitionKey, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=key[1], error_code=error)
