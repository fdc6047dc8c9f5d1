"""States of share partitions as a leader stores them: calls of the persister, for one partition.

Job: requests and answers of the share coordinator, with the errors that members get. What the
coordinator refuses since another leader has come ends the share partition here (`FENCING`).

Mirrors SharePartition.writeShareGroupState and fetchPersisterError of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ...protocol.apis import read_share_group_state as reading
from ...protocol.apis import write_share_group_state as writing
from ...protocol.errors import ErrorCode, KafkaError
from ...replication.share.in_flight import StateBatch, StateWrite
from ...replication.share.share_partition import SharePartition
from ..coordinators.persister import Persister

ServedKey = tuple[str, bytes, int]  # group id, topic id, partition

UNINITIALIZED: Final = -1  # a start offset

# By error of the coordinator: the error that a member gets.
_TOLD: Final = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
FENCING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class StoredState(NamedTuple):
    start_offset: int
    state_epoch: int
    batches: list[StateBatch]


class StoredStates:
    __slots__ = ("_persister",)

    def __init__(self, persister: Persister) -> None:
        self._persister = persister

    async def read(self, key: ServedKey, leader_epoch: int) -> StoredState:
        """Earlier leaders are fenced from now on. Raises KafkaError."""
        group_id, topic_id, index = key
        partition = reading.PartitionData(partition=index, leader_epoch=leader_epoch)
        topic = reading.ReadStateData(topic_id=topic_id, partitions=[partition])
        response = await self._persister.read_state(
            reading.ReadShareGroupStateRequest(group_id=group_id, topics=[topic])
        )
        result: reading.PartitionResult = response.results[0].partitions[0]
        if result.error_code:
            raise KafkaError(_told(result.error_code), result.error_message)
        return StoredState(
            result.start_offset,
            result.state_epoch,
            [
                StateBatch(
                    batch.first_offset,
                    batch.last_offset,
                    batch.delivery_state,
                    batch.delivery_count,
                )
                for batch in result.state_batches
            ],
        )

    async def write(
        self, key: ServedKey, machine: SharePartition, writes: Sequence[StateWrite]
    ) -> tuple[ErrorCode, str | None]:
        group_id, topic_id, index = key
        latest = writes[-1]
        batches = [
            writing.StateBatch(
                first_offset=batch.first_offset,
                last_offset=batch.last_offset,
                delivery_state=batch.state,
                delivery_count=batch.delivery_count,
            )
            for write in writes
            for batch in write.batches
        ]
        partition = writing.PartitionData(
            partition=index,
            state_epoch=machine.state_epoch,
            leader_epoch=machine.leader_epoch,
            start_offset=latest.start_offset,
            delivery_complete_count=latest.delivery_complete_count,
            state_batches=batches,
        )
        topic = writing.WriteStateData(topic_id=topic_id, partitions=[partition])
        response = await self._persister.write_state(
            writing.WriteShareGroupStateRequest(group_id=group_id, topics=[topic])
        )
        result: writing.PartitionResult = response.results[0].partitions[0]
        if result.error_code:
            return _told(result.error_code), result.error_message
        return ErrorCode.NONE, None


def _told(code: int) -> ErrorCode:
    return _TOLD.get(ErrorCode(code), ErrorCode.UNKNOWN_SERVER_ERROR)
