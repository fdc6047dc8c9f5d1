"""The start offsets of share groups: DescribeShareGroupOffsets, Alter- and Delete- (KIP-932).

| API | versions | notes |
|---|---|---|
| DescribeShareGroupOffsets | 0-1 | v1 lag |
| AlterShareGroupOffsets | 0 | groups without members only |
| DeleteShareGroupOffsets | 0 | groups without members only |

The offsets are with the share coordinators, and the group coordinator knows of which partitions.
The lag is what is not delivered for good: up to the end that consumers see, without what was
acknowledged behind the start offset.

Mirrors the handlers of the same names in KafkaApis and GroupCoordinatorService.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import trio

from ...coordinator.group.consumer.requests import Refused
from ...coordinator.group.share.offsets import Altering, Deleting
from ...protocol.acls import AclOperation, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ...protocol.apis.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ...protocol.apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from ...protocol.apis.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from ...protocol.apis.share_group_heartbeat import ShareGroupHeartbeatResponse
from ...protocol.errors import ErrorCode
from ..coordinators.end_offsets import EndOffsets
from ..coordinators.group_runtime import GroupRuntime

if TYPE_CHECKING:
    from ...replication.metadata_cache import MetadataCache
    from ..network.request import Handler, Request

_UNKNOWN_OFFSET = -1


class _Outcome:
    """The token of a call of the machine, and its answer."""

    __slots__ = ("_answered", "_response")

    def __init__(self) -> None:
        self._answered = trio.Event()
        self._response: Any = None

    def respond(self, response: Any) -> None:
        self._response = response
        self._answered.set()

    def close(self) -> None:
        self.respond(ShareGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))

    async def get(self) -> Any:
        """Raises Refused."""
        await self._answered.wait()
        if isinstance(self._response, ShareGroupHeartbeatResponse):
            raise Refused(ErrorCode(self._response.error_code))
        return self._response


class ShareGroupOffsetHandlers:
    __slots__ = ("_cache", "_ends", "_runtime")

    def __init__(self, runtime: GroupRuntime, cache: MetadataCache, ends: EndOffsets) -> None:
        self._runtime = runtime
        self._cache = cache
        self._ends = ends

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: self.describe,
            ApiKey.ALTER_SHARE_GROUP_OFFSETS: self.alter,
            ApiKey.DELETE_SHARE_GROUP_OFFSETS: self.delete,
        }

    async def _perform(self, call: Callable[..., None], *arguments: Any) -> Any:
        """The machine's answer. Raises Refused."""
        outcome = _Outcome()
        call(outcome, *arguments, self._runtime.now_ms)
        self._runtime.perform()
        return await outcome.get()

    # Describe

    async def describe(self, request: Request) -> None:
        groups = [await self._described(request, group) for group in request.body.groups]
        request.respond(DescribeShareGroupOffsetsResponse(groups=groups))

    async def _described(
        self, request: Request, asked: DescribeShareGroupOffsetsRequestGroup
    ) -> DescribeShareGroupOffsetsResponseGroup:
        described = DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id)
        if not request.permits(AclOperation.DESCRIBE, ResourceType.GROUP, asked.group_id):
            described.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            described.error_message = ErrorCode.GROUP_AUTHORIZATION_FAILED.description
            return described
        wanted: dict[bytes, tuple[str, list[int]]] = {}
        others = []
        if asked.topics is None:
            for topic_id, indexes in self._runtime.machine.shares.assignable(
                asked.group_id
            ).items():
                name = self._cache.topic_name(topic_id)
                if name is not None and _may_describe(request, name):
                    wanted[topic_id] = name, sorted(indexes)
        for topic in asked.topics or ():
            name, partitions = topic.topic_name, topic.partitions
            if not _may_describe(request, name):
                denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                others.append(_without_offsets(name, partitions, denied))
            elif self._cache.contains(name):
                wanted[self._cache.topic_id(name)] = name, partitions
            else:
                others.append(_without_offsets(name, partitions, ErrorCode.NONE))
        described.topics = [*await self._offsets(asked.group_id, wanted), *others]
        return described

    async def _offsets(
        self, group_id: str, wanted: Mapping[bytes, tuple[str, list[int]]]
    ) -> list[DescribeShareGroupOffsetsResponseTopic]:
        if not wanted:
            return []
        summary = ReadShareGroupStateSummaryRequest(
            group_id=group_id,
            topics=[
                ReadStateSummaryData(
                    topic_id=topic_id,
                    partitions=[PartitionData(partition=index) for index in indexes],
                )
                for topic_id, (_, indexes) in wanted.items()
            ],
        )
        response = await self._runtime.states.read_summary(summary)
        keys = [
            (wanted[topic.topic_id][0], found.partition)
            for topic in response.results
            for found in topic.partitions
            if _has_lag(found)
        ]
        ends = await self._ends.elsewhere(keys)
        ends |= {key: end for key in keys if (end := self._ends.here(key)) is not None}
        return [
            DescribeShareGroupOffsetsResponseTopic(
                topic_name=wanted[topic.topic_id][0],
                topic_id=topic.topic_id,
                partitions=[
                    _partition(found, ends.get((wanted[topic.topic_id][0], found.partition)))
                    for found in topic.partitions
                ],
            )
            for topic in response.results
        ]

    # Alter

    async def alter(self, request: Request) -> None:
        machine = self._runtime.machine
        asked: AlterShareGroupOffsetsRequest = request.body
        permitted, denied = [], []
        for one in asked.topics:
            if request.permits(AclOperation.READ, ResourceType.TOPIC, one.topic_name):
                permitted.append(one)
            else:
                denied.append(self._not_permitted(one))
        if denied:
            request.metrics.error(ErrorCode.TOPIC_AUTHORIZATION_FAILED.name)
        wanted = AlterShareGroupOffsetsRequest(group_id=asked.group_id, topics=permitted)
        try:
            altering: Altering = await self._perform(machine.shares.alter, wanted)
        except Refused as refused:
            request.fail(refused.error, refused.message)
            return
        if altering.request.topics:
            begun = await self._runtime.states.initialize_state(altering.request)
            failed = {
                (topic.topic_id, result.partition): result
                for topic in begun.results
                for result in topic.partitions
                if result.error_code
            }
            if not failed:
                machine.states_initialized(altering.request, begun, self._runtime.now_ms)
                self._runtime.perform()
            for topic in altering.topics:
                for partition in topic.partitions:
                    error = failed.get((topic.topic_id, partition.partition_index))
                    if error is not None:
                        partition.error_code = error.error_code
                        partition.error_message = error.error_message
        request.respond(AlterShareGroupOffsetsResponse(responses=[*denied, *altering.topics]))

    def _not_permitted(
        self, topic: AlterShareGroupOffsetsRequestTopic
    ) -> AlterShareGroupOffsetsResponseTopic:
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name,
            topic_id=self._cache.topic_id(topic.topic_name),
            partitions=[
                AlterShareGroupOffsetsResponsePartition(
                    partition_index=one.partition_index,
                    error_code=error,
                    error_message=error.description,
                )
                for one in topic.partitions
            ],
        )

    # Delete

    async def delete(self, request: Request) -> None:
        shares, group_id = self._runtime.machine.shares, request.body.group_id
        try:
            deleting: Deleting = await self._perform(shares.delete, request.body)
            results = list(deleting.failed)
            if deleting.request.topics:
                gone = await self._runtime.states.delete_state(deleting.request)
                done = []
                for topic in gone.results:
                    error = next((r.error_code for r in topic.partitions if r.error_code), 0)
                    results.append(self._deleted(topic.topic_id, ErrorCode(error)))
                    if not error:
                        done.append(topic.topic_id)
                if done:
                    await self._perform(shares.deleted, group_id, done)
        except Refused as refused:
            request.fail(refused.error, refused.message)
            return
        request.respond(DeleteShareGroupOffsetsResponse(responses=results))

    def _deleted(self, topic_id: bytes, error: ErrorCode) -> DeleteShareGroupOffsetsResponseTopic:
        return DeleteShareGroupOffsetsResponseTopic(
            topic_name=self._cache.topic_name(topic_id) or "",
            topic_id=topic_id,
            error_code=error,
            error_message=error.description if error else None,
        )


def _may_describe(request: Request, topic: str) -> bool:
    return request.permits(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)


def _without_offsets(
    name: str, partitions: list[int], error: ErrorCode
) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=_UNKNOWN_OFFSET,
                error_code=error,
                error_message=error.description if error else None,
            )
            for index in partitions
        ],
    )


def _has_lag(found: PartitionResult) -> bool:
    return (
        not found.error_code
        and found.start_offset != _UNKNOWN_OFFSET
        and found.delivery_complete_count != _UNKNOWN_OFFSET
    )


def _partition(
    found: PartitionResult, end_offset: int | None
) -> DescribeShareGroupOffsetsResponsePartition:
    described = DescribeShareGroupOffsetsResponsePartition(partition_index=found.partition)
    if _has_lag(found) and end_offset is None:
        error = ErrorCode.REQUEST_TIMED_OUT
        described.error_code, described.error_message = error, error.description
        return described
    if found.error_code:
        described.start_offset = _UNKNOWN_OFFSET
        return described
    described.start_offset = found.start_offset
    described.leader_epoch = found.leader_epoch
    if end_offset is not None:
        described.lag = end_offset - found.start_offset - found.delivery_complete_count
    return described
