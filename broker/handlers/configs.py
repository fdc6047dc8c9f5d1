"""DescribeConfigs v0-4: topics, this broker, the defaults of all brokers, log levels.

Rules: semantics 6.7. The source of a value is the first synonym that has one, in the order topic,
dynamic broker, dynamic default, static, default. Sensitive values are never shown.

Mirrors kafka.server.ConfigHelper. Leaves out authorization and client metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from broker.config.definitions import BROKER_CONFIGS, definition_of, is_dynamic
from broker.config.kafka_config import ConfigSource, KafkaConfig
from broker.config_store import ConfigStore, topic_entity
from broker.handlers import loggers
from broker.handlers.metadata import is_legal_topic_name
from protocol.api import ApiKey
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.configs import (
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from storage.config_def import ConfigDef, ConfigType, format_value
from storage.log_config import TOPIC_CONFIGS, LogConfig

if TYPE_CHECKING:
    from broker.dispatch import Handler, Request
    from replication.metadata_cache import MetadataCache

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8

Synonym = tuple[str, str | None, ConfigSource]


class DescribeConfigsHandler:
    __slots__ = ("_broker_id", "_cache", "_config", "_store")

    def __init__(
        self, config: KafkaConfig, broker_id: int, cache: MetadataCache, store: ConfigStore
    ) -> None:
        self._config = config
        self._broker_id = broker_id
        self._cache = cache
        self._store = store

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.DESCRIBE_CONFIGS: self.describe_configs}

    async def describe_configs(self, request: Request) -> None:
        body = request.body
        results = []
        for resource in body.resources:
            try:
                configs = await self._describe(
                    resource, body.include_synonyms, body.include_documentation
                )
                if request.api_version == 0:
                    for entry in configs:
                        entry.is_default = entry.config_source == ConfigSource.DEFAULT_CONFIG
                code, text = ErrorCode.NONE, None
            except KafkaError as error:
                configs, code, text = [], error.code, error.message
            results.append(
                DescribeConfigsResult(
                    error_code=code,
                    error_message=text,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=configs,
                )
            )
        request.respond(DescribeConfigsResponse(results=results))

    async def _describe(
        self, resource: DescribeConfigsResource, synonyms: bool, documentation: bool
    ) -> list[DescribeConfigsResourceResult]:
        name, kind = resource.resource_name, resource.resource_type
        if kind == TOPIC:
            found = await self._describe_topic(name)
        elif kind == BROKER and not name:
            found = [self._broker_entry(key, False) for key in self._config.dynamic_default]
        elif kind == BROKER:
            check_broker_id(name, self._broker_id)
            found = [self._broker_entry(key, True) for key in self._broker_keys()]
        elif kind == BROKER_LOGGER:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            check_broker_id(name, self._broker_id)
            found = [_logger_entry(key, level) for key, level in loggers.levels().items()]
        else:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")
        wanted = set(resource.configuration_keys or ())
        found = [entry for entry in found if not wanted or entry.name in wanted]
        for entry in found:
            if not synonyms:
                entry.synonyms = []
            if not documentation:
                entry.documentation = None
        return found

    # -- topics --

    async def _describe_topic(self, topic: str) -> list[DescribeConfigsResourceResult]:
        if not is_legal_topic_name(topic):
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Illegal topic name {topic!r}")
        if not self._cache.contains(topic):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        overrides = await self._store.read(topic_entity(topic))
        config = LogConfig.from_overrides(overrides, self._config.explicit())
        return [
            self._topic_entry(definition, config, overrides)
            for definition in TOPIC_CONFIGS.values()
        ]

    def _topic_entry(
        self, definition: ConfigDef, config: LogConfig, overrides: Mapping[str, str]
    ) -> DescribeConfigsResourceResult:
        name = definition.name
        text = format_value(definition.type, config.value(name))
        synonyms: list[Synonym] = []
        if name in overrides:
            synonyms.append((name, text, ConfigSource.TOPIC_CONFIG))
        if definition.synonyms:
            synonyms += self._config.synonyms(definition.synonyms[0])
        return _entry(definition, text, synonyms, read_only=False)

    # -- brokers --

    def _broker_keys(self) -> list[str]:
        unknown = [name for name in self._config.static if name not in BROKER_CONFIGS]
        known = [
            name
            for name, definition in BROKER_CONFIGS.items()
            if not definition.internal or self._config.is_set(name)
        ]
        return known + unknown

    def _broker_entry(self, name: str, per_broker: bool) -> DescribeConfigsResourceResult:
        definition = definition_of(name)
        if definition is None:
            # What we do not know may be a secret of some plug-in.
            definition = ConfigDef(name, ConfigType.UNKNOWN, None)
        synonyms = self._config.synonyms(name)
        text: str | None
        if per_broker:
            text = self._config.text(name)
            if text is not None and definition.type is not ConfigType.UNKNOWN:
                text = format_value(definition.type, self._config.value(name))
        else:
            text = self._config.dynamic_default.get(name)
            synonyms = [s for s in synonyms if s[2] is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG]
        return _entry(definition, text, synonyms, read_only=not is_dynamic(definition))


def check_broker_id(name: str, broker_id: int) -> None:
    """A broker resource is this broker; others are asked directly."""
    if not name.lstrip("-").isdecimal():
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}"
        )
    if int(name) != broker_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker_id}, but received {name}",
        )


def _entry(
    definition: ConfigDef, text: str | None, synonyms: list[Synonym], *, read_only: bool
) -> DescribeConfigsResourceResult:
    sensitive = definition.sensitive or definition.type is ConfigType.UNKNOWN
    source = synonyms[0][2] if synonyms else ConfigSource.DEFAULT_CONFIG
    return DescribeConfigsResourceResult(
        name=definition.name,
        value=None if sensitive else text,
        read_only=read_only,
        config_source=source,
        is_sensitive=sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=None if sensitive else value, source=from_)
            for name, value, from_ in synonyms
        ],
        config_type=definition.type,
        documentation=definition.documentation or None,
    )


def _logger_entry(name: str, level: str) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name,
        value=level,
        read_only=False,
        config_source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
        is_sensitive=False,
        synonyms=[],
        config_type=ConfigType.UNKNOWN,
        documentation=None,
    )
