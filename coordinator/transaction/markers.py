"""The markers for each broker: a queue for each, filled by the partitions' leaders.

Invariants: a partition of a job is in at most one queue; the caller of `take` owns the jobs it gets
and reports their outcome, good or bad, to the coordinator. One request holds all waiting markers of
a broker, up to MAX_PARTITIONS_PER_REQUEST partitions.

Mirrors the queues of Kafka's TransactionMarkerChannelManager. Different: a partition without a
leader is not queued, but left to the coordinator's retries.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ...protocol.apis.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from .core import MarkerJob

MAX_PARTITIONS_PER_REQUEST = 10_000

# The leader of a partition: None if there is no such partition, NO_BROKER if it has none alive.
NO_BROKER = -1
LeaderOf = Callable[[TopicPartition], int | None]


class Routed(NamedTuple):
    """The brokers a job was queued for, and the partitions that were not queued."""

    brokers: list[int]
    gone: frozenset[TopicPartition]  # there is no such partition any more
    leaderless: frozenset[TopicPartition]


class MarkerQueues:
    __slots__ = ("_leader_of", "_queues")

    def __init__(self, leader_of: LeaderOf) -> None:
        self._leader_of = leader_of
        self._queues: dict[int, deque[MarkerJob]] = {}

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def add(self, job: MarkerJob) -> Routed:
        """Queue the job for the leaders of its partitions."""
        by_leader: dict[int | None, list[TopicPartition]] = {}
        for partition in sorted(job.partitions):
            by_leader.setdefault(self._leader_of(partition), []).append(partition)
        gone = frozenset(by_leader.pop(None, ()))
        leaderless = frozenset(by_leader.pop(NO_BROKER, ()))
        brokers = []
        for leader, partitions in by_leader.items():
            assert leader is not None
            queue = self._queues.setdefault(leader, deque())
            queue.append(job._replace(partitions=frozenset(partitions)))
            brokers.append(leader)
        return Routed(brokers, gone, leaderless)

    def waits(self, broker_id: int) -> bool:
        return bool(self._queues.get(broker_id))

    def take(self, broker_id: int) -> list[MarkerJob]:
        """Remove and return the next jobs for a broker."""
        queue = self._queues.get(broker_id, deque())
        jobs: list[MarkerJob] = []
        count = 0
        while queue and (
            not jobs or count + len(queue[0].partitions) <= MAX_PARTITIONS_PER_REQUEST
        ):
            count += len(queue[0].partitions)
            jobs.append(queue.popleft())
        return jobs

    def take_piece(self, broker_id: int, most: int) -> MarkerJob:
        """The job at the front, with at most so many of its partitions; the rest stays there."""
        queue = self._queues[broker_id]
        job = queue.popleft()
        if len(job.partitions) <= most:
            return job
        partitions = sorted(job.partitions)
        queue.appendleft(job._replace(partitions=frozenset(partitions[most:])))
        return job._replace(partitions=frozenset(partitions[:most]))

    def unload(self, log_partition: int) -> None:
        """This broker does not coordinate the transactions of this partition any more."""
        for broker_id, queue in self._queues.items():
            kept = (job for job in queue if job.log_partition != log_partition)
            self._queues[broker_id] = deque(kept)


def markers_request(jobs: Iterable[MarkerJob]) -> WriteTxnMarkersRequest:
    """One request for all of these."""
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=job.producer_id,
                producer_epoch=job.producer_epoch,
                transaction_result=job.committed,
                topics=_topics(job.partitions),
                coordinator_epoch=job.coordinator_epoch,
                transaction_version=job.transaction_version,
            )
            for job in jobs
        ]
    )


def _topics(partitions: Iterable[TopicPartition]) -> list[WritableTxnMarkerTopic]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return [
        WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
        for topic, indexes in by_topic.items()
    ]


def marker_results(
    response: WriteTxnMarkersResponse,
) -> Mapping[int, Mapping[TopicPartition, ErrorCode]]:
    """The answer by producer id. A code that we do not know counts as UNKNOWN_SERVER_ERROR."""
    results: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for marker in response.markers:
        of_producer = results.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for entry in topic.partitions:
                of_producer[topic.name, entry.partition_index] = _error(entry.error_code)
    return results


def _error(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
