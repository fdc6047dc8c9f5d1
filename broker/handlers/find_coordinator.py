"""FindCoordinator v0-6: the broker that coordinates a group, a transactional id or the state of
a share partition.

The coordinator leads the key's partition of `__consumer_offsets`, `__transaction_state` or
`__share_group_state`; a missing topic is created in the background. v0-3 have one key, v4+ several.

Mirrors KafkaApis.handleFindCoordinatorRequest and SharePartitionKey.validate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.find_coordinator import Coordinator, FindCoordinatorResponse
from ...protocol.errors import ErrorCode
from ...protocol.topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from ...protocol.uuids import uuid_from_text

if TYPE_CHECKING:
    from ...replication.metadata_cache import MetadataCache
    from ..network.request import Handler, Request

GROUP_KEY_TYPE = 0
TRANSACTION_KEY_TYPE = 1
SHARE_KEY_TYPE = 2

_FIRST_BATCH_VERSION = 4
_FIRST_SHARE_KEY_VERSION = 6
_INT32 = 1 << 31


class FoundCoordinator(NamedTuple):
    """The node of a key's coordinator; the defaults are Kafka's "no node"."""

    error: ErrorCode
    node_id: int = -1
    host: str = ""
    port: int = -1


class FindCoordinatorHandler:
    __slots__ = (
        "_auto_create_topic",
        "_group_partition_for",
        "_metadata",
        "_share_partition_for",
        "_transaction_partition_for",
    )

    def __init__(
        self,
        metadata: MetadataCache,
        *,
        auto_create_topic: Callable[[str], None],
        group_partition_for: Callable[[str], int],
        transaction_partition_for: Callable[[str], int],
        share_partition_for: Callable[[str], int | None],
    ) -> None:
        """`auto_create_topic` starts the creation of an internal topic and does not wait.
        `share_partition_for` gives None while share groups are not served."""
        self._metadata = metadata
        self._auto_create_topic = auto_create_topic
        self._group_partition_for = group_partition_for
        self._transaction_partition_for = transaction_partition_for
        self._share_partition_for = share_partition_for

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.FIND_COORDINATOR: self.find_coordinator}

    def find_coordinator(self, request: Request) -> None:
        body = request.body
        version = request.api_version
        if version >= _FIRST_BATCH_VERSION:
            coordinators = []
            is_known_type = body.key_type in (GROUP_KEY_TYPE, TRANSACTION_KEY_TYPE, SHARE_KEY_TYPE)
            for key in body.coordinator_keys:
                found = self._find(request, body.key_type, key)
                coordinators.append(
                    Coordinator(
                        key=key,
                        node_id=found.node_id,
                        host=found.host,
                        port=found.port,
                        error_code=found.error,
                        error_message="" if is_known_type else found.error.description,
                    )
                )
            request.respond(FindCoordinatorResponse(coordinators=coordinators))
            return
        found = self._find(request, body.key_type, body.key)
        request.respond(
            FindCoordinatorResponse(
                error_code=found.error,
                error_message=_message(found.error),
                node_id=found.node_id,
                host=found.host,
                port=found.port,
            )
        )

    def _find(self, request: Request, key_type: int, key: str) -> FoundCoordinator:
        describe = AclOperation.DESCRIBE
        if key_type == GROUP_KEY_TYPE and not request.permits(describe, ResourceType.GROUP, key):
            return FoundCoordinator(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if key_type == TRANSACTION_KEY_TYPE and not request.permits(
            describe, ResourceType.TRANSACTIONAL_ID, key
        ):
            return FoundCoordinator(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if key_type == SHARE_KEY_TYPE and request.api_version >= _FIRST_SHARE_KEY_VERSION:
            if not request.permits(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
                return FoundCoordinator(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            share_partition = self._share_partition_for(key)
            if share_partition is None:  # as 3.9, which looks at no key
                return FoundCoordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            if not _is_share_partition(key):
                return FoundCoordinator(ErrorCode.INVALID_REQUEST)
            topic, partition = SHARE_STATE_TOPIC, share_partition
        elif key_type == GROUP_KEY_TYPE:
            topic, partition = OFFSETS_TOPIC, self._group_partition_for(key)
        elif key_type == TRANSACTION_KEY_TYPE:
            topic, partition = TRANSACTIONS_TOPIC, self._transaction_partition_for(key)
        else:
            return FoundCoordinator(ErrorCode.INVALID_REQUEST)
        if not self._metadata.contains(topic):
            self._auto_create_topic(topic)
            return FoundCoordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        state = self._metadata.partition_state(topic, partition)
        listener = request.peer.listener_name
        endpoint = None if state is None else self._metadata.broker_endpoint(state.leader, listener)
        if state is None or endpoint is None:
            return FoundCoordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return FoundCoordinator(ErrorCode.NONE, state.leader, endpoint.host, endpoint.port)


def _message(error: ErrorCode) -> str:
    """Kafka spells out that there is no error."""
    return "NONE" if error is ErrorCode.NONE else error.description


def _is_share_partition(key: str) -> bool:
    """Whether it has the form group:topic id:partition; the group's name may have colons."""
    group_id, _, rest = key.rpartition(":")
    group_id, _, topic_id = group_id.rpartition(":")
    if not group_id.strip():
        return False
    try:
        uuid_from_text(topic_id)
    except ValueError:
        return False
    return rest.isascii() and rest.removeprefix("-").isdigit() and -_INT32 <= int(rest) < _INT32
