"""The group APIs: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, List-, Describe-, DeleteGroups.

Each handler gives the request to the group coordinator's machine and performs what it returns; a
request that waits for a rebalance is answered by a later effect.

| API | versions | notes |
|---|---|---|
| JoinGroup | 0-9 | v4 member id required, v5 static members, v9 skip_assignment |
| SyncGroup | 0-5 | v5 protocol type and name are checked |
| Heartbeat | 0-4 | |
| LeaveGroup | 0-5 | v3 several members, each with its error |
| ListGroups | 0-5 | v4 filter by state, v5 by type |
| DescribeGroups | 0-5 | v3 authorized operations |
| DeleteGroups | 0-2 | |

Mirrors the handlers of the same names in KafkaApis and GroupCoordinatorAdapter.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping
from typing import TYPE_CHECKING

from ...coordinator.group.consumer.consumer_group import GROUP_TYPE as CONSUMER_GROUP_TYPE
from ...coordinator.group.consumer.consumer_group import ConsumerGroupState
from ...coordinator.group.group_coordinator import GROUP_TYPE
from ...coordinator.group.share.share_group import GROUP_TYPE as SHARE_GROUP_TYPE
from ...coordinator.group.states import GroupState
from ...coordinator.group.streams.streams_group import GROUP_TYPE as STREAMS_GROUP_TYPE
from ...coordinator.group.streams.streams_group import StreamsGroupState
from ...protocol.acls import AclOperation, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from ...protocol.apis.delete_share_group_state import DeleteShareGroupStateRequest
from ...protocol.apis.describe_groups import DescribeGroupsResponse
from ...protocol.errors import ErrorCode
from ..coordinators.group_runtime import GroupRuntime
from ..network.turns import Steps
from ..security.access import bitmap

if TYPE_CHECKING:
    from ..network.request import Handler, Request

_FIRST_AUTHORIZED_OPERATIONS_VERSION = 3
_FIRST_VERSION_OF_KAFKA_4 = 6  # of DescribeGroups
# Groups have had configs since Kafka 4.
_OPERATIONS_ON_GROUPS_IN_3_9 = bitmap(
    (AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE)
)

_STATES = {state.value for state in (*GroupState, *ConsumerGroupState, *StreamsGroupState)}
_TYPES = {GROUP_TYPE, CONSUMER_GROUP_TYPE, SHARE_GROUP_TYPE, STREAMS_GROUP_TYPE}

# Sizes that no group reaches, or that would not fit into a record of the offsets topic.
MAX_PROTOCOLS = 1000
MAX_ASSIGNMENTS = 10_000
MAX_MEMBER_BYTES = 16 * 1024 * 1024


def _wanted(names: Iterable[str], known: Iterable[str]) -> Generator[None, None, Collection[str]]:
    """The known names among `names`, in any case; if there are only unknown ones, one of them,
    since an empty result means any."""
    lowered = {name.lower(): name for name in known}
    found: dict[str, None] = {}
    other: list[str] = []
    for name in names:
        if name.lower() in lowered:
            found[lowered[name.lower()]] = None
        elif not other:
            other.append(name)
        yield
    return list(found) or other


class _WithFailed:
    """A DeleteGroups some of whose groups are not deleted."""

    __slots__ = ("_failed", "_request")

    def __init__(self, request: Request, failed: Mapping[str, ErrorCode]) -> None:
        self._request = request
        self._failed = failed

    def respond(self, response: DeleteGroupsResponse) -> None:
        response.results += [
            DeletableGroupResult(group_id=name, error_code=code)
            for name, code in self._failed.items()
        ]
        self._request.respond(response)

    def close(self) -> None:
        self._request.close()


class GroupHandlers:
    """Handlers of the APIs about groups and their members."""

    __slots__ = ("_runtime",)

    def __init__(self, runtime: GroupRuntime) -> None:
        self._runtime = runtime

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.JOIN_GROUP: self.join,
            ApiKey.SYNC_GROUP: self.sync,
            ApiKey.HEARTBEAT: self.heartbeat,
            ApiKey.LEAVE_GROUP: self.leave,
            ApiKey.LIST_GROUPS: self.list_groups,
            ApiKey.DESCRIBE_GROUPS: self.describe,
            ApiKey.DELETE_GROUPS: self.delete,
        }

    def join(self, request: Request) -> None:
        runtime = self._runtime
        if len(request.body.protocols) > MAX_PROTOCOLS or request.frame_bytes > MAX_MEMBER_BYTES:
            request.fail(ErrorCode.INVALID_REQUEST)
            return
        runtime.machine.join(
            request,
            request.body,
            api_version=request.api_version,
            client_id=request.client_id,
            # The form of Java's InetAddress.toString, which tools show.
            client_host=f"/{request.peer.host}",
            now_ms=runtime.now_ms,
        )
        runtime.perform()

    def sync(self, request: Request) -> None:
        runtime = self._runtime
        if (
            len(request.body.assignments) > MAX_ASSIGNMENTS
            or request.frame_bytes > MAX_MEMBER_BYTES
        ):
            request.fail(ErrorCode.INVALID_REQUEST)
            return
        runtime.machine.sync(
            request, request.body, api_version=request.api_version, now_ms=runtime.now_ms
        )
        runtime.perform()

    def heartbeat(self, request: Request) -> None:
        runtime = self._runtime
        runtime.machine.heartbeat(request, request.body, runtime.now_ms)
        runtime.perform()

    def leave(self, request: Request) -> None:
        runtime = self._runtime
        runtime.machine.leave(
            request, request.body, api_version=request.api_version, now_ms=runtime.now_ms
        )
        runtime.perform()

    def list_groups(self, request: Request) -> Steps:
        body = request.body
        states = yield from _wanted(body.states_filter, _STATES)
        types = yield from _wanted(body.types_filter, _TYPES)
        request.respond(self._runtime.machine.list_groups(states, types))

    def describe(self, request: Request) -> None:
        groups = [self._runtime.machine.describe_group(name) for name in request.body.groups]
        if request.api_version >= _FIRST_VERSION_OF_KAFKA_4:
            for group in groups:
                if group.group_state == GroupState.DEAD.value:
                    group.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                    group.error_message = f"Group {group.group_id} not found."
        if (
            request.api_version >= _FIRST_AUTHORIZED_OPERATIONS_VERSION
            and request.body.include_authorized_operations
        ):
            for group in groups:
                if group.error_code == ErrorCode.NONE:
                    operations = request.operations_on(ResourceType.GROUP, group.group_id)
                    if request.api_version < _FIRST_VERSION_OF_KAFKA_4:
                        operations &= _OPERATIONS_ON_GROUPS_IN_3_9
                    group.authorized_operations = operations
        request.respond(DescribeGroupsResponse(groups=groups))

    def delete(self, request: Request) -> None:
        runtime, names = self._runtime, request.body.groups_names
        states = runtime.machine.states_to_delete(names)
        if states:
            runtime.spawn(self._delete_with_states, request, states)
            return
        runtime.machine.delete_groups(request, names, runtime.now_ms)
        runtime.perform()

    async def _delete_with_states(
        self, request: Request, states: Iterable[DeleteShareGroupStateRequest]
    ) -> None:
        """A share group goes when the states of its share partitions are gone."""
        runtime = self._runtime
        failed = {}
        for state in states:
            response = await runtime.states.delete_state(state)
            for topic in response.results:
                for result in topic.partitions:
                    if result.error_code:
                        failed[state.group_id] = ErrorCode(result.error_code)
        names = [name for name in request.body.groups_names if name not in failed]
        runtime.machine.delete_groups(_WithFailed(request, failed), names, runtime.now_ms)
        runtime.perform()
