"""OffsetCommit, OffsetFetch and OffsetDelete.

| API | versions | notes |
|---|---|---|
| OffsetCommit | 0-10 | v0 goes to ZooKeeper; partitions that do not exist are answered so |
| OffsetFetch | 0-10 | v0 from ZooKeeper; errors: v0-1 on partitions, v2-7 on top, v8+ per group |
| OffsetDelete | 0 | |

An OffsetFetch shows only topics that the client may describe; an error of the group comes first.
From v10 on both name topics by id (`network.topic_names` has looked up those of a commit); a topic
without an id is left out where all are asked for.

Mirrors the handlers of the same names in KafkaApis and GroupCoordinatorAdapter.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from ...coordinator.group.commit_plan import CommitPlan, plan_of
from ...coordinator.group.consumer.commits import FIRST_COMMIT_VERSION
from ...coordinator.group.offsets import INVALID_OFFSET
from ...coordinator.group.stable_fetch import Wanted
from ...protocol.acls import AclOperation, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ...protocol.apis.offset_delete import OffsetDeleteRequest
from ...protocol.apis.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.topics import TopicPartition
from ...protocol.uuids import ZERO_UUID
from ..network.repeated_request_template import RepeatedRequestTemplate

if TYPE_CHECKING:
    from ...coordinator.group.group_coordinator import GroupCoordinator
    from ...replication.metadata_cache import MetadataCache
    from ..network.request import Handler, Request

logger: Final = logging.getLogger("pybroker.broker.groups")

_FIRST_FETCH_TOP_LEVEL_ERROR_VERSION: Final = 2
_FIRST_FETCH_BATCH_VERSION: Final = 8
_FIRST_FETCH_VERSION_WITH_IDS: Final = 10
_ZOOKEEPER_VERSION: Final = 0
_NO_EPOCH: Final = -1


class ConsumerOffsetsInZooKeeper(Protocol):
    """The store for offsets of OffsetCommit and OffsetFetch version 0 (/consumers/...)."""

    async def get_offset(self, group: str, topic: str, partition: int) -> int | None: ...

    async def set_offset(self, group: str, topic: str, partition: int, offset: int) -> None: ...


class Groups(Protocol):
    """The methods of `GroupRuntime` that these handlers use: the simulation has its own driver."""

    machine: GroupCoordinator

    @property
    def now_ms(self) -> int: ...

    def perform(self) -> None: ...

    def spawn(
        self, handler: Callable[..., Awaitable[None]], request: Request, *arguments: Any
    ) -> None: ...

    def commit_again(self, request: Request, plan: CommitPlan) -> bool: ...


class GroupOffsetHandlers:
    """Handlers of the APIs about committed offsets."""

    __slots__ = (
        "_metadata",
        "_metadata_max_bytes",
        "_runtime",
        "_zookeeper",
    )

    def __init__(
        self,
        runtime: Groups,
        metadata: MetadataCache,
        *,
        zookeeper: ConsumerOffsetsInZooKeeper,
        offset_metadata_max_bytes: int,
    ) -> None:
        self._runtime = runtime
        self._metadata = metadata
        self._zookeeper = zookeeper
        self._metadata_max_bytes = offset_metadata_max_bytes

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.OFFSET_COMMIT: self.commit,
            ApiKey.OFFSET_FETCH: self.fetch,
            ApiKey.OFFSET_DELETE: self.delete,
        }

    # OffsetCommit

    def commit(self, request: Request) -> None:
        runtime = self._runtime
        body = request.body
        template = request.connection.memo
        if (
            type(template) is RepeatedRequestTemplate
            and template.body is body
            and self._commit_again(request, template)
        ):
            return
        unknown = self._unknown(body)
        if request.api_version == _ZOOKEEPER_VERSION:
            runtime.spawn(self._commit_to_zookeeper, request, unknown)
            return
        is_old = request.api_version < FIRST_COMMIT_VERSION
        runtime.machine.commit_offsets(request, body, runtime.now_ms, unknown, is_old=is_old)
        runtime.perform()

    def _commit_again(self, request: Request, template: RepeatedRequestTemplate) -> bool:
        """A commit of the same partitions by the same client; False: it has to be looked at."""
        body: OffsetCommitRequest = template.body
        plan: CommitPlan | None = template.kept
        if plan is None:
            plan = plan_of(body, request.api_version, self._metadata_max_bytes)
            if plan is None:
                return False
            template.kept = plan
        if plan.known_at != self._metadata.version:
            if self._unknown(body):
                return False
            plan.known_at = self._metadata.version
        return self._runtime.commit_again(request, plan)

    async def _commit_to_zookeeper(
        self, request: Request, unknown: frozenset[TopicPartition]
    ) -> None:
        body = request.body
        topics = []
        for topic in body.topics:
            results = []
            for entry in topic.partitions:
                error = ErrorCode.NONE
                if (topic.name, entry.partition_index) in unknown:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif len(entry.committed_metadata or "") > self._metadata_max_bytes:
                    error = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    try:
                        await self._zookeeper.set_offset(
                            body.group_id,
                            topic.name,
                            entry.partition_index,
                            entry.committed_offset,
                        )
                    except Exception as problem:
                        error = _zookeeper_error(problem)
                results.append(
                    OffsetCommitResponsePartition(
                        partition_index=entry.partition_index, error_code=error
                    )
                )
            topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=results))
        request.respond(OffsetCommitResponse(topics=topics))

    # OffsetFetch

    def fetch(self, request: Request) -> None:
        version = request.api_version
        body = request.body
        if version == _ZOOKEEPER_VERSION:
            self._runtime.spawn(self._fetch_from_zookeeper, request)
            return
        asked = body.groups if version >= _FIRST_FETCH_BATCH_VERSION else [body]
        call = _FetchCall(request)
        if request.peer.access is not None or version >= _FIRST_FETCH_VERSION_WITH_IDS:
            if version >= _FIRST_FETCH_VERSION_WITH_IDS:
                self._name_topics(asked)
            call = _CheckedFetchCall(request, asked, self._metadata.topic_id)
            asked = call.permitted
        wanted = [_wanted(call, group) for group in asked]
        runtime = self._runtime
        if body.require_stable:
            runtime.machine.fetch_stable_offsets(call, wanted, runtime.now_ms)
            runtime.perform()
        else:
            call.respond([runtime.machine.fetch_offsets(*one) for one in wanted])

    def _name_topics(self, asked: Iterable[Any]) -> None:
        """Topics that are named by id get their names, and unknown ones an empty name."""
        name_of = self._metadata.topic_name
        for group in asked:
            for topic in group.topics or ():
                topic.name = name_of(topic.topic_id) or ""

    async def _fetch_from_zookeeper(self, request: Request) -> None:
        body = request.body
        topics = []
        if not _may_describe(request, body.group_id):
            request.fail(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            return
        for topic in body.topics or ():
            if not _may_see(request, topic.name):
                topics.append(_refused_topic(topic))
                continue
            partitions = []
            for index in topic.partition_indexes:
                offset: int | None = None
                error = ErrorCode.NONE
                if self._metadata.partition_state(topic.name, index) is not None:
                    try:
                        offset = await self._zookeeper.get_offset(body.group_id, topic.name, index)
                    except Exception as problem:
                        error = _zookeeper_error(problem)
                if offset is None and error is ErrorCode.NONE:
                    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                partitions.append(
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=INVALID_OFFSET if offset is None else offset,
                        metadata="",
                        error_code=error,
                    )
                )
            topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=partitions))
        request.respond(OffsetFetchResponse(topics=topics))

    # OffsetDelete

    def delete(self, request: Request) -> None:
        runtime = self._runtime
        body = request.body
        unknown = self._unknown(body)
        runtime.machine.delete_offsets(request, body, runtime.now_ms, unknown)
        runtime.perform()

    def _unknown(
        self, request: OffsetCommitRequest | OffsetDeleteRequest
    ) -> frozenset[TopicPartition]:
        """The partitions of the request that do not exist in the cluster."""
        state = self._metadata.partition_state
        return frozenset(
            [
                (topic.name, entry.partition_index)
                for topic in request.topics
                for entry in topic.partitions
                if state(topic.name, entry.partition_index) is None
            ]
        )


class _FetchTopic(Protocol):
    """A topic of an OffsetFetch, in either of its two shapes; before v8 without an id."""

    name: str
    topic_id: bytes
    partition_indexes: list[int]


class _FetchGroup(Protocol):
    """A group of an OffsetFetch; in old versions the request itself."""

    group_id: str
    topics: list[_FetchTopic] | None


def _wanted(call: _FetchCall, group: _FetchGroup) -> Wanted:
    topics = _wanted_topics(call, group.topics)
    # Of the members only those of version 9 and above are named.
    return Wanted(
        group.group_id,
        topics,
        getattr(group, "member_id", None),
        getattr(group, "member_epoch", _NO_EPOCH),
    )


def _wanted_topics(
    call: _FetchCall, topics: Iterable[_FetchTopic] | None
) -> list[tuple[str, list[int]]] | None:
    if topics is None:
        return None
    return [
        (topic.name, topic.partition_indexes)
        for topic in topics
        if call.refusal(topic.name) is ErrorCode.NONE
    ]


def _may_describe(request: Request, group: str) -> bool:
    return request.permits(AclOperation.DESCRIBE, ResourceType.GROUP, group)


def _may_see(request: Request, topic: str) -> bool:
    return request.permits(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)


def _refused_topic(topic: _FetchTopic) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=index,
                committed_offset=INVALID_OFFSET,
                metadata="",
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )
            for index in topic.partition_indexes
        ],
    )


class _FetchCall:
    """An OffsetFetch: converts the answer of the groups' coordinator for its version."""

    __slots__ = ("_request",)

    def __init__(self, request: Request) -> None:
        self._request = request

    def respond(self, results: list[OffsetFetchResponseGroup]) -> None:
        if self._request.api_version >= _FIRST_FETCH_BATCH_VERSION:
            self._request.respond(OffsetFetchResponse(groups=results))
        else:
            self._request.respond(_old_fetch_response(self._request, results[0]))

    def refusal(self, _topic: str) -> ErrorCode:
        """The reason why the coordinator is not asked about a topic; NONE: it is."""
        return ErrorCode.NONE

    def close(self) -> None:
        self._request.close()


