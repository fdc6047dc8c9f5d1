"""ListConfigResources v0-1: the names of topics, brokers and others that have configs.

Mirrors `KafkaApis.handleListConfigResources`, with its order of kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ...protocol.api import ApiKey
from ...protocol.apis.list_config_resources import ConfigResource, ListConfigResourcesResponse
from ...protocol.errors import ErrorCode
from ..network.turns import distinct
from .describe_configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC

if TYPE_CHECKING:
    from ...replication.metadata_cache import MetadataCache
    from ..network.request import Handler, Request
    from ..network.turns import Steps

_KINDS = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)


class ListConfigResourcesHandler:
    __slots__ = ("_cache", "_client_metrics", "_groups")

    def __init__(
        self,
        cache: MetadataCache,
        client_metrics: Callable[[], Iterable[str]],
        groups: Callable[[], Iterable[str]],
    ) -> None:
        """The names of the subscriptions to metrics of clients, and of groups with configs."""
        self._cache = cache
        self._client_metrics = client_metrics
        self._groups = groups

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.LIST_CONFIG_RESOURCES: self.list_config_resources}

    def list_config_resources(self, request: Request) -> Steps:
        known = (CLIENT_METRICS,) if request.api_version == 0 else _KINDS
        asked = yield from distinct(request.body.resource_types)
        if not set(asked) <= set(known):
            request.fail(ErrorCode.UNSUPPORTED_VERSION)
            return
        answer = ListConfigResourcesResponse()
        for kind in known:
            if asked and kind not in asked:
                continue
            for name in list(self._names(request, kind)):
                answer.config_resources.append(
                    ConfigResource(resource_name=name, resource_type=kind)
                )
                yield
        request.respond(answer)

    def _names(self, request: Request, kind: int) -> Iterable[str]:
        if kind == GROUP:
            return self._groups()
        if kind == CLIENT_METRICS:
            return self._client_metrics()
        if kind == TOPIC:
            return self._cache.topics()
        listener = request.peer.listener_name
        return [
            str(node.broker_id)
            for node in self._cache.alive_brokers().values()
            if node.endpoint(listener) is not None
        ]
