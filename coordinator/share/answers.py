"""Answers of the share coordinator, which grow partition by partition until all are known.

Job: the five requests have the same form, and so have their answers; a `Kind` names the classes of
one. An `Answer` waits for the appends of its partitions; an append that fails turns them into
errors.

Mirrors the futures of ShareCoordinatorService.
"""

from typing import Any, Final, NamedTuple

from ...protocol.apis import (
    delete_share_group_state as delete,
)
from ...protocol.apis import (
    initialize_share_group_state as initialize,
)
from ...protocol.apis import (
    read_share_group_state as read,
)
from ...protocol.apis import (
    read_share_group_state_summary as summary,
)
from ...protocol.apis import (
    write_share_group_state as write,
)
from ...protocol.errors import ErrorCode
from .state import Key


class Kind(NamedTuple):
    """The classes of a request and its answer, and the beginning of the message of a failure."""

    request: Any
    asked: Any
    answer: Any
    topic: Any
    partition: Any
    failed: str

    def result(self, partition: int, error: ErrorCode, message: str | None = None) -> Any:
        return self.partition(
            partition=partition,
            error_code=error,
            error_message=error.description if message is None else message,
        )


INITIALIZE: Final = Kind(
    initialize.InitializeShareGroupStateRequest,
    initialize.InitializeStateData,
    initialize.InitializeShareGroupStateResponse,
    initialize.InitializeStateResult,
    initialize.PartitionResult,
    "Unable to initialize share group state: ",
)
READ: Final = Kind(
    read.ReadShareGroupStateRequest,
    read.ReadStateData,
    read.ReadShareGroupStateResponse,
    read.ReadStateResult,
    read.PartitionResult,
    "Unable to read share group state: ",
)
WRITE: Final = Kind(
    write.WriteShareGroupStateRequest,
    write.WriteStateData,
    write.WriteShareGroupStateResponse,
    write.WriteStateResult,
    write.PartitionResult,
    "Unable to write share group state: ",
)
DELETE: Final = Kind(
    delete.DeleteShareGroupStateRequest,
    delete.DeleteStateData,
    delete.DeleteShareGroupStateResponse,
    delete.DeleteStateResult,
    delete.PartitionResult,
    "Unable to delete share group state: ",
)
SUMMARY: Final = Kind(
    summary.ReadShareGroupStateSummaryRequest,
    summary.ReadStateSummaryData,
    summary.ReadShareGroupStateSummaryResponse,
    summary.ReadStateSummaryResult,
    summary.PartitionResult,
    "Unable to read share group state summary: ",
)


class Answer:
    __slots__ = ("_results", "kind", "token", "waits")

    def __init__(self, token: object, kind: Kind) -> None:
        self.token = token
        self.kind = kind
        self.waits = 0  # appends that it waits for
        # By topic id and partition, in the order of the request.
        self._results: dict[bytes, dict[int, Any]] = {}

    def set(self, key: Key, result: Any) -> None:
        self._results.setdefault(key.topic_id, {})[key.partition] = result

    def fail(self, key: Key, error: ErrorCode) -> None:
        """The coordinator cannot serve the partition."""
        message = self.kind.failed + error.description
        self.set(key, self.kind.result(key.partition, error, message))

    def response(self) -> Any:
        return self.kind.answer(
            results=[
                self.kind.topic(topic_id=topic_id, partitions=list(partitions.values()))
                for topic_id, partitions in self._results.items()
            ]
        )