class _CheckedFetchCall(_FetchCall):
    """An OffsetFetch of a client that may not see everything, or that names topics by id.

    The coordinator is asked for permitted and known topics; the others are put into its answer.
    """

    __slots__ = ("_asked", "_has_ids", "_topic_id_of", "permitted")

    def __init__(
        self, request: Request, asked: Sequence[_FetchGroup], topic_id_of: Callable[[str], bytes]
    ) -> None:
        super().__init__(request)
        self._asked = asked
        self._has_ids = request.api_version >= _FIRST_FETCH_VERSION_WITH_IDS
        self._topic_id_of = topic_id_of
        self.permitted = [group for group in asked if _may_describe(request, group.group_id)]

    def refusal(self, topic: str) -> ErrorCode:
        if self._has_ids and not topic:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if not _may_see(self._request, topic):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.NONE

    def respond(self, results: list[OffsetFetchResponseGroup]) -> None:
        answers = iter(results)
        known = {id(group) for group in self.permitted}
        super().respond(
            [
                self._seen(group, next(answers))
                if id(group) in known
                else OffsetFetchResponseGroup(
                    group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
                )
                for group in self._asked
            ]
        )

    def _seen(
        self, asked: _FetchGroup, result: OffsetFetchResponseGroup
    ) -> OffsetFetchResponseGroup:
        if result.error_code:
            return result
        if asked.topics is None:
            result.topics = [
                topic
                for topic in result.topics
                if _may_see(self._request, topic.name) and self._identified(topic)
            ]
            return result
        if self._has_ids:
            ids = {topic.name: topic.topic_id for topic in asked.topics}
            for topic in result.topics:
                topic.topic_id = ids[topic.name]
        for one in asked.topics:
            code = self.refusal(one.name)
            if code is not ErrorCode.NONE:
                result.topics.append(self._refused(one, code))
        return result

    def _identified(self, topic: OffsetFetchResponseTopics) -> bool:
        """Whether the topic can be in the answer: one without an id cannot where ids are used."""
        if not self._has_ids:
            return True
        topic.topic_id = self._topic_id_of(topic.name)
        return topic.topic_id != ZERO_UUID

    def _refused(self, topic: _FetchTopic, code: ErrorCode) -> OffsetFetchResponseTopics:
        return OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id if self._has_ids else ZERO_UUID,
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=index,
                    committed_offset=INVALID_OFFSET,
                    metadata="",
                    error_code=code,
                )
                for index in topic.partition_indexes
            ],
        )


def _zookeeper_error(problem: Exception) -> ErrorCode:
    if isinstance(problem, KafkaError):
        return problem.code
    logger.warning("Offsets in ZooKeeper are not reachable: %s", problem)
    return ErrorCode.UNKNOWN_SERVER_ERROR


def _old_fetch_response(request: Request, result: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """One group's offsets in the shape of v1-7, with an error where the version has it."""
    if result.error_code == ErrorCode.NONE:
        return OffsetFetchResponse(
            topics=[
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetFetchResponsePartition(
                            partition_index=entry.partition_index,
                            committed_offset=entry.committed_offset,
                            committed_leader_epoch=entry.committed_leader_epoch,
                            metadata=entry.metadata,
                            error_code=entry.error_code,
                        )
                        for entry in topic.partitions
                    ],
                )
                for topic in result.topics
            ]
        )
    if request.api_version >= _FIRST_FETCH_TOP_LEVEL_ERROR_VERSION:
        return OffsetFetchResponse(error_code=result.error_code)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=INVALID_OFFSET,
                        metadata="",
                        error_code=result.error_code,
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.body.topics
        ]
    )
