"""DescribeProducers v0: the producers that a replica knows, to find hanging transactions (KIP-664).

Mirrors KafkaApis.handleDescribeProducersRequest and UnifiedLog.activeProducers.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Final

from ...protocol.acls import AclOperation, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ...protocol.errors import ErrorCode, KafkaError
from ...replication.controller.topic_admin import check_topic_name
from ...replication.producers import active_producers
from ...replication.replica_manager import ReplicaManager
from ...storage.producer_entry import ProducerEntry

if TYPE_CHECKING:
    from ..network.request import Handler, Request


PRODUCERS_PER_STEP: Final = 500


class DescribeProducersHandler:
    __slots__ = ("_manager",)

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.DESCRIBE_PRODUCERS: self.describe}

    def describe(self, request: Request) -> Generator[None, None, None]:
        body: DescribeProducersRequest = request.body
        topics = []
        for topic in body.topics:
            partitions = []
            for index in topic.partition_indexes:
                partitions.append((yield from self._describe(request, topic.name, index)))
                yield
            topics.append(TopicResponse(name=topic.name, partitions=partitions))
        request.respond(DescribeProducersResponse(topics=topics))

    def _describe(
        self, request: Request, topic: str, partition: int
    ) -> Generator[None, None, PartitionResponse]:
        """There may be very many producers: each is described when its turn comes."""
        try:
            check_topic_name(topic)
            if not request.permits(AclOperation.READ, ResourceType.TOPIC, topic):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        except KafkaError as problem:
            return PartitionResponse(
                partition_index=partition, error_code=problem.code, error_message=problem.message
            )
        if not self._manager.metadata.contains(topic):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return PartitionResponse(
                partition_index=partition, error_code=error, error_message=_NOT_HOSTED
            )
        error, entries = active_producers(self._manager.hosted, (topic, partition))
        states = []
        for number, entry in enumerate(entries, 1):
            states.append(_state(entry))
            if number % PRODUCERS_PER_STEP == 0:
                yield
        return PartitionResponse(
            partition_index=partition, error_code=error, active_producers=states
        )


_NOT_HOSTED = "This server does not host this topic-partition."


def _state(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )
