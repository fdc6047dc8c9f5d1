"""DescribeConfigs v0-4: topics, this broker, the defaults of all brokers, log levels, and with a
finalized feature the metrics of clients, and groups.

Rules: SEMANTICS 7. The source of a value is the first synonym that has one, in the order topic,
dynamic broker, dynamic default, static, default. Sensitive values are never shown. A resource that
is asked for again and again is answered each time, as in Kafka, but described once.

Mirrors kafka.server.ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...protocol.acls import CLUSTER_NAME, AclOperation, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.describe_configs import (
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ...protocol.discarding import discard_all, discard_list
from ...protocol.errors import ErrorCode, KafkaError
from ...replication.controller.topic_admin import check_topic_name
from ...storage.config_def import (
    ConfigDef,
    ConfigType,
    format_value,
    parse_integer,
    shortened,
)
from ...storage.log_config import TOPIC_CONFIGS, LogConfig
from ...storage.table_configs import TABLE_CONFIGS
from ..config import group_configs
from ..config.definitions import BROKER_CONFIGS, definition_of, is_dynamic
from ..config.kafka_config import ConfigSource, KafkaConfig
from ..config.tables import authorizer, extensions, groups4
from ..observability.client_subscriptions import DEFINITIONS as CLIENT_METRICS_CONFIGS
from ..quotas.entities import may_be_stored
from ..zk.config_store import ConfigStore, client_metrics_entity, group_entity, topic_entity
from . import loggers

if TYPE_CHECKING:
    from ...replication.metadata_cache import MetadataCache
    from ..network.request import Handler, Request

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32

# Where the configs are that Kafka has only without ZooKeeper.
_ENTITIES: Mapping[int, Callable[[str], str]] = {
    CLIENT_METRICS: client_metrics_entity,
    GROUP: group_entity,
}

# Of a result without an error, where Kafka leaves the field as it is; Kafka's text for a topic that
# is not known, too.
NO_MESSAGE = ""

# Keys that Kafka has not, or reads as a plug-in's: a broker without them has as many as Kafka's.
_TOLD_IF_SET = frozenset({*authorizer.DEFINITIONS, *extensions.DEFINITIONS})
_TOLD_IF_SET_IN_3_9 = _TOLD_IF_SET | {*groups4.DEFINITIONS}

# In one response: those of a thousand brokers.
MAX_ENTRIES = 300_000

Synonym = tuple[str, str | None, ConfigSource]
Entries = dict[str, DescribeConfigsResourceResult]


class DescribeConfigsHandler:
    __slots__ = ("_broker_id", "_cache", "_config", "_is_of_4", "_store")

    def __init__(
        self,
        config: KafkaConfig,
        broker_id: int,
        cache: MetadataCache,
        store: ConfigStore,
        is_of_4: Callable[[], bool] = lambda: False,
    ) -> None:
        self._config = config
        self._broker_id = broker_id
        self._cache = cache
        self._store = store
        self._is_of_4 = is_of_4

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.DESCRIBE_CONFIGS: self.describe_configs}

    async def describe_configs(self, request: Request) -> None:
        resources = request.body.resources
        topics = await request.in_turns(self._known_topics(resources))
        overrides = {
            (TOPIC, topic): await self._store.read(topic_entity(topic)) for topic in topics
        }
        if self._is_of_4():
            stored = dict.fromkeys(
                (r.resource_type, r.resource_name)
                for r in resources
                if r.resource_type in _ENTITIES and may_be_stored(r.resource_name)
            )
            for kind, name in stored:
                overrides[kind, name] = await self._store.read(_ENTITIES[kind](name))
        results = await request.in_turns(self._describe_all(request, overrides))
        request.respond(DescribeConfigsResponse(results=results))

    def _known_topics(
        self, resources: Sequence[DescribeConfigsResource]
    ) -> Generator[None, None, list[str]]:
        """The topics whose configs have to be read."""
        names: dict[str, None] = {}
        for resource in resources:
            name = resource.resource_name
            if resource.resource_type == TOPIC and name not in names and self._cache.contains(name):
                names[name] = None
            yield
        known = list(names)
        yield from discard_all(names)
        return known

    def _describe_all(
        self, request: Request, overrides: Mapping[tuple[int, str], Mapping[str, str]]
    ) -> Generator[None, None, list[DescribeConfigsResult]]:
        results: list[DescribeConfigsResult] = []
        count = 0
        described: dict[tuple[int, str], Entries | KafkaError] = {}
        for resource in request.body.resources:
            kind, name = resource.resource_type, resource.resource_name
            entries = described.get((kind, name))
            if entries is None:
                try:
                    entries = yield from self._describe(
                        request, kind, name, overrides.get((kind, name))
                    )
                except KafkaError as error:
                    entries = error.with_traceback(None)  # no cycle with this frame
                described[kind, name] = entries
            code, text = ErrorCode.NONE, NO_MESSAGE
            configs: list[DescribeConfigsResourceResult] = []
            if isinstance(entries, KafkaError):
                code, text = entries.code, entries.message
            elif resource.configuration_keys:
                configs = yield from _chosen(entries, resource.configuration_keys)
            else:
                configs = list(entries.values())
            count += len(configs)
            if count > MAX_ENTRIES:
                text = f"The answer would hold more than {MAX_ENTRIES} configs"
                yield from discard_list(results)
                yield from discard_all(described)
                raise KafkaError(ErrorCode.INVALID_REQUEST, text)
            results.append(
                DescribeConfigsResult(
                    error_code=code,
                    error_message=text,
                    resource_type=kind,
                    resource_name=name,
                    configs=configs,
                )
            )
            yield
        yield from discard_all(described)
        return results

    def _describe(
        self, request: Request, kind: int, name: str, overrides: Mapping[str, str] | None
    ) -> Generator[None, None, Entries]:
        found: Iterable[DescribeConfigsResourceResult]
        if kind in (TOPIC, BROKER, BROKER_LOGGER) or (kind in _ENTITIES and self._is_of_4()):
            check_permitted(request, AclOperation.DESCRIBE_CONFIGS, kind, name)
        if kind == TOPIC:
            found = self._describe_topic(name, overrides)
        elif kind == BROKER and not name:
            found = (self._broker_entry(key, False) for key in self._config.dynamic_default)
        elif kind == BROKER:
            self._check_broker_id(name, " or empty string,")
            found = (self._broker_entry(key, True) for key in self._broker_keys())
        elif kind == BROKER_LOGGER:
            if not name:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            self._check_broker_id(name, "")
            found = (_logger_entry(key, level) for key, level in loggers.levels().items())
        else:
            found = self._describe_entity(kind, name, overrides or {})
        body = request.body
        entries: Entries = {}
        for entry in found:
            if request.api_version == 0:
                entry.is_default = entry.config_source == ConfigSource.DEFAULT_CONFIG
            if not body.include_synonyms:
                entry.synonyms = []
            if not body.include_documentation:
                entry.documentation = None
            entries[entry.name] = entry
            yield
        return entries

    def _describe_entity(
        self, kind: int, name: str, stored: Mapping[str, str]
    ) -> Iterator[DescribeConfigsResourceResult]:
        """One that Kafka has only without ZooKeeper: of the metrics of clients, or of a group."""
        is_of_4 = self._is_of_4()
        if kind == CLIENT_METRICS:
            if not name:
                problem = "Client metrics subscription name must not be empty"
            elif is_of_4:
                return _describe_client_metrics(stored)
            else:
                problem = "Config type client-metrics is only supported on KRaft clusters"
        elif kind != GROUP or not is_of_4:
            problem = f"Unsupported resource type: {kind}"
        elif not name:
            problem = "Group name must not be empty"
        else:
            return self._describe_group(stored)
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)

    def _check_broker_id(self, name: str, alternative: str) -> None:
        """A broker resource is this broker; others are asked directly."""
        number = parse_integer(name)
        if number is None:
            problem = f"Broker id must be an integer, but it is: {shortened(name)}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, problem)
        if number != self._broker_id:
            expected = f"{self._broker_id}{alternative}"
            problem = f"Unexpected broker id, expected {expected} but received {name}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, problem)

    # Topics

    def _describe_topic(
        self, topic: str, overrides: Mapping[str, str] | None
    ) -> Iterator[DescribeConfigsResourceResult]:
        check_topic_name(topic)
        if overrides is None or not self._cache.contains(topic):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_MESSAGE)
        config = LogConfig.from_overrides(overrides, self._config.explicit())
        for definition in TOPIC_CONFIGS.values():
            yield self._topic_entry(definition, config, overrides)
        if TABLE_CONFIGS.keys() & overrides.keys():
            for definition in TABLE_CONFIGS.values():
                yield _table_entry(definition, overrides.get(definition.name))

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
        return _entry(name, definition, text, synonyms, read_only=False)

    # Groups

    def _describe_group(self, stored: Mapping[str, str]) -> Iterator[DescribeConfigsResourceResult]:
        for name, definition in group_configs.DEFINITIONS.items():
            value = group_configs.described(self._config, stored, name)
            text = format_value(definition.type, value)
            synonyms: list[Synonym] = []
            if name in stored:
                synonyms.append((name, text, ConfigSource.GROUP_CONFIG))
            if definition.synonyms:
                (broker_key,) = definition.synonyms
                synonyms += group_configs.broker_synonyms(self._config, broker_key)
            else:
                synonyms.append((name, definition.default, ConfigSource.DEFAULT_CONFIG))
            yield _entry(name, definition, text, synonyms, read_only=False)

    # Brokers

    def _broker_keys(self) -> list[str]:
        untold = _TOLD_IF_SET if self._is_of_4() else _TOLD_IF_SET_IN_3_9
        unknown = [name for name in self._config.explicit() if name not in BROKER_CONFIGS]
        known = [
            name
            for name, definition in BROKER_CONFIGS.items()
            if not (definition.internal or definition in untold) or self._config.is_set(name)
        ]
        return known + unknown

    def _broker_entry(self, name: str, per_broker: bool) -> DescribeConfigsResourceResult:
        definition = definition_of(name)
        if definition is None or definition in authorizer.DEFINITIONS:
            # An unknown config may be a secret of some plug-in.
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
        return _entry(name, definition, text, synonyms, read_only=not is_dynamic(definition))


def _table_entry(definition: ConfigDef, stored: str | None) -> DescribeConfigsResourceResult:
    name = definition.name
    synonyms: list[Synonym] = [] if stored is None else [(name, stored, ConfigSource.TOPIC_CONFIG)]
    text = definition.default if stored is None else stored
    return _entry(name, definition, text, synonyms, read_only=False)


def _describe_client_metrics(
    stored: Mapping[str, str],
) -> Iterator[DescribeConfigsResourceResult]:
    for name, definition in CLIENT_METRICS_CONFIGS.items():
        text = stored.get(name, definition.default)
        synonyms = [(name, text, ConfigSource.CLIENT_METRICS_CONFIG)] if name in stored else []
        yield _entry(name, definition, text, synonyms, read_only=False)


def _chosen(
    entries: Entries, names: Iterable[str]
) -> Generator[None, None, list[DescribeConfigsResourceResult]]:
    """The requested entries, in the order of `entries`."""
    wanted = set()
    for name in names:
        if name in entries:
            wanted.add(name)
        yield
    return [entry for name, entry in entries.items() if name in wanted] if wanted else []


def check_permitted(request: Request, operation: AclOperation, kind: int, name: str) -> None:
    """For a topic's or group's configs permission on it is checked, for others on the cluster."""
    if kind == TOPIC:
        if not request.permits(operation, ResourceType.TOPIC, name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    elif kind == GROUP:
        if not request.permits(operation, ResourceType.GROUP, name):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    elif not request.permits(operation, ResourceType.CLUSTER, CLUSTER_NAME):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _entry(
    key: str,
    definition: ConfigDef,
    text: str | None,
    synonyms: list[Synonym],
    *,
    read_only: bool,
) -> DescribeConfigsResourceResult:
    sensitive = definition.sensitive or definition.type is ConfigType.UNKNOWN
    source = synonyms[0][2] if synonyms else ConfigSource.DEFAULT_CONFIG
    return DescribeConfigsResourceResult(
        name=key,
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
