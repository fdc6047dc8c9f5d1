"""OffsetForLeaderEpoch v0-4: where a leader's epoch ends in the log (KIP-101, KIP-320).

Mirrors KafkaApis.handleOffsetForLeaderEpochRequest. Leaves out authorization.
"""

from collections.abc import Mapping

from ...protocol.api import ApiKey
from ...protocol.apis.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderTopicResult,
)
from ...replication.replica_manager import ReplicaManager
from ..network.request import Handler, Request


class OffsetForLeaderEpochHandler:
    __slots__ = ("_manager",)

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.OFFSET_FOR_LEADER_EPOCH: self.offset_for_leader_epoch}

    def offset_for_leader_epoch(self, request: Request) -> None:
        body: OffsetForLeaderEpochRequest = request.body
        topics = []
        for topic in body.topics:
            partitions = []
            for partition in topic.partitions:
                error, epoch, end_offset = self._manager.offsets.end_offset_for_epoch(
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
        request.respond(OffsetForLeaderEpochResponse(topics=topics))
