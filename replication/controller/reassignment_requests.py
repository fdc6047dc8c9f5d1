"""AlterPartitionReassignments and ListPartitionReassignments as messages (KIP-455).

Job: turn requests into arguments of `Reassignments`, and its outcomes into responses. A partition
that is named twice counts once, with its last entry.

Mirrors the handlers of the same names in KafkaApis.
"""

from collections.abc import Iterable
from typing import TypeVar

from ...protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ...protocol.apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ...protocol.errors import ErrorCode
from ...protocol.zookeeper.operations import Flow
from .reassignment import Reassignments

T = TypeVar("T")


# At the top of an answer without an error, where Kafka leaves the field as it is.
NO_MESSAGE = ""


def answer_alter(
    reassignments: Reassignments, request: AlterPartitionReassignmentsRequest
) -> Flow[AlterPartitionReassignmentsResponse]:
    """Start, change or cancel the reassignments of a request; an outcome for each partition."""
    targets = {
        (topic.name, asked.partition_index): (
            None if asked.replicas is None else tuple(asked.replicas)
        )
        for topic in request.topics
        for asked in topic.partitions
    }
    allowed = request.allow_replication_factor_change
    outcomes = yield from reassignments.alter(targets, allows_other_factor=allowed)
    answers = (
        (
            partition[0],
            ReassignablePartitionResponse(
                partition_index=partition[1],
                error_code=error.code if error else ErrorCode.NONE,
                error_message=error.message if error else None,
            ),
        )
        for partition, error in sorted(outcomes.items(), key=lambda item: item[0])
    )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allowed,
        error_message=NO_MESSAGE,
        responses=[
            ReassignableTopicResponse(name=topic, partitions=partitions)
            for topic, partitions in _by_topic(answers)
        ],
    )


def answer_list(
    reassignments: Reassignments, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """The reassignments under way, of the partitions that are asked for or of all (null)."""
    asked = None
    if request.topics is not None:
        asked = {(t.name, index) for t in request.topics for index in t.partition_indexes}
    answers = (
        (
            partition[0],
            OngoingPartitionReassignment(
                partition_index=partition[1],
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            ),
        )
        for partition, assignment in reassignments.list(asked).items()
    )
    return ListPartitionReassignmentsResponse(
        error_message=NO_MESSAGE,
        topics=[
            OngoingTopicReassignment(name=topic, partitions=partitions)
            for topic, partitions in _by_topic(answers)
        ],
    )


def _by_topic(answers: Iterable[tuple[str, T]]) -> Iterable[tuple[str, list[T]]]:
    topics: dict[str, list[T]] = {}
    for topic, answer in answers:
        topics.setdefault(topic, []).append(answer)
    return topics.items()
