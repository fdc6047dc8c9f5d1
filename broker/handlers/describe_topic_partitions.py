"""DescribeTopicPartitions v0: topics and their partitions in pages (KIP-966).

A page has at most `max.request.partition.size.limit` partitions, and less if the client asks for
less. The next page begins at the cursor of the last one: topics are answered in the order of their
names, so that pages stay together while topics come and go.

Eligible leader replicas are never answered: they exist only in a cluster without ZooKeeper.

Mirrors `DescribeTopicPartitionsRequestHandler` and `KRaftMetadataCache.describeTopicResponse`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING

from ...protocol.acls import AclOperation, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ...protocol.errors import ErrorCode
from ...protocol.topics import INTERNAL_TOPICS
from .metadata import PARTITIONS_PER_STEP, is_legal_topic_name, leader_of

if TYPE_CHECKING:
    from ...replication.metadata_cache import MetadataCache, PartitionState
    from ..network.request import Handler, Request
    from ..network.turns import Steps


class DescribeTopicPartitionsHandler:
    __slots__ = ("_cache", "_most_partitions")

    def __init__(self, cache: MetadataCache, most_partitions: Callable[[], int]) -> None:
        """`most_partitions` of one page."""
        self._cache = cache
        self._most_partitions = most_partitions

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.DESCRIBE_TOPIC_PARTITIONS: self.describe_topic_partitions}

    def describe_topic_partitions(self, request: Request) -> Steps:
        cursor = request.body.cursor
        asked = {topic.name for topic in request.body.topics}
        problem = _problem(asked, cursor)
        if problem:
            request.fail(ErrorCode.INVALID_REQUEST, problem)
            return
        limit = max(min(request.body.response_partition_limit, self._most_partitions()), 1)
        first = "" if cursor is None else cursor.topic_name
        names, hidden = yield from _permitted(
            request, [name for name in asked or self._cache.topics() if name >= first]
        )
        answer = yield from self._page(request, names, limit)
        if asked:
            answer.topics += hidden
        request.respond(answer)

    def _page(
        self, request: Request, names: list[str], remaining: int
    ) -> Generator[None, None, DescribeTopicPartitionsResponse]:
        """`names` is a heap. Missing topics take none of the page's places."""
        cursor, is_all = request.body.cursor, not request.body.topics
        answer = DescribeTopicPartitionsResponse()
        while names:
            name = heappop(names)
            if not remaining:
                answer.next_cursor = Cursor(topic_name=name)
                break
            if self._cache.contains(name):
                at_cursor = cursor is not None and cursor.topic_name == name
                first = cursor.partition_index if cursor is not None and at_cursor else 0
                topic = yield from self._topic(request, name, first, remaining)
                answer.topics.append(topic)
                remaining -= len(topic.partitions)
                behind = first + len(topic.partitions)
                if not remaining and behind < len(self._cache.partitions(name)):
                    answer.next_cursor = Cursor(topic_name=name, partition_index=behind)
                    break
            elif not is_all:
                answer.topics.append(_missing(request, name))
            yield
        return answer

    def _topic(
        self, request: Request, name: str, first: int, limit: int
    ) -> Generator[None, None, DescribeTopicPartitionsResponseTopic]:
        topic = DescribeTopicPartitionsResponseTopic(
            name=name,
            topic_id=self._cache.topic_id(name),
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=request.operations_on(ResourceType.TOPIC, name),
        )
        listener = request.peer.listener_name
        found = sorted(item for item in self._cache.partitions(name).items() if item[0] >= first)
        for index, state in islice(found, limit):
            topic.partitions.append(self._partition(index, state, listener))
            if len(topic.partitions) % PARTITIONS_PER_STEP == 0:
                yield
        return topic

    def _partition(
        self, index: int, state: PartitionState, listener: str
    ) -> DescribeTopicPartitionsResponsePartition:
        leader, code = leader_of(self._cache, state, listener)
        return DescribeTopicPartitionsResponsePartition(
            error_code=code,
            partition_index=index,
            leader_id=leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=list(state.replicas),
            isr_nodes=list(state.isr),
            offline_replicas=list(state.offline_replicas),
            # Java's clients of 3.9 take null, which the schema allows, for an error of their own.
            eligible_leader_replicas=[],
            last_known_elr=[],
        )


def _permitted(
    request: Request, names: Iterable[str]
) -> Generator[None, None, tuple[list[str], list[DescribeTopicPartitionsResponseTopic]]]:
    """A heap of the names that the client may describe, and an answer for each one that it may
    not."""
    is_all = not request.body.topics
    found: list[str] = []
    hidden: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        yield
        operation, kind = AclOperation.DESCRIBE, ResourceType.TOPIC
        if request.permits(operation, kind, name, is_logged=not is_all):
            heappush(found, name)
        elif not is_all:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            hidden.append(DescribeTopicPartitionsResponseTopic(error_code=code, name=name))
    return found, hidden


def _problem(asked: set[str], cursor: Cursor | None) -> str:
    if cursor is None:
        return ""
    if asked and cursor.topic_name not in asked:
        return (
            "DescribeTopicPartitionsRequest topic list should contain the cursor topic: "
            f"{cursor.topic_name}"
        )
    if cursor.partition_index < 0:
        return (
            "DescribeTopicPartitionsRequest cursor partition must be valid: "
            f"Cursor(topicName='{cursor.topic_name}', partitionIndex={cursor.partition_index})"
        )
    return ""


def _missing(request: Request, name: str) -> DescribeTopicPartitionsResponseTopic:
    legal = is_legal_topic_name(name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if legal
        else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=request.operations_on(ResourceType.TOPIC, name),
    )
