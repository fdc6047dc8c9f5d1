"""One request to commit offsets: the refused partitions with their errors, and the offsets left.

OffsetCommit and TxnOffsetCommit have this in common, and OffsetDelete the shape of the answer: one
error a partition, in the order of the request.
"""

from collections.abc import Callable, Container, Mapping
from typing import Any, Final, Generic, TypeVar

from ...protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ...protocol.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ...protocol.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from .offsets import OffsetAndMetadata
from .placement import utf16_length

RequestT = TypeVar("RequestT", bound=OffsetCommitRequest | TxnOffsetCommitRequest)

# The error that a client gets for a failed append of offsets.
_COMMIT_ERRORS: Mapping[ErrorCode, ErrorCode] = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}

# The classes of an answer with one error a partition.
_ANSWERS: Final[Mapping[type, tuple[Any, Any, Any]]] = {
    OffsetCommitRequest: (
        OffsetCommitResponse,
        OffsetCommitResponseTopic,
        OffsetCommitResponsePartition,
    ),
    TxnOffsetCommitRequest: (
        TxnOffsetCommitResponse,
        TxnOffsetCommitResponseTopic,
        TxnOffsetCommitResponsePartition,
    ),
    OffsetDeleteRequest: (
        OffsetDeleteResponse,
        OffsetDeleteResponseTopic,
        OffsetDeleteResponsePartition,
    ),
}


class CommitAttempt(Generic[RequestT]):
    __slots__ = ("errors", "request", "token", "values")

    def __init__(
        self,
        token: object,
        request: RequestT,
        unknown: Container[TopicPartition],
        to_offset: Callable[[Any], OffsetAndMetadata],
    ) -> None:
        """Partitions in `unknown` do not exist and are refused at once."""
        self.token = token
        self.request = request
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.values: dict[TopicPartition, OffsetAndMetadata] = {}
        for topic in request.topics:
            for entry in topic.partitions:
                partition = (topic.name, entry.partition_index)
                if partition in unknown:
                    self.errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    self.values[partition] = to_offset(entry)

    def fail_rest(self, error: ErrorCode) -> None:
        """Set `error` as the result of all partitions left."""
        errors = self.errors
        for partition in self.values:
            errors[partition] = error
        self.values = {}

    def refuse_too_large(self, limit: int) -> None:
        """Metadata of more characters, by Java's count, than offset.metadata.max.bytes."""
        too_large = [
            partition
            for partition, value in self.values.items()
            if len(value.metadata) * 2 > limit and utf16_length(value.metadata) > limit
        ]
        for partition in too_large:
            del self.values[partition]
            self.errors[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE

    def response(self) -> Any:
        """When nothing is left."""
        return partition_errors(self.request, self.errors)


def client_error(error: ErrorCode) -> ErrorCode:
    """The error that a client gets for a failed append of offsets or a failed verification."""
    return _COMMIT_ERRORS.get(error, error)


def partition_errors(
    request: OffsetCommitRequest | TxnOffsetCommitRequest | OffsetDeleteRequest,
    errors: Mapping[TopicPartition, ErrorCode],
) -> Any:
    """The request's own response: one result for each of its partitions, in its order."""
    response, topic_result, partition_result = _ANSWERS[type(request)]
    answer = response(
        topics=[
            topic_result(
                name=topic.name,
                partitions=[
                    partition_result(
                        partition_index=entry.partition_index,
                        error_code=errors[topic.name, entry.partition_index],
                    )
                    for entry in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
    if isinstance(request, OffsetCommitRequest):
        for result, topic in zip(answer.topics, request.topics, strict=True):
            result.topic_id = topic.topic_id
    return answer
