"""Configs of topics, brokers and their loggers: describe, alter and replace.

A broker is asked for its own configs; any broker is asked for those of a topic or of all brokers
(the name "").
Mirrors: describeConfigs, incrementalAlterConfigs and alterConfigs of KafkaAdminClient.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from ...protocol.api import ApiKey
from ...protocol.apis.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    AlterConfigsResponse,
)
from ...protocol.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ...protocol.apis.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from ...protocol.apis.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ...protocol.schema import Message
from ..cluster import Cluster
from ..errors import ClientError, Unsupported
from .config_changes import replaced
from .config_types import (
    Alteration,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ResourceKind,
)
from .results import Results, refused

# Includes its types, which have a file of their own for `config_changes`.
__all__ = [
    "Alteration",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "Configs",
    "ResourceKind",
]

R = TypeVar("R", bound=Message)

_WITH_KINDS_VERSION = 1  # of ListConfigResources


class Configs:
    """`Configs(cluster)`; each method raises ClientError if the cluster does not answer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list(self, kind: ResourceKind) -> list[ConfigResource]:
        """The resources of a kind that have configs, sorted. Raises Unsupported before Kafka 4."""
        request = ListConfigResourcesRequest(resource_types=[kind])
        answer = await self._cluster.ask_anyone(
            ApiKey.LIST_CONFIG_RESOURCES,
            request,
            ListConfigResourcesResponse,
            newest=_WITH_KINDS_VERSION,
        )
        asked = self._cluster.asks("describe_configs")
        asked.check(answer.error_code, None, "cannot list resources")
        return sorted(ConfigResource(kind, one.resource_name) for one in answer.config_resources)

    async def describe(
        self,
        resources: Collection[ConfigResource],
        *,
        names: Sequence[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> Results[ConfigResource, tuple[ConfigEntry, ...]]:
        """The configs of each resource, sorted by name; all, or only these `names`."""
        results: Results[ConfigResource, tuple[ConfigEntry, ...]] = Results()
        for broker_id, mine in _by_broker(resources).items():
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=one.kind,
                        resource_name=one.name,
                        configuration_keys=None if names is None else list(names),
                    )
                    for one in mine
                ],
                include_synonyms=synonyms,
                include_documentation=documentation,
            )
            answer = await self._ask(
                broker_id, ApiKey.DESCRIBE_CONFIGS, request, DescribeConfigsResponse
            )
            for one in answer.results:
                resource = _asked_for(mine, one.resource_type, one.resource_name)
                what = f"cannot describe {resource}"
                asked = self._cluster.asks("describe_configs", resource.name)
                entries = tuple(sorted(map(_entry, one.configs), key=lambda entry: entry.name))
                error = refused(asked, one.error_code, one.error_message, what)
                results.put(resource, entries, error)
        return results

    async def alter(
        self,
        alterations: Mapping[ConfigResource, Sequence[Alteration]],
        *,
        validate_only: bool = False,
    ) -> Results[ConfigResource, None]:
        """Change some keys, and leave the others unchanged.

        With brokers before 2.3 all keys are read and written, see `config_changes`.
        """
        try:
            return await self._alter(alterations, validate_only=validate_only)
        except Unsupported:
            described = (await self.describe(alterations.keys())).all()
            wanted = {
                resource: replaced(resource, described[resource], changes)
                for resource, changes in alterations.items()
            }
            return await self.replace(wanted, validate_only=validate_only)

    async def _alter(
        self,
        alterations: Mapping[ConfigResource, Sequence[Alteration]],
        *,
        validate_only: bool,
    ) -> Results[ConfigResource, None]:
        results: Results[ConfigResource, None] = Results()
        for broker_id, mine in _by_broker(alterations).items():
            request = IncrementalAlterConfigsRequest(
                resources=[
                    IncrementalAlterConfigsRequestAlterConfigsResource(
                        resource_type=resource.kind,
                        resource_name=resource.name,
                        configs=[
                            IncrementalAlterConfigsRequestAlterableConfig(
                                name=one.name, config_operation=one.operation, value=one.value
                            )
                            for one in alterations[resource]
                        ],
                    )
                    for resource in mine
                ],
                validate_only=validate_only,
            )
            answer = await self._ask(
                broker_id,
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                request,
                IncrementalAlterConfigsResponse,
            )
            for one in answer.responses:
                resource = _asked_for(mine, one.resource_type, one.resource_name)
                self._put_altered(results, resource, one.error_code, one.error_message)
        return results

    async def replace(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str]],
        *,
        validate_only: bool = False,
    ) -> Results[ConfigResource, None]:
        """Set all keys of each resource: keys that are not named return to their defaults.

        For brokers before 2.3, which do not support IncrementalAlterConfigs.
        """
        results: Results[ConfigResource, None] = Results()
        for broker_id, mine in _by_broker(configs).items():
            request = AlterConfigsRequest(
                resources=[
                    AlterConfigsRequestAlterConfigsResource(
                        resource_type=resource.kind,
                        resource_name=resource.name,
                        configs=[
                            AlterConfigsRequestAlterableConfig(name=name, value=value)
                            for name, value in configs[resource].items()
                        ],
                    )
                    for resource in mine
                ],
                validate_only=validate_only,
            )
            answer = await self._ask(broker_id, ApiKey.ALTER_CONFIGS, request, AlterConfigsResponse)
            for one in answer.responses:
                resource = _asked_for(mine, one.resource_type, one.resource_name)
                self._put_altered(results, resource, one.error_code, one.error_message)
        return results

    def _put_altered(
        self,
        results: Results[ConfigResource, None],
        resource: ConfigResource,
        code: int,
        message: str | None,
    ) -> None:
        asked = self._cluster.asks("alter_configs", resource.name)
        results.put(resource, None, refused(asked, code, message, f"cannot alter {resource}"))

    async def _ask(
        self, broker_id: int | None, key: ApiKey, request: Message, answer_class: type[R]
    ) -> R:
        """Ask one broker, or any (None). Raises ClientError."""
        if broker_id is None:
            return await self._cluster.ask_anyone(key, request, answer_class)
        await self._cluster.metadata([])
        connection = await self._cluster.connection(broker_id)
        return await connection.request(key, request, answer_class)


def _by_broker(resources: Collection[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    """Resources by the broker to ask, None for any. Raises ClientError."""
    grouped: dict[int | None, list[ConfigResource]] = defaultdict(list)
    for resource in resources:
        try:
            grouped[resource.broker_id].append(resource)
        except ValueError:
            raise ClientError(f"{resource.name!r} is not the id of a broker") from None
    return grouped


def _asked_for(asked: Collection[ConfigResource], kind: int, name: str) -> ConfigResource:
    """The requested resource of a response; a broker responds with kind 0 to a kind it does not
    know."""
    named = [one for one in asked if one.name == name]
    return next((one for one in named if one.kind == kind), named[0])


def _entry(one: DescribeConfigsResourceResult) -> ConfigEntry:
    if one.config_source < 0:  # version 0 knows no sources
        source = ConfigSource.DEFAULT if one.is_default else ConfigSource.UNKNOWN
    else:
        source = ConfigSource(one.config_source)
    return ConfigEntry(
        name=one.name,
        value=one.value,
        source=source,
        is_sensitive=one.is_sensitive,
        is_read_only=one.read_only,
        synonyms=tuple(
            ConfigSynonym(synonym.name, synonym.value, ConfigSource(synonym.source))
            for synonym in one.synonyms
        ),
        documentation=one.documentation,
    )
