"""DescribeCluster v0-2: the brokers and the controller (KIP-700).

No broker is fenced: with ZooKeeper it is registered while it lives, or not known at all.

Mirrors `KafkaApis.handleDescribeCluster`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...protocol.api import ApiKey
from ...protocol.apis.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from ...protocol.errors import ErrorCode
from .metadata import cluster_operations

if TYPE_CHECKING:
    from ...replication.metadata_cache import MetadataCache
    from ..network.request import Handler, Request

_BROKERS, _CONTROLLERS = 1, 2


class DescribeClusterHandler:
    __slots__ = ("_cache",)

    def __init__(self, cache: MetadataCache) -> None:
        self._cache = cache

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.DESCRIBE_CLUSTER: self.describe_cluster}

    def describe_cluster(self, request: Request) -> None:
        body = request.body
        if body.endpoint_type != _BROKERS:
            if body.endpoint_type == _CONTROLLERS:
                text = (
                    "The request was sent to an endpoint of type BROKER, but we wanted an endpoint "
                    "of type CONTROLLER"
                )
                request.fail(ErrorCode.MISMATCHED_ENDPOINT_TYPE, text)
            else:
                text = f"Unsupported endpoint type {body.endpoint_type}"
                request.fail(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, text)
            return
        listener = request.peer.listener_name
        brokers = [
            DescribeClusterBroker(
                broker_id=node.broker_id, host=endpoint.host, port=endpoint.port, rack=node.rack
            )
            for node in self._cache.alive_brokers().values()
            if (endpoint := node.endpoint(listener)) is not None
        ]
        controller_id = self._cache.controller_id
        if all(broker.broker_id != controller_id for broker in brokers):
            controller_id = -1
        request.respond(
            DescribeClusterResponse(
                cluster_id=self._cache.cluster_id,
                controller_id=controller_id,
                brokers=brokers,
                cluster_authorized_operations=cluster_operations(request),
            )
        )
