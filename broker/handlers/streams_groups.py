"""StreamsGroupHeartbeat and StreamsGroupDescribe: groups of Kafka Streams applications (KIP-1071).

| API | versions | notes |
|---|---|---|
| StreamsGroupHeartbeat | 0 | creates missing internal topics |
| StreamsGroupDescribe | 0 | |

Both are served once `streams.version` is finalized. Internal topics are created behind the answer
that tells that they are missing, with the permissions of the member; why one could not be created
is in a later answer.

Mirrors the handlers of the same names in KafkaApis.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...coordinator.group.streams.requests import Beat, HeartbeatResult, is_too_large
from ...coordinator.group.streams.topic_configuration import Status
from ...protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.streams_group_describe import (
    StreamsGroupDescribeResponse,
    StreamsGroupDescribeResponseDescribedGroup,
)
from ...protocol.apis.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.topics import INTERNAL_TOPICS
from ...replication.controller.topic_admin import check_topic_name
from ..cluster.streams_topics import StreamsTopics
from ..coordinators.group_runtime import GroupRuntime
from .consumer_groups import MAX_HEARTBEAT_BYTES

if TYPE_CHECKING:
    from ...coordinator.group.streams.topology import TopicInfo
    from ..network.request import Handler, Request

_MAX_NAMED_ERRORS = 3
# Names of a topology that an error quotes.
_MAX_NAMED_TOPICS = 10


class StreamsGroupHandlers:
    __slots__ = ("_runtime", "_topics")

    def __init__(self, runtime: GroupRuntime, topics: StreamsTopics) -> None:
        self._runtime = runtime
        self._topics = topics

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.STREAMS_GROUP_HEARTBEAT: self.heartbeat,
            ApiKey.STREAMS_GROUP_DESCRIBE: self.describe,
        }

    # StreamsGroupHeartbeat

    def heartbeat(self, request: Request) -> None:
        runtime, body = self._runtime, request.body
        if not request.permits(AclOperation.READ, ResourceType.GROUP, body.group_id):
            request.fail(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            return
        if request.frame_bytes > MAX_HEARTBEAT_BYTES:
            request.fail(ErrorCode.INVALID_REQUEST)
            return
        if body.topology is not None and not is_too_large(body.topology):
            refusal = _refused_topics(request, _topics_of(body.topology.subtopologies))
            if refusal is not None:
                request.respond(refusal)
                return
        beat = Beat(
            _Turn(self, request),
            body,
            request.client_id or "",
            # The form of Java's InetAddress.toString, which tools show.
            f"/{request.peer.host}",
        )
        runtime.machine.streams_heartbeat(beat, runtime.now_ms)
        runtime.perform()

    def answer(self, request: Request, result: HeartbeatResult) -> None:
        """Answer, and create the topics that are missing."""
        response, topics = result
        if topics:
            self._tell_and_create(request, response, topics)
        request.respond(response)

    def _tell_and_create(
        self,
        request: Request,
        response: StreamsGroupHeartbeatResponse,
        topics: Mapping[str, TopicInfo],
    ) -> None:
        create = AclOperation.CREATE
        denied: list[str] = []
        if not request.permits(create, ResourceType.CLUSTER, CLUSTER_NAME, is_logged=False):
            denied = [
                name for name in topics if not request.permits(create, ResourceType.TOPIC, name)
            ]
        if denied:
            _tell(response, f"; Unauthorized to CREATE on topics {', '.join(denied)}.")
            return
        wanted = self._topics.claim(topics)
        if wanted:
            # Errors are kept for two heartbeats.
            interval_ms = self._runtime.machine.streams_heartbeat_interval_ms(request.body.group_id)
            before = request.counts_mutations()
            self._runtime.spawn(self._create, request, wanted, 2 * interval_ms, before)
        errors = [(name, self._topics.error(name)) for name in topics]
        texts = [f"{name} ({error})" for name, error in errors if error is not None]
        if texts:
            more = len(texts) - _MAX_NAMED_ERRORS
            text = ", ".join(texts[:_MAX_NAMED_ERRORS]) + (f" and {more} more" if more > 0 else "")
            _tell(response, f"; Creation failed: {text}.")

    async def _create(self, request: Request, *arguments: Any) -> None:
        await self._topics.create(*arguments)

    # StreamsGroupDescribe

    def describe(self, request: Request) -> None:
        groups = [self._describe(request, group_id) for group_id in request.body.group_ids]
        request.respond(StreamsGroupDescribeResponse(groups=groups))

    def _describe(
        self, request: Request, group_id: str
    ) -> StreamsGroupDescribeResponseDescribedGroup:
        described = StreamsGroupDescribeResponseDescribedGroup(group_id=group_id)
        if not request.permits(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
            described.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            return described
        found = self._runtime.machine.describe_streams_group(group_id)
        topology = found.topology
        topics = [] if topology is None else _topics_of(topology.subtopologies or ())
        if len(_describable(request, topics)) < len(topics):
            described.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            described.error_message = (
                "The described group uses topics that the client is not authorized to describe."
            )
            return described
        if request.body.include_authorized_operations and not found.error_code:
            found.authorized_operations = request.operations_on(ResourceType.GROUP, group_id)
        return found


class _Turn:
    """A heartbeat that waits for the coordinator's answer."""

    __slots__ = ("_handlers", "_request")

    def __init__(self, handlers: StreamsGroupHandlers, request: Request) -> None:
        self._handlers = handlers
        self._request = request

    def respond(self, result: HeartbeatResult) -> None:
        self._handlers.answer(self._request, result)

    def close(self) -> None:
        self._request.close()

    def __repr__(self) -> str:
        return repr(self._request)


def _topics_of(subtopologies: Iterable[Any]) -> list[str]:
    """All topics of a topology, each once."""
    names: dict[str, None] = {}
    for one in subtopologies:
        names.update(dict.fromkeys(one.source_topics))
        names.update(dict.fromkeys(one.repartition_sink_topics))
        names.update(dict.fromkeys(topic.name for topic in one.repartition_source_topics))
        names.update(dict.fromkeys(topic.name for topic in one.state_changelog_topics))
    return list(names)


def _refused_topics(
    request: Request, topics: Collection[str]
) -> StreamsGroupHeartbeatResponse | None:
    """The answer if a topology may not have these topics."""
    invalid = ErrorCode.STREAMS_INVALID_TOPOLOGY
    internal = [name for name in topics if name in INTERNAL_TOPICS]
    if internal:
        names = ",".join(internal)
        return StreamsGroupHeartbeatResponse(
            error_code=invalid,
            error_message=f"Use of Kafka internal topics {names} in a Kafka Streams topology is "
            "prohibited.",
        )
    wrong = [name for name in topics if not _is_valid(name)]
    if wrong:
        names = ",".join(wrong[:_MAX_NAMED_TOPICS])
        return StreamsGroupHeartbeatResponse(
            error_code=invalid,
            error_message=KafkaError(
                invalid, f"Topic names {names} are not valid topic names."
            ).message,
        )
    if len(_describable(request, topics)) < len(topics):
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return True


def _describable(request: Request, topics: Iterable[str]) -> Collection[str]:
    """The topics that the client may describe."""
    return [
        name for name in topics if request.permits(AclOperation.DESCRIBE, ResourceType.TOPIC, name)
    ]


def _tell(response: StreamsGroupHeartbeatResponse, more: str) -> None:
    """Add to the status that says that topics are missing."""
    for status in response.status or ():
        if status.status_code == Status.MISSING_INTERNAL_TOPICS:
            detail = status.status_detail + more
            status.status_detail = KafkaError(ErrorCode.NONE, detail).message
