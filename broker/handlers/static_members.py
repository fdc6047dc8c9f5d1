"""Static members are refused while brokers of a release before 2.3 may be in the cluster.

Job: with an `inter.broker.protocol.version` below 2.3, JoinGroup, SyncGroup, Heartbeat and
OffsetCommit of a member with a group.instance.id are UNSUPPORTED_VERSION: an older coordinator that
takes over the group would read its members as dynamic ones.

Mirrors the checks against IBP_2_3_IV0 in KafkaApis (KIP-345). LeaveGroup and TxnOffsetCommit have
none there either. Kafka looks before it asks whether a join, a sync or a heartbeat is allowed; here
an authorizer has been asked by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ..network.request import Handler, Request

_OF_MEMBERS = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT)


def without_static_members(handlers: Mapping[ApiKey, Handler]) -> dict[ApiKey, Handler]:
    """The handlers, changed so that requests of static members are refused."""
    return {
        key: partial(_dynamic_only, handler) if key in _OF_MEMBERS else handler
        for key, handler in handlers.items()
    }


def _dynamic_only(handler: Handler, request: Request) -> None:
    if request.body.group_instance_id is None:
        handler(request)
    else:
        request.fail(ErrorCode.UNSUPPORTED_VERSION)
