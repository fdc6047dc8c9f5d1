"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups of the consumer protocol (KIP-848).

| API | versions | notes |
|---|---|---|
| ConsumerGroupHeartbeat | 0-1 | v1 member ids by clients, regular expressions |
| ConsumerGroupDescribe | 0-1 | v1 member type |

Until `group.version` is finalized both are refused with UNSUPPORTED_VERSION before anything is
asked, as in 3.9 with ZooKeeper; clients and tools then use the classic protocol.

Mirrors the handlers of the same names in KafkaApis.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ...coordinator.group.consumer.requests import Beat
from ...protocol.acls import AclOperation, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseDescribedGroup,
)
from ...protocol.errors import ErrorCode
from ...protocol.features import Feature, Levels
from ..coordinators.group_runtime import GroupRuntime

if TYPE_CHECKING:
    from ..network.request import Handler, Request

# A member's subscription, and what it has, must fit into records of the offsets topic.
MAX_HEARTBEAT_BYTES: Final = 1024 * 1024
# The names of a megabyte would hold the loop; no cluster with ZooKeeper has as many topics.
MAX_TOPICS: Final = 50_000


class ConsumerGroupHandlers:
    __slots__ = ("_levels", "_runtime")

    def __init__(self, runtime: GroupRuntime, levels: Callable[[], Levels]) -> None:
        """`levels` are those of the finalized features."""
        self._runtime = runtime
        self._levels = levels

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self.heartbeat,
            ApiKey.CONSUMER_GROUP_DESCRIBE: self.describe,
        }

    def heartbeat(self, request: Request) -> None:
        runtime, body = self._runtime, request.body
        if not self._levels().get(Feature.GROUP):
            request.fail(ErrorCode.UNSUPPORTED_VERSION)
            return
        if not request.permits(AclOperation.READ, ResourceType.GROUP, body.group_id):
            request.fail(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            return
        subscribed, owned = body.subscribed_topic_names, body.topic_partitions
        if is_too_large(request, subscribed, owned):
            request.fail(ErrorCode.INVALID_REQUEST)
            return
        if subscribed:
            names = set(subscribed)
            if len(describable(request, names)) < len(names):
                request.fail(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                return
        runtime.machine.consumer_heartbeat(
            Beat(
                request,
                body,
                request.api_version,
                request.client_id or "",
                # The form of Java's InetAddress.toString, which tools show.
                f"/{request.peer.host}",
                lambda topics: describable(request, topics),
            ),
            runtime.now_ms,
        )
        runtime.perform()

    def describe(self, request: Request) -> None:
        if not self._levels().get(Feature.GROUP):
            request.fail(ErrorCode.UNSUPPORTED_VERSION)
            return
        groups = [self._describe(request, group_id) for group_id in request.body.group_ids]
        request.respond(ConsumerGroupDescribeResponse(groups=groups))

    def _describe(
        self, request: Request, group_id: str
    ) -> ConsumerGroupDescribeResponseDescribedGroup:
        described = ConsumerGroupDescribeResponseDescribedGroup(group_id=group_id)
        if not request.permits(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
            described.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            return described
        found = self._runtime.machine.describe_consumer_group(group_id)
        topics = {
            topic.topic_name
            for member in found.members
            for assignment in (member.assignment, member.target_assignment)
            for topic in assignment.topic_partitions
        }
        if len(describable(request, topics)) < len(topics):
            described.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            described.error_message = (
                "The group has described topic(s) that the client is not authorized to describe."
            )
            return described
        if request.body.include_authorized_operations and not found.error_code:
            found.authorized_operations = request.operations_on(ResourceType.GROUP, group_id)
        return found


def is_too_large(request: Request, *lists: Collection[object] | None) -> bool:
    """Whether a heartbeat is larger than what any group could keep."""
    for one in lists:
        if one and len(one) > MAX_TOPICS:
            return True
    return request.frame_bytes > MAX_HEARTBEAT_BYTES


def describable(request: Request, topics: Iterable[str]) -> Collection[str]:
    """The topics that the client may describe."""
    return [
        name for name in topics if request.permits(AclOperation.DESCRIBE, ResourceType.TOPIC, name)
    ]
