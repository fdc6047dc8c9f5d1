"""Topic administration: create, list, describe, delete.

Mirrors: KafkaAdminClient's topic calls.
Leaves out: groups, reassignments; users, ACLs, quotas and tokens are in `security_admin`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..protocol.api import ApiKey
from ..protocol.errors import ErrorCode
from ..protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ..protocol.messages.metadata import MetadataResponseTopic
from ..protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from .cluster import Cluster, retrying
from .errors import ClientError

ADMIN_TIMEOUT_MS = 30_000
TOPIC_RESOURCE = 2
TOPIC_CONFIG_SOURCE = 1


async def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int = -1,
    replication_factor: int = -1,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create a topic and wait until it has leaders; -1 leaves a number to the broker's config."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=ADMIN_TIMEOUT_MS)
    answer = await cluster.ask_controller(ApiKey.CREATE_TOPICS, request, CreateTopicsResponse)
    result = answer.topics[0]
    cluster.asks("create", name).check(
        result.error_code, result.error_message, f"cannot create topic {name!r}"
    )


async def delete_topic(cluster: Cluster, name: str) -> None:
    """Delete a topic and wait until it is gone."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=ADMIN_TIMEOUT_MS
    )
    answer = await cluster.ask_controller(ApiKey.DELETE_TOPICS, request, DeleteTopicsResponse)
    result = answer.responses[0]
    cluster.asks("delete", name).check(
        result.error_code, result.error_message, f"cannot delete topic {name!r}"
    )
    async for _ in retrying():
        code = (await cluster.metadata([name])).topics[0].error_code
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return
    raise ClientError(f"topic {name!r} is marked for deletion, but not gone yet")


async def list_topics(cluster: Cluster) -> list[MetadataResponseTopic]:
    """All topics, by name."""
    answer = await cluster.metadata(None)
    return sorted(answer.topics, key=lambda topic: topic.name or "")


class TopicConfigs(NamedTuple):
    """What a topic goes by, and the part of it that is set on the topic itself."""

    effective: Mapping[str, str]
    overrides: Mapping[str, str]


async def topic_configs(cluster: Cluster, name: str) -> TopicConfigs:
    """The configs of a topic. Raises ClientError."""
    resource = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource])
    answer = await cluster.ask_anyone(ApiKey.DESCRIBE_CONFIGS, request, DescribeConfigsResponse)
    result = answer.results[0]
    cluster.asks("describe_configs", name).check(
        result.error_code, result.error_message, f"cannot describe topic {name!r}"
    )
    return TopicConfigs(
        effective={config.name: config.value or "" for config in result.configs},
        overrides={
            config.name: config.value or ""
            for config in result.configs
            if config.config_source == TOPIC_CONFIG_SOURCE
        },
    )
