"""ShareGroupHeartbeat and ShareGroupDescribe: share groups and their members (KIP-932).

| API | versions | notes |
|---|---|---|
| ShareGroupHeartbeat | 1 | |
| ShareGroupDescribe | 1 | |

Mirrors the handlers of the same names in KafkaApis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...coordinator.group.placement import utf16_length
from ...coordinator.group.share.heartbeats import ShareBeat
from ...protocol.acls import AclOperation, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.share_group_describe import DescribedGroup, ShareGroupDescribeResponse
from ...protocol.errors import ErrorCode
from ..coordinators.group_runtime import GroupRuntime
from .consumer_groups import describable, is_too_large

if TYPE_CHECKING:
    from ..network.request import Handler, Request

_MAX_MEMBER_ID_LENGTH = 36


class ShareGroupHandlers:
    __slots__ = ("_runtime",)

    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.SHARE_GROUP_HEARTBEAT: self.heartbeat,
            ApiKey.SHARE_GROUP_DESCRIBE: self.describe,
        }

    def heartbeat(self, request: Request) -> None:
        runtime, body = self._runtime, request.body
        if not request.permits(AclOperation.READ, ResourceType.GROUP, body.group_id):
            request.fail(ErrorCode.GROUP_AUTHORIZATION_FAILED)
            return
        is_valid = 0 < utf16_length(body.member_id) <= _MAX_MEMBER_ID_LENGTH
        if not is_valid:
            request.fail(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
            return
        subscribed = body.subscribed_topic_names or ()
        if is_too_large(request, subscribed):
            request.fail(ErrorCode.INVALID_REQUEST)
            return
        names = set(subscribed)
        if len(describable(request, names)) < len(names):
            request.fail(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return
        runtime.machine.share_heartbeat(
            ShareBeat(
                request,
                body,
                request.client_id or "",
                # The form of Java's InetAddress.toString, which tools show.
                f"/{request.peer.host}",
            ),
            runtime.now_ms,
        )
        runtime.perform()

    def describe(self, request: Request) -> None:
        groups = [self._describe(request, group_id) for group_id in request.body.group_ids]
        request.respond(ShareGroupDescribeResponse(groups=groups))

    def _describe(self, request: Request, group_id: str) -> DescribedGroup:
        described = DescribedGroup(group_id=group_id)
        if not request.permits(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
            described.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            return described
        found = self._runtime.machine.describe_share_group(group_id)
        topics = {
            topic.topic_name
            for member in found.members
            for topic in member.assignment.topic_partitions
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
