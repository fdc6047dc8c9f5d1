"""A broker in memory, of one topic, that is asked about offsets and leads and coordinates all.

What it answers is wrong as often as a test says: `codes` has what the next answers say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
from trio.testing import memory_stream_pair

from pybroker_kafka.client.cluster import Cluster
from pybroker_kafka.client.security.connector import Reach
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.api_versions import ApiVersion, ApiVersionsResponse
from pybroker_kafka.protocol.apis.find_coordinator import Coordinator, FindCoordinatorResponse
from pybroker_kafka.protocol.apis.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pybroker_kafka.protocol.apis.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from pybroker_kafka.protocol.apis.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pybroker_kafka.protocol.apis.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.broker_streams import answer_requests

ADDRESS = "one:1"
TOPIC = "t"
PARTITIONS = 2
NEWEST = {
    ApiKey.API_VERSIONS: 3,
    ApiKey.METADATA: 12,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.LIST_OFFSETS: 7,
}


class OffsetBroker:
    """The log of each partition ends at 100 times its number, and begins there."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.codes: list[ErrorCode] = []  # of the next partitions that are answered, then none
        self.asked: list[ApiKey] = []
        self.readers: list[tuple[str | None, int]] = []  # of offsets: member id and epoch

    def cluster(self) -> Cluster:
        network: Reach = self._reach
        return Cluster(ADDRESS, network=network)

    def count(self, key: ApiKey) -> int:
        return self.asked.count(key)

    async def _reach(self, _host: str, _port: int) -> trio.abc.Stream:
        ours, theirs = memory_stream_pair()
        self._nursery.start_soon(answer_requests, theirs, self._answer)
        return ours

    async def _answer(self, key: ApiKey, _version: int, body: Any) -> Any:
        self.asked.append(key)
        answers: dict[ApiKey, Callable[[Any], Any]] = {
            ApiKey.API_VERSIONS: self._versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.FIND_COORDINATOR: self._find,
            ApiKey.OFFSET_COMMIT: self._commit,
            ApiKey.OFFSET_FETCH: self._fetch,
            ApiKey.LIST_OFFSETS: self._list,
        }
        return answers[key](body)

    def _code(self) -> ErrorCode:
        return self.codes.pop(0) if self.codes else ErrorCode.NONE

    def _versions(self, _body: Any) -> ApiVersionsResponse:
        served = [
            ApiVersion(api_key=key, min_version=0, max_version=newest)
            for key, newest in NEWEST.items()
        ]
        return ApiVersionsResponse(api_keys=served)

    def _metadata(self, _body: Any) -> MetadataResponse:
        parts = [
            MetadataResponsePartition(
                partition_index=number, leader_id=1, leader_epoch=0, replica_nodes=[1],
                isr_nodes=[1],
            )
            for number in range(PARTITIONS)
        ]  # fmt: skip
        topic = MetadataResponseTopic(name=TOPIC, topic_id=bytes(16), partitions=parts)
        broker = MetadataResponseBroker(node_id=1, host="one", port=1)
        return MetadataResponse(brokers=[broker], controller_id=1, topics=[topic])

    def _find(self, body: Any) -> FindCoordinatorResponse:
        (key,) = body.coordinator_keys
        found = Coordinator(key=key, node_id=1, host="one", port=1, error_code=ErrorCode.NONE)
        return FindCoordinatorResponse(coordinators=[found])

    def _fetch(self, body: Any) -> OffsetFetchResponse:
        (group,) = body.groups
        self.readers.append((group.member_id, group.member_epoch))
        code = self._code()
        topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartitions(partition_index=number, committed_offset=7)
                    for number in topic.partition_indexes
                ],
            )
            for topic in ([] if code else group.topics)
        ]
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(group_id=group.group_id, topics=topics, error_code=code)
            ]
        )

    def _commit(self, body: Any) -> OffsetCommitResponse:
        topics = [
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=part.partition_index, error_code=self._code()
                    )
                    for part in topic.partitions
                ],
            )
            for topic in body.topics
        ]
        return OffsetCommitResponse(topics=topics)

    def _list(self, body: Any) -> ListOffsetsResponse:
        topics = [
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=part.partition_index,
                        error_code=self._code(),
                        offset=100 * part.partition_index,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in body.topics
        ]
        return ListOffsetsResponse(topics=topics)
