"""DescribeCluster: the brokers of the cluster and its controller (KIP-700).

Tools and admin clients send it to any broker.
Versions: 1 tells brokers from controllers; 2 includes fenced brokers (KIP-1073), which only KRaft
has.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import DESCRIBE_CLUSTER, AccessRules, ByHandler
from ..api_page import Api
from ..features import Later
from ..schema import Message, Struct, array, boolean, int8, int16, int32, message, string


@message(api_key=60, kind="request", valid="0-2", flexible="0+")
class DescribeClusterRequest(Message):
    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


class DescribeClusterBroker(Struct):
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean("2+")


@message(api_key=60, kind="response", valid="0-2", flexible="0+")
class DescribeClusterResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-2_147_483_648)


API: Final = Api(
    request=DescribeClusterRequest,
    response=DescribeClusterResponse,
    access=AccessRules(
        by_handler=(ByHandler((DESCRIBE_CLUSTER,), "no authorized operations on the cluster"),),
        note="Every client may see the brokers.",
    ),
    since="2.8",
    later=Later(2),
    needs_metadata=True,
)
